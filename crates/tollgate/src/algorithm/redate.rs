//! A clock that moved back: by hand, on a Redis server, or between a snapshot and its restore.
//!
//! Behind the newest moment of a state by no more than the horizon, the state's own moment is used.
//! Further behind, the state is re-dated: what counted then counts now, and recovers from now on.

use super::{EventLog, State, StateRef};
use crate::limit::Plan;
use crate::time::Timestamp;

impl Plan {
    /// Cuts a moment that no clock shows to the last that one does: the arithmetic counts on it.
    pub(crate) fn cut_moment(&self, state: &mut State) {
        match (self, state) {
            // The end of a window may be later than any clock, and is added to nothing.
            (Plan::FixedWindow(_), _) | (_, State::Log(_)) => {}
            (_, State::Words(words)) => words[0] = words[0].min(Timestamp::MAX.as_nanos()),
        }
    }

    /// Shifts a state by `ahead`, by which the clock that it was saved under was ahead of `now`.
    pub(crate) fn set_back(&self, state: &mut State, now: u64, ahead: u64) {
        let saved_at = now.saturating_add(ahead);
        let from = saved_at.max(self.newest_moment(state.as_ref(), saved_at));
        *state = self.moved(state.as_ref(), from, from.saturating_sub(ahead));
    }

    /// Whether `now` is earlier than the newest moment of the state by more than the horizon.
    #[inline]
    pub(crate) fn is_stepped(&self, state: StateRef<'_>, now: u64) -> bool {
        match self {
            Plan::Bucket(bucket) => {
                let [at, low, high] = state.words();
                at > now && (low, high) != (0, 0) && bucket.is_past_horizon(at - now)
            }
            Plan::FixedWindow(window) => window.is_stepped(state.words(), now),
            Plan::SlidingLog(log) => log.is_stepped(state.log(), now),
            Plan::SlidingCounter(counter) => counter.is_stepped(state.words(), now),
        }
    }

    /// The state re-dated to `now`; `None` if the clock did not move back by more than the horizon.
    pub(crate) fn redated(&self, state: StateRef<'_>, now: u64) -> Option<State> {
        if !self.is_stepped(state, now) {
            return None;
        }
        Some(self.moved(state, self.newest_moment(state, now), now))
    }

    /// The newest moment that the state has seen, if that may be later than `now`: the last take,
    /// or for a fixed window its start.
    pub(super) fn newest_moment(&self, state: StateRef<'_>, now: u64) -> u64 {
        match self {
            Plan::Bucket(_) | Plan::SlidingCounter(_) => state.words()[0],
            Plan::FixedWindow(window) => window.start_of_stored(state.words(), now),
            Plan::SlidingLog(_) => state.log().seen(),
        }
    }

    /// The state as of `from`, moved to the earlier moment `to`. The count of a window or a counter
    /// belongs to the window of `to`; the entries of a log keep their distances.
    fn moved(&self, state: StateRef<'_>, from: u64, to: u64) -> State {
        match self {
            Plan::Bucket(bucket) => {
                State::Words(super::bucket::words(to, bucket.owed(state.words(), from)))
            }
            Plan::FixedWindow(window) => State::Words(window.moved(state.words(), from, to)),
            Plan::SlidingCounter(counter) => {
                State::Words([to, counter.used(state.words(), from), 0])
            }
            Plan::SlidingLog(log) => {
                let back = from.saturating_sub(to);
                let entries = log.live(state.log(), from);
                State::Log(EventLog::from_entries(
                    entries.entries().map(|(at, units)| (at.saturating_sub(back), units)),
                ))
            }
        }
    }
}
