//! Reservations that are open while time passes: what is given back leaves the key as if it had
//! never been taken.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Limit, Limiter, ManualClock, MemoryStore, Reservation, Timestamp, WhenFull, check_all,
};
use tollgate_testkit::{cases, manual, one_limit_of_each};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_bucket_does_not_get_back_what_time_has_given_back() {
    let (limiter, clock) = manual(Limit::per_second(10));
    let reserve = |_| {
        let reservation = limiter.reserve("ana", 10).unwrap();
        clock.advance(SECOND);
        reservation
    };
    let held: Vec<Reservation> = (0..50).map(reserve).collect();
    let mut at_once = limiter.check_up_to("ana", 100).units;
    for reservation in held {
        reservation.cancel();
        at_once += limiter.check_up_to("ana", 100).units;
    }
    assert_eq!(at_once, 10, "the burst, and nothing more");
}

#[test]
fn a_busy_bucket_gets_all_of_a_cancelled_reservation_back() {
    let (limiter, clock) = manual(Limit::per_second(10).burst(100));
    assert!(limiter.check_n("ana", 80).is_allowed());
    let reservation = limiter.reserve("ana", 20).unwrap();
    clock.advance(5 * SECOND);
    reservation.cancel();
    assert_eq!(limiter.status("ana").used(), 30, "80, less what 5 s have paid");
}

#[test]
fn numbers_changed_under_open_reservations_give_nothing_back_twice() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let old = store.limiter("calls", Limit::per_second(10)).unwrap();
    let before = old.reserve("ana", 10).unwrap();
    clock.advance(SECOND);
    let new = store.limiter("calls", Limit::per_second(20)).unwrap();
    let after = new.reserve("ana", 20).unwrap();
    before.cancel();
    assert_eq!(new.status("ana").used(), 20, "time had paid for the first");
    after.cancel();
    assert!(new.status("ana").is_fresh());
}

#[test]
fn a_turn_of_a_queue_that_others_stand_behind_does_not_come_back() {
    let limit = Limit::leaky_queue(1, SECOND).burst(5);
    let (limiter, _) = manual(limit.clone());
    let first = limiter.reserve("ana", 1).unwrap();
    assert_eq!(limiter.check("ana").delay(), SECOND);
    drop(first);
    assert_eq!(limiter.check("ana").delay(), 2 * SECOND, "nobody goes with another");

    let (limiter, _) = manual(limit);
    assert_eq!(limiter.check("ana").delay(), Duration::ZERO);
    limiter.reserve("ana", 3).unwrap().settle(1);
    assert_eq!(limiter.check("ana").delay(), 2 * SECOND, "the last turns are free again");
}

#[test]
fn turns_that_come_back_in_order_all_come_back() {
    let (limiter, _) = manual(Limit::leaky_queue(1, SECOND).burst(5));
    let [first, mut second] = [2, 1].map(|units| limiter.reserve("ana", units).unwrap());
    second.raise_to(3);
    second.cancel();
    assert_eq!(limiter.peek("ana").delay(), 2 * SECOND);
    first.cancel();
    assert_eq!(limiter.peek("ana").delay(), Duration::ZERO);
}

