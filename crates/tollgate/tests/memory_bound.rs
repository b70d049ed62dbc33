//! The bound on memory: hard under any traffic, and what it costs whom.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Gate, Limit, Limiter, ManualClock, MemoryStore, Policy, Request, Rule, WhenFull, check_all,
};
use tollgate_testkit::cases;

const CHOICES: [WhenFull; 3] = [WhenFull::Evict, WhenFull::DenyNewKeys, WhenFull::AllowUncounted];
const HOUR: Duration = Duration::from_secs(3600);

fn store(max_keys: usize, when_full: WhenFull) -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryStore::builder().clock(clock.clone()).max_keys(max_keys);
    (builder.when_full(when_full).build().expect("the test's numbers are valid"), clock)
}

/// A store full of keys `0..max_keys`, each with one unit of ten taken.
fn full(max_keys: u64, when_full: WhenFull) -> (Limiter, ManualClock) {
    let (store, clock) =
        store(usize::try_from(max_keys).expect("the test's numbers are valid"), when_full);
    let limiter =
        store.limiter("limit", Limit::per_hour(10)).expect("the test's numbers are valid");
    assert!((0..max_keys).all(|key| limiter.check(key).is_allowed()));
    (limiter, clock)
}

#[test]
fn an_attacker_with_fresh_keys_never_passes_the_bound() {
    for choice in CHOICES {
        let (limiter, _) = full(100, choice);
        for key in 0..5_000 {
            let _ = limiter.check(("attacker", key));
            assert!(limiter.store().len() <= 100, "{choice:?}");
        }
    }
}

#[test]
fn attackers_on_many_threads_never_pass_the_bound() {
    for choice in CHOICES {
        let (limiter, _) = full(64, choice);
        let attacked = AtomicBool::new(false);
        thread::scope(|scope| {
            let attackers: Vec<_> = (0..4)
                .map(|thread| {
                    let limiter = &limiter;
                    scope.spawn(move || {
                        (0..1000).for_each(|key| {
                            let _ = limiter.check((thread, key));
                        });
                    })
                })
                .collect();
            let watcher = scope.spawn(|| {
                while !attacked.load(Ordering::Relaxed) {
                    assert!(limiter.store().len() <= 64);
                }
            });
            attackers.into_iter().for_each(|attacker| attacker.join().unwrap());
            attacked.store(true, Ordering::Relaxed);
            watcher.join().unwrap();
        });
        assert_eq!(limiter.len(), limiter.store().len(), "{choice:?}: places and keys agree");
    }
}

#[test]
fn an_attacker_with_fresh_keys_does_not_grow_the_store() {
    for choice in CHOICES {
        let (limiter, _) = full(1000, choice);
        let before = limiter.memory_usage();
        for key in 0..20_000 {
            let _ = limiter.check(("attacker", key));
        }
        let after = limiter.memory_usage();
        assert!(after < 2 * before, "{choice:?}: {before} bytes became {after}");
    }
}

#[test]
fn a_denied_key_is_kept_while_another_can_go() {
    let (limiter, _) = full(32, WhenFull::Evict);
    assert!(limiter.check_n(0_u64, 9).is_allowed());
    for key in 0..5_000 {
        assert!(limiter.check(("attacker", key)).is_allowed());
        assert!(!limiter.peek(0_u64).is_allowed(), "a throttled client became new");
    }
}

#[test]
fn the_state_closest_to_new_makes_room() {
    let (store, _) = store(8, WhenFull::Evict);
    let limiter = store.limiter("limit", Limit::per_hour(10)).unwrap();
    for key in 0..8_u64 {
        assert!(limiter.check_n(key, 2 + key).is_allowed());
    }
    assert!(limiter.check("new").is_allowed());
    let kept: Vec<bool> = (0..8_u64).map(|key| !limiter.status(key).is_fresh()).collect();
    assert_eq!(kept, [false, true, true, true, true, true, true, true]);
}

#[test]
fn every_forced_eviction_is_counted() {
    let (limiter, _) = full(16, WhenFull::Evict);
    assert_eq!(limiter.store().evictions(), 0);
    for key in 0..50 {
        let _ = limiter.check(("new", key));
    }
    assert_eq!(limiter.store().evictions(), 50);
    assert_eq!((limiter.store().rejected_new_keys(), limiter.store().reclaimed()), (0, 0));
}

