//! However long a log is, a replay of it holds no more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::{Limit, Policy, Rule};
use tollgate_lab::replay::{Log, Settings, replay};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CLIENTS: usize = 2000;

/// So many lines, after the first of them.
fn log(first: &str, lines: usize) -> Log {
    use std::fmt::Write;
    let mut text = first.to_owned();
    for at in 0..lines {
        let (client, second) = (at * 7 % CLIENTS, at / 250);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let time = format!("[15/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000]");
        let line = writeln!(
            text,
            "10.0.{}.{} - - {time} \"GET /{at} HTTP/1.1\" 200 512",
            client / 256,
            client % 256
        );
        line.expect("a text can be written to");
    }
    Log::Bytes(text.into_bytes().into())
}

/// The most that a replay of so many lines holds beside the log.
fn held(first: &str, lines: usize) -> usize {
    let log = log(first, lines);
    let per_ip = Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(4).burst(3));
    let policy = Policy::new().rule(per_ip);
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let report = replay(&[log], &policy, None, &Settings::default(), &mut |_| {});
    let report = report.expect("the log is readable");
    assert!(report.refused > 0 && report.requests >= lines as u64);
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn ten_times_the_lines_take_no_more_memory() {
    // One test, since others beside it would be counted too.
    let from_the_future = "::1 - - [15/Nov/2222:00:00:00 +0000] \"GET / HTTP/1.1\" 200 512\n";
    for first in ["", from_the_future] {
        let (short, long) = (held(first, 20_000), held(first, 200_000));
        println!("{short} bytes for 20,000 lines, {long} for 200,000");
        assert!(long < short + short / 10, "{short} bytes, and then {long}, after {first:?}");
    }
}
