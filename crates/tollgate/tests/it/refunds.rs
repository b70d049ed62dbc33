//! Giving back: the latest units first, never above full, and a key that gave back all is new.

use std::time::Duration;

use tollgate::Limit;
use tollgate_testkit::{manual, one_limit_of_each};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_is_given_back_can_be_taken_again() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        assert!(limiter.check_n("ana", 10).is_allowed());
        limiter.refund("ana", 3);
        assert_eq!(limiter.status("ana").remaining(), 3, "{:?}", limiter.limit());
        assert!(limiter.check_n("ana", 3).is_allowed());
        assert!(!limiter.check("ana").is_allowed());
    }
}

#[test]
fn a_refund_of_a_key_never_seen_does_nothing() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        limiter.refund("ana", 3);
        assert!(limiter.status("ana").is_fresh());
        assert!(limiter.store().is_empty());
    }
}

#[test]
fn a_log_gives_back_its_latest_units_first() {
    let (limiter, clock) = manual(Limit::sliding_log(2, MINUTE));
    assert!(limiter.check("ana").is_allowed());
    clock.advance(SECOND);
    assert!(limiter.check("ana").is_allowed());
    limiter.refund("ana", 1);
    assert_eq!(limiter.status("ana").reset_after(), MINUTE - SECOND);
}

#[test]
fn a_window_of_the_wall_clock_gives_back_only_what_it_took_itself() {
    let (limiter, clock) = manual(Limit::fixed_window(10, MINUTE));
    assert!(limiter.check_n("ana", 10).is_allowed());
    clock.advance(MINUTE);
    assert!(limiter.check_n("ana", 4).is_allowed());
    limiter.refund("ana", 9);
    assert_eq!(limiter.status("ana").remaining(), 10);
}

#[test]
fn a_counter_gives_back_from_the_current_window_before_the_previous() {
    let (limiter, clock) = manual(Limit::sliding_counter(10, MINUTE));
    assert!(limiter.check_n("ana", 10).is_allowed());
    clock.advance(MINUTE + MINUTE / 2);
    assert!(limiter.check_n("ana", 3).is_allowed());
    limiter.refund("ana", 5);
    assert_eq!(limiter.status("ana").used(), 4, "half of the eight that are left");
}

#[test]
fn a_window_that_gave_back_all_begins_anew_with_the_next_request() {
    let (limiter, clock) = manual(Limit::fixed_window(1, MINUTE).starting_at_first_request());
    assert!(limiter.check("ana").is_allowed());
    limiter.refund("ana", 1);
    assert!(limiter.status("ana").is_fresh());
    clock.advance(SECOND);
    assert_eq!(limiter.check("ana").reset_after(), MINUTE, "the key was as good as new");
}

#[test]
fn whether_a_key_that_gave_back_all_was_reclaimed_makes_no_difference() {
    for limit in one_limit_of_each() {
        let [kept, reclaimed] = [(), ()].map(|()| {
            let (limiter, clock) = manual(limit.clone());
            assert!(limiter.check_n("ana", 4).is_allowed());
            limiter.refund("ana", 4);
            (limiter, clock)
        });
        reclaimed.0.store().reclaim();
        let [kept, reclaimed] = [kept, reclaimed].map(|(limiter, clock)| {
            clock.advance(SECOND);
            limiter.check("ana").reset_after()
        });
        assert_eq!(kept, reclaimed, "{limit}");
    }
}
