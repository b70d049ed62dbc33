//! What a store outside this crate is built on. **Unstable**: it is there for Tollgate's own
//! stores, and changes with them.
//!
//! Such a store keeps its state elsewhere and counts time in microseconds in numbers that are
//! exact up to 2^53. It decides and takes where the state is; every figure of the answer is then
//! worked out here, from the state it met, by the arithmetic of the memory store.

mod lease;
mod state;

pub use lease::{
    Borrower, Demand, Grant, LeaseRefund, LeaseRefunds, LeaseTerms, Payment, Wallet, size,
};
pub use state::{ScriptDebt, ScriptState};

use crate::algorithm::{MOST_MICRO_PARTS, WindowBoundary};
use crate::bounds::MOST_EXACT;
use crate::decision::{Decision, Figures, KeyStatus};
use crate::key::{Key, KeyName, write_part};
use crate::limit::{Limit, LimitError, Plan};

pub use crate::charge::deciding;
pub use crate::gate::{
    CountedRule, PartialCharge, PlannedRule, RequestPlan, RuleReplies, VisitedRequest, VisitedRule,
};
pub use crate::policy::{
    EntryFingerprint, LeaseSettings, OverrideRecord, RunTimeOverride, RunTimeOverrides,
    read_override, write_client, write_override,
};
#[cfg(feature = "watch")]
pub use crate::watch::follow;

/// What one of so many nodes may give out of a limit while they cannot ask each other.
pub fn share(limit: &Limit, nodes: u64) -> Limit {
    limit.divided_by(nodes)
}

/// A key's state that was brought under a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedState {
    /// The state under the new limit.
    pub state: ScriptState,
    /// Whether a denial stores it too. Otherwise only an admission does.
    pub is_stored_by_denial: bool,
    /// Whether the clock had moved back by more than the horizon.
    pub is_redated: bool,
}

/// Nanoseconds of a microsecond.
const TICK: u64 = 1000;

/// A limit whose numbers are checked and fit a store of microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptPlan(Plan);

/// The numbers of a limit, as a script needs them. Times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptLimit {
    /// A bucket of any kind.
    Bucket {
        /// What a key may owe at most.
        most: ScriptDebt,
        /// How many parts a microsecond has.
        parts: u64,
    },
    /// A fixed window.
    FixedWindow {
        /// Units per window.
        limit: u64,
        /// Where windows begin.
        start: ScriptWindow,
    },
    /// A sliding log.
    SlidingLog {
        /// Units per window.
        limit: u64,
        /// The window.
        window: u64,
    },
    /// A sliding counter.
    SlidingCounter {
        /// Units per window.
        limit: u64,
        /// The window.
        window: u64,
    },
}

/// Where windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptWindow {
    /// At multiples of so many microseconds since 1970.
    Epoch(u64),
    /// With the first request, for so many microseconds.
    First(u64),
    /// By the calendar: see [`ScriptPlan::end_after`].
    Calendar,
}

impl ScriptPlan {
    /// Checks a limit.
    ///
    /// # Errors
    /// Where its numbers are impossible, or too fine or too large to be kept exact.
    pub fn new(limit: &Limit) -> Result<ScriptPlan, LimitError> {
        let plan = Plan::new(limit)?;
        if !limit.period().subsec_nanos().is_multiple_of(1000) {
            return Err(LimitError::new(format!(
                "period is {:?}, must be whole microseconds in this store",
                limit.period()
            )));
        }
        let (number, most) = match &plan {
            Plan::Bucket(bucket) => (bucket.in_micros().parts_per_micro, MOST_MICRO_PARTS),
            // The weight of a window is a product of two numbers, each cut in halves of 25 bits.
            Plan::SlidingCounter(counter) => (counter.count, MOST_EXACT / 8),
            Plan::FixedWindow(window) => (window.count, MOST_EXACT),
            Plan::SlidingLog(log) => (log.count, MOST_EXACT),
        };
        if number > most {
            return Err(LimitError::new(format!(
                "count is {}, must be at most {most} to be kept exact in this store: lower it, or give count and period a common factor",
                limit.count()
            )));
        }
        Ok(ScriptPlan(plan))
    }

