//! No check of a known key asks the allocator for anything.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use tollgate::{
    Algorithm, Gate, Limit, Limiter, MemoryStore, Override, Policy, Request, Rule, check_all,
};
use tollgate_testkit::{manual, one_limit_of_each};

thread_local! {
    /// How often this thread has asked.
    static ASKED: Cell<u64> = const { Cell::new(0) };
    /// The bytes that this thread has allocated, less those that it has freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count_bytes(layout: Layout, sign: i64) {
    let bytes = i64::try_from(layout.size()).expect("no allocation is that large");
    BYTES.set(BYTES.get() + sign * bytes);
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        count_bytes(layout, 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_bytes(layout, -1);
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

/// The bytes that the result of `make` keeps allocated.
fn bytes_of<T>(make: impl FnOnce() -> T) -> i64 {
    let before = BYTES.get();
    let made = black_box(make());
    let after = BYTES.get();
    drop(made);
    after - before
}

#[test]
fn new_limiter_takes_less_than_four_kibibytes() {
    assert_eq!(bytes_of(|| Box::new([0_u64; 100])), 800);
    let limiter = || Limiter::new(Limit::per_minute(100)).expect("the limit is possible");
    let with_key = || {
        bytes_of(|| {
            let limiter = limiter();
            assert!(limiter.check("ana").is_allowed());
            limiter
        })
    };
    let unused = bytes_of(limiter);
    assert!(unused < 4096, "{unused} bytes");
    let one = with_key();
    assert!(one < unused + 2048, "{one} bytes with one key");
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
fn a_check_of_a_known_key_allocates_nothing_however_time_passes() {
    // A log keeps what was admitted and when, and grows with it.
    let grows = |limit: &Limit| limit.algorithm() == Algorithm::SlidingLog;
    for limit in one_limit_of_each().into_iter().filter(|limit| !grows(limit)) {
        let (limiter, clock) = manual(limit);
        assert!(limiter.check("ana").is_allowed());
        for step in (0..40).map(|bits| Duration::from_nanos(1 << bits)) {
            clock.advance(step);
            assert_eq!(allocations(|| limiter.check("ana")), 0, "{:?}", limiter.limit());
            assert_eq!(allocations(|| limiter.check_n("ana", 9)), 0, "{:?}", limiter.limit());
        }
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
    assert_eq!(allocations(|| limiter.check_up_to("ana", 3)), 0);
    assert_eq!(allocations(|| limiter.refund("ana", 2)), 0);
}

#[test]
fn three_charges_of_known_keys_at_once_allocate_nothing() {
    let store = MemoryStore::builder().build().unwrap();
    let limiters =
        ["user", "route", "all"].map(|name| store.limiter(name, Limit::per_hour(1000)).unwrap());
    let charge = || {
        let [user, route, all] = &limiters;
        check_all(&[user.charge("ana"), route.charge("/search"), all.charge("")])
    };
    assert!(charge().is_allowed());
    assert_eq!(allocations(charge), 0);
}

/// A hundred rules of which three apply to `request`, one of them with a key of two parts.
fn hundred_rules() -> Policy {
    let limit = || Limit::per_hour(1000);
    let mut policy = Policy::new()
        .rule(Rule::new("per-user").key(["user"]).limit(limit()).matches("route", "/search"))
        .rule(
            Rule::new("both").key(["tenant", "user"]).limit(limit()).block(Duration::from_secs(9)),
        )
        .rule(Rule::new("everybody").limit(limit()).tier("pro", Limit::per_hour(2000)));
    for number in 3..100 {
        let rule = Rule::new(format!("rule-{number}")).key(["user"]).limit(limit());
        policy = policy.rule(rule.matches("route", format!("/other/{number}")));
    }
    policy
}

fn request() -> Request<'static> {
    let request = Request::new().with("user", "ana").with("tenant", "acme");
    request.with("route", "/search").with("method", "GET")
}

#[test]
fn a_check_of_three_rules_out_of_a_hundred_allocates_nothing() {
    let gate = Gate::new(hundred_rules()).unwrap();
    assert!(gate.check(&request()).is_allowed());
    assert_eq!(gate.check(&request()).rules().count(), 3);
    assert_eq!(allocations(|| gate.check(&request())), 0);
    assert_eq!(allocations(|| gate.peek(&request())), 0);
    assert_eq!(allocations(|| gate.status(&request())), 0);
    assert_eq!(allocations(|| gate.check_up_to(&request().cost(3))), 0);
    assert_eq!(allocations(|| gate.refund(&request())), 0);
    assert_eq!(allocations(|| gate.check(&request().cost(9999))), 0, "can never be");
    assert!(!gate.check(&request().cost(999)).is_allowed(), "this one adds the block");
    assert_eq!(allocations(|| gate.check(&request())), 0, "blocked");
}

#[test]
fn a_check_of_a_client_with_an_override_allocates_nothing() {
    let own = Override::new("user", "ana").tier("pro").limits("per-user", Limit::per_hour(500));
    let gate = Gate::new(hundred_rules().override_client(own)).unwrap();
    assert!(gate.check(&request()).is_allowed());
    assert_eq!(gate.peek(&request()).limit(), 500);
    assert_eq!(allocations(|| gate.check(&request())), 0);
    gate.set_override(Override::new("tenant", "other").tier("pro")).unwrap();
    assert_eq!(allocations(|| gate.check(&request())), 0);
    assert_eq!(allocations(|| gate.check(&request().cost(499))), 0, "denied");
}

#[test]
fn what_a_ruling_says_allocates_nothing() {
    let gate = Gate::new(hundred_rules()).unwrap();
    let ruling = gate.check(&request());
    let read = || {
        let shares = ruling.rules().map(|of| (of.limit(), of.remaining(), of.reset_after()));
        (
            ruling.decided_by_name().map(str::len),
            ruling.retry_after(),
            ruling.delay(),
            shares.count(),
        )
    };
    assert_eq!(allocations(read), 0);
}
