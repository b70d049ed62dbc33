//! No check of a known key asks the allocator for anything.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use tollgate::{Limit, MemoryStore, check_all};
use tollgate_testkit::{manual, one_limit_of_each};

thread_local! {
    /// How often this thread has asked.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `act` asks the allocator.
fn allocations<T>(act: impl FnOnce() -> T) -> u64 {
    let before = ASKED.get();
    drop(black_box(act()));
    ASKED.get() - before
}

#[test]
fn the_count_of_allocations_counts() {
    assert_eq!(allocations(|| Box::new(7)), 1);
}

#[test]
fn a_check_of_a_known_key_allocates_nothing() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        assert!(limiter.check("ana").is_allowed());
        assert_eq!(allocations(|| limiter.check("ana")), 0, "{:?}", limiter.limit());
        assert_eq!(allocations(|| limiter.check_n("ana", 100)), 0, "{:?}", limiter.limit());
        assert_eq!(allocations(|| limiter.check_n("ana", 9)), 0, "{:?}", limiter.limit());
    }
}

#[test]
fn a_look_at_a_key_allocates_nothing() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        assert!(limiter.check("ana").is_allowed());
        for key in ["ana", "somebody never seen"] {
            assert_eq!(allocations(|| limiter.peek(key)), 0, "{:?}", limiter.limit());
            assert_eq!(allocations(|| limiter.status(key)), 0, "{:?}", limiter.limit());
        }
    }
}

#[test]
fn a_composite_key_allocates_nothing() {
    let (limiter, _) = manual(Limit::per_hour(10));
    assert!(limiter.check(("acme", 42, [10, 0, 0, 1])).is_allowed());
    assert_eq!(allocations(|| limiter.check(("acme", 42, [10, 0, 0, 1]))), 0);
}

#[test]
fn a_refund_and_a_take_allocate_nothing() {
    let (limiter, _) = manual(Limit::per_hour(10));
    assert!(limiter.check("ana").is_allowed());
    assert_eq!(allocations(|| limiter.take_up_to("ana", 3)), 0);
    assert_eq!(allocations(|| limiter.refund("ana", 2)), 0);
}

#[test]
fn three_charges_of_known_keys_at_once_allocate_nothing() {
    let store = MemoryStore::builder().build().unwrap();
    let limiters =
        ["user", "route", "all"].map(|name| store.limiter(name, Limit::per_hour(1000)).unwrap());
    let charge = || {
        let [user, route, all] = &limiters;
        check_all(&[user.charge(&"ana"), route.charge(&"/search"), all.charge(&"")])
    };
    assert!(charge().is_allowed());
    assert_eq!(allocations(charge), 0);
}
