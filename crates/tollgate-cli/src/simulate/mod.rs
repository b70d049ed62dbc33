//! `tollgate simulate`: what limits let through of some traffic, before anybody meets them.

mod progress;
mod sharing;
mod write;

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tollgate::{Limit, OnStoreError, Timestamp};
use tollgate_lab::simulate::{Fleet, Picture, Simulation};
use tollgate_lab::traffic::{Traffic, read_duration};

use crate::paint::Paint;
use crate::policy_file::read_or_fail;
use crate::{Failure, duration, moment};

/// Simulate traffic against limits, a policy or a fleet, and see what passes
///
/// Time is faked, so an hour takes a moment, and the same seed has the same outcome. Each limit is
/// one argument, so keep it in quotes; several are decided together, all or nothing, for each
/// client. Without --traffic there is twice as much as the first limit allows.
#[derive(Args)]
#[command(after_help = "\
Traffic is a shape and options, in quotes:
  steady RATE · poisson RATE · bursts N every TIME · onoff RATE on TIME off TIME
  ramp RATE to RATE · edge N of WINDOW · storm N
  for TIME · at TIME · from N clients [zipf S] · as NAME · cost N · tries N
  retry after [jitter TIME] | every TIME | backoff TIME · with NAME=VALUE ...

Examples:
  tollgate simulate \"100/min burst 20\" --traffic \"poisson 5/s for 3min\"
  tollgate simulate \"100/min\" --compare --traffic \"edge 100 of 1min for 3min\" --html report.html
  tollgate simulate \"100/min fixed_window\" --traffic \"storm 300 for 10min retry backoff 1s\"
  tollgate simulate --policy tollgate.toml --traffic \"poisson 50/s from 100 clients zipf 1.1 with user={client}\"
  tollgate simulate \"100/min\" --nodes 4 --store-latency 2ms --store-outage 60s..90s --skew 5s
  tollgate simulate \"1000/s\" --nodes 4 --store-latency 1ms --sync all

Exit codes: 0 simulated, 1 the answer could not be written, 2 a limit, the policy or an option is wrong")]
pub(crate) struct Simulate {
    /// Limits such as "100/min burst 20" or "10/h sliding_log"
    #[arg(required_unless_present = "policy", value_name = "LIMIT")]
    limits: Vec<String>,

    /// Ask a policy instead of limits
    #[arg(long, value_name = "FILE", conflicts_with = "limits")]
    policy: Option<PathBuf>,

    /// What asks, such as "poisson 120/s for 60s"; several are added up
    #[arg(long, value_name = "TEXT")]
    traffic: Vec<String>,

    /// Put all algorithms side by side, with the limit's numbers
    #[arg(long, conflicts_with_all = ["policy", "nodes"])]
    compare: bool,

    /// Count all clients together, not each by itself
    #[arg(long, conflicts_with = "policy")]
    together: bool,

    /// Look for the most admitted in any window this long [default: the first limit's period]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    window: Option<Duration>,

    /// What the random numbers are made of
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// When it begins, such as 2026-03-29T00:59:00Z [default: 2000-01-01T00:00:00Z]
    #[arg(long, value_name = "RFC3339", value_parser = moment::read)]
    start: Option<Timestamp>,

    #[command(flatten)]
    fleet: FleetArgs,

    #[command(flatten)]
    sharing: sharing::SharingArgs,

    /// Which pictures to draw; --svg and --html have all if not said, the terminal the first
    #[arg(long, value_name = "KIND", value_enum)]
    picture: Vec<Kind>,

    /// Draw the pictures into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write a page with figures and pictures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print JSON: every figure, times in nanoseconds
    #[arg(long)]
    json: bool,
}

/// Several nodes.
#[derive(Args)]
struct FleetArgs {
    /// Simulate so many nodes: with one store, with a part of the limit each, with all of it each
    #[arg(long, value_name = "N")]
    nodes: Option<u64>,

    /// How long an answer of the store takes
    #[arg(long, value_name = "TIME", requires = "nodes", default_value = "0s", value_parser = duration::parse)]
    store_latency: Duration,

    /// When the store is away, such as 20s..30s
    #[arg(long, value_name = "FROM..TO", requires = "nodes", value_parser = read_outage)]
    store_outage: Option<Range<Duration>>,

    /// What the nodes do while the store is away [default: as the policy says, or local]
    #[arg(long, value_name = "CHOICE", requires = "nodes", value_enum)]
    on_store_error: Option<Choice>,

