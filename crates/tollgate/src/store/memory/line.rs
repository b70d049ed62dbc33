//! The shards' locks, and what can be known of a shard without its lock.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::registry::Registry;
use super::shard::{Call, NewKey, Reclaim, Shard};
use super::table::{Slot, home};
use crate::prefetch::prefetch;
use crate::sync::{Mutex, MutexGuard, lock, lock_or_wait};

/// All shards of a store.
#[derive(Debug)]
pub(super) struct Lines {
    lines: Box<[Line]>,
    /// Apart from the locks: everybody reads them, and a line that is only read stays in every
    /// core's cache.
    hints: Box<[Hint]>,
}

/// A shard on a cache line of its own, so that neighbours' locks do not disturb each other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(Mutex<Shard>);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

/// Where a shard's table begins and how many homes it has, as of some moment: only to fetch
/// ahead, for which a stale answer is as harmless as a wrong one.
#[derive(Debug, Default)]
struct Hint {
    table: AtomicUsize,
    homes: AtomicU32,
}

/// Bytes that arrive together.
const CACHE_LINE: usize = 64;

impl Lines {
    pub(super) fn new(shards: usize) -> Lines {
        Lines {
            lines: (0..shards).map(|_| Line::default()).collect(),
            hints: (0..shards).map(|_| Hint::default()).collect(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let tables: usize = self.lock_each().map(|shard| shard.table.heap_bytes()).sum();
        size_of_val(&*self.lines) + size_of_val(&*self.hints) + tables
    }

    #[inline]
    pub(super) fn lock(&self, shard: usize) -> Locked<'_> {
        let (guard, waited) = lock_or_wait(&self.lines[shard].0);
        Locked { hint: &self.hints[shard], shard: guard, waited }
    }

    /// [`lock`](Self::lock), for who changes no more than words.
    #[inline(always)]
    pub(super) fn guard(&self, shard: usize) -> MutexGuard<'_, Shard> {
        lock(&self.lines[shard].0)
    }

    /// Every shard in turn; one is unlocked before the next is locked if the caller drops it.
    pub(super) fn lock_each(&self) -> impl Iterator<Item = Locked<'_>> {
        (0..self.len()).map(|shard| self.lock(shard))
    }

    /// What orders the locks of several stores: where the shard's is.
    #[inline]
    pub(super) fn address(&self, shard: usize) -> usize {
        self.lines.as_ptr().wrapping_add(shard).addr()
    }

    /// Brings the slot of `id` near before the shard is locked: the wait for memory then passes
    /// beside other work.
    #[inline]
    pub(super) fn fetch(&self, shard: usize, id: u64) {
        let hint = &self.hints[shard];
        let slot = home(id, hint.homes.load(Ordering::Relaxed)) * size_of::<Slot>();
        let address = hint.table.load(Ordering::Relaxed).wrapping_add(slot);
        prefetch(address);
        prefetch(address.wrapping_add(CACHE_LINE));
    }
}

/// A locked shard. What lays its table out anew goes through here, so that the hints follow.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    hint: &'a Hint,
    shard: MutexGuard<'a, Shard>,
    /// Whether somebody else had it first.
    pub(super) waited: bool,
}

impl Locked<'_> {
    /// [`Shard::insert`].
    pub(super) fn insert(&mut self, key: NewKey, call: &Call<'_>, reclaim: Reclaim) -> usize {
        let reclaimed = self.shard.insert(key, call, reclaim);
        self.update_hint();
        reclaimed
    }

    /// [`Shard::rebuild`].
    pub(super) fn rebuild(&mut self, registry: &Registry, now: u64) -> usize {
        let reclaimed = self.shard.rebuild(registry, now, Reclaim::Memory);
        self.update_hint();
        reclaimed
    }

    fn update_hint(&self) {
        let (table, homes) = self.shard.table.extent();
        self.hint.table.store(table, Ordering::Relaxed);
        self.hint.homes.store(homes, Ordering::Relaxed);
    }
}

impl Deref for Locked<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}
