//! Who is blocked, and until when: keys that were denied under a rule that then keeps them out,
//! and keys that were blocked by hand.

use std::time::Duration;

use indexmap::IndexMap;

use crate::bounds::EVICTION_SAMPLE;
use crate::key::{Fingerprint, KeyName};
use crate::policy::Block;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::time::Timestamp;

const SHARDS: usize = 16;

/// The blocks of a store. At most as many as it may hold keys: of a sample, the one that ends
/// first makes room.
#[derive(Debug)]
pub(crate) struct Blocks {
    shards: [Mutex<IndexMap<Fingerprint, Blocked>>; SHARDS],
    most_per_shard: usize,
    /// How many there are, so that a check need not lock to know that there is none.
    count: AtomicUsize,
    /// How many of them were set by hand, on whatever rule.
    by_hand: AtomicUsize,
}

/// A blocked key, or one whose next block would be a longer one.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    pub(crate) rule: std::sync::Arc<str>,
    pub(crate) key: KeyName,
    pub(crate) until: Timestamp,
    /// How often it was blocked before.
    pub(super) times: u32,
    /// When that is forgotten.
    pub(super) forgotten: Timestamp,
    pub(super) by_hand: bool,
}

/// A key and who it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Culprit<'a> {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) rule: &'a std::sync::Arc<str>,
    pub(crate) key: &'a dyn crate::key::Name,
}

impl Blocks {
    pub(super) fn new(most: usize) -> Blocks {
        Blocks {
            shards: Default::default(),
            most_per_shard: most.div_ceil(SHARDS),
            count: AtomicUsize::new(0),
            by_hand: AtomicUsize::new(0),
        }
    }