#[test]
fn turns_time_out_in_order_though_nothing_looks_at_the_key_meanwhile() {
    for peeks in [&[][..], &[15], &[10, 20], &[25]] {
        let (limiter, clock) = manual(Limit::leaky_queue(1, SECOND).burst(100));
        let reserve = |units, seconds| {
            std::mem::forget(limiter.reserve_for("ana", units, seconds * SECOND).unwrap());
        };
        reserve(50, 1000);
        reserve(1, 10);
        reserve(1, 20);
        let start = clock.now();
        for peek in peeks {
            clock.set(start.saturating_add(*peek * SECOND));
            let _ = limiter.peek("ana");
        }
        clock.set(start.saturating_add(30 * SECOND));
        // The turn behind the first one was given away when that timed out, and came back later.
        assert_eq!(limiter.check("ana").delay(), 21 * SECOND, "after peeks at {peeks:?} s");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn peeks_between_time_outs_change_no_decision(
        limit in prop_oneof![
            4 => (1..4_u64).prop_map(|rate| Limit::leaky_queue(rate, SECOND).burst(20)),
            1 => Just(Limit::per_second(2).burst(20)),
            1 => Just(Limit::leaky_bucket(2, SECOND).burst(20)),
            1 => Just(Limit::fixed_window(20, 8 * SECOND)),
            1 => Just(Limit::sliding_log(20, 8 * SECOND)),
            1 => Just(Limit::sliding_counter(20, 8 * SECOND)),
        ],
        steps in prop::collection::vec((0..3_u8, 1..5_u64, 0..12_000_u64, 0..4000_u64), 1..40),
    ) {
        let clock = ManualClock::new();
        let limiters =
            [(); 2].map(|()| Limiter::builder(limit.clone()).clock(clock.clone()).build().unwrap());
        let [peeked, unpeeked] = &limiters;
        for (kind, units, timeout, pass) in steps {
            let timeout = Duration::from_millis(timeout);
            let decided = limiters.each_ref().map(|limiter| match kind {
                0 => limiter.check_n("ana", units),
                _ => match limiter.reserve_for("ana", units, timeout) {
                    Ok(reservation) => {
                        let decision = *reservation.decision();
                        std::mem::forget(reservation);
                        decision
                    }
                    Err(error) => *error.decision(),
                },
            });
            let [one, other] = decided.map(|of| {
                (of.is_allowed(), of.remaining(), of.delay(), of.retry_after(), of.reset_after())
            });
            prop_assert_eq!(one, other);
            for _ in 0..4 {
                clock.advance(Duration::from_millis(pass) / 4);
                let _ = peeked.peek("ana");
            }
        }
        prop_assert_eq!(peeked.status("ana").used(), unpeeked.status("ana").used());
    }
}

#[test]
fn what_a_reset_has_forgiven_is_not_given_back_too() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        let reservation = limiter.reserve("ana", 10).unwrap();
        limiter.reset("ana");
        assert!(limiter.check_n("ana", 10).is_allowed());
        reservation.cancel();
        assert_eq!(limiter.status("ana").remaining(), 0, "{:?}", limiter.limit());
    }
}

#[test]
fn what_was_never_counted_is_not_given_back() {
    for limit in one_limit_of_each() {
        let builder = Limiter::builder(limit).max_keys(1).when_full(WhenFull::AllowUncounted);
        let limiter = builder.clock(ManualClock::new()).build().unwrap();
        assert!(limiter.check("ana").is_allowed());
        let uncounted = limiter.reserve("ben", 10).unwrap();
        limiter.reset("ana");
        assert!(limiter.check_n("ben", 10).is_allowed());
        uncounted.cancel();
        assert_eq!(limiter.status("ben").remaining(), 0, "{:?}", limiter.limit());
    }
}

#[test]
fn what_was_raised_later_comes_back_too() {
    for limit in one_limit_of_each() {
        let (limiter, clock) = manual(limit);
        let mut cancelled = limiter.reserve("ana", 1).unwrap();
        let mut settled = limiter.reserve("ben", 1).unwrap();
        clock.advance(Duration::from_millis(1));
        cancelled.raise_to(6);
        settled.raise_to(8);
        cancelled.cancel();
        assert!(limiter.status("ana").is_fresh(), "{:?}", limiter.limit());
        settled.settle(3);
        assert_eq!(limiter.status("ben").used(), 3, "{:?}", limiter.limit());
    }
}

#[test]
fn a_reservation_raised_for_ever_stays_small_and_comes_back() {
    let (limiter, clock) = manual(Limit::fixed_window(100_000, Duration::from_secs(86_400)));
    let mut reservation = limiter.reserve_for("ana", 1, 3600 * SECOND).unwrap();
    for units in 2..2_000 {
        clock.advance(Duration::from_millis(1));
        reservation.raise_to(units);
    }
    assert_eq!(limiter.status("ana").used(), 1_999);
    reservation.cancel();
    assert!(limiter.status("ana").is_fresh());
}

