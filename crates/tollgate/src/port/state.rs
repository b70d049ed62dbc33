//! A key's state as a store of microseconds keeps it, and as the memory store does.

use super::{ScriptPlan, TICK, nanos};
use crate::algorithm::{self, EventLog, MicrosBucket, StateWords, bucket_words};
use crate::limit::Plan;

/// What a bucket's key owes, as the time that pays it back: microseconds, and parts of one more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptDebt {
    /// Whole microseconds.
    pub micros: u64,
    /// Parts of a microsecond, fewer than it has.
    pub parts: u64,
}

/// A key's state. Moments in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptState {
    /// As good as new.
    New,
    /// Of a bucket.
    Bucket {
        /// When it owed so much.
        at: u64,
        /// What it owed.
        owed: ScriptDebt,
    },
    /// Of a fixed window.
    FixedWindow {
        /// When the window ends.
        ends: u64,
        /// What was taken in it.
        used: u64,
    },
    /// Of a sliding counter.
    SlidingCounter {
        /// When it last took.
        last: u64,
        /// What was taken in that window.
        current: u64,
        /// What was taken in the window before.
        previous: u64,
    },
    /// Of a sliding log: moments and units, oldest first.
    SlidingLog(Vec<(u64, u64)>),
}

impl ScriptDebt {
    fn new(micros: u128, parts: u128) -> ScriptDebt {
        let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
        ScriptDebt { micros: narrow(micros), parts: narrow(parts) }
    }
}

impl MicrosBucket {
    pub(super) fn price(&self, units: u64) -> ScriptDebt {
        let owed = u128::from(units) * u128::from(self.parts_per_unit);
        let per_micro = u128::from(self.parts_per_micro);
        ScriptDebt::new(owed / per_micro, owed % per_micro)
    }

    /// In the parts of the memory store, of which a microsecond pays back `nano_parts`.
    pub(super) fn nano_parts_of(self, owed: ScriptDebt) -> u128 {
        let whole = u128::from(owed.micros) * u128::from(self.nano_parts());
        whole + u128::from(owed.parts) * u128::from(self.finer)
    }

    /// Rounded up, in the limit's favour: only changed numbers leave what does not divide.
    pub(super) fn owed_from(self, owed: u128) -> ScriptDebt {
        let per_micro = u128::from(self.nano_parts());
        let (micros, rest) = (owed / per_micro, owed % per_micro);
        let parts = rest.div_ceil(u128::from(self.finer));
        if parts == u128::from(self.parts_per_micro) {
            return ScriptDebt::new(micros + 1, 0);
        }
        ScriptDebt::new(micros, parts)
    }
}

impl ScriptPlan {
    /// A state of another algorithm, which no store pairs with this limit, counts as new.
    pub(super) fn to_memory(&self, state: &ScriptState) -> algorithm::State {
        let words = |words: StateWords| algorithm::State::Words(words);
        match (&self.0, state) {
            (Plan::Bucket(bucket), ScriptState::Bucket { at, owed }) => {
                words(bucket_words(nanos(*at), bucket.in_micros().nano_parts_of(*owed)))
            }
            (Plan::FixedWindow(_), ScriptState::FixedWindow { ends, used }) => {
                words([ends.saturating_mul(TICK), *used, 0])
            }
            (Plan::SlidingCounter(_), ScriptState::SlidingCounter { last, current, previous }) => {
                words([nanos(*last), *current, *previous])
            }
            (Plan::SlidingLog(_), ScriptState::SlidingLog(entries)) => algorithm::State::Log(
                EventLog::from_entries(entries.iter().map(|(at, units)| (nanos(*at), *units))),
            ),
            _ => self.0.fresh(),
        }
    }

    pub(super) fn kept(&self, state: &algorithm::State) -> ScriptState {
        match (&self.0, state) {
            (Plan::Bucket(bucket), algorithm::State::Words(words)) => ScriptState::Bucket {
                at: words[0].div_ceil(TICK),
                owed: bucket
                    .in_micros()
                    .owed_from(u128::from(words[1]) | u128::from(words[2]) << 64),
            },
            (Plan::FixedWindow(_), algorithm::State::Words([ends, used, _])) => {
                ScriptState::FixedWindow { ends: ends.div_ceil(TICK), used: *used }
            }
            (Plan::SlidingCounter(_), algorithm::State::Words([last, current, previous])) => {
                ScriptState::SlidingCounter {
                    last: last.div_ceil(TICK),
                    current: *current,
                    previous: *previous,
                }
            }
            (_, algorithm::State::Log(log)) => ScriptState::SlidingLog(
                log.entries().map(|(at, units)| (at.div_ceil(TICK), units)).collect(),
            ),
            (_, algorithm::State::Words(_)) => ScriptState::New,
        }
    }
}