    /// Its numbers.
    pub fn shape(&self) -> ScriptLimit {
        match &self.0 {
            Plan::Bucket(bucket) => ScriptLimit::Bucket {
                most: self.price(bucket.in_micros().capacity),
                parts: bucket.in_micros().parts_per_micro,
            },
            Plan::FixedWindow(window) => ScriptLimit::FixedWindow {
                limit: window.count,
                start: match window.start {
                    WindowBoundary::Epoch { window } => ScriptWindow::Epoch(window / TICK),
                    WindowBoundary::First { window } => ScriptWindow::First(window / TICK),
                    WindowBoundary::Calendar { .. } => ScriptWindow::Calendar,
                },
            },
            Plan::SlidingLog(log) => {
                ScriptLimit::SlidingLog { limit: log.count, window: log.window / TICK }
            }
            Plan::SlidingCounter(counter) => {
                ScriptLimit::SlidingCounter { limit: counter.count, window: counter.window / TICK }
            }
        }
    }

    /// The most that a new key admits at one instant.
    pub fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    /// What a bucket's key owes for so many units; nothing for any other limit.
    pub fn price(&self, units: u64) -> ScriptDebt {
        match &self.0 {
            Plan::Bucket(bucket) => bucket.in_micros().price(units),
            _ => ScriptDebt::default(),
        }
    }

    /// The end of the fixed window that a first request at `now` would be in; for any other limit
    /// `now` itself.
    pub fn end_after(&self, now: u64) -> u64 {
        match &self.0 {
            Plan::FixedWindow(window) => window.start.end_after(nanos(now)).div_ceil(TICK),
            _ => now,
        }
    }

    /// The decision on a charge of `cost` units that met `state` at `now`, and was taken if allowed.
    pub fn decide(&self, state: &ScriptState, now: u64, cost: u64) -> Decision {
        Decision::new(self.figures(state, now, cost), cost)
    }

    /// The decision on a charge that is not taken even if it is allowed.
    pub fn peek(&self, state: &ScriptState, now: u64, cost: u64) -> Decision {
        let asked = self.figures(state, now, cost);
        if cost > 0 && asked.allowed() {
            return Decision::allowed(self.figures(state, now, 0));
        }
        Decision::new(asked, cost)
    }

    /// How a key with `state` stands at `now`.
    pub fn status(&self, state: &ScriptState, now: u64) -> KeyStatus {
        KeyStatus::new([0, 1].map(|cost| self.figures(state, now, cost)))
    }

    /// The moment from which `state` is worthless.
    pub fn fresh_at(&self, state: &ScriptState) -> u64 {
        self.0.fresh_at(self.to_memory(state).as_ref()).div_ceil(TICK)
    }

    /// The state under this limit of a key whose `state` was made under `old`, as of `now`.
    #[must_use]
    pub fn convert(&self, old: &ScriptPlan, state: &ScriptState, now: u64) -> ConvertedState {
        let converted = self.0.convert(&old.0, old.to_memory(state).as_ref(), nanos(now));
        ConvertedState {
            state: self.kept(&converted.state),
            is_stored_by_denial: converted.is_stored_by_denial,
            is_redated: converted.is_redated,
        }
    }

    /// A debt under this limit in proportion to `owed` under `old`; none unless both are buckets.
    #[must_use]
    pub fn debt_in_proportion(&self, old: &ScriptPlan, owed: ScriptDebt) -> ScriptDebt {
        match (&self.0, &old.0) {
            (Plan::Bucket(new), Plan::Bucket(old)) => {
                let owed = old.in_micros().nano_parts_of(owed);
                new.in_micros().owed_from(new.in_proportion(owed, old))
            }
            _ => ScriptDebt::default(),
        }
    }

    /// Whether `now` is earlier than the newest moment of `state` by more than the horizon, so that
    /// the state must be re-dated.
    pub fn is_stepped(&self, state: &ScriptState, now: u64) -> bool {
        self.0.is_stepped(self.to_memory(state).as_ref(), nanos(now))
    }

    fn figures(&self, state: &ScriptState, now: u64, cost: u64) -> Figures {
        self.0.decide(self.to_memory(state).as_ref(), nanos(now), cost).in_ticks(TICK)
    }
}

fn nanos(micros: u64) -> u64 {
    crate::Timestamp::from_nanos(micros.saturating_mul(TICK)).as_nanos()
}

/// A key written down whole, so that no two keys are written alike.
pub fn key_bytes(key: &(impl Key + ?Sized), to: &mut Vec<u8>) {
    key.parts(&mut |part| write_part(part, &mut |bytes| to.extend_from_slice(bytes)));
}

/// The key that [`key_bytes`] wrote down, whole.
pub fn written_key(bytes: &[u8]) -> impl Key {
    KeyName::from_bytes(bytes)
}

/// The inverse of [`key_bytes`]; long ones are cut as every name is.
pub fn key_name(bytes: &[u8]) -> KeyName {
    KeyName::from_bytes(&bytes[..bytes.len().min(crate::bounds::MAX_NAME + 1)])
}
