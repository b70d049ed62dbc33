//! Snapshots: a restart hands nobody a fresh allowance, and a damaged file hurts nobody.

mod forged;
mod summaries;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Algorithm, BlockPolicy, Gate, KeyStatus, Limit, ManualClock, MemoryStore, MemoryStoreBuilder,
    Override, OverrideRemoval, Policy, Request, Rule, SnapshotError, Timestamp, WindowStart,
};
use tollgate_testkit::{
    NANO, StoreUnderTest, Trace, cases, monotone, one_limit_of_each, with_refunds,
};

const SECOND: Duration = Duration::from_secs(1);

fn builder(clock: &ManualClock) -> MemoryStoreBuilder {
    MemoryStore::builder().clock(clock.clone()).max_keys(200)
}

fn bytes_of(store: &MemoryStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.snapshot(&mut bytes).expect("memory can be written to");
    bytes
}

/// The store that a restart at `clock` finds.
fn restarted(store: &MemoryStore, clock: &ManualClock) -> MemoryStore {
    builder(clock).restore(bytes_of(store).as_slice()).expect("what was written can be read")
}

/// All that a status says.
fn figures(status: KeyStatus) -> (u64, u64, Duration, Duration) {
    (status.limit(), status.remaining(), status.retry_after(), status.reset_after())
}

/// One limiter of each algorithm, named by its number, and those whose numbers do not pack.
fn limits() -> impl Iterator<Item = (String, Limit)> {
    let wide = [Limit::per_day(1 << 40), Limit::sliding_counter(1 << 40, 60 * SECOND)];
    let all = one_limit_of_each().into_iter().chain(wide);
    all.enumerate().map(|(number, limit)| (number.to_string(), limit))
}

/// A store in which every limiter has keys that used little, something and all.
fn used_store(clock: &ManualClock, builder: MemoryStoreBuilder) -> MemoryStore {
    let store = builder.build().expect("the test's numbers are valid");
    for (name, limit) in limits() {
        let limiter = store.limiter(&name, limit).expect("the test's numbers are valid");
        for (key, cost) in [("little", 1), ("something", 4), ("all", limiter.limit().capacity())] {
            assert!(limiter.check_n(key, cost).is_allowed());
        }
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.check("little").is_allowed());
    }
    store
}

fn assert_same_keys(store: &MemoryStore, other: &MemoryStore) {
    for (name, limit) in limits() {
        let (first, second) = [store, other]
            .map(|store| store.limiter(&name, limit.clone()).expect("the test's numbers are valid"))
            .into();
        for key in ["little", "something", "all", "never seen"] {
            assert_eq!(figures(first.status(key)), figures(second.status(key)), "{key} of {limit}");
        }
    }
}

#[test]
fn every_key_stands_as_it_did() {
    let clock = ManualClock::new();
    let store = used_store(&clock, builder(&clock));
    assert_same_keys(&store, &restarted(&store, &clock));
}

#[test]
fn every_key_stands_as_it_did_without_names() {
    let clock = ManualClock::new();
    let store = used_store(&clock, builder(&clock).discard_key_names());
    assert_same_keys(&store, &restarted(&store, &clock));
}

#[test]
fn names_are_kept() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let limiter = store.limiter("limit", Limit::per_hour(10)).unwrap();
    assert!(limiter.check(("acme", 42)).is_allowed());
    let limiter = restarted(&store, &clock).limiter("limit", Limit::per_hour(10)).unwrap();
    let (name, _) = limiter.keys().next().unwrap();
    assert_eq!(name.to_string(), "(acme, 42)");
}

#[test]
fn every_store_has_a_seed_of_its_own_which_its_snapshot_keeps() {
    let clock = ManualClock::new();
    // After the magic, the version, the length of the chunk and the time.
    let seed = |store: &MemoryStore| bytes_of(store)[22..38].to_vec();
    let stores = [(); 2].map(|()| builder(&clock).build().unwrap());
    assert_ne!(seed(&stores[0]), seed(&stores[1]));
    assert!(seed(&stores[0]).iter().any(|byte| *byte != 0));
    assert_eq!(seed(&restarted(&stores[0], &clock)), seed(&stores[0]));
}

#[test]
fn the_time_of_a_restart_counts() {
    let clock = ManualClock::new();
    let store = used_store(&clock, builder(&clock));
    let snapshot = bytes_of(&store);
    clock.advance(7 * SECOND);
    assert_same_keys(&store, &builder(&clock).restore(snapshot.as_slice()).unwrap());
}

#[test]
fn a_snapshot_of_long_ago_leaves_every_key_new() {
    let clock = ManualClock::new();
    let store = used_store(&clock, builder(&clock));
    let snapshot = bytes_of(&store);
    clock.advance(400 * 24 * 3600 * SECOND);
    let restored = builder(&clock).restore(snapshot.as_slice()).unwrap();
    restored.reclaim();
    assert!(restored.is_empty());
}

