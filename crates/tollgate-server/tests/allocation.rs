//! A connection that has warmed up is answered without asking the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tollgate::{Gate, Limit, Policy, Rule};
use tollgate_server::Resp;

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

#[test]
fn a_pipeline_of_decisions_allocates_nothing() {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(1_000_000));
    let gate = Gate::new(Policy::new().rule(rule)).unwrap();
    let mut session = Resp::new(gate).session();
    let throttle = b"*5\r\n$8\r\nTHROTTLE\r\n$3\r\nana\r\n:90\r\n:100\r\n$2\r\n60\r\n";
    let check = b"*3\r\n$8\r\nTG.CHECK\r\n$4\r\nuser\r\n$3\r\nana\r\n";
    let pipeline = [throttle.repeat(64), check.repeat(16), b"PING\r\n".to_vec()].concat();
    let mut out = Vec::new();
    let mut asked = u64::MAX;
    for _ in 0..3 {
        out.clear();
        let before = ASKED.get();
        assert_eq!(session.answer(&pipeline, &mut out), pipeline.len());
        asked = ASKED.get() - before;
    }
    assert!(out.ends_with(b"+PONG\r\n"));
    assert_eq!(asked, 0);
}