#[test]
fn deny_new_denies_new_keys_and_leaves_the_known_alone() {
    let (limiter, _) = full(16, WhenFull::DenyNewKeys);
    assert!(!limiter.check("new").is_allowed());
    assert!((0..16_u64).all(|key| limiter.check_n(key, 9).is_allowed()));
    assert_eq!((limiter.store().evictions(), limiter.store().rejected_new_keys()), (0, 1));
}

#[test]
fn deny_new_says_when_there_will_be_room() {
    let (limiter, clock) = full(8, WhenFull::DenyNewKeys);
    let wait = limiter.check("new").retry_after().unwrap();
    clock.advance(wait - Duration::from_nanos(1));
    assert!(!limiter.check("new").is_allowed());
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check("new").is_allowed());
}

#[test]
fn deny_new_says_when_there_is_room_at_the_latest_wherever_that_is() {
    for max_keys in [1, 3, 130, 700, 2_000] {
        let (store, clock) = store(max_keys, WhenFull::DenyNewKeys);
        let limiter = store.limiter("limit", Limit::per_hour(3600)).unwrap();
        for key in 0..max_keys {
            assert!(limiter.check_n(key, 1 + key as u64 % 1000).is_allowed());
            clock.advance(Duration::from_micros(100));
        }
        for key in ["one", "two", "three"] {
            let looked = limiter.peek(key);
            let denied = limiter.check(key);
            assert_eq!(looked.is_allowed(), denied.is_allowed(), "{key} of {max_keys}");
            assert_eq!(looked.retry_after(), denied.retry_after(), "{key} of {max_keys}");
            clock.advance(denied.retry_after().unwrap());
            assert!(limiter.check(key).is_allowed(), "{key} of {max_keys} came back for nothing");
        }
    }
}

#[test]
fn allow_new_lets_new_keys_pass_uncounted() {
    let (limiter, _) = full(16, WhenFull::AllowUncounted);
    assert!((0..30).all(|_| limiter.check("new").is_allowed()));
    assert!(limiter.status("new").is_fresh());
    assert_eq!((limiter.store().len(), limiter.store().rejected_new_keys()), (16, 30));
}

#[test]
fn worthless_state_makes_room_without_an_eviction() {
    for choice in CHOICES {
        let (limiter, clock) = full(64, choice);
        clock.advance(HOUR);
        assert!((0..64).all(|key| limiter.check(("new", key)).is_allowed()));
        let store = limiter.store();
        assert_eq!((store.evictions(), store.rejected_new_keys()), (0, 0), "{choice:?}");
        assert_eq!(store.reclaimed(), 128 - store.len() as u64, "what is gone is counted");
        assert!((0..64).all(|key| limiter.status(("new", key)).used() == 1), "{choice:?}");
    }
}

#[test]
fn reclaiming_drops_exactly_what_is_as_good_as_new() {
    let (limiter, clock) = full(64, WhenFull::Evict);
    clock.advance(Duration::from_secs(1));
    assert!((0..10_u64).all(|key| limiter.check(key).is_allowed()));
    clock.advance(Duration::from_secs(359));
    limiter.store().reclaim();
    assert_eq!((limiter.store().len(), limiter.len()), (10, 10));
    assert_eq!(limiter.store().reclaimed(), 54);
}

#[test]
fn reclaiming_gives_memory_back() {
    let (limiter, clock) = full(5_000, WhenFull::Evict);
    let before = limiter.memory_usage();
    clock.advance(HOUR);
    limiter.store().reclaim();
    assert!(limiter.store().is_empty());
    let after = limiter.memory_usage();
    assert!(after < before / 2, "{before} bytes became {after}");
}

#[test]
fn a_bound_of_no_keys_is_refused() {
    let error = MemoryStore::builder().max_keys(0).build().unwrap_err();
    assert_eq!(error.to_string(), "max_keys is 0, must be at least 1");
}

#[test]
fn a_bound_of_one_key_holds_one_key() {
    for choice in CHOICES {
        let (limiter, _) = full(1, choice);
        let _ = limiter.check("second");
        assert_eq!((limiter.store().len(), limiter.len()), (1, 1), "{choice:?}");
    }
}

#[test]
fn several_charges_at_once_stay_within_the_bound() {
    for choice in CHOICES {
        let (limiter, _) = full(4, choice);
        for round in 0..100 {
            let keys = [0, 1, 2, 3, 4, 5].map(|key| (round, key));
            let charges: Vec<_> = keys.iter().map(|key| limiter.charge(key)).collect();
            let _ = check_all(&charges);
            assert!(limiter.store().len() <= 4, "{choice:?}");
        }
        assert_eq!(limiter.len(), limiter.store().len(), "{choice:?}: no place is lost");
    }
}

