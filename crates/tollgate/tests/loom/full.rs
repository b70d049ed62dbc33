//! A full store: places are never lost, and never given twice.

use loom::thread;
use tollgate::{WhenFull, check_all};

use super::*;

#[test]
fn a_full_store_evicts_for_two_new_keys_and_loses_no_place() {
    explore(|| {
        let store = store(1);
        let limiter = store.limiter("limit", hourly(2)).unwrap();
        let (other, seen) = (limiter.clone(), store.clone());
        let (a, b) = both(
            move || {
                let decision = other.check("ana");
                assert!(seen.len() <= 1 && other.len() <= 1);
                decision
            },
            || limiter.check("ben"),
        );
        // While the only place is claimed for one, there is nothing to evict for the other.
        assert!(allowed(&[a, b]) >= 1);
        assert_eq!((store.len(), limiter.len()), (1, 1));
        assert!(limiter.check("cem").is_allowed());
        assert_eq!((store.len(), limiter.len()), (1, 1));
        assert_eq!(limiter.status("cem").used(), 1);
    });
}

#[test]
fn a_full_store_denies_one_of_two_new_keys_and_loses_no_place() {
    explore(|| {
        let store = MemoryStore::builder().clock(ManualClock::new()).max_keys(1);
        let store = store.when_full(WhenFull::DenyNewKeys).build().unwrap();
        let limiter = store.limiter("limit", hourly(2)).unwrap();
        let other = limiter.clone();
        let (a, b) = both(move || other.check("ana"), || limiter.check("ben"));
        assert_eq!(allowed(&[a, b]), 1);
        assert_eq!((store.len(), limiter.len()), (1, 1));
        limiter.reset_all();
        assert_eq!((store.len(), limiter.len()), (0, 0));
        assert!(limiter.check("cem").is_allowed());
    });
}

/// A bucket, whose known keys are charged in a shorter way than those of other algorithms.
#[test]
fn two_threads_that_bring_the_same_key_with_others_to_a_full_store_lose_no_place() {
    explore(|| {
        let store = store(1);
        let limiter = store.limiter("limit", Limit::per_hour(2)).unwrap();
        assert!(limiter.check("old").is_allowed());
        let other = limiter.clone();
        let (a, b) = both(
            move || check_all(&[other.charge("ana")]).is_allowed(),
            || check_all(&[limiter.charge("ana")]).is_allowed(),
        );
        // While the only place is claimed for one, there is nothing to evict for the other.
        assert!(a || b);
        let used = u64::from(a) + u64::from(b);
        assert_eq!((store.len(), limiter.len(), limiter.status("ana").used()), (1, 1, used));
    });
}

#[test]
fn two_threads_that_bring_the_same_key_to_a_full_store_get_one_unit_once() {
    explore(|| {
        let store = store(1);
        let limiter = store.limiter("limit", hourly(1)).unwrap();
        assert!(limiter.check("old").is_allowed());
        let other = limiter.clone();
        let (a, b) = both(move || other.check("ana"), || limiter.check("ana"));
        assert_eq!(allowed(&[a, b]), 1);
        assert_eq!((store.len(), limiter.len()), (1, 1));
    });
}

#[test]
fn three_new_keys_in_a_store_of_two_hold_two_places() {
    explore(|| {
        let store = store(2);
        let limiter = store.limiter("limit", hourly(2)).unwrap();
        let threads = ["ana", "ben"].map(|key| {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.check(key))
        });
        let here = limiter.check("cem");
        let [a, b] = threads.map(|thread| thread.join().unwrap());
        assert!(allowed(&[a, b, here]) >= 2);
        assert_eq!((store.len(), limiter.len()), (2, 2));
    });
}

#[test]
fn worthless_keys_make_room_for_two_new_ones_and_no_place_is_lost() {
    explore(|| {
        let clock = ManualClock::new();
        let store = clocked_store(&clock, 1);
        let limiter = store.limiter("limit", hourly(1)).unwrap();
        assert!(limiter.check("old").is_allowed());
        clock.advance(HOUR);
        let (other, reclaimer) = (limiter.clone(), store.clone());
        let (check, ()) = both(move || other.check("ana"), || reclaimer.reclaim());
        assert!(check.is_allowed());
        assert_eq!((store.len(), limiter.len(), store.evictions()), (1, 1, 0));
        assert!(limiter.check("ben").is_allowed());
        assert_eq!((store.len(), limiter.len(), store.evictions()), (1, 1, 1));
    });
}

/// A store of one key in two shards: a snapshot keeps the shards that it was taken with.
fn one_key_in_two_shards() -> MemoryStore {
    let mut empty = Vec::new();
    store(TWO_SHARDS).snapshot(&mut empty).unwrap();
    let builder = MemoryStore::builder().clock(ManualClock::new()).max_keys(1);
    builder.when_full(WhenFull::DenyNewKeys).restore(&empty[..]).unwrap()
}

/// Of several pairs of keys some are in two shards, whatever the hash is: there only the count of
/// places stands between two threads that each hold a lock of their own.
#[test]
fn two_new_keys_in_two_shards_never_share_the_last_place() {
    for key in ["ben", "cem", "dea", "eva", "fay"] {
        explore(move || {
            let store = one_key_in_two_shards();
            let limiter = store.limiter("limit", hourly(2)).unwrap();
            let other = limiter.clone();
            let (a, b) = both(move || other.check("ana"), || limiter.check(key));
            assert_eq!(allowed(&[a, b]), 1);
            assert_eq!((store.len(), limiter.len()), (1, 1));
        });
    }
}
