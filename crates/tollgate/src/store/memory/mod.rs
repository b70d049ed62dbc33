//! The memory store: shards of flat tables, each behind its own lock.
//!
//! Lock order: shards by rising address, then the reserved units of their keys, then the registry.
//! Nothing else is locked inside.

mod aside;
mod beside;
mod blocks;
mod change;
mod charge;
mod charge_due;
mod evict;
mod fast_path;
mod forget;
mod home;
mod line;
mod names;
mod observed;
mod outlook;
mod overrides;
mod peek;
mod pending_charge;
mod registry;
mod reserved;
mod search;
mod shard;
mod snapshot;
mod store;
mod table;
mod upkeep;

use std::sync::Arc;

use crate::algorithm::State;
use crate::bounds::{KEYS_PER_SHARD, MAX_LIMITER_NAME};
use crate::decision::Decision;
use crate::key::{HashSeed, KeyHasher, KeyId, KeyName, WriteKey};
use crate::limit::{Limit, LimitError};
use crate::reservation::Reservations;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::time::{Clock, Timestamp};
use crate::waiting::WaitQueues;

pub use blocks::TooManyBlocks;
pub(crate) use blocks::{BlockTarget, Blocks};
pub(crate) use charge::{ChargeMode, Transaction, charge_all, charge_few};
pub(crate) use charge_due::{DueCharge, DueOutcome};
pub(crate) use fast_path::{BucketOutcome, KnownKey, charge_one};
pub(crate) use home::{LINES, LINES_IN_BATCH, LINES_IN_FEW};
pub(crate) use line::SlotRef;
use line::{ShardGuard, ShardRef, Shards};
pub(crate) use observed::{ChargeOutcome, ChargeRecord, ObservedState};
pub(crate) use overrides::KeptOverrides;
pub(crate) use pending_charge::{INLINE, PendingCharge};
pub(crate) use registry::RegisteredLimit;
use registry::Registry;
pub(crate) use reserved::ReservedUnits;
use shard::{ChargeContext, NewEntry, ReclaimPolicy};
pub use snapshot::{SnapshotError, SnapshotSummary};
pub use store::{MemoryStore, MemoryStoreBuilder};

/// What happens to a key never seen before when the store is full of live state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// Of a sample of states, the one closest to new makes room; never one that is denied while
    /// the sample holds another.
    #[default]
    Evict,
    /// The new key is denied until there is room, and `retry_after` says when there is at the latest:
    /// when a state of a sample is as good as new. Another may be so earlier.
    DenyNewKeys,
    /// The new key is allowed and not counted.
    AllowUncounted,
}

/// What a store is built with.
#[derive(Clone, Debug)]
pub(crate) struct MemorySettings {
    pub(crate) clock: Clock,
    pub(crate) max_keys: usize,
    pub(crate) when_full: WhenFull,
    pub(crate) names: bool,
    pub(crate) seed: HashSeed,
    pub(crate) shards: usize,
}

#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) settings: MemorySettings,
    pub(crate) hashes: Arc<KeyHasher>,
    shards: Shards,
    registry: Registry,
    /// Keys held, and places claimed for keys about to be: never above `max_keys`.
    held: AtomicUsize,
    evicted: AtomicU64,
    reclaimed: AtomicU64,
    turned_away: AtomicU64,
    /// The next shard to look through for worthless state when the store is full.
    cursor: AtomicUsize,
    pub(crate) reservations: Reservations,
    pub(crate) waiting: WaitQueues,
    pub(crate) blocks: Blocks,
    pub(crate) overrides: KeptOverrides,
    /// The snapshot that the store was restored from.
    restored: Option<SnapshotSummary>,
}

/// How many shards suit a store of `max_keys`: small enough to grow in microseconds, and some
/// even in a small store so that threads seldom meet.
pub(crate) fn shards_for(max_keys: usize) -> usize {
    let few = (max_keys / 64).min(64);
    (max_keys / KEYS_PER_SHARD).max(few).clamp(1, 1 << 26)
}

impl Memory {
    pub(crate) fn new(settings: MemorySettings) -> Memory {
        let blocks = Blocks::new(settings.max_keys);
        Memory {
            hashes: Arc::new(KeyHasher::new(&settings.seed)),
            shards: Shards::new(settings.shards),
            settings,
            registry: Registry::default(),
            held: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            reclaimed: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            cursor: AtomicUsize::new(0),
            reservations: Reservations::default(),
            waiting: WaitQueues::default(),
            blocks,
            overrides: KeptOverrides::default(),
            restored: None,
        }
    }

    /// The limit of a limiter; registers it if it is new.
    pub(crate) fn register(
        &self,
        limiter: &str,
        limit: &Limit,
    ) -> Result<Arc<RegisteredLimit>, LimitError> {
        if limiter.len() > MAX_LIMITER_NAME {
            return Err(LimitError::new(format!(
                "the limiter's name is {} bytes long, must be at most {MAX_LIMITER_NAME}",
                limiter.len()
            )));
        }
        self.registry.register(limiter, limit)
    }

    /// How many states were re-dated.
    pub(crate) fn redated(&self) -> u64 {
        self.registry.redated()
    }

    /// The limit of this number.
    pub(crate) fn limit(&self, number: u32) -> Option<Arc<RegisteredLimit>> {
        self.registry.get(number)
    }

