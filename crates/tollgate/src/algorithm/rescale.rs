//! When a limit's numbers change, what was consumed keeps its proportion: a bucket that was 30 %
//! full stays 30 % full. Shares round up, in the limit's favour, and never past empty.

use super::{Log, State, StateRef, bucket};
use crate::limit::Plan;

impl Plan {
    /// The state under this plan of a key whose `state` was made under `old`.
    pub(crate) fn rescale(&self, old: &Plan, state: StateRef<'_>, now: u64) -> State {
        if self == old {
            return state.to_owned();
        }
        let share =
            |units: u64| narrow(scale(units.into(), self.capacity().into(), old.capacity().into()));
        match (self, old) {
            (Plan::Bucket(new), Plan::Bucket(old)) => {
                let owed = scale(old.owed(state.words(), now), new.room(), old.room());
                State::Words(bucket::words(now.max(state.words()[0]), owed))
            }
            (Plan::FixedWindow(new), Plan::FixedWindow(old)) if new.start == old.start => {
                let [end, used, _] = state.words();
                State::Words([end, share(used), 0])
            }
            (Plan::SlidingCounter(new), Plan::SlidingCounter(old)) if new.window == old.window => {
                let [last, current, previous] = state.words();
                State::Words([last, share(current), share(previous)])
            }
            (Plan::SlidingLog(new), Plan::SlidingLog(old)) if new.window == old.window => {
                State::Log(scaled_log(state.log(), share))
            }
            _ => {
                // A window says when it ends, not what it has seen.
                let seen = if matches!(old, Plan::FixedWindow(_)) { 0 } else { old.seen(state) };
                self.taken(share(old.used(state, now)), now.max(seen))
            }
        }
    }

    /// What the state has used of the plan's capacity at `now`, rounded up.
    fn used(&self, state: StateRef<'_>, now: u64) -> u64 {
        self.capacity() - self.decide(state, now, 0).remaining()
    }

    /// A new key's state after `units` were taken.
    fn taken(&self, units: u64, now: u64) -> State {
        let mut state = self.fresh();
        if units > 0 {
            self.take(state.as_mut(), now, units);
        }
        state
    }
}

/// Each running total is scaled, not each entry: the sum then rounds once.
fn scaled_log(log: &Log, share: impl Fn(u64) -> u64) -> Log {
    let (mut total, mut scaled) = (0_u64, 0_u64);
    Log::from_entries(log.entries().filter_map(|(at, units)| {
        total = total.saturating_add(units);
        let units = share(total) - scaled;
        scaled += units;
        (units > 0).then_some((at, units))
    }))
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
