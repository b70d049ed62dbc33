//! Every maximum in one place, each with its reason.

use std::time::Duration;

/// The shortest period or window: what a clock and a scheduler can honour.
pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);

/// The longest window, and the longest time a bucket may need to refill: a hundred years.
///
/// Twice this still fits beside any [`Timestamp`](crate::Timestamp) in 64 bits of nanoseconds,
/// so no deadline that follows from a limit can wrap.
pub(crate) const MAX_PERIOD: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);

/// The largest count of a sliding log: each unit may need an entry of 16 bytes.
pub(crate) const MAX_LOG: u64 = 10_000_000;

/// The longest limit text that is read: the longest zone name and every option fit several times.
pub(crate) const MAX_LIMIT_TEXT: usize = 256;

/// Bytes of a key's name kept for status and lists: 256 of the key and what frames its parts. The
/// fingerprint covers the whole key.
pub(crate) const MAX_NAME: usize = 264;

/// The most keys a memory store can be built for. On 64-bit targets a 32-bit number of shards can
/// hold as many; on 32-bit targets more would not fit the address space.
pub(crate) const MAX_KEYS: usize = match 1_usize.checked_shl(36) {
    Some(keys) => keys,
    None => 1 << 26,
};

/// How many keys a shard holds when the store is full: what one caller may have to move to grow.
pub(crate) const KEYS_PER_SHARD: usize = 4096;

/// How many keys a snapshot reads under one lock of a shard, and after how many bytes it reads no
/// further key: some microseconds, as long as a check that waits for the lock spins. A state is read
/// in one go: of a sliding log, up to 16 bytes for each unit of its count.
pub(crate) const SNAPSHOT_PIECE_KEYS: usize = 64;
pub(crate) const SNAPSHOT_PIECE_BYTES: usize = 16 << 10;

/// How many blocks a snapshot copies under one lock.
pub(crate) const SNAPSHOT_PIECE_BLOCKS: usize = 64;

/// Manual blocks of a store. They are never evicted, so that they need a bound: about 40 MiB with
/// the longest names.
pub(crate) const MAX_MANUAL_BLOCKS: usize = 100_000;

/// How many states an eviction compares, at least: the contract's sample.
pub(crate) const EVICTION_SAMPLE: usize = 8;

/// Of how many other keys one call gives back what has timed out, so that none pays for all of them.
pub(crate) const EXPIRED_PER_CALL: usize = 8;

/// How many takes of a reservation that is raised again and again are told apart.
pub(crate) const MAX_PARTS: usize = 16;

/// How many spent entries of a sliding log one call drops, so that none pays for all of them.
pub(crate) const LOG_DROPS_PER_CALL: usize = 32;

/// How many waiters a key's queue holds unless the caller says otherwise.
pub(crate) const DEFAULT_QUEUE: usize = 1024;

/// How many keys a store holds unless the caller says otherwise.
pub(crate) const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// How long a reservation holds its units unless the caller says otherwise.
pub(crate) const DEFAULT_RESERVATION: Duration = Duration::from_secs(60);

/// The longest name of a limiter: what a snapshot can write down.
pub(crate) const MAX_LIMITER_NAME: usize = 65_535;

/// The longest name of a rule: it travels in headers and metrics.
pub(crate) const MAX_RULE_NAME: usize = 128;

/// How many rules an answer's headers tell of: more would not fit what proxies let through.
pub(crate) const MAX_TOLD_RULES: usize = 16;

/// How many limits a rule may have: more are a sign of a mistake, and each is a charge.
pub(crate) const MAX_LIMITS_PER_RULE: usize = 8;

/// The longest block: as long as the longest period.
pub(crate) const MAX_BLOCK: Duration = MAX_PERIOD;

/// How many characters of a client's value an error shows.
pub(crate) const SHOWN_VALUE: usize = 64;

/// How often units are counted and asked for again while others take them meanwhile.
pub(crate) const TAKE_TRIES: usize = 64;

/// After how many of those tries fewer units will do.
pub(crate) const FAIR_TRIES: usize = 8;

/// The largest policy file: ten times what 10,000 rules and 100,000 overrides take. What is larger
/// was not written as a policy, and is refused before it fills the memory.
#[cfg(feature = "file")]
pub(crate) const MAX_FILE: u64 = 64 << 20;

/// The most parts of a dotted key in a file: three times what the deepest setting needs. A tree
/// much deeper than this would overflow the stack of whoever drops it.
#[cfg(feature = "file")]
pub(crate) const MAX_KEY_PARTS: usize = 16;

/// For how many mistakes a guess is made that takes a walk over the whole policy: nobody reads
/// more of them than this.
pub(crate) const MAX_GUESSES: usize = 100;

/// The number of pairs of attribute names that are compared in search of misspelled ones: each takes
/// time by its length, and few policies have more names.
#[cfg(feature = "file")]
pub(crate) const MAX_NAME_COMPARISONS: usize = 10_000;

/// The most bytes of a part of an attribute's name that is compared: longer ones are no words.
#[cfg(feature = "file")]
pub(crate) const MAX_NAME_SEGMENT: usize = 32;

/// The largest Envoy file that is read: a hundred thousand descriptors fit.
#[cfg(feature = "envoy")]
pub(crate) const MAX_ENVOY_BYTES: usize = 16 << 20;

/// How many files a folder of Envoy files may have: each is a domain.
#[cfg(feature = "envoy")]
pub(crate) const MAX_ENVOY_FILES: usize = 1_000;

/// How deep YAML may nest: a descriptor takes two levels.
#[cfg(feature = "envoy")]
pub(crate) const MAX_YAML_DEPTH: usize = 64;

/// How many values a YAML file may have: each takes memory.
#[cfg(feature = "envoy")]
pub(crate) const MAX_YAML_NODES: usize = 1_000_000;

/// How many descriptors an Envoy file may have once its aliases are written out.
#[cfg(feature = "envoy")]
pub(crate) const MAX_DESCRIPTORS: usize = 100_000;

/// The longest key or value of an Envoy descriptor, in bytes.
#[cfg(feature = "envoy")]
pub(crate) const MAX_ENTRY_TEXT: usize = 4096;

/// The memory for the conditions of an Envoy file's rules, in bytes. A rule names what the
/// siblings of its descriptors take, so that a file grows by the product of two lists.
#[cfg(feature = "envoy")]
pub(crate) const MAX_CONDITIONS: usize = 128 << 20;

/// How many errors are listed for one file: nobody reads more.
#[cfg(feature = "envoy")]
pub(crate) const MAX_FINDINGS: usize = 1_000;

/// The largest whole number that a script in a store can trust: its numbers are doubles.
pub(crate) const MOST_EXACT: u64 = 1 << 53;

/// How long borrowed units may be spent unless the policy says otherwise.
pub(crate) const DEFAULT_LEASE_TTL: Duration = Duration::from_secs(1);

/// The shortest lease: several round trips, or nothing would be left of it when it arrives.
pub(crate) const MIN_LEASE_TTL: Duration = Duration::from_millis(10);

/// The longest lease: how long a reset may take to reach a node that hears of nothing, and how
/// much more than its limit a bucket may let pass at once.
pub(crate) const MAX_LEASE_TTL: Duration = Duration::from_secs(60);

/// The largest part of a limit that is borrowed at once unless the policy says otherwise, in percent.
pub(crate) const DEFAULT_LEASE_SHARE: u8 = 100;
