//! A shard's lock, and what can be known of the shard without it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::registry::Registry;
use super::shard::{Call, NewKey, Reclaim, Shard};
use super::table::{Slot, home};
use crate::prefetch::prefetch;
use crate::sync::{Mutex, MutexGuard, lock};

/// A shard on a cache line of its own, so that neighbours' locks do not disturb each other.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Line {
    /// Where the shard's table begins and how many homes it has, as of some moment: only to fetch
    /// ahead, for which a stale answer is as harmless as a wrong one.
    table: AtomicUsize,
    homes: AtomicU32,
    shard: Mutex<Shard>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

/// Bytes that arrive together.
const CACHE_LINE: usize = 64;

impl Line {
    #[inline]
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked { line: self, shard: lock(&self.shard) }
    }

    /// Brings the slot of `id` near before the shard is locked: the wait for memory then passes
    /// beside other work.
    #[inline]
    pub(super) fn fetch(&self, id: u64) {
        let homes = self.homes.load(Ordering::Relaxed);
        let slot = home(id, homes) * size_of::<Slot>();
        let address = self.table.load(Ordering::Relaxed).wrapping_add(slot);
        prefetch(address);
        prefetch(address.wrapping_add(CACHE_LINE));
    }
}

/// A locked shard. What lays its table out anew goes through here, so that the hints follow.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    line: &'a Line,
    shard: MutexGuard<'a, Shard>,
}

impl Locked<'_> {
    /// [`Shard::insert`].
    pub(super) fn insert(&mut self, key: NewKey, call: &Call<'_>, reclaim: Reclaim) -> usize {
        let reclaimed = self.shard.insert(key, call, reclaim);
        self.update_hints();
        reclaimed
    }

    /// [`Shard::rebuild`].
    pub(super) fn rebuild(&mut self, registry: &Registry, now: u64) -> usize {
        let reclaimed = self.shard.rebuild(registry, now, Reclaim::Memory);
        self.update_hints();
        reclaimed
    }

    fn update_hints(&self) {
        let (table, homes) = self.shard.table.extent();
        self.line.table.store(table, Ordering::Relaxed);
        self.line.homes.store(homes, Ordering::Relaxed);
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
