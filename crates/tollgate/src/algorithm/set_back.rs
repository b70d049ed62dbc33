//! A state restored on a machine whose clock is behind the one it was saved on.

use super::{FixedWindow, Log, Start, State};
use crate::limit::Plan;

impl Plan {
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
