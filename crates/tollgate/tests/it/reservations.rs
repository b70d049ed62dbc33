//! Reservations: units taken now and settled when the real cost is known.

use std::time::Duration;

use tollgate::{Limit, Limiter, ManualClock, Outcome, Timestamp};
use tollgate_testkit::{eventually, manual, one_limit_of_each};

const MINUTE: Duration = Duration::from_secs(60);

/// A limiter of each algorithm, of a capacity of ten.
fn each() -> impl Iterator<Item = (Limiter, ManualClock)> {
    one_limit_of_each().into_iter().map(manual)
}

#[test]
fn a_reservation_takes_its_units_at_once() {
    for (limiter, _) in each() {
        let reservation = limiter.reserve("ana", 4).unwrap();
        assert_eq!((limiter.status("ana").used(), reservation.cost()), (4, 4));
        assert_eq!(reservation.decision().remaining(), 6);
    }
}

#[test]
fn what_is_committed_stays_taken() {
    for (limiter, _) in each() {
        limiter.reserve("ana", 4).unwrap().commit();
        assert_eq!(limiter.status("ana").used(), 4, "{:?}", limiter.limit());
    }
}

#[test]
fn what_is_cancelled_comes_back() {
    for (limiter, _) in each() {
        limiter.reserve("ana", 4).unwrap().cancel();
        assert!(limiter.status("ana").is_fresh(), "{:?}", limiter.limit());
    }
}

#[test]
fn what_is_dropped_comes_back() {
    for (limiter, _) in each() {
        drop(limiter.reserve("ana", 4).unwrap());
        assert!(limiter.status("ana").is_fresh(), "{:?}", limiter.limit());
    }
}

#[test]
fn settling_for_less_gives_the_difference_back() {
    for (limiter, _) in each() {
        limiter.reserve("ana", 8).unwrap().settle(3);
        assert_eq!(limiter.status("ana").used(), 3, "{:?}", limiter.limit());
    }
}

#[test]
fn settling_for_nothing_gives_everything_back() {
    for (limiter, _) in each() {
        limiter.reserve("ana", 8).unwrap().settle(0);
        assert!(limiter.status("ana").is_fresh(), "{:?}", limiter.limit());
    }
}

#[test]
fn settling_for_more_takes_the_difference() {
    for (limiter, _) in each() {
        limiter.reserve("ana", 2).unwrap().settle(9);
        assert_eq!(limiter.status("ana").used(), 9, "{:?}", limiter.limit());
    }
}

#[test]
fn settling_for_more_than_there_is_goes_into_debt() {
    let (limiter, clock) = manual(Limit::per_minute(10));
    limiter.reserve("ana", 10).unwrap().settle(15);
    assert_eq!(limiter.check("ana").retry_after(), Some(6 * Duration::from_secs(6)));
    clock.advance(6 * Duration::from_secs(6));
    assert_eq!(limiter.status("ana").remaining(), 1);
}

#[test]
fn no_debt_lets_more_pass() {
    // Powers of two are the debts whose lower bits, were the upper ones lost, are nothing.
    for debt in [u64::MAX, 1 << 63, 1 << 52, 1 << 40, 1 << 32, 1 << 20] {
        for (limiter, _) in each() {
            limiter.reserve("ana", 1).unwrap().settle(debt);
            let decision = limiter.check("ana");
            assert_eq!((decision.outcome(), decision.remaining()), (Outcome::Denied, 0), "{debt}");
        }
    }
}

#[test]
fn a_log_in_the_deepest_debt_tells_when_it_is_over() {
    let (limiter, clock) = manual(Limit::sliding_log(1000, Duration::from_secs(1)));
    for _ in 0..300 {
        assert!(limiter.check("ana").is_allowed());
        clock.advance(Duration::from_nanos(10));
    }
    clock.advance(Duration::from_secs(2));
    limiter.reserve("ana", 1).unwrap().settle(u64::MAX);
    for cost in [1, 2, 500, 1000] {
        assert_eq!(limiter.peek_n("ana", cost).retry_after(), Some(Duration::from_secs(1)));
    }
}

