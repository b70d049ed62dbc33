//! A cost of 0: allowed in every state of a key, takes nothing and creates nothing.

use std::time::Duration;

use tollgate::{
    AcquireError, CostError, Limit, Limiter, ManualClock, MemoryStore, WhenFull, check_all,
};
use tollgate_testkit::one_limit_of_each;

const SECOND: Duration = Duration::from_secs(1);

fn limiter(limit: Limit) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(limit).clock(clock.clone()).build().expect("the limit is valid"), clock)
}

#[test]
fn cost_zero_is_allowed_and_shows_the_key_as_it_stands() {
    for limit in one_limit_of_each() {
        let (limiter, _) = limiter(limit);
        assert!(limiter.check_n("ana", 0).is_allowed());
        assert!(limiter.is_empty(), "{:?} counts a key for a cost of 0", limiter.limit());
        assert!(limiter.check_n("ana", 4).is_allowed());
        for decision in [limiter.check_n("ana", 0), limiter.peek_n("ana", 0)] {
            assert!(decision.is_allowed(), "{:?}", limiter.limit());
            assert_eq!((decision.limit(), decision.remaining()), (10, 6));
            assert_eq!(decision.retry_after(), Some(Duration::ZERO));
            assert_eq!(decision.reset_after(), limiter.status("ana").reset_after());
        }
        assert_eq!(limiter.status("ana").used(), 4);
    }
}

#[test]
fn cost_zero_is_allowed_in_debt_and_waits_for_no_turn() {
    for limit in one_limit_of_each() {
        let (limiter, _) = limiter(limit);
        limiter.reserve("ana", 10).expect("a fresh key has ten units").settle(25);
        assert!(!limiter.check("ana").is_allowed(), "{:?}", limiter.limit());
        for decision in [limiter.check_n("ana", 0), limiter.peek_n("ana", 0)] {
            assert!(decision.is_allowed(), "{:?}", limiter.limit());
            assert_eq!((decision.remaining(), decision.delay()), (0, Duration::ZERO));
            assert_eq!(decision.reset_after(), limiter.status("ana").reset_after());
        }
    }
}

#[test]
fn cost_zero_is_allowed_in_a_full_store() {
    for when_full in [WhenFull::DenyNewKeys, WhenFull::Evict] {
        let store = MemoryStore::builder().max_keys(1).when_full(when_full).build().unwrap();
        let limiter = store.limiter("limit", Limit::per_hour(10)).unwrap();
        let other = store.limiter("other", Limit::per_hour(10)).unwrap();
        assert!(limiter.check("ana").is_allowed());
        assert!(limiter.check_n("ben", 0).is_allowed());
        assert!(limiter.peek_n("ben", 0).is_allowed());
        let charges = [limiter.charge("ben").cost(0), other.charge("ben").cost(0)];
        assert!(check_all(&charges).is_allowed());
        assert_eq!(limiter.status("ana").used(), 1, "a cost of 0 evicts no key");
        assert_eq!(store.len(), 1);
    }
}

#[test]
fn cost_zero_changes_no_state_made_under_another_limit() {
    let store = MemoryStore::builder().build().unwrap();
    let old = store.limiter("limit", Limit::per_hour(100)).unwrap();
    assert!(old.check_n("ana", 50).is_allowed());
    let new = store.limiter("limit", Limit::fixed_window(10, SECOND * 60)).unwrap();
    assert_eq!(new.check_n("ana", 0).remaining(), 5);
    assert_eq!(new.check_up_to("ana", 0).units, 0);
    assert!(check_all(&[new.charge("ana").cost(0)]).is_allowed());
    assert_eq!(old.status("ana").used(), 50, "the stored state is not converted");
}

