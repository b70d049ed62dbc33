//! Snapshots that somebody has written by hand, with a right checksum.

use std::hash::{DefaultHasher, Hasher};

use super::*;

/// Makes the checksum right.
fn sign(bytes: &mut [u8]) {
    // Both are SipHash-1-3 with a key of zeros.
    let mut hasher = DefaultHasher::new();
    let (body, sum) = bytes.split_at_mut(bytes.len() - 8);
    hasher.write(body);
    sum.copy_from_slice(&hasher.finish().to_le_bytes());
}

/// Asks all that can be asked of every key, also under other numbers.
fn use_every_limiter(store: &MemoryStore) {
    let other = Limit::sliding_log(5, 3 * SECOND);
    for (name, limit) in
        limits().flat_map(|(name, limit)| [limit, other.clone()].map(|of| (name.clone(), of)))
    {
        let limiter = store.limiter(&name, limit).expect("the test's numbers are valid");
        for key in ["little", "something", "all"] {
            for decision in [limiter.peek_n(key, 3), limiter.check(key)] {
                let _ = (decision.retry_after(), decision.reset_after(), decision.next_after());
                let _ = (decision.delay(), decision.remaining());
            }
            let _ = figures(limiter.status(key));
            limiter.refund(key, 1);
            limiter.reserve(key, 1).into_iter().for_each(|reservation| reservation.settle(3));
        }
        let _ = limiter.keys().count();
    }
}

#[test]
fn a_moment_after_the_end_of_time_is_restored_as_the_end_of_time() {
    for (limit, moments) in [
        (Limit::per_hour(10), 1),
        (Limit::sliding_counter(10, SECOND), 1),
        (Limit::per_day(1 << 40), 1),
        (Limit::sliding_log(10, SECOND), 1),
    ] {
        let clock = ManualClock::new();
        let store = builder(&clock).build().unwrap();
        assert!(store.limiter("0", limit.clone()).unwrap().check_n("little", 7).is_allowed());
        let mut bytes = bytes_of(&store);
        let now = clock.now().as_nanos().to_le_bytes();
        let found: Vec<usize> =
            (30..bytes.len() - 8).filter(|at| bytes[*at..*at + 8] == now).collect();
        assert_eq!(found.len(), moments, "{limit}");
        found.into_iter().for_each(|at| bytes[at..at + 8].fill(0xff));
        sign(&mut bytes);
        use_every_limiter(&builder(&clock).restore(bytes.as_slice()).unwrap());
    }
}

#[test]
fn units_of_a_log_that_add_up_past_the_largest_number_never_wrap_to_few() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let limiter = store.limiter("log", Limit::sliding_log(10, SECOND)).unwrap();
    for _ in 0..2 {
        assert!(limiter.check_n("ana", 5).is_allowed());
        clock.advance(Duration::from_nanos(1));
    }
    let mut bytes = bytes_of(&store);
    let fives: Vec<usize> =
        (50..bytes.len() - 8).filter(|at| bytes[*at..*at + 8] == 5_u64.to_le_bytes()).collect();
    let [first, second] = fives[..] else { panic!("{fives:?}") };
    bytes[first..first + 8].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    bytes[second..second + 8].copy_from_slice(&3_u64.to_le_bytes());
    sign(&mut bytes);
    let restored = builder(&clock).restore(bytes.as_slice()).unwrap();
    let limiter = restored.limiter("log", Limit::sliding_log(10, SECOND)).unwrap();
    assert_eq!(limiter.status("ana").remaining(), 0);
}

/// A snapshot of one key that used three of ten, of this version, and its record once more if `twice`.
fn of_version(version: u8, twice: bool, clock: &ManualClock) -> Vec<u8> {
    let store = builder(clock).build().expect("the test's numbers are valid");
    let limiter = store.limiter("limit", Limit::per_hour(10)).expect("they are");
    assert!(limiter.check_n("ana", 3).is_allowed());
    let mut bytes = bytes_of(&store);
    bytes[8] = version;
    // Magic, version, time, seed, shards, how many limits, one of them; and at the end no record, a sum.
    let limits = 2 + "limit".len() + 2 + limiter.limit().to_string().len();
    let start = 8 + 2 + 8 + 16 + 4 + 4 + limits;
    let end = bytes.len() - 8 - 1;
    assert_eq!((bytes[start], bytes[end]), (1, 0), "the kinds of records");
    let again = if twice { bytes[start..end].to_vec() } else { Vec::new() };
    bytes.splice(end..end, again);
    sign(&mut bytes);
    bytes
}

