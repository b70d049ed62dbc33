//! The shards' locks, and what can be known of a shard without its lock.

#[cfg(not(loom))]
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use super::home::home;
use super::page::PAGE_SLOTS;
use super::registry::Registry;
use super::reserved::Reserved;
use super::shard::{Call, NewKey, Reclaim, Shard};
use super::slots::{Form, MOST_PAGES, Slots};
use super::table::{Slot, Table};
use crate::prefetch::{prefetch, prefetch_to_write};
use crate::sync::{BriefGuard, BriefMutex, Ordering, lock_briefly, lock_briefly_longer};

/// All shards of a store.
#[derive(Debug)]
pub(super) struct Lines(Box<[Line]>);

/// A shard, its lock on a cache line of its own, so that neighbours' locks do not disturb each
/// other; and on the next what everybody reads, which stays in every core's cache.
#[derive(Debug)]
#[repr(C, align(64))]
struct Line {
    shard: BriefMutex<Shard>,
    hint: Hint,
}

#[cfg(not(loom))]
const _: () = assert!(offset_of!(Line, hint) == 64 && size_of::<Line>() == 128);

impl Line {
    fn new(large: Form) -> Line {
        let shard = Shard { table: Table::new(large) };
        Line { shard: BriefMutex::new(shard), hint: Hint::default() }
    }
}

/// What can be known of a shard without its lock.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Hint {
    /// Where its table begins, or [`PAGED`], and how many homes it has, as of some moment: to fetch
    /// ahead, and to begin to look from there. Who is misled by a stale answer looks again.
    table: AtomicUsize,
    /// Where the pages of a table in pages are.
    pages: OnceLock<Box<[AtomicUsize; MOST_PAGES]>>,
    homes: AtomicU32,
    /// What open reservations hold of its keys.
    reserved: Reserved,
}

/// What stands for the address of a table in pages.
const PAGED: usize = 1;

/// Bytes that arrive together.
const CACHE_LINE: usize = 64;

impl Lines {
    pub(super) fn new(shards: usize) -> Lines {
        let large = Form::of_large(shards);
        Lines((0..shards).map(|_| Line::new(large)).collect())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let tables: usize = self.lock_each().map(|shard| shard.table.heap_bytes()).sum();
        let pages = self.0.iter().filter_map(|line| line.hint.pages.get());
        let pages: usize = pages.map(|pages| size_of_val(&**pages)).sum();
        size_of_val(&*self.0) + pages + tables
    }

    #[inline]
    pub(super) fn at(&self, shard: usize) -> Place<'_> {
        Place(&self.0[shard])
    }

    #[inline]
    pub(super) fn lock(&self, shard: usize) -> Locked<'_> {
        self.at(shard).lock()
    }

    /// Every shard in turn; one is unlocked before the next is locked if the caller drops it.
    pub(super) fn lock_each(&self) -> impl Iterator<Item = Locked<'_>> {
        (0..self.len()).map(|shard| self.lock(shard))
    }
}

/// A shard, not locked.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a>(&'a Line);

/// A key's shard, and where in its table the key should be.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(super) place: Place<'a>,
    pub(super) home: u32,
}

/// A key that is looked for, and where it should be.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'a> {
    pub(super) spot: Spot<'a>,
    pub(super) id: u64,
}

impl Hint {
    /// Where the slot `index` is.
    #[inline]
    fn address(&self, index: u32) -> usize {
        let (mut start, mut index) = (self.table.load(Ordering::Relaxed), index as usize);
        if start == PAGED {
            let page = self.pages.get().and_then(|pages| pages.get(index / PAGE_SLOTS));
            start = page.map_or(0, |page| page.load(Ordering::Relaxed));
            index %= PAGE_SLOTS;
        }
        start.wrapping_add(index * size_of::<Slot>())
    }

    fn update(&self, slots: &Slots, homes: u32) {
        let table = match slots {
            Slots::Plain(slots) => slots.as_ptr().addr(),
            Slots::Paged(pages) => {
                let known = self.pages.get_or_init(Box::default);
                for (address, page) in known.iter().zip(pages.iter().flatten()) {
                    address.store(page.as_ptr().addr(), Ordering::Relaxed);
                }
                PAGED
            }
        };
        self.table.store(table, Ordering::Relaxed);
        self.homes.store(homes, Ordering::Relaxed);
    }
}

impl<'a> Place<'a> {
    /// Brings the slot of `id` and the shard's lock near before it is locked: the wait for memory,
    /// or for the core that had the lock last, then passes beside other work.
    #[inline(always)]
    pub(crate) fn fetch<const LINES: usize>(self, id: u64) -> Spot<'a> {
        self.fetch_lock();
        self.fetch_slot::<LINES>(id).spot
    }

    /// Brings the shard's lock near.
    #[inline(always)]
    pub(crate) fn fetch_lock(self) {
        prefetch_to_write(self.address());
    }

    /// Brings the slot of `id` near.
    #[inline(always)]
    pub(crate) fn fetch_slot<const LINES: usize>(self, id: u64) -> Sought<'a> {
        let home = home(id, self.0.hint.homes.load(Ordering::Relaxed));
        let address = self.0.hint.address(home);
        (0..LINES).for_each(|line| prefetch(address.wrapping_add(line * CACHE_LINE)));
        Sought { spot: Spot { place: self, home }, id }
    }

    /// What orders the locks of several stores: where the shard's is.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }

    /// Locks the shard for changes to states alone: what lays a table out anew needs [`lock`](Self::lock).
    #[inline(always)]
    pub(super) fn guard(&self) -> BriefGuard<'a, Shard> {
        lock_briefly(&self.0.shard)
    }

    /// [`guard`](Self::guard), for who changes words of several keys.
    #[inline(always)]
    pub(super) fn guard_several(&self) -> BriefGuard<'a, Shard> {
        lock_briefly_longer(&self.0.shard)
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'a> {
        Locked { hint: &self.0.hint, shard: self.guard() }
    }

    /// Whether keys of it have open reservations.
    #[inline(always)]
    pub(super) fn is_reserved(&self) -> bool {
        !self.0.hint.reserved.is_empty()
    }
}

/// A locked shard. What lays its table out anew goes through here, so that the hints follow.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    hint: &'a Hint,
    shard: BriefGuard<'a, Shard>,
}

impl<'a> Locked<'a> {
    /// What open reservations hold of its keys.
    #[inline(always)]
    pub(super) fn reserved(&self) -> &'a Reserved {
        &self.hint.reserved
    }

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
        let (slots, homes) = self.shard.table.extent();
        self.hint.update(slots, homes);
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