    /// Whether any key may be blocked.
    #[inline]
    pub(crate) fn may_hold_any(&self) -> bool {
        // Relaxed: who misses a block by a hair comes before it.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether a key of a rule that blocks, or does not, may be blocked.
    #[inline]
    pub(crate) fn may_hold(&self, rule_blocks: bool) -> bool {
        // Relaxed: who misses a block by a hair comes before it.
        let count = if rule_blocks { &self.count } else { &self.by_hand };
        count.load(Ordering::Relaxed) > 0
    }

    /// For how long a key of a rule that blocks, or does not, is still blocked; zero if it is not.
    pub(crate) fn remaining(
        &self,
        fingerprint: Fingerprint,
        rule_blocks: bool,
        now: Timestamp,
    ) -> Duration {
        let shard = lock(self.shard(fingerprint));
        let blocked = shard.get(&fingerprint).filter(|blocked| blocked.counts(rule_blocks));
        blocked.map_or(Duration::ZERO, |blocked| blocked.until.since(now))
    }

    /// Blocks a key that was denied, and says for how long; one that is blocked stays so.
    pub(crate) fn punish(&self, culprit: &Culprit<'_>, block: &Block, now: Timestamp) -> Duration {
        let mut shard = lock(self.shard(culprit.fingerprint));
        let known = shard.get(&culprit.fingerprint);
        if let Some(blocked) = known.filter(|blocked| now < blocked.until) {
            return blocked.until.since(now);
        }
        let times = known
            .filter(|blocked| now < blocked.forgotten)
            .map_or(0, |of| of.times.saturating_add(1));
        let length = length(block, times);
        let until = now.after(length);
        // Without escalation there is nothing to remember.
        let forgotten = if block.factor > 1 { until.after(block.max) } else { until };
        self.sweep(&mut shard, culprit.fingerprint, now);
        let (rule, key) = (culprit.rule.clone(), culprit.key.name());
        let blocked = Blocked { rule, key, until, times, forgotten, by_hand: false };
        self.put(&mut shard, culprit.fingerprint, blocked);
        length
    }

    /// Blocks a key by hand. How often it was blocked before stays known.
    pub(crate) fn set(&self, culprit: &Culprit<'_>, length: Duration, now: Timestamp) {
        let until = now.after(length);
        let mut shard = lock(self.shard(culprit.fingerprint));
        let known = shard.get(&culprit.fingerprint).filter(|known| now < known.forgotten);
        let (times, forgotten) = known.map_or((0, until), |of| (of.times, of.forgotten.max(until)));
        let (rule, key) = (culprit.rule.clone(), culprit.key.name());
        let blocked = Blocked { rule, key, until, times, forgotten, by_hand: true };
        self.sweep(&mut shard, culprit.fingerprint, now);
        self.put(&mut shard, culprit.fingerprint, blocked);
    }

    /// Lifts a block and forgets earlier ones; whether the key was blocked.
    pub(crate) fn lift(&self, fingerprint: Fingerprint, now: Timestamp) -> bool {
        let mut shard = lock(self.shard(fingerprint));
        let lifted = shard.swap_remove(&fingerprint);
        lifted.is_some_and(|blocked| {
            self.forget(&blocked);
            now < blocked.until
        })
    }

    /// Lifts a block that was earned by being denied, and forgets earlier ones; whether the key was
    /// so blocked. One that was set by hand stays.
    pub(crate) fn lift_earned(&self, fingerprint: Fingerprint, now: Timestamp) -> bool {
        let mut shard = lock(self.shard(fingerprint));
        let stays = |blocked: &Blocked| blocked.by_hand && now < blocked.until;
        if shard.get(&fingerprint).is_some_and(stays) {
            return false;
        }
        let lifted = shard.swap_remove(&fingerprint);
        lifted.is_some_and(|blocked| {
            self.forget(&blocked);
            now < blocked.until
        })
    }

    /// Lifts the blocks of one rule's keys, or of all.
    pub(crate) fn lift_all(&self, rule: Option<&str>) {
        for shard in &self.shards {
            lock(shard).retain(|_, blocked| {
                let keeps = rule.is_some_and(|rule| *blocked.rule != *rule);
                if !keeps {
                    self.forget(blocked);
                }
                keeps
            });
        }
    }

    /// All that are worth anything at `now`: blocked, or to be blocked for longer next time.
    pub(crate) fn list(&self, now: Timestamp) -> Vec<(Fingerprint, Blocked)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let worth = shard.iter().filter(|(_, blocked)| now < blocked.forgotten);
            all.extend(worth.map(|(fingerprint, blocked)| (*fingerprint, blocked.clone())));
        }
        all
    }

    /// Puts back what [`list`](Self::list) gave.
    pub(super) fn restore(&self, fingerprint: Fingerprint, blocked: Blocked) {
        self.put(&mut lock(self.shard(fingerprint)), fingerprint, blocked);
    }

    fn put(
        &self,
        shard: &mut IndexMap<Fingerprint, Blocked>,
        fingerprint: Fingerprint,
        blocked: Blocked,
    ) {
        if shard.len() >= self.most_per_shard && !shard.contains_key(&fingerprint) {
            self.make_room(shard, fingerprint);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.by_hand.fetch_add(usize::from(blocked.by_hand), Ordering::Relaxed);
        if let Some(old) = shard.insert(fingerprint, blocked) {
            self.forget(&old);
        }
    }

    /// Takes out what is worthless of a sample: with every new block, so that they never pile up.
    fn sweep(&self, shard: &mut IndexMap<Fingerprint, Blocked>, at: Fingerprint, now: Timestamp) {
        for place in sample(shard.len(), at) {
            let worthless = shard.get_index(place).is_some_and(|(_, of)| of.forgotten <= now);
            if worthless && let Some((_, old)) = shard.swap_remove_index(place) {
                self.forget(&old);
            }
        }
    }

    /// Takes out, of a sample, the one that is worthless first.
    fn make_room(&self, shard: &mut IndexMap<Fingerprint, Blocked>, at: Fingerprint) {
        let ends = |place: &usize| shard.get_index(*place).map(|(_, blocked)| blocked.forgotten);
        if let Some(place) = sample(shard.len(), at).min_by_key(ends)
            && let Some((_, old)) = shard.swap_remove_index(place)
        {
            self.forget(&old);
        }
    }

    fn forget(&self, blocked: &Blocked) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.by_hand.fetch_sub(usize::from(blocked.by_hand), Ordering::Relaxed);
    }

    fn shard(&self, fingerprint: Fingerprint) -> &Mutex<IndexMap<Fingerprint, Blocked>> {
        &self.shards[usize::from(fingerprint.place.to_le_bytes()[0]) % SHARDS]
    }
}

impl Blocked {
    /// Whether it keeps the key out of a rule that blocks, or no longer does.
    pub(crate) fn counts(&self, rule_blocks: bool) -> bool {
        rule_blocks || self.by_hand
    }
}

/// How long a block is after `times` earlier ones.
fn length(block: &Block, times: u32) -> Duration {
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

/// Some places of a map of `len` entries, others for other keys.
fn sample(len: usize, at: Fingerprint) -> impl Iterator<Item = usize> {
    let start = usize::try_from(at.id >> 8).unwrap_or(0);
    (0..EVICTION_SAMPLE).map(move |step| start.wrapping_add(step) % len.max(1))
}