#[test]
fn a_machine_whose_clock_is_behind_makes_nobody_wait_longer_and_gives_nobody_more() {
    for limit in one_limit_of_each() {
        let clock = ManualClock::new();
        let store = builder(&clock).build().unwrap();
        let limiter = store.limiter("limit", limit.clone()).unwrap();
        assert!(limiter.check_n("ana", 10).is_allowed());
        let longest = limiter.status("ana").reset_after() + limit.period();
        // A whole number of minutes, so that windows on the wall clock are as far on as before.
        let behind = clock.now().as_nanos() - 7_200_000_000_000;
        let clock = ManualClock::at(Timestamp::from_nanos(behind));
        let limiter = restarted(&store, &clock).limiter("limit", limit.clone()).unwrap();
        assert_eq!(limiter.status("ana").remaining(), 0, "{limit}");
        assert!(limiter.status("ana").retry_after() <= longest, "{limit}");
    }
}

#[test]
fn a_key_restored_under_other_numbers_keeps_its_proportion() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let limiter = store.limiter("api", Limit::per_hour(10)).unwrap();
    assert!(limiter.check_n("ana", 7).is_allowed());
    let larger = restarted(&store, &clock).limiter("api", Limit::per_hour(1000)).unwrap();
    assert_eq!(larger.status("ana").remaining(), 300);
}

#[test]
fn a_smaller_bound_is_kept_by_a_restored_store() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let limiter = store.limiter("api", Limit::per_hour(10)).unwrap();
    assert!((0..100).all(|key| limiter.check(key).is_allowed()));
    assert!(limiter.check_n("throttled", 10).is_allowed());
    let small = builder(&clock).max_keys(20).restore(bytes_of(&store).as_slice()).unwrap();
    assert_eq!(small.len(), 20);
}

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    let clock = ManualClock::new();
    let bytes = bytes_of(&used_store(&clock, builder(&clock)));
    for length in 0..bytes.len() {
        let error = builder(&clock).restore(&bytes[..length]).unwrap_err();
        assert!(matches!(error, SnapshotError::Malformed(_)), "{length}: {error}");
    }
}

#[test]
fn a_snapshot_with_any_byte_changed_is_refused() {
    let clock = ManualClock::new();
    let bytes = bytes_of(&used_store(&clock, builder(&clock)));
    for index in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[index] ^= flip;
            assert!(builder(&clock).restore(damaged.as_slice()).is_err(), "byte {index}");
        }
    }
}

#[test]
fn damage_is_found_before_anything_is_read_from_it() {
    let clock = ManualClock::new();
    let bytes = bytes_of(&used_store(&clock, builder(&clock)));
    // Behind the magic and the version.
    for index in 10..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[index] ^= flip;
            let error = builder(&clock).restore(damaged.as_slice()).unwrap_err().to_string();
            let is_of_frame = ["its checksum is wrong", "it ends early", "a chunk is"]
                .iter()
                .any(|message| error.contains(message));
            assert!(is_of_frame, "byte {index}: {error}");
        }
    }
}

#[test]
fn bytes_after_the_end_are_rejected() {
    let clock = ManualClock::new();
    let bytes = bytes_of(&used_store(&clock, builder(&clock)));
    for more in [&[0][..], b"\n", &bytes] {
        let error = builder(&clock).restore(&*[&bytes, more].concat()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the snapshot is not usable: bytes follow its end, restore from an undamaged file"
        );
    }
}

#[test]
fn store_too_small_for_a_snapshot_is_rejected_with_both_numbers() {
    let clock = ManualClock::new();
    let large = MemoryStore::builder().clock(clock.clone()).max_keys(1_000_000).build().unwrap();
    let bytes = bytes_of(&large);
    let small = |max_keys| builder(&clock).max_keys(max_keys).restore(bytes.as_slice());
    let error = small(100).unwrap_err();
    assert_eq!(
        error.to_string(),
        "max_keys is 100, must be at least 256 for this snapshot, which was taken with 1000000"
    );
    assert!(small(255).is_err());
    assert!(small(256).is_ok());
}