#[test]
fn a_denied_reservation_takes_nothing_and_says_why() {
    for (limiter, _) in each() {
        assert!(limiter.check_n("ana", 8).is_allowed());
        let error = limiter.reserve("ana", 3).unwrap_err();
        let decision = error.decision();
        assert_eq!((decision.outcome(), decision.remaining()), (Outcome::Denied, 2));
        assert_eq!(limiter.status("ana").used(), 8);
    }
}

#[test]
fn a_forgotten_reservation_comes_back_when_it_times_out() {
    let (limiter, clock) = manual(Limit::per_hour(10));
    std::mem::forget(limiter.reserve_for("ana", 10, MINUTE).unwrap());
    clock.advance(MINUTE - Duration::from_nanos(1));
    assert!(!limiter.check_n("ana", 10).is_allowed());
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check_n("ana", 10).is_allowed());
}

#[test]
fn a_reservation_without_a_time_of_its_own_times_out_after_a_minute() {
    let (limiter, clock) = manual(Limit::per_hour(10));
    std::mem::forget(limiter.reserve("ana", 10).unwrap());
    clock.advance(MINUTE);
    assert!(limiter.status("ana").is_fresh());
}

#[test]
fn many_forgotten_reservations_all_come_back() {
    let (limiter, clock) = manual(Limit::per_hour(100));
    (0..100).for_each(|_| std::mem::forget(limiter.reserve("ana", 1).unwrap()));
    clock.advance(MINUTE);
    assert!(limiter.status("ana").is_fresh());
}

#[test]
fn what_is_committed_after_the_time_out_is_charged_anew() {
    for (limiter, clock) in each() {
        let late = limiter.reserve_for("ana", 4, Duration::from_millis(1)).unwrap();
        clock.advance(Duration::from_millis(1));
        assert!(limiter.status("ana").is_fresh(), "{:?}", limiter.limit());
        late.commit();
        assert_eq!(limiter.status("ana").used(), 4, "{:?}", limiter.limit());
    }
}

#[test]
fn what_is_cancelled_after_the_time_out_comes_back_only_once() {
    let (limiter, clock) = manual(Limit::per_hour(10));
    assert!(limiter.check_n("ana", 5).is_allowed());
    let late = limiter.reserve_for("ana", 4, MINUTE).unwrap();
    clock.advance(MINUTE);
    let used = limiter.status("ana").used();
    late.cancel();
    assert_eq!(limiter.status("ana").used(), used);
}

#[test]
fn what_a_window_took_is_not_given_back_to_the_next() {
    for limit in [
        Limit::fixed_window(10, MINUTE),
        Limit::fixed_window(10, MINUTE).starting_at_first_request(),
    ] {
        let (limiter, clock) = manual(limit);
        let reservation = limiter.reserve_for("ana", 4, 10 * MINUTE).unwrap();
        clock.advance(MINUTE);
        assert!(limiter.check_n("ana", 7).is_allowed());
        reservation.cancel();
        assert_eq!(limiter.status("ana").used(), 7);
    }
}

#[test]
fn a_cancelled_reservation_leaves_no_trace_though_the_clock_was_set_back() {
    for (limiter, clock) in each() {
        assert!(limiter.check_n("ana", 2).is_allowed());
        clock.set(Timestamp::from_nanos(clock.now().as_nanos() - 90_000_000_000));
        limiter.reserve("ana", 4).unwrap().cancel();
        assert_eq!(limiter.status("ana").used(), 2, "{:?}", limiter.limit());
    }
}

#[test]
fn a_reset_key_has_nothing_to_give_back() {
    for (limiter, _) in each() {
        let reservation = limiter.reserve("ana", 4).unwrap();
        limiter.reset("ana");
        reservation.cancel();
        assert!(limiter.status("ana").is_fresh());
        assert_eq!(limiter.status("ana").remaining(), 10);
    }
}