    /// The time, for one call; what has timed out by then is given back first.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.settings.clock.now();
        if self.reservations.any_expired(now) {
            self.give_back_expired(now);
        }
        now
    }

    #[cold]
    fn give_back_expired(&self, now: Timestamp) {
        for fingerprint in self.reservations.expire(now) {
            self.give_back_expired_of(fingerprint, now);
        }
    }

    /// Decides, and takes if allowed.
    pub(crate) fn charge(&self, entry: &KeyEntry<'_>, now: Timestamp, cost: u64) -> Decision {
        if cost == 0 {
            return self.peek(entry, now, 0);
        }
        let call = self.call(entry.named, now);
        let mut shard = self.lock(entry.fingerprint);
        self.tend(&mut shard, entry.fingerprint.id, call.now);
        match shard.table.find(entry.fingerprint.id) {
            Ok(index) => shard.charge(index, &call, cost),
            Err(_) => self.charge_new(shard, entry, &call, cost),
        }
    }

    /// Adds a key that is not in the table, and whose place is claimed.
    fn add(
        &self,
        shard: &mut ShardGuard<'_>,
        key: NewEntry,
        call: &ChargeContext<'_>,
        reclaim: ReclaimPolicy,
    ) {
        let reclaimed = shard.insert(key, call, reclaim);
        self.count_reclaimed(reclaimed);
        self.release(reclaimed);
    }

    /// A key with `cost` taken.
    fn new_key(&self, entry: &KeyEntry<'_>, call: &ChargeContext<'_>, cost: u64) -> NewEntry {
        let mut state = call.named.plan.fresh();
        call.named.plan.take(state.as_mut(), call.now, cost);
        NewEntry { id: entry.fingerprint.id, name: self.name(entry), state }
    }

    /// Takes as many as there are, `most` at most: how many, and how the key then stands.
    pub(crate) fn take_up_to(
        &self,
        entry: &KeyEntry<'_>,
        now: Timestamp,
        most: u64,
    ) -> (u64, Decision) {
        if most == 0 {
            return (0, self.peek(entry, now, 0));
        }
        let call = self.call(entry.named, now);
        let mut shard = self.lock(entry.fingerprint);
        self.tend(&mut shard, entry.fingerprint.id, call.now);
        let (units, decision) = match shard.table.find(entry.fingerprint.id) {
            Ok(index) => {
                shard.store_conversion(index, &call);
                let units = shard.decide(index, &call, 0).remaining().min(most);
                if units == 0 {
                    return (0, Decision::new(shard.decide(index, &call, 1), 1));
                }
                (units, shard.charge(index, &call, units))
            }
            Err(_) => {
                let units = call.named.plan.capacity().min(most);
                (units, self.charge_new(shard, entry, &call, units))
            }
        };
        (if decision.is_allowed() { units } else { 0 }, decision)
    }

    /// A copy of the key's state.
    pub(crate) fn state(&self, entry: &KeyEntry<'_>, now: Timestamp) -> State {
        let call = self.call(entry.named, now);
        let mut shard = self.lock(entry.fingerprint);
        self.tend(&mut shard, entry.fingerprint.id, call.now);
        match shard.table.find(entry.fingerprint.id) {
            Ok(index) => shard.copy(index, &call),
            Err(_) => call.named.plan.fresh(),
        }
    }

    /// Prefetches the key's slot, with `LINES` cache lines of the table, and the lock of its shard.
    #[inline]
    pub(crate) fn prefetch<const LINES: usize>(&self, fingerprint: KeyId) -> SlotRef<'_> {
        self.shard(fingerprint).prefetch::<LINES>(fingerprint.id)
    }

    /// [`prefetch`](Self::prefetch), unless the shard was never used.
    #[inline]
    pub(crate) fn prefetch_used(&self, fingerprint: KeyId) {
        if let Some(shard) = self.shards.used(self.shard_of(fingerprint)) {
            shard.prefetch::<LINES>(fingerprint.id);
        }
    }

    /// Returns the key's shard.
    #[inline]
    fn shard(&self, fingerprint: KeyId) -> ShardRef<'_> {
        self.shards.at(self.shard_of(fingerprint))
    }

    #[inline]
    fn call<'a>(&'a self, named: &'a RegisteredLimit, now: Timestamp) -> ChargeContext<'a> {
        ChargeContext { named, registry: &self.registry, now: now.as_nanos() }
    }

    fn name(&self, entry: &KeyEntry<'_>) -> Option<KeyName> {
        self.settings.names.then(|| entry.key.name())
    }

    #[inline]
    fn lock(&self, fingerprint: KeyId) -> ShardGuard<'_> {
        self.shards.lock(self.shard_of(fingerprint))
    }

    #[inline]
    fn shard_of(&self, fingerprint: KeyId) -> usize {
        self.shard_at(fingerprint.place)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the shifted product is below the length")]
    fn shard_at(&self, place: u64) -> usize {
        ((u128::from(place) * self.shards.len() as u128) >> 64) as usize
    }

    /// Claims a place for a key about to be added, if there is one.
    fn claim(&self) -> bool {
        let max_keys = self.settings.max_keys;
        // Relaxed: the number alone is the bound; the keys it counts are published by their shard's lock.
        let claimed = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            (held < max_keys).then_some(held + 1)
        });
        claimed.is_ok()
    }

    /// Gives back the places of keys that are gone.
    fn release(&self, places: usize) {
        if places > 0 {
            self.held.fetch_sub(places, Ordering::Relaxed);
        }
    }
}

/// A key of a limiter: what finds its state, and its name should it be new.
#[derive(Clone, Copy)]
pub(crate) struct KeyEntry<'a> {
    pub(crate) named: &'a RegisteredLimit,
    pub(crate) fingerprint: KeyId,
    pub(crate) key: &'a dyn WriteKey,
}
