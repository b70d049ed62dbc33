//! Simulation: traffic against limits or a policy, under a clock of its own.
//!
//! ```
//! use tollgate::Limit;
//! use tollgate_lab::simulate::Simulation;
//!
//! let simulated = Simulation::of_limits([Limit::per_minute(100).burst(20)])
//!     .traffic(["steady 20/s for 1min".parse()?])
//!     .run(|_| {})?;
//! let run = &simulated.runs[0];
//! assert_eq!((run.offered, run.admitted), (1_200, 119));
//! assert_eq!(run.busiest_client.units, 119, "in any minute");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Simulation::compare`] puts all algorithms side by side on the same numbers and traffic,
//! [`Simulation::fleet`] several nodes that share a store, each with a part of the limit, or each
//! with the whole of it. What comes of it is told by [`Simulated`], as figures, and drawn by its
//! [`table`](Simulated::table), [`charts`](Simulated::charts) and [`report`](Simulated::report).

mod arrange;
mod busiest;
mod door;
mod result;
mod run;
mod sharing;
mod tally;
mod tries;
mod view;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use tollgate::{Limit, ManualClock, OnStoreError, Policy, RuleLimits, Timestamp};

use crate::traffic::{Roster, Traffic};
pub use result::{Busiest, ClientFigures, Decided, RuleRefusals, Run, Simulated, Slot, Waits};
pub use sharing::{Scene as SharedScene, Shared, SharedRun, Sharing, SharingOptions};
pub use view::Picture;

/// How many requests a simulation has at most, retries not counted.
pub const MOST_REQUESTS: u64 = 5_000_000;

/// How many times anybody may ask in one run, retries counted.
pub const MOST_TRIES: u64 = 20_000_000;

/// How many kinds of traffic there may be together.
const MOST_TRAFFIC: usize = 16;

/// How many limits are decided together: more than one request is told about are for a policy.
const MOST_LIMITS: usize = 16;

/// How many nodes a fleet may have.
const MOST_NODES: u64 = 1_000;

/// Several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// How many, each asked by its share of the requests.
    pub nodes: u64,
    /// How long an answer of the store takes.
    pub latency: Duration,
    /// When the store is away, counted from the start. The nodes know it at once.
    pub outage: Option<Range<Duration>>,
    /// What the nodes do meanwhile; as the policy says where this says nothing.
    pub on_store_error: Option<OnStoreError>,
    /// How far the clocks of the nodes are apart: the first is as much behind, the last as much
    /// ahead.
    pub skew: Duration,
}