#[test]
fn overrides_set_at_run_time_are_in_a_snapshot_until_they_end() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let policy = Policy::new()
        .rule(Rule::new("api").key(["user"]).limit(Limit::per_hour(5)))
        .rule(Rule::new("old").key(["user"]).limit(Limit::per_hour(1000)));
    let gate = Gate::with_store(store.clone(), policy.clone()).unwrap();
    let of = |user: &str, count| Override::new("user", user).limits("api", Limit::per_hour(count));
    let hour = Duration::from_secs(3600);
    gate.set_override(of("ana", 50)).unwrap();
    gate.set_override(of("ben", 60).until(clock.now().saturating_add(hour))).unwrap();
    gate.set_override(of("eve", 70).until(clock.now().saturating_add(hour / 4))).unwrap();
    gate.set_override(of("removed", 80)).unwrap();
    assert_eq!(gate.remove_override(&of("removed", 80).client), OverrideRemoval::Removed);
    gate.set_override(of("ida", 90).limits("old", Limit::per_hour(7))).unwrap();

    clock.advance(hour / 2);
    let limit = |gate: &Gate, user: &str| gate.check(&Request::new().with("user", user)).limit();
    let users = ["ana", "ben", "eve", "removed", "ida"];
    // The rule `old` is gone.
    let policy = Policy::new().rule(policy.rules[0].clone());
    let restored = Gate::with_store(restarted(&store, &clock), policy.clone()).unwrap();
    assert_eq!(users.map(|user| limit(&restored, user)), [50, 60, 5, 5, 90]);
    assert_eq!(restored.overrides().len(), 3, "the one that ended is dropped");
    // Once more, since they are in the next snapshot too.
    clock.advance(hour / 2);
    let restored = Gate::with_store(restarted(restored.store(), &clock), policy.clone()).unwrap();
    assert_eq!(users.map(|user| limit(&restored, user)), [50, 5, 5, 5, 90]);
    // The policy has another entry for ana by then.
    let policy = policy.override_client(of("ana", 55));
    let restored = Gate::with_store(restarted(restored.store(), &clock), policy).unwrap();
    assert_eq!(users.map(|user| limit(&restored, user)), [55, 5, 5, 5, 90]);
}

#[test]
fn what_is_no_snapshot_is_refused_with_what_would_be() {
    let clock = ManualClock::new();
    let error = builder(&clock).restore(&b"{\"json\": true}"[..]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the snapshot is not usable: it does not begin with \"tollgate\", give a file written by \
         snapshot"
    );
}

