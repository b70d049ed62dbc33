//! `tollgate serve`: the policy as a service.

mod arguments;
mod banner;
mod operators;
mod signals;
mod snapshot;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use http::HeaderName;
use tollgate::{
    Dialect, Gate, HeaderStyle, MemoryStore, Policy, PolicyError, Reload, Verbosity, Watch,
};
use tollgate_redis::{RedisGate, RedisStore, StoreError};
use tollgate_server::{Backend, ProxyHeaders, ReloadCounts, Server, Stopped, Tls};
use tollgate_tower::ClientIp;

use crate::paint::Paint;
use crate::{Failure, policy_file};
use arguments::{Listen, StoreAt, header_attribute, proxy_headers, trusted};
use banner::Banner;
use operators::Operators;
use signals::Signals;

/// What is enforced where no policy is given.
const DEFAULT_POLICY: &str = include_str!("../../../../examples/policies/default.toml");

/// Answer programs and proxies over HTTP and the Redis protocol
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate serve
  tollgate serve --policy tollgate.toml --http 0.0.0.0:8080 --resp off
  tollgate serve --policy tollgate.toml --store redis://10.0.0.5:6379 --nodes 3
  tollgate serve --policy tollgate.toml --attribute user=x-user-id --trusted-proxy 10.0.0.0/8

The policy file is watched: what it holds is in force as soon as it is written, unless it is wrong.
SIGINT and SIGTERM stop it in order; the second stops it at once.

Exit codes: 0 stopped in order, 1 it cannot listen or write its snapshot, 2 wrong arguments or a wrong policy")]
pub(crate) struct Serve {
    /// What to enforce [default: a built-in policy, see examples/policies/default.toml]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Where to listen for HTTP, or off
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http: Listen,

    /// Where to listen for the Redis protocol, or off
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6380")]
    resp: Listen,

    /// How many threads answer the Redis protocol [default: half the cores]
    #[arg(long, value_name = "THREADS")]
    resp_threads: Option<usize>,

    /// Where state is kept: memory, or the URL of a Redis or Valkey that several servers share
    #[arg(long, value_name = "STORE", default_value = "memory")]
    store: StoreAt,

    /// How many servers share a Redis: while it is away, each goes on with its part
    #[arg(long, value_name = "SERVERS", default_value_t = 1)]
    nodes: u64,

    /// Keeps state in Redis apart from that of other names
    #[arg(long, value_name = "NAME", default_value = "")]
    namespace: String,

    /// How many keys to remember at most, in memory
    #[arg(long, value_name = "KEYS", default_value_t = 1_000_000)]
    max_keys: usize,

    /// Where state in memory is written when it stops, and read from when it starts
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,

    /// The server's certificate and what leads to its authority, in PEM: every port speaks TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Authorities in PEM: only clients with a certificate of one of them are answered
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// The RateLimit fields of answers: draft-11, draft-07, draft-06, x-epoch, x-delta, off
    #[arg(long, value_name = "DIALECT", default_value = "draft-11")]
    headers: Dialect,

    /// How much clients are told: full, minimal (only when to try again), none
    #[arg(long, value_name = "HOW_MUCH", default_value = "full")]
    tell: Verbosity,

    /// Which headers of a proxy are believed: x-forwarded or x-original
    #[arg(long, value_name = "FAMILY", default_value = "x-forwarded", value_parser = proxy_headers)]
    proxy_headers: ProxyHeaders,

    /// A network whose X-Forwarded-For is believed, can be given again
    #[arg(long, value_name = "NETWORK", default_values = ["127.0.0.0/8", "::1/128"])]
    trusted_proxy: Vec<String>,

    /// A header that a proxy hands on, as an attribute, can be given again
    #[arg(long, value_name = "NAME=HEADER", value_parser = header_attribute)]
    attribute: Vec<(String, HeaderName)>,

    #[command(flatten)]
    operators: Operators,
}

impl Serve {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<(), Failure> {
        let client_ip = trusted(&self.trusted_proxy)?;
        if self.http.0.is_none() && self.resp.0.is_none() {
            let message = "nothing to listen on: --http and --resp are off, give one an address";
            return Err(Failure::Usage(vec![message.to_owned()]));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(cannot("start"))?;
        start_log();
        let backend = self.backend()?;
        runtime.block_on(self.serve(backend, client_ip, (out, paint)))
    }

    /// The policy over its store.
    fn backend(&self) -> Result<Backend, Failure> {
        let policy = match &self.policy {
            Some(path) => policy_file::read_or_fail(path)?,
            None => default_policy()?,
        };
        match &self.store {
            StoreAt::Memory => self.gate(policy).map(Backend::Memory),
            StoreAt::Redis(_) if self.snapshot.is_some() => {
                let message = "--snapshot is of state in memory, which --store redis has none of";
                Err(Failure::Usage(vec![message.to_owned()]))
            }
            StoreAt::Redis(url) => {
                let wrong = |error: StoreError| Failure::Usage(vec![format!("--store: {error}")]);
                // A server that is away is no reason not to start: rules say what to do then.
                let store = RedisStore::open(url).map_err(wrong)?;
                let gate = RedisGate::builder(store).nodes(self.nodes);
                let gate = gate.namespace(self.namespace.as_str()).build(policy);
                gate.map(Backend::Redis).map_err(refused)
            }
        }
    }

