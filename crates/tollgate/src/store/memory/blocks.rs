//! Blocks of keys: manual ones, and automatic ones that follow a denial.
//!
//! Manual blocks are never evicted: there are at most [`MAX_MANUAL_BLOCKS`], and one more is an error.
//! Automatic blocks are bounded by the number of keys that the store may hold, together with ended ones
//! that make the next block longer. Beyond that the least valuable record of a sample is dropped and
//! counted.

mod list;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indexmap::IndexMap;

use crate::bounds::{EVICTION_SAMPLE, MAX_MANUAL_BLOCKS};
use crate::key::{KeyId, KeyName, WriteKey};
use crate::policy::BlockPolicy;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::time::Timestamp;

const SHARDS: usize = 16;

/// The blocks of a store.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Allocated for the first block: most stores never have one.
    shards: OnceLock<Box<[Mutex<BlockShard>; SHARDS]>>,
    most_automatic_per_shard: usize,
    /// The number of records, so that a check need not lock to know that there is none.
    count: AtomicUsize,
    /// The number of manual blocks, and of places claimed for them: never above the bound.
    manual: AtomicUsize,
    /// The number of automatic records that were dropped while they still counted.
    dropped: AtomicU64,
}

/// A key is in one of the two at most.
#[derive(Debug, Default)]
struct BlockShard {
    manual: IndexMap<KeyId, BlockRecord>,
    automatic: IndexMap<KeyId, BlockRecord>,
}

/// A blocked key, or one whose next block is a longer one.
#[derive(Clone, Debug)]
pub(crate) struct BlockRecord {
    pub(crate) rule: Arc<str>,
    pub(crate) key: KeyName,
    pub(crate) until: Timestamp,
    /// The number of blocks before this one.
    pub(super) times: u32,
    /// The end of that memory.
    pub(super) forgotten: Timestamp,
    pub(super) by_hand: bool,
}

/// A key of a rule that is to be blocked.
#[derive(Clone, Copy)]
pub(crate) struct BlockTarget<'a> {
    pub(crate) fingerprint: KeyId,
    pub(crate) rule: &'a Arc<str>,
    pub(crate) key: &'a dyn WriteKey,
}

/// The error of a manual block when the store holds as many as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooManyBlocks;

impl fmt::Display for TooManyBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = MAX_MANUAL_BLOCKS;
        write!(f, "there are {most} manual blocks, at most {most} are kept; lift some")
    }
}

impl std::error::Error for TooManyBlocks {}

