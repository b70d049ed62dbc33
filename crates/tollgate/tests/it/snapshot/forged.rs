//! Snapshots that somebody has written by hand, with a right checksum.

use std::hash::{DefaultHasher, Hasher};

use super::*;

/// The version that this build writes.
const VERSION: u16 = 6;

/// The time, the seed, the bound and the number of shards.
const HEADER: usize = 8 + 16 + 8 + 4;

/// The content of a snapshot, without its frame.
fn content_of(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut rest = &bytes[10..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).expect("it is small");
        content.extend_from_slice(&after[..length]);
        rest = &after[length + 8..];
    }
    content
}

/// The content in a frame with right checksums.
fn framed(version: u16, content: &[u8]) -> Vec<u8> {
    // Both are SipHash-1-3 with a key of zeros.
    let mut hasher = DefaultHasher::new();
    let mut bytes = [b"tollgate".as_slice(), &version.to_le_bytes()].concat();
    hasher.write(&bytes);
    for chunk in content.chunks(60_000).chain([&[][..]]) {
        let length = u32::try_from(chunk.len()).expect("it is small").to_le_bytes();
        hasher.write(&length);
        hasher.write(chunk);
        bytes.extend([&length, chunk, &hasher.finish().to_le_bytes()].concat());
    }
    bytes
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
                let _ =
                    (decision.retry_after(), decision.reset_after(), decision.next_unit_after());
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
        let mut content = content_of(&bytes_of(&store));
        let now = clock.now().as_nanos().to_le_bytes();
        // Behind the time of the snapshot.
        let found: Vec<usize> =
            (8..content.len() - 8).filter(|at| content[*at..*at + 8] == now).collect();
        assert_eq!(found.len(), moments, "{limit}");
        found.into_iter().for_each(|at| content[at..at + 8].fill(0xff));
        let bytes = framed(VERSION, &content);
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
    let mut content = content_of(&bytes_of(&store));
    let is_five = |at: &usize| content[*at..*at + 8] == 5_u64.to_le_bytes();
    let fives: Vec<usize> = (HEADER..content.len() - 8).filter(is_five).collect();
    let [first, second] = fives[..] else { panic!("{fives:?}") };
    content[first..first + 8].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    content[second..second + 8].copy_from_slice(&3_u64.to_le_bytes());
    let bytes = framed(VERSION, &content);
    let restored = builder(&clock).restore(bytes.as_slice()).unwrap();
    let limiter = restored.limiter("log", Limit::sliding_log(10, SECOND)).unwrap();
    assert_eq!(limiter.status("ana").remaining(), 0);
}

/// A snapshot of one key that used three of ten, of this version, and its record once more if `twice`.
fn of_version(version: u16, twice: bool, clock: &ManualClock) -> Vec<u8> {
    let store = builder(clock).build().expect("the test's numbers are valid");
    let limiter = store.limiter("limit", Limit::per_hour(10)).expect("they are");
    assert!(limiter.check_n("ana", 3).is_allowed());
    let mut content = content_of(&bytes_of(&store));
    // How many limits, and one of them.
    let start = HEADER + 4 + 2 + "limit".len() + 2 + limiter.limit().to_string().len();
    let end = content.len() - 1;
    assert_eq!((content[start], content[end]), (1, 0), "the kinds of records");
    let again = if twice { content[start..end].to_vec() } else { Vec::new() };
    content.splice(end..end, again);
    framed(version, &content)
}

#[test]
fn a_snapshot_of_another_version_or_with_a_key_twice_is_refused() {
    let clock = ManualClock::new();
    let restored = builder(&clock).restore(of_version(VERSION, false, &clock).as_slice()).unwrap();
    let limiter = restored.limiter("limit", Limit::per_hour(10)).unwrap();
    assert_eq!(limiter.status("ana").remaining(), 7);
    assert_eq!(restored.len(), 1);
    for (version, twice, what) in [
        (VERSION, true, "a key is there twice"),
        (4, false, "its version is 4, this build reads 6; start without it"),
        (7, false, "its version is 7, this build reads 6; start without it"),
    ] {
        let bytes = of_version(version, twice, &clock);
        let error = builder(&clock).restore(bytes.as_slice()).unwrap_err().to_string();
        assert_eq!(error, format!("the snapshot is not usable: {what}"));
    }
}