    /// The policy over a store of its own.
    fn gate(&self, policy: Policy) -> Result<Gate, Failure> {
        let store = MemoryStore::builder().max_keys(self.max_keys);
        let store = match &self.snapshot {
            Some(path) => snapshot::restore(path, store)?,
            None => {
                let wrong = |error| Failure::Usage(vec![format!("--max-keys: {error}")]);
                store.build().map_err(wrong)?
            }
        };
        Gate::on(store, policy).map_err(refused)
    }

    fn tls(&self) -> Option<Tls> {
        let tls = Tls::new(self.tls_cert.as_ref()?, self.tls_key.as_ref()?);
        Some(match &self.tls_client_ca {
            Some(file) => tls.client_ca(file),
            None => tls,
        })
    }

    /// Keeps what there is for the next start.
    fn keep(&self, backend: &Backend) -> Result<(), Failure> {
        let (Some(path), Backend::Memory(gate)) = (&self.snapshot, backend) else {
            return Ok(());
        };
        let written = snapshot::write(path, gate.store());
        written.map_err(cannot(&format!("write the snapshot {}", path.display())))?;
        tracing::info!("wrote the snapshot {}", path.display());
        Ok(())
    }

    async fn serve(
        &self,
        backend: Backend,
        client_ip: ClientIp,
        (out, paint): (&mut impl Write, Paint),
    ) -> Result<(), Failure> {
        let policy = backend.policy();
        // Before anything is announced: who reads it may send a signal at once.
        let mut signals = Signals::new().map_err(cannot("wait for signals"))?;
        let style = HeaderStyle::new().dialect(self.headers).verbosity(self.tell);
        let (admin, anybody) = self.operators.admin(self.policy.as_deref())?;
        let mut server = Server::builder(backend.clone())
            .admin(admin)
            .http(self.http.0)
            .resp(self.resp.0)
            .resp_threads(self.resp_threads.unwrap_or_else(half_the_cores))
            .tls(self.tls())
            .header_style(style)
            .proxy_headers(self.proxy_headers)
            .client_ip(client_ip);
        for (attribute, header) in &self.attribute {
            server = server.header_attribute(attribute, header.clone());
        }
        let server = server.bind().await.map_err(|error| Failure::Start(chain(&error)))?;
        let counts = server.reload_counts();
        let follow = |path| follow(&backend, path, counts);
        let _watch = self.policy.as_deref().map(follow).transpose()?;
        let banner = Banner {
            http: server.http_address(),
            resp: server.resp_address(),
            tls: self.tls().is_some(),
            known_clients: self.tls_client_ca.is_some(),
            store: &self.store,
            kept: self.snapshot.is_some(),
            admin: server.admin_address().filter(|_| anybody),
            policy: &policy,
            file: self.policy.as_deref(),
        };
        banner.write(out, paint)?;
        let stopped = server.run(async {
            signals.next().await;
            tracing::info!("stopping, once more to stop at once");
            signals.exit_at_next();
        });
        match stopped.await {
            Stopped::InOrder => tracing::info!("stopped"),
            _ => tracing::warn!("stopped, and cut off requests that took too long"),
        }
        self.keep(&backend)
    }
}

/// What is left for HTTP, and for clients that are on the same machine.
fn half_the_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

fn default_policy() -> Result<Policy, Failure> {
    let loaded = Policy::from_toml("the built-in policy", DEFAULT_POLICY);
    let wrong = |error: tollgate::FileError| Failure::Files(policy_file::lines(&error.findings));
    Ok(loaded.map_err(wrong)?.policy)
}

fn refused(error: PolicyError) -> Failure {
    Failure::Files(error.problems.iter().map(ToString::to_string).collect())
}

/// Puts in force what the file holds whenever that is something else.
fn follow(backend: &Backend, path: &Path, counts: ReloadCounts) -> Result<Watch, Failure> {
    let watch = backend.follow(path, move |reload| match reload {
        Reload::Changed(loaded) => {
            counts.changed();
            for warning in policy_file::lines(&loaded.warnings) {
                tracing::warn!("{warning}");
            }
            tracing::info!(rules = loaded.policy.rules.len(), "the policy was changed");
        }
        Reload::Refused(error) => {
            counts.refused();
            for line in policy_file::lines(&error.findings) {
                tracing::error!("{line}");
            }
            tracing::error!("the policy stays as it was");
        }
        _ => {}
    });
    watch.map_err(cannot("watch the policy"))
}

/// To stderr, so that what it prints can be read by itself.
fn start_log() {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    // Where somebody else has started one, that is used.
    let _ = log.try_init();
}

fn cannot(what: &str) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::Start(format!("cannot {what}: {error}"))
}

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
