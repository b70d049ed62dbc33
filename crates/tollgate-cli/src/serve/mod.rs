//! `tollgate serve`: the policy as a service.

mod banner;
mod busy;
mod config;
mod envoy_folder;
mod flags;
mod log;
mod notify;
#[cfg(unix)]
mod open_files;
mod operators;
mod ratelimit_variables;
mod sample;
mod snapshot;

use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tollgate::{
    Diagnostic, Gate, HeaderStyle, LoadedPolicy, MemoryStore, Policy, PolicyError, PolicyWatcher,
    ReloadEvent,
};
use tollgate_redis::{RedisGate, RedisStore, StoreError};
use tollgate_server::{
    Backend, ReloadCounts, Reloader, RespBounds, Server, ServerBuilder, Stopped, TlsListener,
    log_replaced_overrides,
};
use tollgate_tower::ClientIp;

use crate::paint::Paint;
use crate::signals::{Hangups, Signals};
use crate::{Failure, policy_file};
use banner::Banner;
use config::{Config, Configured, Given, LogFormat, Reread, Store};
use envoy_folder::FollowedFolder;
use notify::Notify;
use snapshot::{SnapshotFile, SnapshotWriter};

pub(crate) use banner::reached;
pub(crate) use config::{read_both, schema};

/// What is enforced where no policy is given.
const DEFAULT_POLICY: &str = include_str!("../../../../examples/policies/default.toml");

/// `tollgate serve` and its flags.
pub(crate) struct Serve {
    config: Option<PathBuf>,
    print_config: bool,
    json: bool,
    given: Vec<Given>,
}

impl Serve {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<(), Failure> {
        let configured = configured(self.config.as_deref(), &self.given)?;
        if self.print_config {
            for warning in &configured.warnings {
                crate::tell(format_args!("warning: {warning}"));
            }
            match self.json {
                true => writeln!(out, "{:#}", config::as_json(&configured))?,
                false => write!(out, "{}", config::as_toml(&configured))?,
            }
            return Ok(());
        }
        let config = &configured.config;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(cannot("start"))?;
        log::start(&config.log);
        configured.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let served = opened(&configured)
            .and_then(|opened| runtime.block_on(serve(&configured, opened, (out, paint))));
        served.map_err(|failure| log::tell(&config.log, failure))
    }
}

/// What the file, the environment and flags say.
fn configured(file: Option<&Path>, given: &[Given]) -> Result<Configured, Failure> {
    let variables: Vec<_> = std::env::vars_os().collect();
    let named =
        variables.iter().find(|(name, value)| name == "TOLLGATE_CONFIG" && !value.is_empty());
    let file = file.or_else(|| named.map(|(_, value)| Path::new(value)));
    Configured::read(file, &variables, given)
        .map_err(|wrong| Failure::Files(policy_file::lines(&wrong)))
}

/// The listener of a server on this machine that answers health checks.
pub(crate) struct HealthListener {
    pub(crate) address: SocketAddr,
    pub(crate) has_tls: bool,
}

/// The listener for health checks by the settings: the one for health checks alone, or that for
/// HTTP.
pub(crate) fn health_listener(file: Option<&Path>) -> Result<HealthListener, Failure> {
    let config = configured(file, &[])?.config;
    if let Some(address) = config.health {
        return Ok(HealthListener { address, has_tls: false });
    }
    let Some(address) = config.http else {
        let message = "http and health are off: name a server, or give health an address";
        return Err(Failure::Usage(vec![message.to_owned()]));
    };
    let has_tls = config.tls().is_some_and(|tls| tls.is_on(TlsListener::Http));
    Ok(HealthListener { address, has_tls })
}

/// The parts that a server is started with.
struct Opened {
    /// The policy over its store.
    backend: Backend,
    /// The folder that the policy is from.
    folder: Option<FollowedFolder>,
    snapshot: Option<SnapshotFile>,
}

/// Reads the policy and the snapshot.
fn opened(configured: &Configured) -> Result<Opened, Failure> {
    let config = &configured.config;
    let variable = |name: &str| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
    ratelimit_variables::check(config, variable)?;
    let wrong = |findings: Vec<Diagnostic>| Failure::Files(policy_file::lines(&findings));
    let (folder, loaded) = match (&config.policy, &config.envoy_config) {
        (Some(path), _) => (None, policy_file::read(path).map_err(wrong)?),
        (None, Some(path)) => {
            let (folder, loaded) = FollowedFolder::open(envoy_folder::folder(config, path))?;
            (Some(folder), loaded)
        }
        (None, None) => (None, default_policy()?),
    };
    // What is in the configuration file was told with that.
    let warnings = policy_file::lines(&loaded.warnings).into_iter();
    for line in warnings.filter(|line| !configured.warnings.contains(line)) {
        tracing::warn!("{line}");
    }
    let snapshot = config.snapshot.as_deref().map(SnapshotFile::open).transpose()?;
    let backend = over_store(config, loaded.policy, snapshot.as_ref())?;
    Ok(Opened { backend, folder, snapshot })
}