#[test]
fn all_of_a_key_that_has_timed_out_is_back_before_the_key_is_decided() {
    for limit in [Limit::fixed_window(1000, 86_400 * SECOND), Limit::per_hour(1000)] {
        let (limiter, clock) = manual(limit.clone());
        for other in 0..100 {
            std::mem::forget(limiter.reserve_for(other, 1, SECOND).unwrap());
        }
        let lose = || std::mem::forget(limiter.reserve_for("ana", 1, SECOND).unwrap());
        (0..1000).for_each(|_| lose());
        assert!(!limiter.check("ana").is_allowed());
        clock.advance(SECOND);
        assert_eq!(limiter.peek("ana").remaining(), 1000, "{limit:?}");
        assert!(limiter.check_n("ana", 1000).is_allowed(), "{limit:?}");
    }
}

/// Whatever is charged meanwhile sees what time has paid back by then, whichever way it is charged.
#[test]
fn several_charges_leave_no_more_to_give_back_than_one() {
    let (ana, copy) = ("ana", "ana");
    for others in [None, Some(&ana), Some(&copy)] {
        let (limiter, clock) = manual(Limit::per_second(1).burst(10));
        let beside = limiter.store().limiter("beside", Limit::per_hour(100)).unwrap();
        assert!(beside.check(ana).is_allowed());
        let reserved = limiter.reserve("ana", 5).unwrap();
        clock.advance(3 * SECOND);
        let charge = limiter.charge(ana).cost(4);
        let allowed = match others {
            Some(key) => check_all(&[charge, beside.charge(key)]).is_allowed(),
            None => limiter.check_n(ana, 4).is_allowed(),
        };
        assert!(allowed);
        reserved.cancel();
        assert_eq!(limiter.status(ana).remaining(), 6, "{others:?}");
    }
}

#[test]
fn several_charges_find_what_has_timed_out_back() {
    let (limiter, clock) = manual(Limit::per_hour(10));
    for _ in 0..10 {
        std::mem::forget(limiter.reserve_for("ana", 1, SECOND).unwrap());
        std::mem::forget(limiter.reserve_for("ben", 1, SECOND).unwrap());
    }
    clock.advance(SECOND);
    let charges = [limiter.charge("ana").cost(10), limiter.charge("ben").cost(10)];
    assert!(check_all(&charges).is_allowed());
}

#[test]
fn a_list_of_keys_shows_none_for_what_has_timed_out() {
    let (limiter, clock) = manual(Limit::per_hour(10));
    for key in 0..100 {
        std::mem::forget(limiter.reserve_for(key, 10, SECOND).unwrap());
    }
    clock.advance(SECOND);
    assert_eq!(limiter.keys().count(), 0);
}

#[test]
fn reservation_of_zero_is_allowed_and_changes_nothing() {
    for limit in one_limit_of_each() {
        let (limiter, clock) = manual(limit);
        assert!(limiter.check("ana").is_allowed());
        clock.advance(Duration::from_millis(1));
        let before = limiter.status("ana").reset_after();
        drop(limiter.reserve("ana", 0).expect("a cost of 0 is allowed"));
        assert_eq!(limiter.status("ana").reset_after(), before, "{:?}", limiter.limit());
    }
}

#[test]
fn where_time_stands_still_no_reservation_times_out() {
    let clock = ManualClock::at(Timestamp::MAX);
    let limiter = Limiter::builder(Limit::per_day(10)).clock(clock).build().unwrap();
    let held = limiter.reserve("ana", 10).unwrap();
    assert!(limiter.reserve("ana", 10).is_err(), "what is held is held");
    held.cancel();
    assert!(limiter.check_n("ana", 10).is_allowed());
}