#[test]
fn a_snapshot_of_another_version_or_with_a_key_twice_is_refused() {
    let clock = ManualClock::new();
    let restored = builder(&clock).restore(of_version(5, false, &clock).as_slice()).unwrap();
    let limiter = restored.limiter("limit", Limit::per_hour(10)).unwrap();
    assert_eq!(limiter.status("ana").remaining(), 7);
    assert_eq!(restored.len(), 1);
    for (version, twice, what) in [(5, true, "twice"), (4, false, "reads 5"), (6, false, "reads 5")]
    {
        let bytes = of_version(version, twice, &clock);
        let error = builder(&clock).restore(bytes.as_slice()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn limiters_find_their_keys_again_in_whatever_order_they_are_made() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let make = |store: &MemoryStore, name: &str| store.limiter(name, Limit::per_hour(10)).unwrap();
    // Its number is free from then on.
    drop(store.forget_idle(vec![make(&store, "gone")]));
    let names = ["a", "b", "c", "d", "e", "f"];
    for (name, cost) in names.iter().zip(1..) {
        assert!(make(&store, name).check_n("ana", cost).is_allowed());
    }
    let restored = builder(&clock).restore(bytes_of(&store).as_slice()).unwrap();
    assert!(make(&restored, "new").status("ana").is_new());
    for (name, cost) in names.iter().rev().zip([6, 5, 4, 3, 2, 1]) {
        assert_eq!(make(&restored, name).status("ana").remaining(), 10 - cost, "of {name}");
    }
    // Once more, by which time the others have no state left.
    clock.advance(Duration::from_secs(3600 * 5 / 10));
    let again = builder(&clock).restore(bytes_of(&restored).as_slice()).unwrap();
    assert!(make(&again, "new").status("ana").is_new());
    assert_eq!(make(&again, "f").status("ana").remaining(), 9);
}

/// As if it had changed its limit while the snapshot was written.
#[test]
fn limiter_listed_with_two_limits_keeps_its_keys() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let make = |store: &MemoryStore, name: &str| store.limiter(name, Limit::per_hour(10)).unwrap();
    drop(store.forget_idle(vec![make(&store, "gone")]));
    assert!(make(&store, "limit").check_n("ana", 3).is_allowed());
    let mut bytes = bytes_of(&store);
    let list = 8 + 2 + 8 + 16 + 4;
    assert_eq!(bytes[list..list + 5], [1, 0, 0, 0, 5], "one limit, whose name has five bytes");
    let earlier: Limit = "20/h".parse().unwrap();
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap(), 0], text.as_bytes()].concat();
    let entry = [text("limit"), text(&earlier.to_string())].concat();
    let record = list + 4 + text("limit").len() + text(&Limit::per_hour(10).to_string()).len();
    assert_eq!(bytes[record + 13], 1, "the place of its limit in the list");
    bytes[record + 13] = 2;
    bytes[list] = 2;
    bytes.splice(list + 4..list + 4, entry);
    sign(&mut bytes);
    let restored = builder(&clock).restore(bytes.as_slice()).unwrap();
    assert_eq!(make(&restored, "limit").status("ana").remaining(), 7);
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_forged_snapshot_with_a_right_checksum_breaks_nothing(
        forgeries in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, any::<u8>()), 1..4)
    ) {
        let clock = ManualClock::new();
        let mut bytes = bytes_of(&used_store(&clock, builder(&clock)));
        let end = bytes.len() - 8;
        for (index, kind, byte) in forgeries {
            let at = 10 + index.index(end - 10);
            let until = end.min(at + 8);
            match kind {
                0 => bytes[at] = byte,
                1 => bytes[at] = 0xff,
                _ => bytes[at..until].fill(0xff),
            }
        }
        sign(&mut bytes);
        if let Ok(store) = builder(&clock).restore(bytes.as_slice()) {
            use_every_limiter(&store);
            prop_assert!(!bytes_of(&store).is_empty());
        }
    }
}
