//! How nodes share a limit: strictly, by leases, by telling each other now and then, or not at all.
//!
//! ```
//! use tollgate::Limit;
//! use tollgate_lab::simulate::{Fleet, Sharing, SharingOptions, Simulation};
//!
//! let shared = Simulation::of_limits([Limit::per_second(1_000)])
//!     .traffic(["poisson 2000/s for 5s".parse()?])
//!     .fleet(Fleet::of(4))
//!     .share(&SharingOptions { hot_percent: Some(90), ..SharingOptions::default() })?;
//! let leased = shared.scenes[0].run_of(Sharing::Leased).expect("it is among all");
//! assert!(leased.used_percent >= 95.0);
//! assert!(leased.over <= leased.over_at_most.expect("a lease has a bound"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod hands;
mod lend;
mod measure;
mod result;
mod scenes;
mod tell;
mod view;
mod world;

use std::time::Duration;

use tollgate::port::{self, LeaseTerms, ScriptPlan};
use tollgate::{Algorithm, Limit, Timestamp, WindowStart};

use super::tries::Tries;
use super::{Fleet, SimulateError, Simulation, Subject, nanos};
use crate::traffic::{Random, Roster, Traffic};
pub use result::{Scene, Shared, SharedRun};
use scenes::Stage;
use world::World;

/// A way in which nodes share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Sharing {
    /// Every decision asks the store.
    Strict,
    /// Nodes borrow units from the store, and spend them by themselves.
    Leased,
    /// Nodes decide by themselves, and tell the store now and then what they admitted.
    Periodic,
    /// Each node has its part of the limit, and knows nothing of the others.
    Divided,
}

impl Sharing {
    /// All of them.
    pub const ALL: [Sharing; 4] =
        [Sharing::Strict, Sharing::Leased, Sharing::Periodic, Sharing::Divided];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Strict => "strict",
            Sharing::Leased => "leased",
            Sharing::Periodic => "periodic",
            Sharing::Divided => "divided",
        }
    }
}

/// What is put side by side, and on what terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingOptions {
    /// Which ways.
    pub ways: Vec<Sharing>,
    /// How long a lease lasts.
    pub lease_ttl: Duration,
    /// The largest lease, in percent of what a new key admits.
    pub lease_share_percent: u64,
    /// How often nodes tell the store what they admitted.
    pub every: Duration,
    /// How many requests of a hundred come to the first node; all nodes have the same if not said.
    pub hot_percent: Option<u64>,
    /// When nodes crash, one after the other, and come back at once, with nothing in hand.
    pub crashes: Vec<Duration>,
}

impl Default for SharingOptions {
    fn default() -> SharingOptions {
        SharingOptions {
            ways: Sharing::ALL.to_vec(),
            lease_ttl: Duration::from_secs(1),
            lease_share_percent: 100,
            every: Duration::from_millis(100),
            hot_percent: None,
            crashes: Vec::new(),
        }
    }
}

/// How many nodes times keys there may be: each may have a lease of its own.
const MOST_PLACES: u64 = 2_000_000;

/// The stream of random numbers that says to which node a request comes.
const NODES: u64 = 1 << 33;

/// What is the same for all ways.
struct Setting<'a> {
    limit: Limit,
    whole: ScriptPlan,
    part: ScriptPlan,
    terms: Option<LeaseTerms>,
    fleet: &'a Fleet,
    options: &'a SharingOptions,
    start: Timestamp,
    seed: u64,
    together: bool,
    most_tries: u64,
}

impl Simulation {
    /// Puts the ways in which the nodes of [`fleet`](Simulation::fleet) can share a limit side by
    /// side. Without traffic there are four scenes: steady, skewed, bursty and with crashes.
    ///
    /// # Errors
    /// Where there is no fleet or not one limit, or what was asked for makes no sense.
    pub fn share(&self, options: &SharingOptions) -> Result<Shared, SimulateError> {
        let wrong = |message: &str| Err(SimulateError(message.to_owned()));
        let Some(fleet) = &self.fleet else { return wrong("no fleet was given, such as 4 nodes") };
        let Subject::Limits(limits) = &self.subject else {
            return wrong("ways to share are compared for a limit, not for a policy");
        };
        let [limit] = limits.as_slice() else {
            return wrong("ways to share are compared for one limit, not for several");
        };
        if fleet.outage.is_some() {
            return wrong(
                "ways to share are compared while the store is there, leave the outage out",
            );
        }
        let setting = self.setting(limit, fleet, options)?;
        let stages = match self.traffic.is_empty() {
            true => scenes::all(limit, options)?,
            false => vec![Stage::given(self.checked_traffic()?, options)],
        };
        let scenes: Result<Vec<Scene>, SimulateError> =
            stages.iter().map(|stage| setting.play(stage)).collect();
        Ok(Shared {
            subject: limit.to_string(),
            nodes: fleet.nodes,
            seed: self.seed,
            window_nanos: nanos(limit.period()),
            lease_ttl_nanos: nanos(options.lease_ttl),
            lease_share_percent: options.lease_share_percent,
            every_nanos: nanos(options.every),
            latency_nanos: nanos(fleet.latency),
            count: limit.count(),
            scenes: scenes?,
        })
    }

