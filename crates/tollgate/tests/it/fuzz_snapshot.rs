//! Any bytes as a snapshot: refused or restored, never a panic, never much memory.

use std::hash::Hasher;
use std::time::Duration;

use siphasher::sip::SipHasher13;
use tollgate::{Limit, Limiter, ManualClock, MemoryStore, MemoryStoreBuilder};
use tollgate_testkit::FuzzInput;

const MAX_KEYS: usize = 64;

/// The version that this build writes.
const VERSION: [u8; 2] = [6, 0];

/// Where the magic and the version of a snapshot end.
const PREAMBLE: usize = 10;

/// Reads bytes, changes to a real snapshot, or the parts of one from the input.
pub(crate) fn snapshot(data: &[u8]) {
    let mut input = FuzzInput::new(data);
    let clock = ManualClock::at(input.moment());
    match input.u8() % 4 {
        0 => restore(&clock, input.rest()),
        1 => restore(&clock, &framed(input.rest())),
        2 => {
            let mut bytes = real(&mut input);
            let whole = bytes.clone();
            change(&mut bytes[PREAMBLE..], &mut input);
            let restored = builder(&clock).restore(&bytes[..]);
            assert_eq!(restored.is_ok(), bytes == whole, "a change that no checksum caught");
        }
        _ => {
            let mut content = content_of(&real(&mut input));
            change(&mut content, &mut input);
            restore(&clock, &framed(&content));
        }
    }
}

fn builder(clock: &ManualClock) -> MemoryStoreBuilder {
    MemoryStore::builder().clock(clock.clone()).max_keys(MAX_KEYS)
}

/// The content in a frame with right checksums.
fn framed(content: &[u8]) -> Vec<u8> {
    let mut hasher = SipHasher13::new();
    let mut bytes = [b"tollgate".as_slice(), &VERSION].concat();
    hasher.write(&bytes);
    for chunk in content.chunks(1000).chain([&[][..]]) {
        let length = u32::try_from(chunk.len()).expect("it is small").to_le_bytes();
        hasher.write(&length);
        hasher.write(chunk);
        bytes.extend([&length, chunk, &hasher.finish().to_le_bytes()].concat());
    }
    bytes
}

/// The content of a snapshot, without its frame.
fn content_of(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut rest = &bytes[PREAMBLE..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).expect("it is small");
        content.extend_from_slice(&after[..length]);
        rest = &after[length + 8..];
    }
    content
}

/// The limiters of a real snapshot: one of each algorithm.
fn limits() -> [(&'static str, Limit); 7] {
    const HOUR: Duration = Duration::from_secs(3600);
    [
        ("bucket", Limit::per_second(5)),
        ("queue", Limit::leaky_queue(5, HOUR)),
        ("wide", Limit::token_bucket(1 << 40, Duration::from_nanos(3_600_000_000_001))),
        ("window", Limit::fixed_window(5, HOUR)),
        ("first", Limit::fixed_window(5, HOUR).starting_at_first_request()),
        ("log", Limit::sliding_log(5, HOUR)),
        ("counter", Limit::sliding_counter(5, HOUR)),
    ]
}

/// A snapshot of a store with a seed of zeros, so that one input always means the same bytes.
fn real(input: &mut FuzzInput<'_>) -> Vec<u8> {
    let mut empty = Vec::new();
    // No time, no seed, no bound, one shard, no limits, no keys.
    empty.extend_from_slice(&[0; 32]);
    empty.extend_from_slice(&1_u32.to_le_bytes());
    empty.extend_from_slice(&[0; 5]);
    let empty = framed(&empty);
    let clock = ManualClock::new();
    let store = builder(&clock).restore(&empty[..]).expect("an empty snapshot is one");
    let limiters = limits().map(|(name, limit)| store.limiter(name, limit).expect("it is valid"));
    for _ in 0..input.u8() % 16 {
        let limiter = &limiters[usize::from(input.u8()) % limiters.len()];
        let _ = limiter.check_up_to(input.u8() % 4, input.number());
        clock.advance(input.duration().min(Duration::from_secs(7200)));
    }
    let mut bytes = Vec::new();
    store.snapshot(&mut bytes).expect("a vector takes all");
    bytes
}

/// Changes some bytes, as the input says.
fn change(bytes: &mut [u8], input: &mut FuzzInput<'_>) {
    let length = bytes.len();
    for _ in 0..input.u8() % 8 {
        let place = usize::from(u16::from_le_bytes(input.array())) % length;
        bytes[place] ^= input.u8();
    }
}

fn restore(clock: &ManualClock, bytes: &[u8]) {
    let Ok(store) = builder(clock).restore(bytes) else {
        return;
    };
    let most = (1 << 20) + 64 * bytes.len();
    assert!(store.memory_usage() < most, "{} bytes for {}", store.memory_usage(), bytes.len());
    assert!(store.len() <= MAX_KEYS);
    let limiters = limits().map(|(name, limit)| store.limiter(name, limit).expect("it is valid"));
    for limiter in &limiters {
        (0..4).for_each(|key| use_key(limiter, key));
        for (name, status) in limiter.keys() {
            let _ = (name.to_string(), status.reset_after(), status.retry_after(), status.used());
        }
    }
    clock.advance(Duration::from_secs(1));
    let mut again = Vec::new();
    store.snapshot(&mut again).expect("a vector takes all");
    builder(clock).restore(&again[..]).expect("what was restored can be saved and restored");
    store.reclaim();
    for limiter in &limiters {
        (0..4).for_each(|key| use_key(limiter, key));
        limiter.reset_all();
        assert!(limiter.is_empty());
    }
}

/// Whatever state a key was left in, every call on it answers.
fn use_key(limiter: &Limiter, key: u8) {
    let decision = limiter.check(key);
    let _ =
        (decision.remaining(), decision.retry_after(), decision.reset_after(), decision.delay());
    assert!(decision.remaining() <= decision.limit());
    let taken = limiter.check_up_to(key, 3);
    assert!(taken.units <= 3);
    limiter.refund(key, 1);
    if let Ok(reservation) = limiter.reserve(key, 1) {
        reservation.settle(2);
    }
    drop(limiter.reserve(key, 1));
    limiter.refund(key, 1);
}

#[test]
fn any_snapshot_is_rejected_or_restored() {
    tollgate_testkit::fuzz("snapshot", 15_000, snapshot);
}
