//! Reservations that end while they time out.

use tollgate::{Limiter, Reservation};

use super::*;

/// A limiter of 10 units of which 1 is taken and 2 are reserved, for a time that has passed.
fn with_a_reservation_timed_out() -> (Limiter, Reservation) {
    let clock = ManualClock::new();
    let limiter = clocked_store(&clock, ONE_SHARD).limiter("limit", hourly(10)).unwrap();
    assert!(limiter.check("ana").is_allowed());
    let reservation = limiter.reserve_for("ana", 2, SECOND).unwrap();
    clock.advance(SECOND);
    (limiter, reservation)
}

#[test]
fn a_reservation_dropped_while_it_times_out_gives_back_once() {
    explore(|| {
        let (limiter, reservation) = with_a_reservation_timed_out();
        let other = limiter.clone();
        let (ben, ()) = both(move || other.check("ben"), || drop(reservation));
        assert!(ben.is_allowed());
        assert_eq!(limiter.status("ana").used(), 1);
    });
}

#[test]
fn two_calls_give_a_reservation_that_has_timed_out_back_once() {
    explore(|| {
        let (limiter, reservation) = with_a_reservation_timed_out();
        let other = limiter.clone();
        let (a, b) = both(move || other.check("ana"), || limiter.check("ana"));
        assert_eq!(allowed(&[a, b]), 2);
        drop(reservation);
        assert_eq!(limiter.status("ana").used(), 3);
    });
}

fn settling_while_it_times_out_charges(actual: u64) {
    explore(move || {
        let (limiter, reservation) = with_a_reservation_timed_out();
        let other = limiter.clone();
        let (ben, ()) = both(move || other.check("ben"), || reservation.settle(actual));
        assert!(ben.is_allowed());
        assert_eq!(limiter.status("ana").used(), 1 + actual);
    });
}

#[test]
fn a_reservation_settled_for_less_while_it_times_out_charges_that() {
    settling_while_it_times_out_charges(1);
}

#[test]
fn a_reservation_committed_while_it_times_out_charges_itself() {
    settling_while_it_times_out_charges(2);
}

#[test]
fn a_reservation_settled_for_more_while_it_times_out_charges_that() {
    settling_while_it_times_out_charges(5);
}
