//! What became of the charges of a request, and what each of them says.

use std::time::Duration;

use smallvec::SmallVec;

use super::resolve::INLINE;
use crate::decision::{Decision, Outcome};
use crate::store::memory::{Charged, Memory, Met, Turn};
use crate::time::Timestamp;

/// What became of a request's charges. Where all were taken, what they met is kept, and figures
/// are worked out for those who ask: most do not.
#[derive(Clone)]
pub(super) struct Charges {
    /// Those of rules that deny first, then those of rules that only report; a rule's together.
    pub(super) ruled: SmallVec<[Ruled; INLINE]>,
    /// Of each, unless all were taken.
    pub(super) decided: SmallVec<[Decision; INLINE]>,
    /// When they were taken, if all were.
    taken_at: Timestamp,
}

/// A charge, and what it met if it was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    /// The rule's number.
    pub(super) rule: u32,
    /// Which limit it was, as the store numbers them; 0 where there is none.
    pub(super) limit: u32,
    pub(super) shadow: bool,
    /// For how long the key is blocked; zero if it is not.
    pub(super) blocked: Duration,
    cost: u64,
    met: Met,
}

/// A charge and its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) ruled: Ruled,
    pub(super) decision: Decision,
}

impl Charges {
    #[inline(always)]
    pub(super) fn new() -> Charges {
        let taken_at = Timestamp::from_nanos(0);
        Charges { ruled: SmallVec::new(), decided: SmallVec::new(), taken_at }
    }

    /// Keeps what the charges met, all of which were taken.
    #[inline]
    pub(super) fn keep(&mut self, turns: &[Turn<'_>]) {
        for (ruled, turn) in self.ruled.iter_mut().zip(turns) {
            (ruled.cost, ruled.met) = (turn.cost, turn.met);
        }
        self.taken_at = turns.first().map_or(self.taken_at, |turn| turn.now);
    }

    /// Keeps what the charges came to.
    pub(super) fn set(&mut self, told: &[Told]) {
        self.ruled = told.iter().map(|charge| charge.ruled).collect();
        self.decided = told.iter().map(|charge| charge.decision).collect();
    }

    /// Each charge and its decision.
    pub(super) fn told<'c>(&'c self, memory: &'c Memory) -> impl Iterator<Item = Told> + Clone {
        self.ruled.iter().enumerate().map(|(at, ruled)| Told {
            ruled: *ruled,
            decision: match self.decided.get(at) {
                Some(decision) => *decision,
                None => ruled.decision(memory, self.taken_at),
            },
        })
    }
}

impl Ruled {
    /// To be decided.
    #[inline]
    pub(super) fn new(rule: u32, limit: u32, shadow: bool, blocked: Duration) -> Ruled {
        Ruled { rule, limit, shadow, blocked, cost: 0, met: Met::OPEN }
    }

    /// What its limit says of a charge that was taken.
    fn decision(&self, memory: &Memory, now: Timestamp) -> Decision {
        let Some(named) = memory.limit(self.limit) else {
            return Decision::UNLIMITED;
        };
        let turn = Turn { named: &named, cost: self.cost, now, met: self.met };
        turn.decision(Charged::All)
    }
}

impl Told {
    pub(super) fn is_allowed(&self) -> bool {
        self.ruled.blocked.is_zero() && self.decision.is_allowed()
    }

    /// Whether the limit itself says no, for now.
    pub(super) fn is_denied(&self) -> bool {
        self.decision.outcome() == Outcome::Denied
    }

    pub(super) fn remaining(&self) -> u64 {
        if self.ruled.blocked.is_zero() { self.decision.remaining() } else { 0 }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        Some(self.decision.retry_after()?.max(self.ruled.blocked))
    }

    pub(super) fn reset_after(&self) -> Duration {
        self.decision.reset_after().max(self.ruled.blocked)
    }

    pub(super) fn next_after(&self) -> Duration {
        self.decision.next_after().max(self.ruled.blocked)
    }
}

/// The charge that decides: one that can never be, the longest wait, the smallest share left.
pub(super) fn deciding(charges: impl Iterator<Item = Told> + Clone) -> Option<Told> {
    let never = charges.clone().find(|charge| charge.retry_after().is_none());
    let denied = || charges.clone().filter(|charge| !charge.is_allowed());
    // The first of equal waits, as the policy has the rules.
    let slowest =
        || {
            denied().reduce(|slowest, charge| {
                if charge.retry_after() > slowest.retry_after() { charge } else { slowest }
            })
        };
    let scarcest = || {
        charges.clone().min_by(|a, b| {
            let left = u128::from(a.remaining()) * u128::from(b.decision.limit());
            left.cmp(&(u128::from(b.remaining()) * u128::from(a.decision.limit())))
        })
    };
    never.or_else(slowest).or_else(scarcest)
}
