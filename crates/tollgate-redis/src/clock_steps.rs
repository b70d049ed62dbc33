//! Clocks of servers that moved back: states are re-dated, which is counted, and logged once a step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The states of one step are re-dated as their keys are seen again. After a pause of this length
/// the next one is taken for another step.
const PAUSE: Duration = Duration::from_secs(600);

/// The states that a store re-dated.
#[derive(Debug, Default)]
pub(crate) struct ClockSteps {
    redated: AtomicU64,
    last: Mutex<Option<Instant>>,
}

impl ClockSteps {
    /// Counts `states` that were re-dated.
    pub(crate) fn count(&self, states: usize, address: &str) {
        if states == 0 {
            return;
        }
        self.redated.fetch_add(u64::try_from(states).unwrap_or(u64::MAX), Ordering::Relaxed);
        let now = Instant::now();
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if last.is_none_or(|last| now.duration_since(last) > PAUSE) {
            tracing::warn!(
                address,
                "the clock of redis moved back: keys keep what they used and recover from now on"
            );
        }
    }

    /// How many states were re-dated.
    pub(crate) fn redated(&self) -> u64 {
        self.redated.load(Ordering::Relaxed)
    }
}