impl Fleet {
    /// So many nodes with a store that answers at once, and clocks that agree.
    pub fn of(nodes: u64) -> Fleet {
        Fleet {
            nodes,
            latency: Duration::ZERO,
            outage: None,
            on_store_error: None,
            skew: Duration::ZERO,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
enum Subject {
    Limits(Vec<Limit>),
    Policy(Box<Policy>),
}

/// What to simulate. See the [module](self).
#[derive(Clone, Debug)]
pub struct Simulation {
    subject: Subject,
    traffic: Vec<Traffic>,
    seed: u64,
    start: Timestamp,
    window: Option<Duration>,
    together: bool,
    compare: bool,
    fleet: Option<Fleet>,
    most_tries: u64,
}

/// Why there is nothing to simulate, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulateError(pub(crate) String);

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SimulateError {}

impl Simulation {
    /// Limits that are decided together, all or nothing, for each client.
    pub fn of_limits(limits: impl IntoIterator<Item = Limit>) -> Simulation {
        Simulation::of(Subject::Limits(limits.into_iter().collect()))
    }

    /// A policy. Requests have the attribute `client` and those that their traffic is `with`.
    pub fn of_policy(policy: Policy) -> Simulation {
        Simulation::of(Subject::Policy(Box::new(policy)))
    }

    fn of(subject: Subject) -> Simulation {
        Simulation {
            subject,
            traffic: Vec::new(),
            seed: 1,
            start: ManualClock::new().now(),
            window: None,
            together: false,
            compare: false,
            fleet: None,
            most_tries: MOST_TRIES,
        }
    }

    /// What asks: all of them at once. Without any, twice as much as the first limit allows.
    #[must_use]
    pub fn traffic(mut self, traffic: impl IntoIterator<Item = Traffic>) -> Simulation {
        self.traffic.extend(traffic);
        self
    }

    /// What random numbers are made of; the same seed has the same outcome.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Simulation {
        self.seed = seed;
        self
    }

    /// When it begins: at the beginning of 2000 if not said, where every window up to a day does.
    #[must_use]
    pub fn start(mut self, start: Timestamp) -> Simulation {
        self.start = start;
        self
    }

    /// The window in which the largest number admitted is looked for: the first limit's period if
    /// not said.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Simulation {
        self.window = Some(window);
        self
    }

    /// Counts all clients together: a limit of a service and not of each client.
    #[must_use]
    pub fn together(mut self) -> Simulation {
        self.together = true;
        self
    }

    /// Puts all algorithms side by side, with the numbers of the limit.
    #[must_use]
    pub fn compare(mut self) -> Simulation {
        self.compare = true;
        self
    }

    /// Puts the ways of a fleet to hold a limit side by side.
    #[must_use]
    pub fn fleet(mut self, fleet: Fleet) -> Simulation {
        self.fleet = Some(fleet);
        self
    }

    /// Asks at most so often in each run, retries counted: [`MOST_TRIES`] if not said. For a
    /// server that simulates for strangers.
    #[must_use]
    pub fn at_most(mut self, tries: u64) -> Simulation {
        self.most_tries = tries.min(MOST_TRIES);
        self
    }

    /// Runs it. `watch` hears of every decision.
    ///
    /// # Errors
    /// Where it cannot be run: too many requests, numbers that make no sense, a cost that can
    /// never pass.
    pub fn run(&self, mut watch: impl FnMut(&Decided<'_>)) -> Result<Simulated, SimulateError> {
        let traffic = self.checked_traffic()?;
        let roster = Roster::of(&traffic).map_err(|error| SimulateError(error.to_string()))?;
        let scene = run::Scene {
            length: nanos(traffic.iter().map(Traffic::end).max().unwrap_or_default()),
            window: nanos(self.checked_window()?),
            start: self.start,
            seed: self.seed,
            most_tries: self.most_tries,
            watched: (!self.together).then(|| roster.number(0, 0)),
            traffic: &traffic,
            roster: &roster,
        };
        let cases = self.cases(roster.len())?;
        let many = cases.len();
        let mut runs = Vec::with_capacity(many);
        for (number, case) in cases.into_iter().enumerate() {
            runs.push(scene.run(case, (number, many), &mut watch)?);
        }
        Ok(Simulated {
            subject: self.subject(),
            traffic: traffic.iter().map(|traffic| traffic.text().to_owned()).collect(),
            seed: self.seed,
            length_nanos: scene.length,
            window_nanos: scene.window,
            slot_nanos: tally::slot_length(scene.length),
            together: self.together || roster.len() == 1,
            outage_nanos: self.outage(),
            notes: self.notes(&runs),
            runs,
        })
    }

    fn subject(&self) -> String {
        match &self.subject {
            Subject::Limits(limits) => {
                limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
            }
            Subject::Policy(policy) => {
                let rules: Vec<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
                match rules.len() {
                    0..=3 => format!("the policy with {}", rules.join(", ")),
                    many => format!("the policy with {many} rules"),
                }
            }
        }
    }

    fn outage(&self) -> Option<(u64, u64)> {
        let outage = self.fleet.as_ref()?.outage.as_ref()?;
        Some((nanos(outage.start), nanos(outage.end)))
    }

    fn checked_traffic(&self) -> Result<Vec<Traffic>, SimulateError> {
        let traffic = match (self.traffic.is_empty(), self.first_limit()) {
            (false, _) => self.traffic.clone(),
            (true, Some(limit)) => vec![arrange::twice_as_much(limit)?],
            (true, None) => {
                let example = "poisson 20/s for 1min with user={client}";
                return Err(SimulateError(format!("no traffic was given, such as {example:?}")));
            }
        };
        if traffic.len() > MOST_TRAFFIC {
            let given = traffic.len();
            return Err(SimulateError(format!("{given} kinds of traffic, at most {MOST_TRAFFIC}")));
        }
        let expected: u128 = traffic.iter().map(Traffic::expected).sum();
        let most = self.most_tries.min(MOST_REQUESTS);
        if expected > u128::from(most) {
            return Err(SimulateError(format!(
                "the traffic is {expected} requests, at most {most}: \
                 lower its rates or make it shorter"
            )));
        }
        let end = traffic.iter().map(Traffic::end).max().unwrap_or_default();
        if Timestamp::MAX.saturating_since(self.start) <= end {
            return Err(SimulateError("the last request would come after 2262".to_owned()));
        }
        Ok(traffic)
    }

    fn checked_window(&self) -> Result<Duration, SimulateError> {
        let attacked = || self.traffic.iter().find_map(Traffic::attacked_window);
        let window = self.window.or_else(|| self.first_limit().map(Limit::period));
        match window.or_else(attacked) {
            Some(window) if window.is_zero() => {
                Err(SimulateError("the window is 0s, must be longer".to_owned()))
            }
            window => Ok(window.unwrap_or(Duration::from_secs(60))),
        }
    }

    fn first_limit(&self) -> Option<&Limit> {
        match &self.subject {
            Subject::Limits(limits) => limits.first(),
            Subject::Policy(policy) => policy.rules.iter().find_map(|rule| match &rule.limits {
                RuleLimits::All(limits) => limits.first(),
                _ => None,
            }),
        }
    }

    /// What somebody may not have meant.
    fn notes(&self, runs: &[Run]) -> Vec<String> {
        let mut notes = Vec::new();
        let unlimited: u64 = runs.iter().map(|run| run.unlimited).max().unwrap_or(0);
        let tries = runs.iter().map(|run| run.tries).max().unwrap_or(0);
        if unlimited > 0 && unlimited == tries {
            notes.push(
                "no rule applied to any request: say what is known of them, \
                 with for example \"with user={client} route=/search\" in the traffic"
                    .to_owned(),
            );
        } else if unlimited > 0 {
            notes.push(format!("no rule applied to {unlimited} of {tries} requests"));
        }
        notes
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