    /// How far the nodes' clocks are behind and ahead
    #[arg(long, value_name = "TIME", requires = "nodes", default_value = "0s", value_parser = duration::parse)]
    skew: Duration,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    /// Go on with a part of the limit each
    Local,
    /// Let everything pass
    Allow,
    /// Refuse everything
    Deny,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// What was offered, admitted and refused
    Requests,
    /// How much went ahead within a window
    Window,
    /// What could still be taken
    Remaining,
    /// How long requests waited
    Waits,
}

impl Simulate {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<(), Failure> {
        let simulation = self.simulation()?;
        if let Some(options) = self.sharing.options() {
            return self.share(&simulation, &options, (out, paint));
        }
        let mut progress = progress::Progress::new();
        let simulated = simulation
            .run(|decided| progress.on(decided))
            .map_err(|error| Failure::Usage(vec![error.to_string()]))?;
        progress.end();
        let pictures: Vec<Picture> = self.picture.iter().map(|kind| kind.picture()).collect();
        let asked = if pictures.is_empty() { &Picture::ALL[..] } else { &pictures };
        if let Some(path) = &self.svg {
            write::svg(path, &simulated, asked)?;
        }
        if let Some(path) = &self.html {
            write::html(path, &simulated, asked)?;
        }
        if self.json {
            return Ok(write::json(out, &simulated)?);
        }
        let shown = if pictures.is_empty() { &Picture::ALL[..1] } else { &pictures };
        Ok(write::text(out, paint, &simulated, shown)?)
    }

    fn simulation(&self) -> Result<Simulation, Failure> {
        let mut simulation = match &self.policy {
            Some(path) => Simulation::of_policy(read_or_fail(path)?),
            None => Simulation::of_limits(self.read_limits().map_err(Failure::Usage)?),
        };
        simulation =
            simulation.traffic(self.read_traffic().map_err(Failure::Usage)?).seed(self.seed);
        if let Some(window) = self.window {
            simulation = simulation.window(window);
        }
        if let Some(start) = self.start {
            simulation = simulation.start(start);
        }
        if let Some(nodes) = self.fleet.nodes {
            simulation = simulation.fleet(self.fleet.of(nodes));
        }
        if self.together {
            simulation = simulation.together();
        }
        Ok(if self.compare { simulation.compare() } else { simulation })
    }

    fn read_limits(&self) -> Result<Vec<Limit>, Vec<String>> {
        all_or_wrong(&self.limits, |text| text.parse::<Limit>().map_err(|error| error.to_string()))
            .map_err(|mut wrong| {
                let joined = self.limits.join(" ");
                if self.limits.len() > 1 && joined.parse::<Limit>().is_ok() {
                    wrong.push(format!("if this is one limit, keep it in quotes: {joined:?}"));
                }
                wrong
            })
    }

    fn read_traffic(&self) -> Result<Vec<Traffic>, Vec<String>> {
        all_or_wrong(&self.traffic, |text| {
            text.parse::<Traffic>().map_err(|error| error.to_string())
        })
    }
}

/// All texts read, or what is wrong with each that is.
fn all_or_wrong<T>(
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Vec<String>> {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for text in texts {
        match read(text) {
            Ok(one) => all.push(one),
            Err(error) => wrong.push(format!("{text:?}: {error}")),
        }
    }
    if wrong.is_empty() { Ok(all) } else { Err(wrong) }
}

impl FleetArgs {
    fn of(&self, nodes: u64) -> Fleet {
        let mut fleet = Fleet::of(nodes);
        fleet.latency = self.store_latency;
        fleet.outage = self.store_outage.clone();
        fleet.skew = self.skew;
        fleet.on_store_error = self.on_store_error.map(|choice| match choice {
            Choice::Local => OnStoreError::Local,
            Choice::Allow => OnStoreError::Allow,
            Choice::Deny => OnStoreError::Deny,
        });
        fleet
    }
}

impl Kind {
    fn picture(self) -> Picture {
        match self {
            Kind::Requests => Picture::Requests,
            Kind::Window => Picture::Window,
            Kind::Remaining => Picture::Remaining,
            Kind::Waits => Picture::Waits,
        }
    }
}

/// Reads `20s..30s`.
fn read_outage(text: &str) -> Result<Range<Duration>, String> {
    let wrong = || format!("{text:?} is not a span such as 20s..30s");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let read = |text: &str| read_duration(text.trim()).map_err(|_| wrong());
    let span = read(from)?..read(to)?;
    if span.is_empty() {
        return Err(format!("{text:?} ends before it begins, write for example 20s..30s"));
    }
    Ok(span)
}