fn over_store(
    config: &Config,
    policy: Policy,
    snapshot: Option<&SnapshotFile>,
) -> Result<Backend, Failure> {
    match &config.store {
        Store::Memory => gate(config, policy, snapshot).map(Backend::Memory),
        Store::Redis(url) => {
            let wrong = |error: StoreError| Failure::Usage(vec![format!("store: {error}")]);
            // A server that is away is no reason not to start: rules say what to do then.
            let store = RedisStore::builder(url).timeout(config.store_timeout).open();
            let gate = RedisGate::builder(store.map_err(wrong)?).nodes(config.nodes);
            let gate = gate.max_keys(config.max_keys).when_full(config.when_full);
            let gate = gate.namespace(config.namespace.as_str()).build(policy);
            gate.map(Backend::Redis).map_err(|error| refused(config, &error))
        }
    }
}

/// The policy over a store of its own.
fn gate(config: &Config, policy: Policy, snapshot: Option<&SnapshotFile>) -> Result<Gate, Failure> {
    let store = MemoryStore::builder().max_keys(config.max_keys).when_full(config.when_full);
    let store = match snapshot {
        Some(snapshot) => snapshot::restore(snapshot, store)?,
        None => {
            let wrong = |error| Failure::Usage(vec![format!("max_keys: {error}")]);
            store.build().map_err(wrong)?
        }
    };
    let kept = store.run_time_clients();
    let gate = Gate::with_store(store, policy).map_err(|error| refused(config, &error))?;
    log_replaced_overrides(kept, &gate.store().run_time_clients());
    Ok(gate)
}

/// Starts to write snapshots, if the state is in memory and is to be kept.
fn write_snapshots(
    config: &Config,
    (backend, snapshot): (&Backend, Option<SnapshotFile>),
    server: &Server,
) -> Result<Option<SnapshotWriter>, Failure> {
    let (Some(file), Backend::Memory(gate)) = (snapshot, backend) else { return Ok(None) };
    let (store, interval) = (gate.store().clone(), config.snapshot_interval);
    let writer = SnapshotWriter::start(file, store, interval, server.snapshot_counts());
    writer.map(Some).map_err(cannot("start the thread for snapshots"))
}

async fn serve(
    configured: &Configured,
    Opened { backend, folder, snapshot }: Opened,
    (out, paint): (&mut impl Write, Paint),
) -> Result<(), Failure> {
    let (config, policy) = (&configured.config, backend.policy());
    // Before anything is announced: who reads it may send a signal at once.
    let mut signals = Signals::new().map_err(cannot("wait for signals"))?;
    let hangups = Hangups::new().map_err(cannot("wait for signals"))?;
    let notify = Notify::from_environment().map_err(cannot("notify the service manager"))?;
    let (admin, anybody) = operators::admin(config, folder.as_ref().map(FollowedFolder::folder))?;
    let bound = server(config, backend.clone())?.admin(admin).bind().await;
    let server = bound.map_err(|error| Failure::Start(busy::explain(&error, config)))?;
    #[cfg(unix)]
    open_files::raise_limit(server.max_open_connections());
    let counts = server.reload_counts();
    let _again = AbortOnDrop::new(read_again(hangups, server.reloader(), configured.unwatched()));
    let following = folder.map(|folder| folder.follow(server.reloader(), counts.clone()));
    let _following = following.transpose()?;
    let follow = |path| follow(&server.reloader(), path, (counts, configured.reread()));
    let _watch = config.policy.as_deref().map(follow).transpose()?;
    let banner = Banner {
        http: server.http_address(),
        grpc: server.grpc_address(),
        resp: server.resp_address(),
        password: config.resp_password.is_some(),
        admin: server.admin_address().filter(|_| anybody),
        page: server.admin_address(),
        health: server.health_address(),
        tls: config.tls(),
        known_clients: config.tls_client_ca.is_some(),
        store: &config.store,
        kept: config.snapshot.is_some(),
        snapshot_interval: config.snapshot_interval,
        policy: &policy,
        file: config.policy.as_deref().or(config.envoy_config.as_deref()),
    };
    // What programs read has no line that is not JSON, wherever it is collected.
    if config.log.format == LogFormat::Text {
        banner.write(out, paint)?;
    }
    banner.log();
    let writer = write_snapshots(config, (&backend, snapshot), &server)?;
    let _alive = notify.ready();
    let stopped = server.run(async {
        signals.next().await;
        tracing::info!("stopping, once more to stop at once");
        notify.stopping();
        signals.exit_at_next();
    });
    match stopped.await {
        Stopped::InOrder => tracing::info!("stopped"),
        _ => tracing::warn!("stopped, and cut off requests that took too long"),
    }
    // No decision is made any more: the last snapshot holds all of them.
    match writer {
        Some(writer) => writer.finish().map_err(cannot(&snapshot_action(config))),
        None => Ok(()),
    }
}

