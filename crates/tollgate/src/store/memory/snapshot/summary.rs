//! What a snapshot holds, in numbers.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::time::Timestamp;

/// What a snapshot holds, in numbers.
#[derive(Clone, Debug)]
pub struct SnapshotSummary {
    pub(super) taken_at: Timestamp,
    pub(super) keys: usize,
    pub(super) blocks: usize,
    pub(super) overrides: usize,
    /// The hash of everything but the time.
    pub(super) content: u64,
}

impl SnapshotSummary {
    pub(super) fn new(taken_at: Timestamp) -> SnapshotSummary {
        SnapshotSummary { taken_at, keys: 0, blocks: 0, overrides: 0, content: 0 }
    }

    /// The time at which it was taken.
    pub fn taken_at(&self) -> Timestamp {
        self.taken_at
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// The number of blocked keys, and of keys whose next block is longer. Of a restored store,
    /// without those whose time was over.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The number of overrides that were set at run time. Of a restored store, without those that
    /// had ended.
    pub fn overrides(&self) -> usize {
        self.overrides
    }

    /// `true` if two snapshots of one store differ in nothing but the time: writing the later one
    /// would be of no use.
    pub fn has_same_content(&self, other: &SnapshotSummary) -> bool {
        self.content == other.content
    }
}

/// The bytes of the time that a snapshot was taken at, which come first.
const TIME: usize = 8;

/// Hashes the content of a snapshot without its time. The content begins with the secret seed of
/// the store, so that nobody can choose keys for which two contents have one hash.
pub(super) struct ContentHash {
    hasher: SipHasher13,
    /// The bytes of the time that are still to come.
    time: usize,
}

impl ContentHash {
    pub(super) fn new() -> ContentHash {
        ContentHash { hasher: SipHasher13::new(), time: TIME }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let time = self.time.min(bytes.len());
        self.time -= time;
        self.hasher.write(&bytes[time..]);
    }

    pub(super) fn finish(&self) -> u64 {
        self.hasher.finish()
    }
}
