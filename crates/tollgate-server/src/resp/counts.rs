//! What has happened, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What has happened on the Redis protocol's port since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RespCounts {
    /// Connections that were taken.
    pub accepted: u64,
    /// Connections that were refused, since there were too many.
    pub refused: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections closed since what they sent was no protocol, or too large.
    pub protocol_errors: u64,
    /// Connections closed since they kept the server waiting.
    pub timed_out: u64,
    /// Commands that were answered with an error.
    pub errors: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: Counter,
    pub(super) refused: Counter,
    pub(super) closed: Counter,
    pub(super) protocol_errors: Counter,
    pub(super) timed_out: Counter,
    pub(super) errors: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(super) fn counts(&self) -> RespCounts {
        let closed = self.closed.get();
        let accepted = self.accepted.get();
        RespCounts {
            accepted,
            refused: self.refused.get(),
            open: accepted.saturating_sub(closed),
            protocol_errors: self.protocol_errors.get(),
            timed_out: self.timed_out.get(),
            errors: self.errors.get(),
        }
    }
}
