//! Snapshots and new numbers beside checks.

use super::*;

fn a_snapshot_beside_checks_is_consistent(limit: fn() -> Limit) {
    explore(move || {
        let clock = ManualClock::new();
        let store = clocked_store(&clock, ONE_SHARD);
        let limiter = store.limiter("limit", limit()).unwrap();
        let snapshot = move || {
            let mut bytes = Vec::new();
            store.snapshot(&mut bytes).unwrap();
            bytes
        };
        let (bytes, first) =
            both(snapshot, || [limiter.check_n("ana", 2), limiter.check_n("ana", 2)]);
        assert_eq!(allowed(&first), 2);
        let builder = MemoryStore::builder().clock(clock).max_keys(ONE_SHARD);
        let restored = builder.restore(&bytes[..]).unwrap().limiter("limit", limit()).unwrap();
        let used = restored.status("ana").used();
        assert!([0, 2, 4].contains(&used), "{used}");
        assert_eq!(restored.store().len(), usize::from(used > 0));
        assert_eq!(restored.check_up_to("ana", 10).units, 5 - used);
    });
}

#[test]
fn a_snapshot_beside_checks_restores_a_bucket_as_it_was_at_some_moment() {
    a_snapshot_beside_checks_is_consistent(|| Limit::per_hour(5));
}

#[test]
fn a_snapshot_beside_checks_restores_a_log_as_it_was_at_some_moment() {
    a_snapshot_beside_checks_is_consistent(|| Limit::sliding_log(5, HOUR));
}

#[test]
fn numbers_changed_beside_checks_keep_what_was_taken() {
    explore(|| {
        let store = store(ONE_SHARD);
        let old = store.limiter("limit", hourly(2)).unwrap();
        let other = store.clone();
        let (new, check) = both(
            move || {
                let new = other.limiter("limit", hourly(4)).unwrap();
                assert!(new.check("ana").is_allowed());
                new
            },
            || old.check("ana"),
        );
        assert!(check.is_allowed());
        // 1 of 2 is 2 of 4, and one more: 3. 1 of 4 is, rounded up, 1 of 2, and one more: all.
        let used = new.status("ana").used();
        assert!([3, 4].contains(&used), "{used}");
        assert_eq!(store.len(), 1);
    });
}
