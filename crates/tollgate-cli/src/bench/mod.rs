//! `tollgate bench`: what a running server can do, and how long it takes.

mod dial;
mod exchange;
mod load;
mod plan;
mod progress;
mod question;
mod records;
mod reply;
mod report;
mod resp;
mod run;
mod schedule;
mod target;
mod trouble;
mod write;

use std::io::Write;
use std::time::Duration;

use clap::Args;

use crate::paint::{Paint, printable};
use crate::signals::Signals;
use crate::tls::TlsFiles;
use crate::{Failure, Found, duration};
use dial::Dialler;
use exchange::Heads;
use load::Asker;
use plan::Plan;
use question::{Attribute, KEY, Questions};
use target::Target;

/// Load a running server and say how long its decisions take
///
/// With --rate requests are sent at that rate whatever becomes of them, and each is measured from
/// the moment it was due: a server that stalls is seen to stall. Without it each connection asks
/// again as soon as it is answered. Every request takes from the limits of its key, as any other.
#[derive(Args)]
#[command(after_help = "\
Servers: http, rls and resp are the ports of `tollgate serve` on this machine; others are URLs such as
  http://HOST:PORT, grpc://HOST:PORT, redis://:PASSWORD@HOST:PORT; https, grpcs and rediss with TLS

Examples:
  tollgate bench
  tollgate bench resp --pipeline 32 --duration 30s
  tollgate bench rls --connections 4 --pipeline 64 --rate 20000
  tollgate bench https://limits.example:8080 --ca ca.pem --attribute tenant=acme --attribute user={key}
  tollgate bench --requests 100000 --keys 1000000 --zipf 1.1 --seed 7 --json

Exit codes: 0 measured, 1 no request got a decision, or one did not with --fail-on-errors, 2 an option is wrong")]
pub(crate) struct Bench {
    /// Which server: http, rls, resp or a URL
    #[arg(value_name = "SERVER", default_value = "http", value_parser = read_target)]
    server: Target,

    /// Connections, which are all made before it begins
    #[arg(long, value_name = "N", default_value_t = 16)]
    connections: usize,

    /// Requests at once on each connection: commands of a pipeline, streams of gRPC
    #[arg(long, visible_alias = "streams", value_name = "N", default_value_t = 1)]
    pipeline: usize,

    /// Requests a second, all connections together [default: as many as are answered]
    #[arg(long, value_name = "N")]
    rate: Option<u64>,

    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse, conflicts_with = "requests")]
    duration: Duration,

    /// Measure so many requests instead
    #[arg(long, value_name = "N")]
    requests: Option<u64>,

    /// How long to ask before it is measured [default: 1s, none with --requests]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    warmup: Option<Duration>,

    /// Different keys, numbered from 0 [default: 10000]
    #[arg(long, value_name = "N")]
    keys: Option<u32>,

    /// Some keys ask more than others, by Zipf's law with this exponent
    #[arg(long, value_name = "S")]
    zipf: Option<String>,

    /// What the keys are drawn by: the same seed asks for the same keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// An attribute of each request; {key} in its value is the key's number [default: user={key}]
    #[arg(long = "attribute", visible_alias = "attributes", value_name = "NAME=VALUE", value_parser = read_attribute)]
    attributes: Vec<Attribute>,

    /// The domain of Envoy's requests
    #[arg(long, value_name = "NAME", default_value = "tollgate")]
    domain: String,

    /// How much each request takes
    #[arg(long, value_name = "UNITS", default_value_t = 1)]
    cost: u32,

    /// How long to wait for an answer, and for a connection
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    timeout: Duration,

    /// Threads that ask [default: half the cores, the rest is for the server]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    #[command(flatten)]
    tls: TlsFiles,

    /// Exit with 1 where a request got no decision
    #[arg(long)]
    fail_on_errors: bool,

    /// Print JSON: every figure, times in nanoseconds
    #[arg(long)]
    json: bool,
}

/// Where the password of the Redis protocol may be, as for the server.
const PASSWORD: &str = "TOLLGATE_RESP_PASSWORD";

impl Bench {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<Found, Failure> {
        let plan = self.plan();
        plan.check(&self.server).map_err(Failure::Usage)?;
        self.check().map_err(|wrong| Failure::Usage(vec![wrong]))?;
        let asker = self.asker(&plan).map_err(|wrong| Failure::Usage(vec![wrong]))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads.unwrap_or_else(half_the_cores))
            .enable_all()
            .build();
        let cannot = |error: std::io::Error| Failure::Start(format!("cannot start: {error}"));
        let measured = runtime.map_err(cannot)?.block_on(async {
            let signals = Signals::new().map_err(|error| error.to_string())?;
            run::run(&plan, asker, signals).await
        });
        let report = measured.map_err(|why| Failure::Start(printable(&why)))?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            write::text(out, paint, &report)?;
        }
        let failed = self.fail_on_errors && report.errors.total > 0;
        Ok(if failed || report.decisions == 0 { Found::Bad } else { Found::Good })
    }

    fn plan(&self) -> Plan {
        let usual = if self.requests.is_some() { Duration::ZERO } else { Duration::from_secs(1) };
        Plan {
            connections: self.connections,
            pipeline: self.pipeline,
            rate: self.rate,
            warmup: self.warmup.unwrap_or(usual),
            duration: self.duration,
            requests: self.requests,
            keys: self.keys.unwrap_or(10_000),
            zipf: self.zipf.clone(),
            seed: self.seed,
        }
    }

    /// What is wrong that no bound says.
    fn check(&self) -> Result<(), String> {
        let keyed = self.attributes.iter().any(|each| each.value.contains(KEY));
        if !self.attributes.is_empty() && !keyed && (self.keys.is_some() || self.zipf.is_some()) {
            return Err(format!(
                "--keys and --zipf change nothing, since no --attribute has {KEY} in its value, such as user={KEY}"
            ));
        }
        if self.timeout.is_zero() {
            return Err("--timeout is 0s, must be more".to_owned());
        }
        if !(1..=1024).contains(&self.threads.unwrap_or(1)) {
            return Err("--threads must be from 1 to 1024".to_owned());
        }
        Ok(())
    }

    fn asker(&self, plan: &Plan) -> Result<Asker, String> {
        let mut target = self.server.clone();
        if target.protocol == target::Protocol::Resp && target.password.is_none() {
            target.password = std::env::var(PASSWORD).ok().filter(|text| !text.is_empty());
        }
        let mut attributes = self.attributes.clone();
        if attributes.is_empty() {
            attributes.push(Attribute { name: "user".to_owned(), value: KEY.to_owned() });
        }
        let (domain, cost) = (self.domain.clone(), self.cost);
        Ok(Asker {
            dialler: Dialler::new(&target, &self.tls, self.timeout)?,
            questions: Questions { keys: plan.draws()?, attributes, cost, domain },
            heads: Heads::new(&target)?,
            pipeline: plan.pipeline,
            patience: self.timeout,
            target,
        })
    }
}

fn half_the_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

fn read_target(text: &str) -> Result<Target, String> {
    text.parse()
}

fn read_attribute(text: &str) -> Result<Attribute, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(Attribute { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err(format!("{text:?} is not NAME=VALUE, such as user={KEY}")),
    }
}