#[test]
fn content_after_the_last_record_is_rejected() {
    let clock = ManualClock::new();
    let content = content_of(&bytes_of(&used_store(&clock, builder(&clock))));
    for more in [&[0][..], &[0; 100_000]] {
        let bytes = framed(VERSION, &[&content, more].concat());
        let error = builder(&clock).restore(bytes.as_slice()).unwrap_err().to_string();
        assert_eq!(error, "the snapshot is not usable: it has content after its last record");
    }
}

#[test]
fn overrides_with_impossible_limits_are_rejected() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let policy = Policy::new().rule(Rule::new("api").key(["user"]).limit(Limit::per_hour(5)));
    let gate = Gate::with_store(store.clone(), policy).unwrap();
    let own = Override::new("user", "ana").limits("api", Limit::per_hour(77));
    gate.set_override(own).unwrap();
    let content = content_of(&bytes_of(&store));
    let at = content.windows(4).position(|window| window == b"77/h").expect("it is written so");
    for (text, is_possible) in [(b"78/h", true), (b"00/h", false), (b"xx/h", false)] {
        let mut forged = content.clone();
        forged[at..at + 4].copy_from_slice(text);
        let restored = builder(&clock).restore(framed(VERSION, &forged).as_slice());
        assert_eq!(restored.is_ok(), is_possible, "{text:?}");
    }
}

#[test]
fn limiters_find_their_keys_again_in_whatever_order_they_are_made() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let make = |store: &MemoryStore, name: &str| store.limiter(name, Limit::per_hour(10)).unwrap();
    // Its number is free from then on.
    drop(store.retire_idle(vec![make(&store, "gone")]));
    let names = ["a", "b", "c", "d", "e", "f"];
    for (name, cost) in names.iter().zip(1..) {
        assert!(make(&store, name).check_n("ana", cost).is_allowed());
    }
    let restored = builder(&clock).restore(bytes_of(&store).as_slice()).unwrap();
    assert!(make(&restored, "new").status("ana").is_fresh());
    for (name, cost) in names.iter().rev().zip([6, 5, 4, 3, 2, 1]) {
        assert_eq!(make(&restored, name).status("ana").remaining(), 10 - cost, "of {name}");
    }
    // Once more, by which time the others have no state left.
    clock.advance(Duration::from_secs(3600 * 5 / 10));
    let again = builder(&clock).restore(bytes_of(&restored).as_slice()).unwrap();
    assert!(make(&again, "new").status("ana").is_fresh());
    assert_eq!(make(&again, "f").status("ana").remaining(), 9);
}

/// As if it had changed its limit while the snapshot was written.
#[test]
fn limiter_listed_with_two_limits_keeps_its_keys() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let make = |store: &MemoryStore, name: &str| store.limiter(name, Limit::per_hour(10)).unwrap();
    drop(store.retire_idle(vec![make(&store, "gone")]));
    assert!(make(&store, "limit").check_n("ana", 3).is_allowed());
    let mut content = content_of(&bytes_of(&store));
    let list = HEADER;
    assert_eq!(content[list..list + 5], [1, 0, 0, 0, 5], "one limit, whose name has five bytes");
    let earlier: Limit = "20/h".parse().unwrap();
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap(), 0], text.as_bytes()].concat();
    let entry = [text("limit"), text(&earlier.to_string())].concat();
    let record = list + 4 + text("limit").len() + text(&Limit::per_hour(10).to_string()).len();
    assert_eq!(content[record + 13], 1, "the place of its limit in the list");
    content[record + 13] = 2;
    content[list] = 2;
    content.splice(list + 4..list + 4, entry);
    let bytes = framed(VERSION, &content);
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
        let mut content = content_of(&bytes_of(&used_store(&clock, builder(&clock))));
        let end = content.len();
        for (index, kind, byte) in forgeries {
            let at = index.index(end);
            let until = end.min(at + 8);
            match kind {
                0 => content[at] = byte,
                1 => content[at] = 0xff,
                _ => content[at..until].fill(0xff),
            }
        }
        let bytes = framed(VERSION, &content);
        if let Ok(store) = builder(&clock).restore(bytes.as_slice()) {
            use_every_limiter(&store);
            prop_assert!(!bytes_of(&store).is_empty());
        }
    }
}