#[test]
fn several_charges_of_which_one_is_denied_make_no_room() {
    let (limiter, _) = full(64, WhenFull::Evict);
    assert_eq!(limiter.check_up_to(0, 10).units, 9);
    assert!(!check_all(&[limiter.charge(0), limiter.charge("new")]).is_allowed());
    assert_eq!((limiter.store().evictions(), limiter.status(0).remaining()), (0, 0));
}

#[test]
fn several_charges_make_room_without_their_own_keys() {
    for max_keys in 2..12 {
        let (limiter, _) = full(max_keys, WhenFull::Evict);
        for round in 0..8 {
            let known = limiter.keys().next().map(|(key, _)| key).expect("it is full");
            let used = limiter.status(&known).used();
            let new = ("new", round);
            assert!(check_all(&[limiter.charge(&known), limiter.charge(new)]).is_allowed());
            assert_eq!(limiter.status(&known).used(), used + 1, "of {max_keys} keys");
        }
    }
}

#[test]
fn several_charges_find_their_keys_in_a_table_that_is_laid_out_anew() {
    for round in 0..400 {
        let (store, _) = store(127, WhenFull::Evict);
        let limiter = store.limiter("limit", Limit::per_hour(100)).unwrap();
        let long = |number: u32| format!("{round}-{number}-{}", "x".repeat(200));
        (0..120).for_each(|number| assert!(limiter.check(long(number)).is_allowed()));
        // Names that nobody needs any more are thrown out by the next new key, and the table shrinks.
        (20..120).for_each(|number| assert!(limiter.reset(long(number))));
        let (known, new) = (long(round % 20), long(1000));
        assert!(check_all(&[limiter.charge(&known), limiter.charge(&new)]).is_allowed());
        assert_eq!([limiter.status(&known).used(), limiter.status(&new).used()], [2, 1]);
    }
}

#[test]
fn threads_that_bring_the_same_keys_to_a_full_store_lose_no_place() {
    let (store, _) = store(64, WhenFull::Evict);
    let limiter = store.limiter("limit", Limit::per_hour(1_000_000)).unwrap();
    let turn = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..50_000).for_each(|_| {
                    let key = turn.fetch_add(1, Ordering::Relaxed) / 4;
                    assert!(check_all(&[limiter.charge(key)]).is_allowed());
                });
            });
        }
    });
    assert_eq!(store.len(), limiter.len());
}

#[test]
fn twenty_thousand_charges_at_once_are_decided() {
    let (store, _) = store(100_000, WhenFull::Evict);
    let limiter = store.limiter("limit", Limit::per_hour(1)).unwrap();
    let keys: Vec<u32> = (0..20_000).collect();
    let charges: Vec<_> = keys.iter().map(|key| limiter.charge(key)).collect();
    assert!(check_all(&charges).is_allowed());
    assert!(!check_all(&charges).is_allowed());
    assert_eq!(store.len(), charges.len());
}

#[test]
fn a_sliding_log_costs_what_it_holds_not_what_it_may_hold() {
    let (store, clock) = store(10_000, WhenFull::Evict);
    let limiter = store.limiter("limit", Limit::sliding_log(1_000_000, HOUR)).unwrap();
    // Allocates the shard of the key.
    assert!(limiter.check("ana").is_allowed());
    let before = store.memory_usage();
    for _ in 0..3 {
        assert!(limiter.check("ana").is_allowed());
        clock.advance(Duration::from_secs(1));
    }
    assert!(store.memory_usage() - before < 1024);
}

#[test]
fn units_of_a_sliding_log_at_one_moment_share_an_entry() {
    let (store, clock) = store(10, WhenFull::Evict);
    let limiter = store.limiter("limit", Limit::sliding_log(1_000_000, HOUR)).unwrap();
    assert!(limiter.check("ana").is_allowed());
    let one = store.memory_usage();
    assert!((0..10_000).all(|_| limiter.check("ana").is_allowed()));
    assert_eq!(store.memory_usage(), one);
    for _ in 0..1_000 {
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.check("ana").is_allowed());
    }
    assert!(store.memory_usage() >= one + 16_000 - 1024, "other moments have entries of their own");
}

