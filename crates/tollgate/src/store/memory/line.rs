//! The shards' locks, and what can be known of a shard without its lock.

#[cfg(not(loom))]
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use super::home::home;
use super::registry::Registry;
use super::reserved::HeldUnits;
use super::shard::{ChargeContext, NewEntry, ReclaimPolicy, Shard};
use super::table::Slot;
use crate::prefetch::{prefetch, prefetch_to_write};
use crate::sync::{Ordering, SpinGuard, SpinMutex, lock_briefly};

/// All shards of a store, in groups that are allocated when a shard of them is first used: a store of
/// few keys takes little memory, whatever it may hold.
#[derive(Debug)]
pub(super) struct Shards {
    groups: Box<[OnceLock<Box<ShardGroup>>]>,
    shards: usize,
}

/// The number of shards that are allocated together.
const GROUP: usize = if cfg!(loom) { 1 } else { 8 };

type ShardGroup = [ShardCell; GROUP];

/// A shard, its lock on a cache line of its own, so that neighbours' locks do not disturb each
/// other; and on the next what everybody reads, which stays in every core's cache.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct ShardCell {
    shard: SpinMutex<Shard>,
    hint: ShardHint,
}

#[cfg(not(loom))]
const _: () = assert!(offset_of!(ShardCell, hint) == 64 && size_of::<ShardCell>() == 128);

/// What can be known of a shard without its lock.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ShardHint {
    /// The address of its table and the number of homes, as of some moment: to prefetch a slot and to
    /// start the search there. If they are stale, the fast search fails and the complete one follows.
    table: AtomicUsize,
    homes: AtomicU32,
    /// What open reservations hold of its keys.
    reserved: HeldUnits,
}

/// Bytes that arrive together.
const CACHE_LINE: usize = 64;

impl Shards {
    pub(super) fn new(shards: usize) -> Shards {
        let groups: Box<[_]> = (0..shards.div_ceil(GROUP)).map(|_| OnceLock::new()).collect();
        if cfg!(loom) {
            // Loom needs every lock to be created at the same step of each interleaving.
            groups.iter().for_each(|group| _ = allocate(group));
        }
        Shards { groups, shards }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.shards
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let used = self.groups.iter().filter(|group| group.get().is_some()).count();
        let tables: usize = self.lock_each().map(|shard| shard.table.heap_bytes()).sum();
        size_of_val(&*self.groups) + used * size_of::<ShardGroup>() + tables
    }

    /// A shard; allocates it if it is the first use.
    #[inline]
    pub(super) fn at(&self, shard: usize) -> ShardRef<'_> {
        let group = &self.groups[shard / GROUP];
        let lines = match group.get() {
            Some(lines) => lines,
            None => allocate(group),
        };
        ShardRef(&lines[shard % GROUP])
    }

    #[inline]
    pub(super) fn lock(&self, shard: usize) -> ShardGuard<'_> {
        self.at(shard).lock()
    }

    /// Locks a shard, unless it holds no key because it was never used.
    pub(super) fn lock_used(&self, shard: usize) -> Option<ShardGuard<'_>> {
        self.used(shard).map(|shard| shard.lock())
    }

    /// A shard, unless it holds no key because it was never used.
    #[inline]
    pub(super) fn used(&self, shard: usize) -> Option<ShardRef<'_>> {
        let lines = self.groups[shard / GROUP].get()?;
        Some(ShardRef(&lines[shard % GROUP]))
    }

    /// Every used shard in turn; one is unlocked before the next is locked if the caller drops it.
    pub(super) fn lock_each(&self) -> impl Iterator<Item = ShardGuard<'_>> {
        (0..self.len()).filter_map(|shard| self.lock_used(shard))
    }
}

#[cold]
#[inline(never)]
fn allocate(group: &OnceLock<Box<ShardGroup>>) -> &ShardGroup {
    group.get_or_init(Box::default)
}

/// A shard, not locked.
#[derive(Clone, Copy)]
pub(super) struct ShardRef<'a>(&'a ShardCell);

/// The shard of a key, its home slot there, and its id.
#[derive(Clone, Copy)]
pub(crate) struct SlotRef<'a> {
    pub(super) shard: ShardRef<'a>,
    pub(super) home: u32,
    pub(super) id: u64,
}

impl ShardHint {
    /// The address of the slot `index`.
    #[inline]
    fn address(&self, index: u32) -> usize {
        let table = self.table.load(Ordering::Relaxed);
        table.wrapping_add(index as usize * size_of::<Slot>())
    }

    fn update(&self, slots: &[Slot], homes: u32) {
        self.table.store(slots.as_ptr().addr(), Ordering::Relaxed);
        self.homes.store(homes, Ordering::Relaxed);
    }
}

impl<'a> ShardRef<'a> {
    /// Prefetches the shard's lock and `LINES` cache lines from the home slot of `id`. The wait for
    /// memory, or for the core that had the lock last, then overlaps with other work.
    #[inline(always)]
    pub(super) fn prefetch<const LINES: usize>(self, id: u64) -> SlotRef<'a> {
        prefetch_to_write(self.address());
        let home = home(id, self.0.hint.homes.load(Ordering::Relaxed));
        let address = self.0.hint.address(home);
        (0..LINES).for_each(|line| prefetch(address.wrapping_add(line * CACHE_LINE)));
        SlotRef { shard: self, home, id }
    }

    /// The address of the shard, which orders the locks of several stores.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }

    /// Locks the shard for changes to states alone: what lays a table out anew needs [`lock`](Self::lock).
    #[inline(always)]
    pub(super) fn guard(&self) -> SpinGuard<'a, Shard> {
        lock_briefly(&self.0.shard)
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> ShardGuard<'a> {
        ShardGuard { hint: &self.0.hint, shard: self.guard() }
    }

    /// `true` if keys of the shard have open reservations.
    #[inline(always)]
    pub(super) fn is_reserved(&self) -> bool {
        !self.0.hint.reserved.is_empty()
    }
}

/// A locked shard. What lays its table out anew goes through here, so that the hints follow.
#[derive(Debug)]
pub(super) struct ShardGuard<'a> {
    hint: &'a ShardHint,
    shard: SpinGuard<'a, Shard>,
}

impl<'a> ShardGuard<'a> {
    /// What open reservations hold of its keys.
    #[inline(always)]
    pub(super) fn reserved(&self) -> &'a HeldUnits {
        &self.hint.reserved
    }

    /// [`Shard::insert`].
    pub(super) fn insert(
        &mut self,
        key: NewEntry,
        call: &ChargeContext<'_>,
        reclaim: ReclaimPolicy,
    ) -> usize {
        let reclaimed = self.shard.insert(key, call, reclaim);
        self.update_hint();
        reclaimed
    }

    /// [`Shard::rebuild`].
    pub(super) fn rebuild(&mut self, registry: &Registry, now: u64) -> usize {
        let reclaimed = self.shard.rebuild(registry, now, ReclaimPolicy::DropAndShrink);
        self.update_hint();
        reclaimed
    }

    fn update_hint(&self) {
        let (slots, homes) = self.shard.table.extent();
        self.hint.update(slots, homes);
    }
}

impl Deref for ShardGuard<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for ShardGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}
