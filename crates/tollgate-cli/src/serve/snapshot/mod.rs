//! State in memory that outlives the process: read at the start, written again and again while the
//! server runs, and at the end.

mod file;
mod writer;

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind};
use std::time::Duration;

use tollgate::{MemoryStore, MemoryStoreBuilder, SnapshotError, SnapshotSummary, Timestamp};

use crate::{Failure, duration};

pub(super) use file::SnapshotFile;
pub(super) use writer::SnapshotWriter;

/// Returns the store with the content of the file, or an empty one if there is no file yet.
///
/// A damaged file is renamed and reported, and the server starts without it.
pub(super) fn restore(
    snapshot: &SnapshotFile,
    builder: MemoryStoreBuilder,
) -> Result<MemoryStore, Failure> {
    let empty = || {
        let wrong = |error| Failure::Usage(vec![format!("--max-keys: {error}")]);
        builder.clone().build().map_err(wrong)
    };
    // What is wrong with the number of keys is not the snapshot's fault.
    let store = empty()?;
    let shown = snapshot.path().display();
    let file = match File::open(snapshot.path()) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tracing::info!(file = %shown, "no snapshot to restore");
            return Ok(store);
        }
        Err(error) => return Err(Failure::Start(format!("cannot read {shown}: {error}"))),
    };
    match builder.restore(BufReader::new(file)) {
        Ok(store) => {
            log_restored(snapshot, &store);
            Ok(store)
        }
        Err(SnapshotError::Io(error)) => {
            Err(Failure::Start(format!("cannot read {shown}: {error}")))
        }
        // Nothing is wrong with the file: it stays for a start with a larger bound.
        Err(error @ SnapshotError::StoreTooSmall { .. }) => {
            Err(Failure::Start(format!("cannot read {shown}: {error}")))
        }
        Err(error) => {
            let aside = file::beside(snapshot.path(), ".broken");
            let put = fs::rename(snapshot.path(), &aside);
            let put = put.map_err(|error| {
                Failure::Start(format!("cannot put {shown} aside, which is damaged: {error}"))
            });
            put?;
            let aside = aside.display();
            tracing::error!("{error}: starting with nothing, it is kept as {aside}");
            Ok(store)
        }
    }
}

fn log_restored(snapshot: &SnapshotFile, store: &MemoryStore) {
    let Some(summary) = store.restored() else { return };
    let file = snapshot.path().display();
    tracing::info!(
        %file,
        taken_at = time_taken(summary),
        age = age(summary, store.clock().now()),
        keys = summary.keys(),
        blocks = summary.blocks(),
        overrides = summary.overrides(),
        "snapshot restored"
    );
    let evicted = store.evictions();
    if evicted > 0 {
        tracing::warn!(%file, evicted, "max_keys is smaller than the snapshot");
    }
}

/// The time that a snapshot was taken at, in UTC.
fn time_taken(summary: &SnapshotSummary) -> String {
    let seconds = summary.taken_at().as_nanos() / 1_000_000_000;
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// The age of a snapshot in whole seconds.
fn age(summary: &SnapshotSummary, now: Timestamp) -> String {
    duration::human(Duration::from_secs(now.saturating_since(summary.taken_at()).as_secs()))
}