    fn setting<'a>(
        &self,
        limit: &Limit,
        fleet: &'a Fleet,
        options: &'a SharingOptions,
    ) -> Result<Setting<'a>, SimulateError> {
        fleet.check()?;
        options.check(fleet.nodes)?;
        let wrong = |error: &dyn std::fmt::Display| SimulateError(format!("\"{limit}\": {error}"));
        if limit.algorithm() == Algorithm::LeakyQueue {
            return Err(wrong(&"a queue is always strict, its turns are told one by one"));
        }
        if limit.align() == WindowStart::FirstRequest {
            return Err(wrong(
                &"windows of the first request differ from node to node, leave out \"from first\"",
            ));
        }
        let whole = ScriptPlan::new(limit).map_err(|error| wrong(&error))?;
        let part =
            ScriptPlan::new(&port::share(limit, fleet.nodes)).map_err(|error| wrong(&error))?;
        let leased = options.ways.contains(&Sharing::Leased);
        let terms = || LeaseTerms::new(&whole, options.lease_ttl, options.lease_share_percent);
        let terms = if leased { Some(terms().map_err(|error| wrong(&error))?) } else { None };
        Ok(Setting {
            limit: limit.clone(),
            part,
            terms,
            whole,
            fleet,
            options,
            start: self.start,
            seed: self.seed,
            together: self.together,
            most_tries: self.most_tries,
        })
    }
}

impl SharingOptions {
    fn check(&self, nodes: u64) -> Result<(), SimulateError> {
        let wrong = |message: String| Err(SimulateError(message));
        if self.ways.is_empty() {
            return wrong("no way to share was given, such as strict,leased".to_owned());
        }
        if self.every < Duration::from_millis(1) {
            return wrong(format!(
                "nodes tell the store every {:?}, must be 1ms or more",
                self.every
            ));
        }
        if self.hot_percent.is_some_and(|percent| percent > 100) {
            return wrong("the first node has at most 100% of the requests".to_owned());
        }
        if self.hot_percent.is_some() && nodes < 2 {
            return wrong("one node has all requests, give more with --nodes".to_owned());
        }
        Ok(())
    }
}

impl Setting<'_> {
    /// Plays a scene in all ways.
    fn play(&self, stage: &Stage) -> Result<Scene, SimulateError> {
        let roster =
            Roster::of(&stage.traffic).map_err(|error| SimulateError(error.to_string()))?;
        let most = self.whole.capacity();
        if let Some(dear) = stage.traffic.iter().find(|traffic| traffic.cost() > most) {
            let (cost, text) = (dear.cost(), dear.text());
            return Err(SimulateError(format!("{text:?} costs {cost}, the limit is {most}")));
        }
        let keys = if self.together { 1 } else { roster.len() as u64 };
        let places = self.fleet.nodes.saturating_mul(keys);
        if places > MOST_PLACES {
            return Err(SimulateError(format!(
                "{} nodes with {keys} clients are {places}, at most {MOST_PLACES}: \
                 take fewer, or count them together",
                self.fleet.nodes
            )));
        }
        let length = nanos(stage.traffic.iter().map(Traffic::end).max().unwrap_or_default());
        // What passes if one node has everything and the store answers at once.
        let exact = self.run(stage, &roster, World::exact(self))?;
        let ways = self.options.ways.iter();
        let runs: Result<Vec<SharedRun>, SimulateError> = ways
            .map(|way| {
                let log = self.run(stage, &roster, World::new(self, *way, length))?;
                Ok(measure::tell(self, *way, (log, length), exact.admitted))
            })
            .collect();
        Ok(Scene {
            name: stage.name.clone(),
            traffic: stage.traffic.iter().map(|traffic| traffic.text().to_owned()).collect(),
            hot_percent: stage.hot_percent,
            crashes_nanos: stage.crashes.iter().map(|at| nanos(*at)).collect(),
            length_nanos: length,
            slot_nanos: super::tally::slot_length(length),
            admitted_by_one_gate: exact.admitted,
            runs: runs?,
        })
    }

    fn run(
        &self,
        stage: &Stage,
        roster: &Roster,
        mut world: World<'_>,
    ) -> Result<world::Log, SimulateError> {
        let mut tries = Tries::new(&stage.traffic, roster, (self.seed, self.start));
        let mut nodes = Random::new(self.seed, NODES);
        stage.crashes.iter().zip(0..).for_each(|(at, node)| world.crash_at(nanos(*at), node));
        while let Some(due) = tries.due().into_iter().chain(world.due()).min() {
            // Answers first: who asks at the same moment knows of them.
            if world.due() == Some(due) {
                world.deliver();
            } else if let Some(asked) = tries.next() {
                if world.log.tries >= self.most_tries {
                    let most = self.most_tries;
                    return Err(SimulateError(format!(
                        "with retries there are more than {most} requests: \
                         make retries rarer, or the traffic shorter"
                    )));
                }
                let node = stage.node(self.fleet.nodes, &mut nodes);
                world.arrive(asked, stage.traffic[asked.traffic].cost(), node);
            }
            for (refused, told) in world.refused() {
                tries.refuse(refused, told);
            }
        }
        Ok(world.end())
    }
}