#[test]
fn a_snapshot_taken_while_threads_check_has_every_key_whole() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let limiters = [Limit::per_hour(1_000_000), Limit::sliding_log(1_000_000, SECOND)];
    let limiters = limiters.map(|limit| (limit.to_string(), limit));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for (name, limit) in &limiters {
            let limiter = store.limiter(name, limit.clone()).unwrap();
            scope.spawn({
                let done = &done;
                move || {
                    for key in (0..50).cycle() {
                        // Two units at a time, never one.
                        assert!(limiter.check_n(key, 2).is_allowed());
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            });
        }
        for _ in 0..20 {
            let restored = restarted(&store, &clock);
            for (name, limit) in &limiters {
                let limiter = restored.limiter(name, limit.clone()).unwrap();
                assert!(limiter.keys().all(|(_, status)| status.used() % 2 == 0));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_impossible_bound_is_not_blamed_on_the_snapshot() {
    let clock = ManualClock::new();
    let bytes = bytes_of(&builder(&clock).build().unwrap());
    let error = builder(&clock).max_keys(0).restore(bytes.as_slice()).unwrap_err();
    assert!(matches!(error, SnapshotError::Store(_)));
    assert_eq!(error.to_string(), "no such store can be built to restore the snapshot into");
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.to_string(), "max_keys is 0, must be at least 1");
}

#[test]
fn a_name_that_no_snapshot_could_hold_is_refused_when_the_limiter_is_made() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let error = store.limiter(&"x".repeat(70_000), Limit::per_hour(1)).unwrap_err();
    assert_eq!(error.to_string(), "the limiter's name is 70000 bytes long, must be at most 65535");
    let longest = "x".repeat(65_535);
    assert!(store.limiter(&longest, Limit::per_hour(1)).unwrap().check("ana").is_allowed());
    let restored = restarted(&store, &clock);
    assert_eq!(restored.limiter(&longest, Limit::per_hour(1)).unwrap().status("ana").used(), 1);
}

/// Plays the trace with a restart after every step that `restarts` names.
fn play_with_restarts(trace: &Trace, restarts: &[bool]) {
    let (clock, control) = (trace.clock(), trace.clock());
    let mut store = builder(&clock).build().expect("the test's numbers are valid");
    let unbroken = builder(&control).build().expect("the test's numbers are valid");
    let expected = StoreUnderTest::limiter(&unbroken, "trace", &trace.limit);
    for (step, restart) in trace.steps.iter().zip(restarts.iter().cycle()) {
        step.time.apply(&clock);
        step.time.apply(&control);
        let limiter = StoreUnderTest::limiter(&store, "trace", &trace.limit);
        let answer = step.act.apply(&store, &limiter, "ana");
        assert_eq!(answer, step.act.apply(&unbroken, &expected, "ana"), "{step:?}");
        if *restart {
            store = restarted(&store, &clock);
        }
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_restart_at_any_moment_changes_no_decision(
        trace in with_refunds(NANO), restarts in prop::collection::vec(any::<bool>(), 1..7)
    ) {
        play_with_restarts(&trace, &restarts);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let clock = ManualClock::new();
        let framed = [b"tollgate\x06\x00".as_slice(), &bytes].concat();
        prop_assert!(builder(&clock).restore(framed.as_slice()).is_err());
    }
}

#[test]
fn a_blocked_key_is_still_blocked_after_a_restart() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let minute = Duration::from_secs(60);
    let login = Rule::new("login").key(["ip"]).limit(Limit::per_second(1));
    let login = login.block(BlockPolicy::fixed(minute).escalating(2, minute * 10));
    let policy = Policy::new().rule(login);
    let gate = Gate::with_store(store.clone(), policy.clone()).unwrap();
    let request = Request::new().with("ip", "203.0.113.9");
    assert!(gate.check(&request).is_allowed());
    assert!(!gate.check(&request).is_allowed());

    let mut snapshot = Vec::new();
    store.snapshot(&mut snapshot).unwrap();
    clock.advance(minute / 2);
    let store = MemoryStore::builder().clock(clock.clone()).restore(&*snapshot).unwrap();
    let gate = Gate::with_store(store, policy).unwrap();
    assert_eq!(gate.check(&request).retry_after(), Some(minute / 2));

    clock.advance(minute / 2);
    assert!(gate.check(&request).is_allowed());
    assert_eq!(gate.check(&request).retry_after(), Some(minute * 2), "the second block is longer");
}

/// Keys whose names fill more than one chunk.
fn long_keys() -> impl Iterator<Item = String> {
    (0..1000).map(|key| format!("{key:0200}"))
}

/// A file during whose writing somebody changes the numbers of `api` and takes under them.
struct Meddled {
    bytes: Vec<u8>,
    store: MemoryStore,
    done: bool,
}

impl Write for Meddled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        // Past the list of limits, which is in the first chunk.
        if !self.done && self.bytes.len() > 100 {
            self.done = true;
            let limiter =
                self.store.limiter("api", Limit::per_hour(20)).expect("the limit is valid");
            assert!(long_keys().all(|key| limiter.check(key).is_allowed()));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn numbers_that_change_while_a_snapshot_is_written_lose_no_key() {
    let clock = ManualClock::new();
    let store = builder(&clock).max_keys(2000).build().unwrap();
    let limiter = store.limiter("api", Limit::per_hour(10)).unwrap();
    assert!(long_keys().all(|key| limiter.check_n(key, 8).is_allowed()));
    let mut file = Meddled { bytes: Vec::new(), store: store.clone(), done: false };
    store.snapshot(&mut file).unwrap();
    assert!(file.done);
    let restored = builder(&clock).max_keys(2000).restore(file.bytes.as_slice()).unwrap();
    let limiter = restored.limiter("api", Limit::per_hour(20)).unwrap();
    let used: Vec<u64> = long_keys().map(|key| limiter.status(key).used()).collect();
    assert!(used.contains(&17), "some were written after the change");
    // 8 of 10 are 16 of 20; who was written after the change took one more.
    assert!(used.iter().all(|used| [16, 17].contains(used)), "{used:?}");
}

proptest! {
    #![proptest_config(cases(64))]

    /// A snapshot restored under an earlier clock shifts all its states: what counted still counts.
    #[test]
    fn a_snapshot_restored_under_an_earlier_clock_keeps_what_was_used(
        trace in monotone(NANO), back in 1..1_000_000_000_000_000_u64
    ) {
        let clock = trace.clock();
        let store = builder(&clock).build().unwrap();
        trace.play(&store, &clock);
        let before = store.limiter("trace", trace.limit.clone()).unwrap().status("the key");
        let earlier = ManualClock::at(Timestamp::from_nanos(clock.now().as_nanos().saturating_sub(back)));
        let restored = restarted(&store, &earlier);
        let after = restored.limiter("trace", trace.limit.clone()).unwrap().status("the key");
        prop_assert_eq!(after.used(), before.used());
        prop_assert_eq!(after.remaining(), before.remaining());
        let is_shifted_whole = match trace.limit.algorithm() {
            Algorithm::FixedWindow => trace.limit.align() == WindowStart::FirstRequest,
            algorithm => algorithm != Algorithm::SlidingCounter,
        };
        // No moment is earlier than 1970.
        let has_room = u128::from(earlier.now().as_nanos()) > trace.limit.period().as_nanos();
        if is_shifted_whole && has_room {
            prop_assert_eq!(after.reset_after(), before.reset_after());
        }
    }
}
