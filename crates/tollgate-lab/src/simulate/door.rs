//! What is asked at each try: one gate, or the gates of a fleet.

use std::ops::Range;
use std::time::Duration;

use tollgate::{Gate, ManualClock, MemoryStore, Policy, Reason, Request, Ruling, Timestamp};

use super::SimulateError;
use crate::traffic::Random;

/// A gate with its clock.
pub(super) struct Door {
    gate: Gate,
    clock: ManualClock,
    /// What its clock shows when the simulation begins.
    start: Timestamp,
}

/// What was decided.
pub(super) struct Answer {
    pub(super) ruling: Ruling,
    /// How long the answer took.
    pub(super) latency: Duration,
}

/// How a limit is held.
pub(super) enum Doors {
    /// By one process.
    One(Door),
    /// By nodes that ask one store, and go on by themselves while it is away.
    Store { store: Door, nodes: Vec<Door>, latency: Duration, outage: Option<Range<u64>> },
    /// By nodes that know nothing of each other.
    Each(Vec<Door>),
}

impl Door {
    /// A gate for so many keys, whose clock shows `start` when the simulation begins.
    pub(super) fn new(
        policy: Policy,
        start: Timestamp,
        keys: usize,
    ) -> Result<Door, SimulateError> {
        let clock = ManualClock::at(start);
        let wrong = |error: &dyn std::fmt::Display| SimulateError(error.to_string());
        let store = MemoryStore::builder().clock(clock.clone()).max_keys(keys).discard_key_names();
        let store = store.build().map_err(|error| wrong(&error))?;
        let gate = Gate::with_store(store, policy).map_err(|error| wrong(&error))?;
        Ok(Door { gate, clock, start })
    }

    fn at(&self, nanos: u64) -> &Gate {
        self.clock.set(self.start.saturating_add(Duration::from_nanos(nanos)));
        &self.gate
    }
}

impl Doors {
    /// Decides a request that comes `nanos` after the start; which node it comes to is drawn.
    pub(super) fn ask(
        &self,
        nanos: u64,
        request: &Request<'_>,
        random: &mut Random,
    ) -> Result<Answer, SimulateError> {
        let (ruling, latency) = match self {
            Doors::One(door) => (whole(door.at(nanos).check(request))?, Duration::ZERO),
            Doors::Each(nodes) => (drawn(nodes, random).at(nanos).check(request), Duration::ZERO),
            Doors::Store { store, nodes, latency, outage } => {
                let node = drawn(nodes, random);
                if outage.as_ref().is_some_and(|outage| outage.contains(&nanos)) {
                    (node.at(nanos).check_without_store(request), Duration::ZERO)
                } else {
                    // Half of the way there, and half back.
                    let arrives = nanos.saturating_add(super::nanos(*latency / 2));
                    (whole(store.at(arrives).check(request))?, *latency)
                }
            }
        };
        Ok(Answer { ruling, latency })
    }

    /// How much `request` could take at `nanos`: of all nodes together, where each has its own.
    pub(super) fn remaining(&self, nanos: u64, request: &Request<'_>) -> Option<u64> {
        // The least of all rules: which of them decides may change from one moment to the next.
        let of = |door: &Door| {
            let ruling = door.at(nanos).status(request);
            let rules = ruling.rules().filter(|rule| !rule.is_shadow());
            rules.map(|rule| rule.remaining()).min().filter(|left| *left < u64::MAX)
        };
        match self {
            Doors::One(door) => of(door),
            Doors::Store { nodes, outage: Some(outage), .. } if outage.contains(&nanos) => {
                nodes.iter().map(of).sum()
            }
            Doors::Store { store, .. } => of(store),
            Doors::Each(nodes) => nodes.iter().map(of).sum(),
        }
    }
}

/// A cost that can never pass is a mistake of who asks. Where a node has but a part of the limit,
/// it is what comes of dividing: refused.
fn whole(ruling: Ruling) -> Result<Ruling, SimulateError> {
    match ruling.error() {
        Some(error) => Err(SimulateError(error.to_string())),
        None => Ok(ruling),
    }
}

fn drawn<'a>(nodes: &'a [Door], random: &mut Random) -> &'a Door {
    let number = random.below(nodes.len() as u64);
    &nodes[usize::try_from(number).unwrap_or(0)]
}

impl Answer {
    pub(super) fn is_allowed(&self) -> bool {
        self.ruling.is_allowed()
    }

    /// Until it goes ahead: the store's answer and a queue's turn.
    pub(super) fn wait(&self) -> Duration {
        self.latency + self.ruling.delay()
    }

    /// What is left; `None` where nothing limits.
    pub(super) fn remaining(&self) -> Option<u64> {
        Some(self.ruling.remaining()).filter(|left| *left < u64::MAX)
    }

    /// Whether something limits.
    pub(super) fn is_limited(&self) -> bool {
        self.ruling.reason() != Reason::NoRule
    }
}
