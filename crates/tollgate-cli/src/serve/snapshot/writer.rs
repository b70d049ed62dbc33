//! Snapshots while the server runs, by a separate thread: no request waits for the disk.
//!
//! Whether anything has changed is told by the content itself: a request counts nothing for it, and
//! no change can be missed, whichever way it was made. The state is read and hashed without being
//! written if there was no change the last time, and else written beside the file, which it then
//! replaces if the hash differs.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate::{MemoryStore, SnapshotSummary};
use tollgate_server::SnapshotCounts;

use super::file::{SnapshotFile, SnapshotOutcome};

/// The thread that writes snapshots.
pub(in crate::serve) struct SnapshotWriter {
    thread: JoinHandle<Snapshots>,
    /// Dropped to end the thread.
    running: Sender<()>,
}

/// The snapshots of a store in one file.
struct Snapshots {
    file: SnapshotFile,
    store: MemoryStore,
    counts: SnapshotCounts,
    /// The one in the file, if this process has written it.
    last: Option<SnapshotSummary>,
    /// `true` if the state was the same the last time.
    was_unchanged: bool,
    /// The number of failures since the last success.
    failures: u64,
}

impl SnapshotWriter {
    /// Writes the state of the store whenever so much time has passed since the last time, if it
    /// has changed; only at the end if `None`.
    pub(in crate::serve) fn start(
        file: SnapshotFile,
        store: MemoryStore,
        interval: Option<Duration>,
        counts: SnapshotCounts,
    ) -> io::Result<SnapshotWriter> {
        let (running, ended) = mpsc::channel();
        let mut snapshots =
            Snapshots { file, store, counts, last: None, was_unchanged: false, failures: 0 };
        let work = move || {
            while !is_over(&ended, interval) {
                snapshots.update();
            }
            snapshots
        };
        let thread = thread::Builder::new().name("snapshots".to_owned()).spawn(work)?;
        Ok(SnapshotWriter { thread, running })
    }

    /// Waits until the thread has ended, perhaps for a snapshot, and writes the last snapshot.
    pub(in crate::serve) fn finish(self) -> io::Result<()> {
        drop(self.running);
        let snapshots = self.thread.join();
        let snapshots = snapshots.map_err(|_| io::Error::other("the thread for it has failed"))?;
        if let SnapshotOutcome::Written(written) = snapshots.file.write(&snapshots.store, None)? {
            let (file, summary) = (snapshots.file.path().display(), &written.summary);
            tracing::info!(
                %file,
                keys = summary.keys(),
                blocks = summary.blocks(),
                overrides = summary.overrides(),
                bytes = written.bytes,
                "snapshot written"
            );
        }
        Ok(())
    }
}

/// Waits for the interval to pass. Returns `true` if the thread is to end.
fn is_over(ended: &Receiver<()>, interval: Option<Duration>) -> bool {
    match interval {
        Some(interval) => ended.recv_timeout(interval) != Err(RecvTimeoutError::Timeout),
        None => {
            let _ = ended.recv();
            true
        }
    }
}

impl Snapshots {
    /// Writes a snapshot if anything has changed.
    fn update(&mut self) {
        let outcome = match self.unchanged() {
            Some(summary) => Ok(SnapshotOutcome::Unchanged(summary)),
            None => self.file.write(&self.store, self.last.as_ref()),
        };
        let file = self.file.path().display();
        match outcome {
            Ok(SnapshotOutcome::Unchanged(summary)) => {
                self.counts.unchanged(&summary);
                self.was_unchanged = true;
            }
            Ok(SnapshotOutcome::Written(written)) => {
                let (keys, bytes) = (written.summary.keys(), written.bytes);
                tracing::debug!(%file, keys, bytes, "snapshot written");
                self.last = Some(written.summary.clone());
                self.was_unchanged = false;
                self.counts.written(written);
            }
            Err(error) => {
                self.failures += 1;
                self.counts.failed();
                // Once: it may fail for as long as a disk is full.
                match self.failures {
                    1 => tracing::error!(%file, %error, "snapshot not written, the last one stays"),
                    _ => tracing::debug!(%file, %error, "snapshot not written, the last one stays"),
                }
                return;
            }
        }
        if self.failures > 0 {
            tracing::info!(%file, failures = self.failures, "snapshot written again");
            self.failures = 0;
        }
    }

    /// The state in numbers, if it was the same the last time and still is.
    fn unchanged(&self) -> Option<SnapshotSummary> {
        let last = self.last.as_ref().filter(|_| self.was_unchanged)?;
        let summary = self.store.snapshot(io::sink()).ok()?;
        (summary.has_same_content(last) && self.file.path().exists()).then_some(summary)
    }
}
