//! Counts of the snapshots of the state in memory, which the program that runs the server writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::{SnapshotSummary, Timestamp};

use crate::app::App;
use crate::metrics::add;

/// Counts the snapshots of a server's state, for `/metrics`. Clones count for the same server.
#[derive(Clone, Debug)]
pub struct SnapshotCounts(Arc<App>);

/// A snapshot that was written to a file.
#[derive(Clone, Debug)]
pub struct WrittenSnapshot {
    /// The counts of its content.
    pub summary: SnapshotSummary,
    /// The size of the file.
    pub bytes: u64,
    /// The time it took to write.
    pub duration: Duration,
}

/// The snapshots since the start.
#[derive(Debug, Default)]
pub(crate) struct SnapshotMetrics {
    /// `false` if the server writes none.
    pub(crate) is_on: AtomicBool,
    pub(crate) written: AtomicU64,
    pub(crate) unchanged: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) last: Mutex<LastSnapshot>,
}

#[derive(Debug, Default)]
pub(crate) struct LastSnapshot {
    /// The last time at which the file held the whole state.
    pub(crate) current_at: Option<Timestamp>,
    /// The snapshot in the file, if this process has written it.
    pub(crate) written: Option<WrittenSnapshot>,
}

impl SnapshotCounts {
    pub(crate) fn new(app: Arc<App>) -> SnapshotCounts {
        app.metrics.snapshots.is_on.store(true, Ordering::Relaxed);
        SnapshotCounts(app)
    }

    /// Counts a snapshot that has replaced the one before.
    pub fn written(&self, written: WrittenSnapshot) {
        let snapshots = &self.0.metrics.snapshots;
        add(&snapshots.written);
        let current_at = Some(written.summary.taken_at());
        *snapshots.last.lock() = LastSnapshot { current_at, written: Some(written) };
    }

    /// Counts a snapshot that was not written because it equals the one before.
    pub fn unchanged(&self, summary: &SnapshotSummary) {
        let snapshots = &self.0.metrics.snapshots;
        add(&snapshots.unchanged);
        snapshots.last.lock().current_at = Some(summary.taken_at());
    }

    /// Counts a snapshot that could not be written.
    pub fn failed(&self) {
        add(&self.0.metrics.snapshots.failed);
    }
}