impl Blocks {
    /// Blocks of a store that may hold `max_keys`.
    pub(super) fn new(max_keys: usize) -> Blocks {
        Blocks {
            shards: OnceLock::new(),
            most_automatic_per_shard: max_keys.div_ceil(SHARDS),
            count: AtomicUsize::new(0),
            manual: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Returns `false` if no key is blocked.
    #[inline]
    pub(crate) fn may_hold_any(&self) -> bool {
        // Relaxed: a check that misses a block by a moment comes before it.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Returns `false` if no key of a rule with `block_for`, or without, is blocked.
    #[inline]
    pub(crate) fn may_hold(&self, rule_blocks: bool) -> bool {
        // Relaxed: a check that misses a block by a moment comes before it.
        let count = if rule_blocks { &self.count } else { &self.manual };
        count.load(Ordering::Relaxed) > 0
    }

    /// The rest of the block of a key, of a rule with `block_for` or without; zero if it is not blocked.
    pub(crate) fn remaining(
        &self,
        fingerprint: KeyId,
        rule_blocks: bool,
        now: Timestamp,
    ) -> Duration {
        let shard = lock(self.shard(fingerprint));
        let blocked = shard.get(&fingerprint).filter(|blocked| blocked.counts(rule_blocks));
        blocked.map_or(Duration::ZERO, |blocked| blocked.until.saturating_since(now))
    }

    /// Blocks a key that was denied, and returns for how long. A block that has not ended stays.
    pub(crate) fn punish(
        &self,
        culprit: &BlockTarget<'_>,
        block: &BlockPolicy,
        now: Timestamp,
    ) -> Duration {
        let mut shard = lock(self.shard(culprit.fingerprint));
        let known = shard.get(&culprit.fingerprint);
        if let Some(blocked) = known.filter(|blocked| now < blocked.until) {
            return blocked.until.saturating_since(now);
        }
        let times = known
            .filter(|blocked| now < blocked.forgotten)
            .map_or(0, |of| of.times.saturating_add(1));
        let length = length(block, times);
        let until = now.saturating_add(length);
        // Without escalation there is nothing to remember.
        let forgotten = if block.factor > 1 { until.saturating_add(block.max) } else { until };
        let (rule, key) = (culprit.rule.clone(), culprit.key.name());
        let blocked = BlockRecord { rule, key, until, times, forgotten, by_hand: false };
        self.remove(&mut shard, &culprit.fingerprint);
        self.sweep(&mut shard, culprit.fingerprint, now);
        self.put_automatic(&mut shard, culprit.fingerprint, blocked, now);
        length
    }

    /// Replaces the automatic block of a key by one of `length`, of which this store knows nothing more;
    /// a length of zero removes it. A manual block stays.
    pub(crate) fn keep_automatic(
        &self,
        culprit: &BlockTarget<'_>,
        length: Duration,
        now: Timestamp,
    ) {
        let mut shard = lock(self.shard(culprit.fingerprint));
        if shard.get(&culprit.fingerprint).is_some_and(|of| of.by_hand && now < of.until) {
            return;
        }
        let known = self.remove(&mut shard, &culprit.fingerprint);
        if length.is_zero() {
            return;
        }
        let until = now.saturating_add(length);
        let times = known.map_or(0, |known| known.times);
        let (rule, key) = (culprit.rule.clone(), culprit.key.name());
        let blocked = BlockRecord { rule, key, until, times, forgotten: until, by_hand: false };
        self.sweep(&mut shard, culprit.fingerprint, now);
        self.put_automatic(&mut shard, culprit.fingerprint, blocked, now);
    }

    /// Blocks keys manually, all or none of them. The number of earlier blocks of each stays known.
    ///
    /// # Errors
    /// If there would be more manual blocks than the bound.
    pub(crate) fn set(
        &self,
        culprits: &[BlockTarget<'_>],
        length: Duration,
        now: Timestamp,
    ) -> Result<(), TooManyBlocks> {
        if !self.claim_manual(culprits.len()) {
            self.remove_ended_manual(now);
            let new = culprits.iter().filter(|culprit| !self.is_manual(culprit)).count();
            // Those that replace a manual block need no place. If another call removes one of them
            // meanwhile, its place is claimed below.
            if !self.claim_manual(new) {
                return Err(TooManyBlocks);
            }
            self.manual.fetch_add(culprits.len() - new, Ordering::Relaxed);
        }
        let until = now.saturating_add(length);
        for culprit in culprits {
            let mut shard = lock(self.shard(culprit.fingerprint));
            let known = self.remove(&mut shard, &culprit.fingerprint);
            let known = known.filter(|known| now < known.forgotten);
            let (times, forgotten) =
                known.map_or((0, until), |of| (of.times, of.forgotten.max(until)));
            let (rule, key) = (culprit.rule.clone(), culprit.key.name());
            let blocked = BlockRecord { rule, key, until, times, forgotten, by_hand: true };
            self.sweep(&mut shard, culprit.fingerprint, now);
            self.put_manual(&mut shard, culprit.fingerprint, blocked);
        }
        Ok(())
    }

    /// Removes the record of a key. Returns whether it was blocked.
    pub(crate) fn lift(&self, fingerprint: KeyId, now: Timestamp) -> bool {
        let mut shard = lock(self.shard(fingerprint));
        self.remove(&mut shard, &fingerprint).is_some_and(|blocked| now < blocked.until)
    }

    /// [`lift`](Self::lift), unless the key has a manual block.
    pub(crate) fn lift_earned(&self, fingerprint: KeyId, now: Timestamp) -> bool {
        let mut shard = lock(self.shard(fingerprint));
        let stays = |blocked: &BlockRecord| blocked.by_hand && now < blocked.until;
        if shard.get(&fingerprint).is_some_and(stays) {
            return false;
        }
        self.remove(&mut shard, &fingerprint).is_some_and(|blocked| now < blocked.until)
    }

    /// Removes the records of one rule's keys, or of all.
    pub(crate) fn lift_all(&self, rule: Option<&str>) {
        for shard in self.used_shards() {
            let shard = &mut *lock(shard);
            for records in [&mut shard.manual, &mut shard.automatic] {
                records.retain(|_, blocked| {
                    let keeps = rule.is_some_and(|rule| *blocked.rule != *rule);
                    if !keeps {
                        self.count_removed(blocked);
                    }
                    keeps
                });
            }
        }
    }

    /// The number of automatic records that were dropped while they still counted.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Puts a record of a list back.
    ///
    /// # Errors
    /// If there would be more manual blocks than the bound.
    pub(super) fn restore(
        &self,
        fingerprint: KeyId,
        blocked: BlockRecord,
        now: Timestamp,
    ) -> Result<(), TooManyBlocks> {
        let is_manual = blocked.by_hand && now < blocked.until;
        if is_manual && !self.claim_manual(1) {
            return Err(TooManyBlocks);
        }
        let mut shard = lock(self.shard(fingerprint));
        self.remove(&mut shard, &fingerprint);
        if is_manual {
            self.put_manual(&mut shard, fingerprint, blocked);
        } else {
            let blocked = BlockRecord { by_hand: false, ..blocked };
            self.put_automatic(&mut shard, fingerprint, blocked, now);
        }
        Ok(())
    }

    /// Inserts a manual block, whose place is claimed, of a key without a record.
    fn put_manual(&self, shard: &mut BlockShard, fingerprint: KeyId, blocked: BlockRecord) {
        self.count.fetch_add(1, Ordering::Relaxed);
        shard.manual.insert(fingerprint, blocked);
    }

    /// Inserts an automatic block of a key without a record; drops another one if there are too many.
    fn put_automatic(
        &self,
        shard: &mut BlockShard,
        fingerprint: KeyId,
        blocked: BlockRecord,
        now: Timestamp,
    ) {
        if shard.automatic.len() >= self.most_automatic_per_shard {
            self.drop_one(&mut shard.automatic, fingerprint, now);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        shard.automatic.insert(fingerprint, blocked);
    }

    /// Drops one of a sample: one that has ended if there is one, and of several the one that is
    /// forgotten first.
    fn drop_one(&self, automatic: &mut IndexMap<KeyId, BlockRecord>, at: KeyId, now: Timestamp) {
        let value = |place: &usize| {
            let record = automatic.get_index(*place);
            record.map(|(_, blocked)| (now < blocked.until, blocked.forgotten))
        };
        if let Some(place) = sample(automatic.len(), at).min_by_key(value)
            && let Some((_, old)) = automatic.swap_remove_index(place)
        {
            self.count_removed(&old);
            if now < old.forgotten {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes records of a sample that no longer count: with every new block, so that they never
    /// pile up.
    fn sweep(&self, shard: &mut BlockShard, at: KeyId, now: Timestamp) {
        for records in [&mut shard.manual, &mut shard.automatic] {
            for place in sample(records.len(), at) {
                let is_over = records.get_index(place).is_some_and(|(_, of)| of.forgotten <= now);
                if is_over && let Some((_, old)) = records.swap_remove_index(place) {
                    self.count_removed(&old);
                }
            }
        }
    }

    /// Removes all manual blocks that have ended; what they remember of automatic ones stays.
    fn remove_ended_manual(&self, now: Timestamp) {
        for shard in self.used_shards() {
            let shard = &mut *lock(shard);
            let ended: Vec<_> =
                shard.manual.extract_if(.., |_, blocked| blocked.until <= now).collect();
            for (fingerprint, blocked) in ended {
                self.count_removed(&blocked);
                if now < blocked.forgotten {
                    let blocked = BlockRecord { by_hand: false, ..blocked };
                    self.put_automatic(shard, fingerprint, blocked, now);
                }
            }
        }
    }

    fn is_manual(&self, culprit: &BlockTarget<'_>) -> bool {
        let shard = lock(self.shard(culprit.fingerprint));
        shard.manual.contains_key(&culprit.fingerprint)
    }

    /// Claims places for manual blocks, if there are as many.
    fn claim_manual(&self, places: usize) -> bool {
        // Relaxed: the number alone is the bound; the blocks it counts are published by their lock.
        let claimed = self.manual.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |manual| {
            manual.checked_add(places).filter(|manual| *manual <= MAX_MANUAL_BLOCKS)
        });
        claimed.is_ok()
    }

    /// Removes the record of a key.
    fn remove(&self, shard: &mut BlockShard, fingerprint: &KeyId) -> Option<BlockRecord> {
        let removed = shard.manual.swap_remove(fingerprint);
        let removed = removed.or_else(|| shard.automatic.swap_remove(fingerprint))?;
        self.count_removed(&removed);
        Some(removed)
    }

    fn count_removed(&self, blocked: &BlockRecord) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.manual.fetch_sub(usize::from(blocked.by_hand), Ordering::Relaxed);
    }

    /// All shards, or none if there never was a block.
    fn used_shards(&self) -> impl Iterator<Item = &Mutex<BlockShard>> {
        self.shards.get().into_iter().flat_map(|shards| &**shards)
    }

    fn shard(&self, fingerprint: KeyId) -> &Mutex<BlockShard> {
        let shards = self.shards.get_or_init(Box::default);
        &shards[usize::from(fingerprint.place.to_le_bytes()[0]) % SHARDS]
    }
}

impl BlockShard {
    fn get(&self, fingerprint: &KeyId) -> Option<&BlockRecord> {
        self.manual.get(fingerprint).or_else(|| self.automatic.get(fingerprint))
    }
}

impl BlockRecord {
    /// Returns whether it applies to a rule with `block_for`, or without.
    pub(crate) fn counts(&self, rule_blocks: bool) -> bool {
        rule_blocks || self.by_hand
    }
}

/// The length of a block after `times` earlier ones.
fn length(block: &BlockPolicy, times: u32) -> Duration {
    let mut length = block.first;
    for _ in 0..times {
        match length.checked_mul(block.factor) {
            // Beyond the longest it no longer grows, which bounds the loop as well.
            Some(longer) if longer < block.max && longer > length => length = longer,
            _ if block.factor > 1 => return block.max,
            _ => return length,
        }
    }
    length.min(block.max)
}

/// Some places of a map of `len` records, other ones for other keys.
fn sample(len: usize, at: KeyId) -> impl Iterator<Item = usize> {
    let start = usize::try_from(at.id >> 8).unwrap_or(0);
    (0..EVICTION_SAMPLE).map(move |step| start.wrapping_add(step) % len.max(1))
}
