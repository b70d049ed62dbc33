//! A state restored: on a machine whose clock is behind the one it was saved on, or from a file that
//! somebody else has written.

use super::{FixedWindow, Log, Start, State};
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

    /// Sets the state's moments back by `ahead`, so that nobody waits for the clock to catch up.
    ///
    /// Windows on the wall clock cannot move; a window that has not begun becomes the current one.
    pub(crate) fn set_back(&self, state: &mut State, now: u64, ahead: u64) {
        match (self, state) {
            (Plan::Bucket(_), State::Words(words)) => words[0] = words[0].saturating_sub(ahead),
            (Plan::SlidingCounter(_), State::Words(words)) => words[0] = words[0].min(now),
            (Plan::FixedWindow(window), State::Words(words)) => {
                words[0] = earlier_end(window, words[0], now, ahead);
            }
            (_, State::Log(log)) => {
                let entries: Vec<_> = log.entries().collect();
                *log = Log::from_entries(
                    entries.into_iter().map(|(at, units)| (at.saturating_sub(ahead), units)),
                );
            }
            _ => {}
        }
    }
}

fn earlier_end(window: &FixedWindow, end: u64, now: u64, ahead: u64) -> u64 {
    match window.start {
        Start::First { .. } => end.saturating_sub(ahead),
        _ => end.min(window.start.end_after(now)),
    }
}
