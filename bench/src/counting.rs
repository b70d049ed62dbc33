//! An allocator that counts: nothing else is in this file, since it must be unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

/// The system's allocator. It counts only when told to, so that peers that allocate in a check
/// do not pay for a counter shared by all threads.
pub(crate) struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// How many bytes more are allocated after `work` than before, with what it returns still there.
pub(crate) fn bytes_of<T>(work: impl FnOnce() -> T) -> (T, isize) {
    COUNTS.store(true, Ordering::Relaxed);
    let before = LIVE.load(Ordering::Relaxed);
    let kept = work();
    let bytes = LIVE.load(Ordering::Relaxed) - before;
    COUNTS.store(false, Ordering::Relaxed);
    (kept, bytes)
}

#[inline]
fn count(bytes: isize) {
    if COUNTS.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps what `GlobalAlloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps what `GlobalAlloc` asks for.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps what `GlobalAlloc` asks for.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller keeps what `GlobalAlloc` asks for.
        unsafe { System.realloc(block, layout, size) }
    }
}
