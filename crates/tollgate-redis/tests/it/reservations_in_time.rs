//! Reservations that are open while time passes give back as they do in memory.

use std::time::Duration;

use crate::common::{store, unique, wait};
use tollgate::{KeyStatus, Limit, Limiter, ManualClock};
use tollgate_redis::RedisLimiter;
use tollgate_testkit::one_limit_of_each;

const SECOND: Duration = Duration::from_secs(1);

/// A limiter in memory and one in Redis, on one clock.
fn both(limit: &Limit, clock: &ManualClock) -> (Limiter, RedisLimiter) {
    let memory = Limiter::builder(limit.clone()).clock(clock.clone()).build().unwrap();
    let redis = store().with_test_clock(clock.clone());
    (memory, redis.limiter(&unique("held"), limit.clone()).unwrap())
}

/// A status as plain numbers, in whole microseconds.
fn figures(status: &KeyStatus) -> (u64, u128, u128) {
    let round = |wait: Duration| wait.as_nanos().div_ceil(1000);
    (status.used(), round(status.retry_after()), round(status.reset_after()))
}

#[track_caller]
fn same((memory, redis): &(Limiter, RedisLimiter), step: &str) {
    let told = wait(redis.status("ana")).unwrap();
    assert_eq!(figures(&told), figures(&memory.status("ana")), "{step}: {redis:?}");
}

#[test]
fn reservations_held_while_time_passes_end_as_in_memory() {
    let brisk = [Limit::per_second(2).burst(10), Limit::leaky_bucket(3, SECOND).burst(10)];
    for limit in one_limit_of_each().into_iter().chain(brisk) {
        let clock = ManualClock::new();
        let both = both(&limit, &clock);
        let mut random = 88_172_645_463_325_252_u64;
        let mut below = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let mut open = Vec::new();
        for step in 0..400 {
            match below(8) {
                0..3 => clock.advance(Duration::from_micros(below(3_000_000))),
                3 => {
                    let cost = 1 + below(3);
                    let decision = both.0.check_n("ana", cost);
                    let redis = wait(both.1.check_n("ana", cost)).unwrap();
                    assert_eq!(decision.is_allowed(), redis.is_allowed(), "{limit}, step {step}");
                }
                4 | 5 => {
                    let (cost, timeout) = (1 + below(4), SECOND * 4);
                    let memory = both.0.reserve_for("ana", cost, timeout);
                    let redis = wait(both.1.reserve_for("ana", cost, timeout)).ok();
                    assert_eq!(memory.is_ok(), redis.is_some(), "{limit}, step {step}");
                    open.extend(memory.ok().zip(redis));
                }
                6 if !open.is_empty() => {
                    let place = usize::try_from(below(open.len() as u64)).unwrap();
                    let ((memory, redis), actual) = (open.remove(place), below(4));
                    memory.settle(actual);
                    wait(redis.settle(actual)).unwrap();
                }
                7 if below(10) == 0 => {
                    both.0.reset("ana");
                    wait(both.1.reset("ana")).unwrap();
                }
                _ => {}
            }
            same(&both, &format!("step {step}"));
        }
        open.into_iter().for_each(|(memory, redis)| std::mem::forget((memory, redis)));
    }
}

#[test]
fn turns_time_out_in_order_though_nothing_looks_at_the_key_meanwhile() {
    for peeks in [&[][..], &[15], &[10, 20], &[25]] {
        let clock = ManualClock::new();
        let limit = Limit::leaky_queue(1, SECOND).burst(100);
        let (memory, redis) = both(&limit, &clock);
        for (units, seconds) in [(50, 1000), (1, 10), (1, 20)] {
            let timeout = seconds * SECOND;
            std::mem::forget(wait(redis.reserve_for("ana", units, timeout)).unwrap());
            std::mem::forget(memory.reserve_for("ana", units, timeout).unwrap());
        }
        let start = clock.now();
        for peek in peeks {
            clock.set(start.saturating_add(*peek * SECOND));
            let _ = wait(redis.peek("ana")).unwrap();
        }
        clock.set(start.saturating_add(30 * SECOND));
        let delay = wait(redis.check("ana")).unwrap().delay();
        assert_eq!(delay, 21 * SECOND, "after peeks at {peeks:?} s");
        assert_eq!(memory.check("ana").delay(), delay);
    }
}
