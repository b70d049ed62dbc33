//! What other limiters get wrong, each as a test of ours. Names say whose mistake it was.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{
    CostError, Limit, Limiter, ManualClock, MemoryStore, Outcome, Timestamp, check_all,
};
use tollgate_testkit::{admitted, manual, one_limit_of_each};

const SECOND: Duration = Duration::from_secs(1);

fn store() -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    (MemoryStore::builder().clock(clock.clone()).build().expect("the bound is possible"), clock)
}

#[test]
fn throttlecrab_a_burst_of_ten_is_never_more_than_ten_after_any_idle_time() {
    for idle in 0..40 {
        let (limiter, clock) = manual(Limit::per_second(1).burst(10));
        assert!(limiter.check("ana").is_allowed());
        clock.advance(SECOND * idle);
        assert_eq!(admitted(&limiter, "ana", 100), 10.min(9 + idle), "after {idle} s");
    }
}

#[test]
fn governor_a_large_cost_never_wraps_into_a_small_one() {
    let (limiter, _) = manual(Limit::per_hour(1).burst(2));
    for cost in [3, 5_124_097, 18_446_744_074, u64::MAX / 3600 + 1, u64::MAX] {
        let error = CostError::ExceedsCapacity { cost, limit: 2 };
        assert_eq!(limiter.check_n("ana", cost).outcome(), Outcome::Invalid(error));
    }
    assert!(limiter.status("ana").is_fresh());
}

#[test]
fn governor_a_larger_limit_locks_no_known_key_out() {
    let (store, _) = store();
    let small = store.limiter("api", Limit::per_hour(1)).unwrap();
    assert!(small.check("ana").is_allowed());
    let large = store.limiter("api", Limit::per_hour(1000)).unwrap();
    let wait = large.check("ana").retry_after().unwrap();
    assert_eq!(
        wait,
        Duration::from_millis(3600),
        "an empty bucket has its next token as it should"
    );
}

#[test]
fn governor_after_a_denial_the_new_numbers_set_the_pace() {
    for [old, new] in [
        ["1/h", "1/s"],
        ["1000/month calendar", "10/s"],
        ["10/h fixed_window", "10/s fixed_window"],
        ["10/h sliding_log", "10/s sliding_log"],
        ["10/h sliding_counter", "10/s sliding_counter"],
    ] {
        let (store, clock) = store();
        let limiter = |limit: &str| store.limiter("api", limit.parse().unwrap()).unwrap();
        let (old, new) = (limiter(old), limiter(new));
        // Alone, and as one of several.
        let asks: [&dyn Fn(&str) -> bool; 2] = [&|key| new.check(key).is_allowed(), &|key| {
            check_all(&[new.charge(key), new.charge("somebody else")]).is_allowed()
        }];
        for (ask, key) in asks.into_iter().zip(["ana", "ben"]) {
            let _ = old.check_up_to(key, u64::MAX);
            assert!(!ask(key), "{old:?} to {new:?}");
            clock.advance(new.peek(key).retry_after().unwrap());
            assert!(ask(key), "{old:?} to {new:?}");
        }
    }
}

#[test]
fn governor_smaller_numbers_are_no_new_start() {
    let (store, clock) = store();
    let fast = store.limiter("api", Limit::per_second(10)).unwrap();
    let slow = store.limiter("api", Limit::per_hour(10)).unwrap();
    assert_eq!(fast.check_up_to("ana", 10).units, 10);
    assert!(!slow.check("ana").is_allowed());
    clock.advance(Duration::from_secs(60));
    assert!(!slow.check("ana").is_allowed(), "a unit comes back every six minutes");
}

#[test]
fn governor_other_numbers_keep_what_was_consumed_in_proportion() {
    let (store, _) = store();
    let small = store.limiter("api", Limit::per_hour(10)).unwrap();
    assert!(small.check_n("ana", 7).is_allowed());
    let large = store.limiter("api", Limit::per_hour(1000)).unwrap();
    assert_eq!(large.status("ana").remaining(), 300);
}

