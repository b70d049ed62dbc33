//! The fast path: charges one to three known token buckets (or leaky meters or queues).
//!
//! [`charge_known`] locks all shards, finds all slots, decides every charge, and then takes all or none.
//! Any case that needs more returns `None` with nothing changed, and the caller repeats the request on
//! the general path. Such cases are: a key that is not in the table, a state of another limit or from
//! the future, units held in the shard, a cost of 0 or above the capacity, two charges of one key, and
//! several stores.
//!
//! While the processor waits for a slot it goes on to the slot of the next request, but only so many
//! instructions ahead. So everything that can be computed before a slot is read is computed before,
//! and all shards are locked before the first slot is searched.

use std::cell::Cell;
use std::hint::select_unpredictable;
use std::ptr;

use super::line::{ShardRef, SlotRef};
use super::registry::FastBucket;
use super::shard::Shard;
use super::table::{Slot, TaggedId, find_known};
use super::{Memory, RegisteredLimit};
use crate::algorithm::{Bucket, BucketCost, BucketStep, PackedState};
use crate::decision::{Decision, Figures};
use crate::sync::SpinGuard;
use crate::time::Timestamp;

/// A charge of a bucket that fits a slot. The fast path can take it if its key is in the table.
#[derive(Clone, Copy)]
pub(crate) struct KnownKey<'a> {
    memory: &'a Memory,
    slot: SlotRef<'a>,
    id: TaggedId,
    pub(super) named: &'a RegisteredLimit,
    pub(super) cost: u64,
    bucket: &'a Bucket,
    bucket_cost: BucketCost,
}

impl<'a> KnownKey<'a> {
    /// Returns `None` if only the general path can take the charge.
    #[inline(always)]
    pub(crate) fn new(
        memory: &'a Memory,
        slot: SlotRef<'a>,
        named: &'a RegisteredLimit,
        cost: u64,
    ) -> Option<KnownKey<'a>> {
        let FastBucket { bucket, tag } = named.fast_bucket.as_ref()?;
        let bucket_cost = bucket.cost(cost).filter(|_| cost > 0)?;
        let id = TaggedId::new(slot.id, *tag);
        Some(KnownKey { memory, slot, id, named, cost, bucket, bucket_cost })
    }

    /// Returns the time of the key's store.
    #[inline(always)]
    pub(super) fn now(&self) -> Timestamp {
        self.memory.now()
    }

    #[inline(always)]
    fn address(&self) -> usize {
        self.slot.shard.address()
    }
}

/// The outcome of [`charge_known`].
#[derive(Clone, Copy)]
pub(crate) struct KnownOutcome<const N: usize> {
    /// `true` if all charges were taken, `false` if none was.
    pub(crate) allowed: bool,
    /// The states before the charges.
    pub(crate) observed: [PackedState; N],
    steps: [BucketStep; N],
}

/// The outcome of one charge on the fast path.
pub(crate) struct BucketOutcome<'a> {
    key: KnownKey<'a>,
    outcome: KnownOutcome<1>,
    now: Timestamp,
}