/// The action that failed if a snapshot could not be written, for an error message.
fn snapshot_action(config: &Config) -> String {
    let file = config.snapshot.as_deref().unwrap_or(Path::new(""));
    format!("write the snapshot {}", file.display())
}

fn server(config: &Config, backend: Backend) -> Result<ServerBuilder, Failure> {
    let wrong = |error| Failure::Usage(vec![format!("trusted_proxies: {error}")]);
    let client_ip = ClientIp::x_forwarded_for(&config.trusted_proxies).map_err(wrong)?;
    let style = HeaderStyle::new().with_dialect(config.headers).with_verbosity(config.tell);
    let server = Server::builder(backend)
        .http(config.http)
        .grpc(config.grpc)
        .resp(config.resp)
        .bounds(config.bounds)
        .resp_bounds(resp_bounds(config))
        .resp_threads(config.resp_threads.unwrap_or_else(half_the_cores))
        .tls(config.tls())
        .health(config.health)
        .max_connections(config.max_connections)
        .drain(config.drain)
        .header_style(style)
        .allowed_hosts(config.allowed_hosts.iter().cloned())
        .proxy_headers(config.proxy_headers)
        .client_ip(client_ip);
    let server = match &config.resp_password {
        Some(password) => server.resp_password(password.as_str()),
        None => server,
    };
    let server = if config.postpaid { server.postpaid_descriptors() } else { server };
    let server = if config.list_names { server } else { server.without_list_names() };
    let named = config.attributes.iter();
    Ok(named.fold(server, |server, (attribute, header)| {
        server.header_attribute(attribute, header.clone())
    }))
}

fn resp_bounds(config: &Config) -> RespBounds {
    let usual = RespBounds::default();
    RespBounds {
        connections: config.max_resp_connections,
        first_byte: config.bounds.first_byte,
        rest_of_command: config.bounds.body_time,
        idle: config.bounds.idle.unwrap_or(usual.idle),
        ..usual
    }
}

/// What is left for HTTP, and for clients that are on the same machine.
fn half_the_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

fn default_policy() -> Result<LoadedPolicy, Failure> {
    let loaded = Policy::from_toml("the built-in policy", DEFAULT_POLICY);
    loaded.map_err(|error| Failure::Files(policy_file::lines(&error.diagnostics)))
}

/// A policy that the store cannot keep.
fn refused(config: &Config, error: &PolicyError) -> Failure {
    let file = config.policy.as_deref().or(config.envoy_config.as_deref());
    let place = file.map_or("the built-in policy".to_owned(), |file| file.display().to_string());
    Failure::Files(error.problems.iter().map(|problem| format!("{place}: {problem}")).collect())
}

/// A task that ends with what it belongs to.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl AbortOnDrop {
    fn new(work: impl Future<Output = ()> + Send + 'static) -> AbortOnDrop {
        AbortOnDrop(tokio::spawn(work))
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Has everything read again that is from files, at every SIGHUP.
async fn read_again(mut hangups: Hangups, reloader: Reloader, mut settings: Option<Reread>) {
    loop {
        hangups.next().await;
        tracing::info!("SIGHUP: reading files again");
        reloader.reload("SIGHUP").await;
        for line in settings.as_mut().map(Reread::look).unwrap_or_default() {
            tracing::warn!("{line}");
        }
    }
}

/// Puts in force what the file holds whenever that is something else.
fn follow(
    reloader: &Reloader,
    path: &Path,
    (counts, mut settings): (ReloadCounts, Option<Reread>),
) -> Result<PolicyWatcher, Failure> {
    let watch = reloader.follow_policy(path, move |reload| {
        tell_reload(&reload, &counts);
        if let ReloadEvent::Loaded(_) = reload {
            for line in settings.as_mut().map(Reread::look).unwrap_or_default() {
                tracing::warn!("{line}");
            }
        }
    });
    watch.map_err(cannot("watch the policy"))
}

/// Counts what has become of a policy, and says it in the log.
fn tell_reload(reload: &ReloadEvent, counts: &ReloadCounts) {
    match reload {
        ReloadEvent::Loaded(loaded) => {
            counts.changed();
            for warning in policy_file::lines(&loaded.warnings) {
                tracing::warn!("{warning}");
            }
            tracing::info!(rules = loaded.policy.rules.len(), "the policy was changed");
        }
        ReloadEvent::Rejected(error) => {
            counts.refused();
            for line in policy_file::lines(&error.diagnostics) {
                tracing::error!("{line}");
            }
            tracing::error!("the policy stays as it was");
        }
        _ => {}
    }
}

fn cannot(what: &str) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::Start(format!("cannot {what}: {error}"))
}