#[test]
fn governor_a_share_of_a_unit_is_rounded_in_the_limit_s_favour() {
    let (store, _) = store();
    let small = store.limiter("api", Limit::fixed_window(3, SECOND)).unwrap();
    assert!(small.check("ana").is_allowed());
    let large = store.limiter("api", Limit::fixed_window(10, SECOND)).unwrap();
    assert_eq!(large.status("ana").used(), 4, "a third of ten, rounded up");
}

#[test]
fn governor_a_clock_that_steps_back_neither_mints_nor_takes_units() {
    for limit in one_limit_of_each() {
        let (limiter, clock) = manual(limit);
        assert!(limiter.check_n("ana", 6).is_allowed());
        clock.set(Timestamp::from_nanos(clock.now().as_nanos() - 3_600_000_000_000));
        assert_eq!(admitted(&limiter, "ana", 100), 4, "{:?}", limiter.limit());
    }
}

#[test]
fn limitador_four_threads_on_a_limit_of_fifty_get_fifty() {
    let (limiter, _) = manual(Limit::fixed_window(50, SECOND));
    let taken = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| taken.fetch_add(admitted(&limiter, "ana", 50), Ordering::Relaxed));
        }
    });
    assert_eq!(taken.into_inner(), 50);
}

#[test]
fn limitador_sixteen_threads_on_twenty_limits_of_twenty_get_four_hundred() {
    let (store, _) = store();
    let limiters: Vec<Limiter> = (0..20)
        .map(|number| store.limiter(&format!("limit {number}"), Limit::per_hour(20)).unwrap())
        .collect();
    let taken = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for limiter in &limiters {
                    taken.fetch_add(admitted(limiter, "ana", 4), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), 400);
}

#[test]
fn limitador_a_report_of_twenty_on_a_limit_of_five_leaves_nothing() {
    for limit in [Limit::per_hour(5), Limit::fixed_window(5, SECOND), Limit::sliding_log(5, SECOND)]
    {
        let (limiter, _) = manual(limit);
        limiter.reserve("ana", 1).unwrap().settle(20);
        assert_eq!(limiter.status("ana").remaining(), 0);
        assert_eq!(limiter.check("ana").remaining(), 0);
    }
}

#[test]
fn pingora_the_first_second_of_time_is_like_any_other() {
    for limit in one_limit_of_each() {
        let clock = ManualClock::at(Timestamp::from_nanos(0));
        let limiter = Limiter::builder(limit).clock(clock.clone()).build().unwrap();
        assert_eq!(admitted(&limiter, "ana", 100), 10);
        clock.advance(Duration::from_nanos(1));
        assert!(!limiter.check_n("ana", 10).is_allowed());
    }
}

#[test]
fn ratelimit_the_remainders_of_a_refill_are_kept() {
    let (limiter, clock) = manual(Limit::token_bucket(1000, Duration::from_millis(1)).burst(100));
    assert!(limiter.check_n("ana", 100).is_allowed());
    let mut taken = 0;
    for _ in 0..10 {
        clock.advance(Duration::from_nanos(1999));
        taken += limiter.check_up_to("ana", 100).units;
    }
    assert_eq!(taken, 19, "19.99 microseconds at one a microsecond");
    clock.advance(Duration::from_nanos(10));
    assert_eq!(limiter.check_up_to("ana", 100).units, 1);
}

#[test]
fn redis_cell_a_key_of_any_bytes_is_a_key() {
    let (limiter, _) = manual(Limit::per_hour(1));
    for key in [&b"\xff"[..], b"", b"\0", b"{not a number}", &[0xc3, 0x28]] {
        assert!(limiter.check(key).is_allowed());
        assert!(!limiter.check(key).is_allowed());
    }
}

