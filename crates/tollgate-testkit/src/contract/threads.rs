//! Properties of many threads, while the clock stands still.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate::{Limit, ManualClock};

use super::KEY;
use crate::under_test::{LimiterUnderTest, StoreUnderTest};

const THREADS: u64 = 8;
const REQUESTS: u64 = 30;

/// Calls `request` with a number of its own, many times on many threads at once.
fn at_once(request: impl Fn(u64) + Sync) {
    let start = Barrier::new(usize::try_from(THREADS).expect("some threads"));
    thread::scope(|scope| {
        for worker in 0..THREADS {
            let (start, request) = (&start, &request);
            scope.spawn(move || {
                start.wait();
                (0..REQUESTS).for_each(|number| request(worker * REQUESTS + number));
            });
        }
    });
}

/// Threads take exactly what one thread would: all that there is, and what was denied did not fit.
pub fn linearizable<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S, limit: &Limit) {
    let store = make(ManualClock::new());
    for round in 0..4 {
        let limiter = store.limiter(&format!("round {round}"), limit);
        let taken = AtomicU64::new(0);
        let least_denied = AtomicU64::new(u64::MAX);
        at_once(|number| {
            let cost = 1 + number % (round + 1);
            if limiter.check_n(KEY, cost).is_allowed() {
                taken.fetch_add(cost, Ordering::Relaxed);
            } else {
                least_denied.fetch_min(cost, Ordering::Relaxed);
            }
        });
        let left = limiter.peek_n(KEY, 1).remaining;
        assert_eq!(taken.into_inner() + left, limit.capacity(), "{limit}");
        assert!(least_denied.into_inner() > left, "{limit} denied what there was");
    }
}

/// What was taken from each limit equals what was allowed, whichever of them denied.
pub fn all_or_nothing<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S, limit: &Limit) {
    let store = make(ManualClock::new());
    let roomy = Limit::per_hour(1000);
    let per_user = store.limiter("per user", limit);
    let per_route = store.limiter("per route", &roomy);
    let everybody = store.limiter("everybody", &Limit::per_day(25));
    let users = ["ana", "ben", "eve", "kim"];
    let allowed = AtomicU64::new(0);
    at_once(|number| {
        let user = users[usize::try_from(number % 4).expect("below four")];
        let mut charges = [(&per_user, user, 1), (&per_route, "route", 1), (&everybody, "", 1)];
        // Threads that name them in other orders must not wait for each other in a circle.
        charges.rotate_left(usize::try_from(number % 3).expect("below three"));
        if store.check_all(&charges) {
            allowed.fetch_add(1, Ordering::Relaxed);
        }
    });
    let used = |limiter: &S::Limiter, key: &str| {
        let answer = limiter.peek_n(key, 1);
        answer.limit - answer.remaining
    };
    let by_user: u64 = users.iter().map(|user| used(&per_user, user)).sum();
    let allowed = allowed.into_inner();
    assert_eq!(allowed, 25, "{limit}: four users of ten share twenty-five");
    assert_eq!([by_user, used(&per_route, "route"), used(&everybody, "")], [allowed; 3], "{limit}");
}
