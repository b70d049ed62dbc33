//! A decision as plain numbers, to compare.

use std::time::Duration;

use tollgate::{Decision, Outcome};

/// What a decision says, every figure of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Allowed, denied or invalid.
    pub outcome: Outcome,
    /// The most that a new key admits at one instant.
    pub limit: u64,
    /// What could still be taken.
    pub remaining: u64,
    /// The wait until the same request is allowed.
    pub retry_after: Option<Duration>,
    /// The wait until the key is as good as new.
    pub reset_after: Duration,
    /// A leaky queue's wait.
    pub delay: Duration,
}

impl Answer {
    /// Whether to go ahead.
    pub fn is_allowed(&self) -> bool {
        self.outcome == Outcome::Allowed
    }

    /// The same with its waits rounded up to whole ticks: what a store of coarser time says.
    #[must_use]
    pub fn in_ticks(self, tick: Duration) -> Answer {
        let round = |wait: Duration| {
            let ticks = wait.as_nanos().div_ceil(tick.as_nanos());
            nanos(ticks * tick.as_nanos())
        };
        Answer {
            retry_after: self.retry_after.map(round),
            reset_after: round(self.reset_after),
            delay: round(self.delay),
            ..self
        }
    }

    /// The same as told to somebody whose clock is `behind`: every wait that there is is longer.
    #[must_use]
    pub fn from_behind(self, behind: Duration) -> Answer {
        let later = |wait: Duration| if wait.is_zero() { wait } else { wait + behind };
        Answer {
            retry_after: self.retry_after.map(later),
            reset_after: later(self.reset_after),
            delay: later(self.delay),
            ..self
        }
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Answer {
        Answer {
            outcome: decision.outcome(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after(),
            reset_after: decision.reset_after(),
            delay: decision.delay(),
        }
    }
}

/// A duration of so many nanoseconds; no limit has waits that do not fit.
pub(crate) fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).expect("a wait of a limit fits 64 bits"))
}

/// So many nanoseconds.
pub(crate) fn count(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