#[test]
fn tower_governor_sixty_per_second_is_sixty_in_a_second() {
    let (limiter, _) = manual(Limit::per_second(60));
    assert_eq!(admitted(&limiter, "ana", 100), 60);
}

#[test]
fn tower_governor_a_denied_request_is_never_told_to_retry_at_once() {
    let (limiter, clock) = manual(Limit::per_second(60));
    assert!(limiter.check_n("ana", 60).is_allowed());
    let wait = limiter.check("ana").retry_after().unwrap();
    assert_eq!(wait, Duration::from_nanos(16_666_667), "rounded up");
    clock.advance(wait);
    assert!(limiter.check("ana").is_allowed());
}

#[test]
fn gubernator_composite_keys_do_not_collide() {
    let (limiter, _) = manual(Limit::per_hour(1));
    for (first, second) in [("a_b", "c"), ("a", "b_c"), ("a/b", "c"), ("a", "b/c"), ("ab", "c")] {
        assert!(limiter.check((first, second)).is_allowed(), "{first} {second}");
    }
}

#[test]
fn envoy_a_refused_request_is_not_charged() {
    for limit in one_limit_of_each() {
        let (limiter, clock) = manual(limit);
        assert!(limiter.check_n("ana", 9).is_allowed());
        let before = limiter.status("ana").reset_after();
        for _ in 0..100 {
            assert!(!limiter.check_n("ana", 5).is_allowed());
        }
        assert_eq!(limiter.status("ana").reset_after(), before);
        clock.advance(before);
        assert!(limiter.status("ana").is_fresh());
    }
}

#[test]
fn rate_limiter_flexible_a_denied_limit_leaves_the_others_uncharged() {
    let (store, _) = store();
    let per_user = store.limiter("per user", Limit::per_minute(100)).unwrap();
    let per_ip = store.limiter("per ip", Limit::per_minute(50)).unwrap();
    let everybody = store.limiter("everybody", Limit::per_minute(1)).unwrap();
    assert!(everybody.check("").is_allowed());
    let charges = [per_user.charge("ana"), per_ip.charge("::1"), everybody.charge("")];
    assert!(!check_all(&charges).is_allowed());
    assert!(per_user.status("ana").is_fresh());
    assert!(per_ip.status("::1").is_fresh());
}

#[test]
fn rate_limiter_flexible_the_refusal_says_which_limit_refused() {
    let (store, _) = store();
    let minute = store.limiter("minute", Limit::per_minute(1)).unwrap();
    let hour = store.limiter("hour", Limit::per_hour(1)).unwrap();
    let roomy = store.limiter("roomy", Limit::per_hour(9)).unwrap();
    let charges = || [minute.charge("ana"), hour.charge("ana"), roomy.charge("ana")];
    assert!(check_all(&charges()).is_allowed());
    let decisions = check_all(&charges());
    let (name, decision) = decisions.deciding().unwrap();
    assert_eq!((name, decision.retry_after()), ("hour", Some(SECOND * 3600)));
}

#[test]
fn upstash_a_cost_is_checked_before_it_is_taken() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        assert!(limiter.check_n("ana", 7).is_allowed());
        let decision = limiter.check_n("ana", 4);
        assert_eq!((decision.is_allowed(), decision.remaining()), (false, 3));
        assert!(limiter.check_n("ana", 3).is_allowed());
    }
}

#[test]
fn throttled_go_a_cost_above_the_limit_still_reports_what_remains() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        assert!(limiter.check_n("ana", 7).is_allowed());
        let decision = limiter.check_n("ana", 11);
        let error = CostError::ExceedsCapacity { cost: 11, limit: 10 };
        assert_eq!(decision.outcome(), Outcome::Invalid(error));
        assert_eq!(decision.remaining(), 3);
        assert_eq!(decision.retry_after(), None);
        assert_eq!(decision.reset_after(), limiter.status("ana").reset_after());
    }
}
