//! Pages: memory for the slots of large tables, out of blocks that the system is asked to back with
//! one huge page each. A check of one key among millions then waits for its slot alone, and not for
//! the processor to find out where in memory that is.
//!
//! All pages are of one size, so that whatever one table gives back fits the next, and a block that
//! nobody uses any more goes back to the allocator. This file needs `unsafe`: a page owns its part of
//! a block as a `Box` owns its allocation. What it relies on is small: the pool hands out no place
//! twice, and keeps a block as long as one of its places is out.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use parking_lot::Mutex;

use super::table::Slot;

/// How many slots a page has: a table of four thousand keys grows by a tenth at a time.
pub(super) const PAGE_SLOTS: usize = 512;

type Slots = [Slot; PAGE_SLOTS];

/// A block is as large as a huge page of x86-64 and most of Arm, and as well aligned.
const BLOCK: Layout = match Layout::from_size_align(2 << 20, 2 << 20) {
    Ok(layout) => layout,
    Err(_) => panic!("the alignment is a power of two"),
};

/// How many pages a block has.
const PLACES: usize = BLOCK.size() / size_of::<Slots>();

/// A page of slots.
#[derive(Debug)]
pub(super) struct Page(NonNull<Slots>);

// SAFETY: a page owns its slots, and they are plain numbers: it may go where a `Box` of them may.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

/// Of the whole process: stores that come and go use the same blocks.
static POOL: Mutex<Pool> = Mutex::new(Pool::new());

impl Page {
    /// A page of free slots.
    pub(super) fn new() -> Page {
        let place = POOL.lock().take();
        // With the pool unlocked: the first to write to a block waits for the system to clear it.
        // SAFETY: the pool's places are as large and as aligned as this, and nobody else has this
        // one. A slot of ones is a slot, a free one.
        unsafe { place.write_bytes(u8::MAX, 1) };
        Page(place)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        POOL.lock().give_back(self.0);
    }
}

impl Deref for Page {
    type Target = Slots;

    #[inline]
    fn deref(&self) -> &Slots {
        // SAFETY: the place is ours until we are dropped, `new` has filled it, and whoever changes
        // it borrows us mutably.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Page {
    #[inline]
    fn deref_mut(&mut self) -> &mut Slots {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { self.0.as_mut() }
    }
}

/// Blocks, and which of their places are out.
struct Pool {
    /// By address.
    blocks: BTreeMap<usize, Block>,
    /// Those with a free place. The lowest is used first, so that others may become empty.
    with_room: BTreeSet<usize>,
}

struct Block {
    start: NonNull<u8>,
    /// The numbers of the places that are free; the highest is taken first.
    free: Vec<u8>,
}

// SAFETY: a block is memory and knows no thread.
unsafe impl Send for Block {}

impl Pool {
    const fn new() -> Pool {
        Pool { blocks: BTreeMap::new(), with_room: BTreeSet::new() }
    }

    /// A place for a page, with anything in it.
    fn take(&mut self) -> NonNull<Slots> {
        let at = self.with_room.first().copied().unwrap_or_else(|| self.add_block());
        let block = self.blocks.get_mut(&at).expect("blocks with room are blocks");
        let number = block.free.pop().expect("a block with room has a free place");
        if block.free.is_empty() {
            self.with_room.remove(&at);
        }
        // SAFETY: numbers are below `PLACES`, so that the whole place lies in the block.
        unsafe { block.start.cast::<Slots>().add(usize::from(number)) }
    }

    /// Takes back a place that `take` has handed out.
    fn give_back(&mut self, place: NonNull<Slots>) {
        let at = place.addr().get() & !(BLOCK.size() - 1);
        let block = self.blocks.get_mut(&at).expect("a block is kept while a place is out");
        let number = (place.addr().get() - at) / size_of::<Slots>();
        block.free.push(u8::try_from(number).expect("a block has fewer places than that"));
        self.with_room.insert(at);
        if block.free.len() == PLACES {
            // SAFETY: it was allocated with this layout, and none of its places is out.
            unsafe { dealloc(block.start.as_ptr(), BLOCK) };
            self.blocks.remove(&at);
            self.with_room.remove(&at);
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "a block has fewer places than a byte counts, as asserted"
    )]
    fn add_block(&mut self) -> usize {
        const { assert!(PLACES <= u8::MAX as usize) };
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc(BLOCK) });
        let start = start.unwrap_or_else(|| handle_alloc_error(BLOCK));
        // SAFETY: the block is ours, and nothing is in it yet.
        unsafe { ask_for_huge_page(start) };
        let at = start.addr().get();
        let free = (0..PLACES as u8).rev().collect();
        self.blocks.insert(at, Block { start, free });
        self.with_room.insert(at);
        at
    }
}

/// Asks the system to back the block with one huge page. If it does not, nothing is lost but time.
///
/// # Safety
/// The block is allocated, and what is in it is of no use: it is lost.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn ask_for_huge_page(block: NonNull<u8>) {
    let start = block.as_ptr().cast();
    // SAFETY: advice of the first kind changes nothing that a program can see. That of the second
    // empties memory that the allocator may have had in use in small pages: it is the caller's,
    // and its content of no use.
    unsafe {
        libc::madvise(start, BLOCK.size(), libc::MADV_HUGEPAGE);
        libc::madvise(start, BLOCK.size(), libc::MADV_DONTNEED);
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe fn ask_for_huge_page(_block: NonNull<u8>) {}

#[cfg(test)]
mod tests;
