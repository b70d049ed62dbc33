//! Conversion of a state to another limit.
//!
//! What still counts keeps its proportion: a bucket that was 30 % full stays 30 % full. The share
//! is exact until the end, and is rounded up once, to what the new algorithm counts in: a part of a
//! bucket's unit, or a unit of anything else.

use super::{EventLog, State, StateRef, bucket};
use crate::limit::Plan;

/// A state that was brought under a limit.
#[derive(Debug)]
pub(crate) struct StateConversion {
    pub(crate) state: State,
    /// Whether a denial stores it too. Otherwise only an admission does.
    pub(crate) is_stored_by_denial: bool,
    /// Whether the clock had moved back by more than the horizon.
    pub(crate) is_redated: bool,
}

/// What counts of a limit: `used` of `capacity`, in the same parts.
#[derive(Clone, Copy, Debug)]
struct UsedShare {
    used: u128,
    capacity: u128,
}

impl Plan {
    /// The state under this limit of a key whose `state` was made under `old`, as of `now`.
    ///
    /// If the clock moved back by more than a horizon, the state is re-dated as well.
    pub(crate) fn convert(&self, old: &Plan, state: StateRef<'_>, now: u64) -> StateConversion {
        let before = old.redated(state, now);
        let state = before.as_ref().map_or(state, State::as_ref);
        let commutes = self.commutes_with(old);
        let converted = if commutes {
            self.scaled(old, state, now)
        } else {
            self.taken(old.share(state, now), now.max(old.newest_moment(state, now)))
        };
        // The clock may be behind by less than the old horizon and by more than this one.
        let after = self.redated(converted.as_ref(), now);
        let is_redated = before.is_some() || after.is_some();
        StateConversion {
            state: after.unwrap_or(converted),
            is_stored_by_denial: !commutes || is_redated,
            is_redated,
        }
    }

    /// Whether a conversion from `old` gives the same state now and later: both limits have the
    /// same algorithm and horizon. A token bucket and a meter count as one algorithm, since they
    /// admit the same requests.
    fn commutes_with(&self, old: &Plan) -> bool {
        match (self, old) {
            (Plan::Bucket(new), Plan::Bucket(old)) => {
                new.is_queue() == old.is_queue() && new.has_horizon_of(old)
            }
            (Plan::FixedWindow(new), Plan::FixedWindow(old)) => new.start == old.start,
            (Plan::SlidingLog(new), Plan::SlidingLog(old)) => new.window == old.window,
            (Plan::SlidingCounter(new), Plan::SlidingCounter(old)) => new.window == old.window,
            _ => false,
        }
    }

    /// The state in proportion, each unit at its moment. Only for limits that commute.
    fn scaled(&self, old: &Plan, state: StateRef<'_>, now: u64) -> State {
        let (to, from) = (u128::from(self.capacity()), u128::from(old.capacity()));
        let scaled = |units: u64| narrow(scale(units.into(), to, from));
        match (self, old) {
            (Plan::Bucket(new), Plan::Bucket(old)) => {
                let [at, ..] = state.words();
                let owed = scale(old.owed(state.words(), at), new.room(), old.room());
                State::Words(bucket::words(at, owed))
            }
            (Plan::SlidingLog(_), Plan::SlidingLog(old)) => {
                State::Log(scaled_log(&old.live(state.log(), now), scaled))
            }
            _ => {
                let [moment, first, second] = state.words();
                State::Words([moment, scaled(first), scaled(second)])
            }
        }
    }

    /// What counts at `now`, in the algorithm's own terms. A debt is more than the capacity.
    fn share(&self, state: StateRef<'_>, now: u64) -> UsedShare {
        let used = match self {
            Plan::Bucket(bucket) => {
                let used = bucket.owed(state.words(), now);
                return UsedShare { used, capacity: bucket.room() };
            }
            Plan::FixedWindow(window) => window.used(state.words(), now),
            Plan::SlidingLog(log) => log.used(state.log(), now),
            Plan::SlidingCounter(counter) => counter.used(state.words(), now),
        };
        UsedShare { used: used.into(), capacity: self.capacity().into() }
    }

    /// The state of a key that took such a share at `at`, and nothing before.
    fn taken(&self, UsedShare { used, capacity }: UsedShare, at: u64) -> State {
        if let (Plan::Bucket(bucket), 1..) = (self, used) {
            return State::Words(bucket::words(at, scale(used, bucket.room(), capacity)));
        }
        let units = narrow(scale(used, self.capacity().into(), capacity));
        let mut state = self.fresh();
        if units > 0 {
            self.take(state.as_mut(), at, units);
        }
        state
    }
}

/// Scales the sum of each entry and all newer ones, not each entry: so no sum that counts at a
/// later moment is rounded more than once, and none rounds down.
fn scaled_log(log: &EventLog, scaled: impl Fn(u64) -> u64) -> EventLog {
    let mut entries: Vec<(u64, u64)> = log.entries().collect();
    let (mut sum, mut scaled_sum) = (0_u64, 0_u64);
    for (_, units) in entries.iter_mut().rev() {
        sum = sum.saturating_add(*units);
        let before = scaled_sum;
        scaled_sum = scaled(sum);
        *units = scaled_sum - before;
    }
    EventLog::from_entries(entries.into_iter().filter(|(_, units)| *units > 0))
}

impl StateRef<'_> {
    pub(crate) fn to_owned(self) -> State {
        match self {
            StateRef::Words(words) => State::Words(words),
            StateRef::Log(log) => State::Log(log.clone()),
        }
    }
}

/// ceil(value x to / from), where neither `to` nor `from` is above 2^126: long multiplication with
/// the division folded in, since the product does not fit 128 bits. Saturates.
pub(super) fn scale(value: u128, to: u128, from: u128) -> u128 {
    let (whole, part) = (value / from, value % from);
    let (mut quotient, mut rest) = (0_u128, 0_u128);
    for bit in (0..128).rev() {
        rest = 2 * rest + if to >> bit & 1 == 1 { part } else { 0 };
        quotient = 2 * quotient + rest / from;
        rest %= from;
    }
    let rounded = quotient + u128::from(rest > 0);
    whole.saturating_mul(to).saturating_add(rounded)
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