/// Charges one known token bucket, or returns `None` and changes nothing.
#[inline(always)]
pub(crate) fn charge_one(key: KnownKey<'_>, now: Timestamp) -> Option<BucketOutcome<'_>> {
    Some(BucketOutcome { outcome: charge_known(&[key], now)?, key, now })
}

/// Charges `N` known token buckets, all or none, or returns `None` and changes nothing.
#[inline(always)]
pub(crate) fn charge_known<const N: usize>(
    keys: &[KnownKey<'_>; N],
    now: Timestamp,
) -> Option<KnownOutcome<N>> {
    const { assert!(0 < N && N <= 3) };
    let first = &keys[0];
    let mut is_supported = true;
    for (number, key) in keys.iter().enumerate() {
        let is_repeated = keys[..number].iter().any(|other| other.id.is_same_key(key.id));
        is_supported &= !is_repeated && ptr::eq(key.memory, first.memory);
    }
    if !is_supported {
        return None;
    }
    if keys.iter().all(|key| key.address() == first.address()) {
        let mut shard = lock_unreserved(first.slot.shard)?;
        charge_locked(keys, [shard.table.cells(); N], now)
    } else {
        let mut shards = LockedShards::lock(keys)?;
        charge_locked(keys, shards.tables(), now)
    }
}

/// [`charge_known`] with the shards of all keys locked. `tables` has the table of each key.
#[inline(always)]
fn charge_locked<const N: usize>(
    keys: &[KnownKey<'_>; N],
    tables: [&[Cell<Slot>]; N],
    now: Timestamp,
) -> Option<KnownOutcome<N>> {
    let (mut slots, mut observed) = ([None; N], [[0; 2]; N]);
    let (mut steps, mut allowed) = ([BucketStep::default(); N], true);
    for (number, key) in keys.iter().enumerate() {
        let slot = find_known(tables[number], key.id, key.slot.home)?;
        let state = slot.get().words;
        // The clock moved back, maybe by so much that the state has to be re-dated.
        if state[0] > now.as_nanos() {
            return None;
        }
        let step = key.bucket.step(state, now.as_nanos(), key.bucket_cost);
        allowed &= step.allowed;
        (slots[number], observed[number], steps[number]) = (Some(slot), state, step);
    }
    if allowed {
        for (slot, step) in slots.into_iter().flatten().zip(&steps) {
            slot.set(Slot { words: step.after, ..slot.get() });
        }
    }
    Some(KnownOutcome { allowed, observed, steps })
}

/// The locked shards of `N` keys.
struct LockedShards<'a, const N: usize> {
    /// In the order of their addresses. A shard of several keys is at the place of the first of them.
    guards: [Option<SpinGuard<'a, Shard>>; N],
    /// The place of each key's shard: the number of keys whose shards have a lower address.
    places: [usize; N],
}

impl<'a, const N: usize> LockedShards<'a, N> {
    /// Locks the shards in the order of their addresses, so that no two requests wait for each other.
    #[inline(always)]
    fn lock(keys: &[KnownKey<'a>; N]) -> Option<LockedShards<'a, N>> {
        let shards = keys.map(|key| key.slot.shard);
        let is_lower = |shard: &ShardRef<'_>, than: &ShardRef<'_>| shard.address() < than.address();
        let place = |shard| shards.iter().map(|other| usize::from(is_lower(other, &shard))).sum();
        let order = sort(shards);
        let mut guards = [const { None }; N];
        for at in 0..N {
            if at == 0 || is_lower(&order[at - 1], &order[at]) {
                guards[at] = Some(lock_unreserved(order[at])?);
            }
        }
        Some(LockedShards { guards, places: shards.map(place) })
    }

    /// Returns the slots of each key's table.
    #[inline(always)]
    fn tables(&mut self) -> [&[Cell<Slot>]; N] {
        let mut tables: [&[Cell<Slot>]; N] = [&[]; N];
        for (table, guard) in tables.iter_mut().zip(&mut self.guards) {
            if let Some(guard) = guard {
                *table = guard.table.cells();
            }
        }
        self.places.map(|place| tables[place])
    }
}

/// Locks a shard; `None` if a key of it has an open reservation.
#[inline(always)]
fn lock_unreserved(shard: ShardRef<'_>) -> Option<SpinGuard<'_, Shard>> {
    let guard = shard.guard();
    (!shard.is_reserved()).then_some(guard)
}

/// Sorts shards by address. Without branches: the order of random keys differs each time.
#[inline(always)]
fn sort<const N: usize>(mut shards: [ShardRef<'_>; N]) -> [ShardRef<'_>; N] {
    for end in (1..N).rev() {
        for at in 0..end {
            let (a, b) = (shards[at], shards[at + 1]);
            let is_after = a.address() > b.address();
            shards[at] = select_unpredictable(is_after, b, a);
            shards[at + 1] = select_unpredictable(is_after, a, b);
        }
    }
    shards
}

impl BucketOutcome<'_> {
    /// `true` if the request is allowed and does not have to wait.
    #[inline(always)]
    pub(crate) fn is_immediate(&self) -> bool {
        self.outcome.allowed && !self.key.bucket.is_queue()
    }

    #[inline(always)]
    pub(crate) fn decision(&self) -> Decision {
        let BucketOutcome { key, outcome, now } = self;
        let ([step], [[at, _]]) = (&outcome.steps, outcome.observed);
        let figures = Figures::Bucket(key.bucket.figures(step, at, now.as_nanos(), key.cost));
        // A cost that is allowed is not above the capacity, so it need not be compared with it again.
        if outcome.allowed { Decision::allowed(figures) } else { Decision::new(figures, key.cost) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
