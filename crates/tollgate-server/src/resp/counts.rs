//! What has happened, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::Connections;

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

/// Of commands; connections are counted with those of every transport.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) protocol_errors: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Counters {
    pub(super) fn counts(&self, connections: &Connections) -> RespCounts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RespCounts {
            accepted: get(&connections.accepted),
            refused: get(&connections.refused),
            open: connections.open(),
            protocol_errors: get(&self.protocol_errors),
            timed_out: get(&self.timed_out),
            errors: get(&self.errors),
        }
    }
}