#[test]
fn a_cancelled_reservation_wakes_who_waits() {
    let (limiter, clock) = manual(Limit::per_hour(1));
    let reservation = limiter.reserve("ana", 1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.acquire("ana").wait());
        eventually("a thread that sleeps on the clock", || clock.next_timer());
        reservation.cancel();
        assert!(waiter.join().unwrap().is_ok());
    });
}

#[test]
fn what_is_settled_too_late_is_charged_anew_though_nobody_came_by_meanwhile() {
    let (limiter, clock) = manual(Limit::fixed_window(10, MINUTE));
    let late = limiter.reserve_for("ana", 4, Duration::from_secs(1)).unwrap();
    clock.advance(MINUTE);
    late.settle(3);
    assert_eq!(limiter.status("ana").used(), 3, "in the window in which it was settled");
}

#[test]
fn raising_takes_the_difference_at_once() {
    for (limiter, _) in each() {
        let mut reservation = limiter.reserve("ana", 3).unwrap();
        reservation.raise_to(7);
        assert_eq!((limiter.status("ana").used(), reservation.cost()), (7, 7));
        reservation.raise_to(5);
        assert_eq!(limiter.status("ana").used(), 7, "never lowered");
        reservation.settle(6);
        assert_eq!(limiter.status("ana").used(), 6, "{:?}", limiter.limit());
    }
}

#[test]
fn raising_goes_into_debt_and_a_drop_gives_all_of_it_back() {
    for (limiter, _) in each() {
        let mut reservation = limiter.reserve("ana", 3).unwrap();
        reservation.raise_to(40);
        assert!(!limiter.check("ana").is_allowed());
        drop(reservation);
        assert!(limiter.status("ana").is_fresh(), "{:?}", limiter.limit());
    }
}

#[test]
fn raising_what_has_timed_out_charges_all_of_it_anew() {
    for (limiter, clock) in each() {
        let mut reservation = limiter.reserve_for("ana", 3, Duration::from_millis(1)).unwrap();
        clock.advance(Duration::from_millis(1));
        assert!(limiter.check("ben").is_allowed(), "any call sees that it has");
        assert!(limiter.status("ana").is_fresh());
        reservation.raise_to(7);
        assert_eq!(limiter.status("ana").used(), 7, "{:?}", limiter.limit());
        reservation.commit();
        assert_eq!(limiter.status("ana").used(), 7, "{:?}", limiter.limit());
    }
}

#[test]
fn denied_reservation_is_an_error_to_pass_on() {
    fn use_tokens(limiter: &Limiter, cost: u64) -> Result<(), Box<dyn std::error::Error>> {
        limiter.reserve("ana", cost)?.settle(cost);
        Ok(())
    }
    let (limiter, _) = manual(Limit::per_hour(10));
    use_tokens(&limiter, 8).unwrap();
    let denied = use_tokens(&limiter, 3).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "nothing is reserved: denied by a limit of 10; retry after 360s"
    );
    let never = use_tokens(&limiter, 11).unwrap_err();
    assert_eq!(
        never.to_string(),
        "nothing is reserved: cost exceeds capacity: 11 units can never pass a limit of 10"
    );
}

#[test]
fn decision_becomes_a_result_that_carries_it() {
    let (limiter, _) = manual(Limit::per_hour(1));
    assert_eq!(limiter.check("ana").into_result().unwrap().remaining(), 0);
    let denied = limiter.check("ana").into_result().unwrap_err();
    assert_eq!(denied.decision().outcome(), Outcome::Denied);
    assert_eq!(denied.to_string(), "denied by a limit of 1; retry after 3600s");
}

#[test]
fn decision_and_status_show_their_figures() {
    let (limiter, _) = manual(Limit::per_hour(2));
    assert_eq!(
        format!("{:?}", limiter.check("ana")),
        "Decision { outcome: Allowed, limit: 2, remaining: 1, retry_after: Some(0ns), \
         reset_after: 1800s, delay: 0ns }"
    );
    assert_eq!(
        format!("{:?}", limiter.status("ana")),
        "Status { limit: 2, used: 1, remaining: 1, retry_after: 0ns, reset_after: 1800s }"
    );
}