#[test]
fn cost_zero_adds_nothing_to_other_charges() {
    for limit in one_limit_of_each() {
        let (limiter, other) = (limiter(limit).0, limiter(Limit::per_hour(2)).0);
        for costs in [[0, 1], [1, 0]] {
            let decisions = check_all(&costs.map(|cost| limiter.charge("ana").cost(cost)));
            assert!(decisions.is_allowed(), "{:?}", limiter.limit());
        }
        assert_eq!(limiter.status("ana").used(), 2);
        let both = [limiter.charge("ben").cost(0), other.charge("ben").cost(2)];
        assert!(check_all(&both).is_allowed());
        let denied = check_all(&both);
        assert!(!denied.is_allowed());
        let decisions: Vec<_> = denied.iter().map(|(_, decision)| decision).collect();
        assert!(decisions[0].is_allowed() && !decisions[1].is_allowed());
        assert!(limiter.status("ben").is_fresh());
        assert!(check_all(&[limiter.charge("ben").cost(0)]).is_allowed());
        assert!(limiter.status("ben").is_fresh());
    }
}

#[test]
fn cost_zero_under_an_older_stricter_limit_does_not_bind_other_charges() {
    let store = MemoryStore::builder().build().unwrap();
    let strict = store.limiter("limit", Limit::per_hour(1)).unwrap();
    let generous = store.limiter("limit", Limit::per_hour(100)).unwrap();
    for charges in [
        [strict.charge("ana").cost(0), generous.charge("ana").cost(20)],
        [generous.charge("ana").cost(20), strict.charge("ana").cost(0)],
    ] {
        assert!(check_all(&charges).is_allowed());
    }
    assert_eq!(generous.status("ana").used(), 40);
}

#[test]
fn batches_allow_cost_zero() {
    for limit in one_limit_of_each() {
        let (limiter, _) = limiter(limit);
        let decisions = limiter.check_many_n(&[("ana", 10), ("ana", 0), ("ana", 1), ("ben", 0)]);
        let allowed: Vec<bool> = decisions.iter().map(tollgate::Decision::is_allowed).collect();
        assert_eq!(allowed, [true, true, false, true], "{:?}", limiter.limit());
        assert!(limiter.status("ben").is_fresh());
    }
}

#[test]
fn taking_up_to_zero_units_is_allowed() {
    for limit in one_limit_of_each() {
        let (limiter, _) = limiter(limit);
        for used in [0, 10] {
            assert!(limiter.check_n("ana", used).is_allowed());
            let taken = limiter.check_up_to("ana", 0);
            assert_eq!((taken.units, taken.decision.is_allowed()), (0, true));
        }
        assert_eq!(limiter.check_up_to("ben", 0).units, 0);
        assert!(limiter.status("ben").is_fresh());
    }
}

#[test]
fn reservation_of_zero_succeeds_and_settles_to_what_was_used() {
    for limit in one_limit_of_each() {
        let (limiter, _) = limiter(limit);
        assert!(limiter.check_n("ana", 8).is_allowed());
        limiter.reserve("ana", 0).expect("a cost of 0 is allowed").commit();
        limiter.reserve("ana", 0).expect("a cost of 0 is allowed").cancel();
        assert_eq!(limiter.status("ana").used(), 8, "{:?}", limiter.limit());
        limiter.reserve("ana", 0).expect("a cost of 0 is allowed").settle(2);
        assert!(!limiter.check("ana").is_allowed());
        let reservation = limiter.reserve("ana", 0).expect("also where nothing remains");
        assert_eq!(reservation.cost(), 0);
        drop(reservation);
        drop(limiter.reserve("ben", 0).expect("a cost of 0 is allowed"));
        assert!(limiter.status("ben").is_fresh());
    }
}

#[test]
fn acquire_of_zero_returns_at_once() {
    let (limiter, _) = limiter(Limit::per_second(1).burst(1));
    assert!(limiter.check("ana").is_allowed());
    let within = limiter.acquire("ana").cost(0).max_waiters(0).timeout(Duration::ZERO).wait();
    assert!(within.expect("a cost of 0 waits for nothing").is_allowed());
    let never = CostError::ExceedsCapacity { cost: 2, limit: 1 };
    assert_eq!(limiter.acquire("ana").cost(2).wait().unwrap_err(), AcquireError::Cost(never));
}