#[test]
fn store_of_many_keys_loses_none_and_takes_less_than_forty_bytes_for_each() {
    let keys = 100_000_u64;
    let limit = Limit::token_bucket(1, Duration::from_secs(3600)).burst(3);
    let builder = Limiter::builder(limit).max_keys(110_000).discard_key_names();
    let limiter = builder.build().expect("the test's numbers are valid");
    for key in 0..keys {
        assert!(limiter.check(key).is_allowed());
    }
    assert_eq!(limiter.len() as u64, keys);
    for key in (0..keys).step_by(7) {
        assert_eq!(limiter.peek(key).remaining(), 2, "of key {key}");
    }
    let per_key = limiter.memory_usage() as u64 / keys;
    assert!(per_key < 40, "{per_key} bytes for each key");
}

#[test]
fn a_store_without_names_is_smaller() {
    let usage = |builder: tollgate::MemoryStoreBuilder| {
        let limiter = builder.max_keys(2000).build().unwrap().limiter("l", Limit::per_hour(10));
        let limiter = limiter.unwrap();
        for key in 0..2000 {
            let _ = limiter.check(("somebody", key));
        }
        limiter.memory_usage()
    };
    assert!(usage(MemoryStore::builder().discard_key_names()) < usage(MemoryStore::builder()));
}

#[test]
fn reclaiming_gives_the_memory_of_long_names_back() {
    let (store, clock) = store(2_000, WhenFull::Evict);
    let limiter = store.limiter("limit", Limit::per_hour(10)).unwrap();
    assert!((0..2_000).all(|key| limiter.check(("x".repeat(200), key)).is_allowed()));
    let before = store.memory_usage();
    clock.advance(HOUR);
    store.reclaim();
    let after = store.memory_usage();
    assert!(after < before / 2, "{before} bytes became {after}");
}

#[test]
fn a_debt_of_a_key_that_is_gone_evicts_nobody_unless_new_keys_do() {
    for (choice, evicted) in CHOICES.into_iter().zip([1, 0, 0]) {
        let (store, clock) = store(1, choice);
        let limiter = store.limiter("limit", Limit::per_second(10)).unwrap();
        let reservation = limiter.reserve_for("ana", 5, HOUR).unwrap();
        clock.advance(Duration::from_secs(10));
        assert!(limiter.check_n("ben", 10).is_allowed(), "ana is as good as new");
        let before = store.rejected_new_keys();
        reservation.settle(20);
        assert_eq!(store.evictions(), evicted, "{choice:?}");
        assert_eq!(store.rejected_new_keys() - before, 1 - evicted, "{choice:?}");
        assert_eq!(limiter.status("ben").is_fresh(), evicted == 1, "{choice:?}");
    }
}

#[test]
fn empty_store_takes_half_a_byte_for_every_thousand_keys_it_may_hold() {
    let store = MemoryStore::builder().max_keys(100_000_000).build().unwrap();
    let bytes = store.memory_usage();
    assert!((45_000..55_000).contains(&bytes), "{bytes}");
}

proptest! {
    #![proptest_config(cases(64))]

    /// Keys come and go in a store that is full most of the time, one rule or three to a request.
    #[test]
    fn a_look_at_a_full_store_says_what_the_check_then_does(
        max_keys in prop::sample::select(vec![1_usize, 2, 5, 20, 150]),
        rules in 1..4_usize,
        steps in prop::collection::vec((0..400_u32, 1..4_u64, 0..900_u64), 1..120),
        choice in prop::sample::select(CHOICES.to_vec()),
    ) {
        // What is evicted for one key of a request may be needed for the next.
        prop_assume!(choice != WhenFull::Evict || max_keys > 2 * rules);
        let (store, clock) = store(max_keys, choice);
        let rule = |name: &&str| Rule::new(*name).key([*name]).limit(Limit::per_hour(8));
        let policy = ["a", "b", "c"][..rules].iter().map(rule).fold(Policy::new(), Policy::rule);
        let gate = Gate::with_store(store.clone(), policy).unwrap();
        let limiter = store.limiter("alone", Limit::per_hour(8)).unwrap();
        for (key, cost, idle) in steps {
            clock.advance(Duration::from_secs(idle));
            let texts = [key, key / 7, key / 40].map(|key| key.to_string());
            let [a, b, c] = &texts;
            let request = Request::new().with("a", a).with("b", b).with("c", c).cost(cost);
            let looked = gate.peek(&request);
            prop_assert_eq!(looked.is_allowed(), gate.check(&request).is_allowed(), "{:?}", request);
            let looked = limiter.peek_n(key, cost);
            let checked = limiter.check_n(key, cost);
            prop_assert_eq!(looked.outcome(), checked.outcome());
            prop_assert_eq!(looked.retry_after(), checked.retry_after());
        }
    }
}
