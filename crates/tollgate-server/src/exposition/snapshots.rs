//! Snapshots of the state in memory, if the server writes any.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::{Seconds, family, single};
use crate::snapshots::SnapshotMetrics;

pub(super) fn write_snapshots(text: &mut String, snapshots: &SnapshotMetrics) {
    if !snapshots.is_on.load(Ordering::Relaxed) {
        return;
    }
    let name = "tollgate_snapshots_total";
    let help = "Snapshots that were written, not written because nothing had changed, or failed.";
    family(text, name, "counter", help);
    for (result, count) in [
        ("written", &snapshots.written),
        ("unchanged", &snapshots.unchanged),
        ("failed", &snapshots.failed),
    ] {
        let _ = writeln!(text, "{name}{{result=\"{result}\"}} {}", count.load(Ordering::Relaxed));
    }
    let last = snapshots.last.lock();
    if let Some(current_at) = last.current_at {
        let help = "Unix time at which the snapshot file last held the whole state.";
        let seconds = current_at.as_nanos() / 1_000_000_000;
        single(text, "snapshot_last_success_timestamp_seconds", help, seconds);
    }
    if let Some(written) = &last.written {
        let keys = u64::try_from(written.summary.keys()).unwrap_or(u64::MAX);
        single(text, "snapshot_keys", "Keys in the last snapshot that was written.", keys);
        single(
            text,
            "snapshot_bytes",
            "Size of the last snapshot that was written.",
            written.bytes,
        );
        let name = "tollgate_snapshot_duration_seconds";
        family(text, name, "gauge", "Time that the last snapshot took to write.");
        let _ = writeln!(text, "{name} {}", Seconds(written.duration));
    }
}
