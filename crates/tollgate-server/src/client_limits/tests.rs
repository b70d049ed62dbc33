use std::time::Duration;

use tollgate::{Gate, ManualClock, Policy};

use super::*;

const CELL: Kind = Kind::Cell(Database::FIRST);
const CRAB: Kind = Kind::Crab(Database::FIRST);

/// Limits over a store whose time stands still.
fn brought() -> (ClientLimits, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let gate = Gate::with_store(store, Policy::new()).unwrap();
    (ClientLimits::new(Backend::Memory(gate)), clock)
}

fn bucket(count: u64) -> Limit {
    Limit::token_bucket(count, Duration::from_secs(60))
}

/// Brings as many as there may be, each with a key that has taken something.
fn fill(limits: &ClientLimits) {
    for count in 1..=4096 {
        let limiter = limits.get(CELL, bucket(count)).unwrap();
        assert!(limiter.alone().check(count.to_string()).is_allowed());
    }
}

#[test]
fn only_so_many_different_limits_are_kept_and_known_ones_go_on() {
    let (limits, _) = brought();
    fill(&limits);
    let too_many_limits = limits.get(CRAB, bucket(2)).unwrap_err();
    let too_many = |of| limits.too_many(of).load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((too_many(Transport::Http), too_many(Transport::Resp)), (0, 1));
    assert!(limits.get(Kind::Listed(0), bucket(1)).is_ok(), "others have a bound of their own");
    assert!(limits.get(Kind::Descriptor("minute"), bucket(1)).is_ok());
    assert!(limits.get(CELL, bucket(1)).is_ok());
    let impossible = limits.get(CELL, bucket(0)).unwrap_err();
    let log = "10000000/h sliding_log".parse().unwrap();
    let remembers_all = limits.listed(&[log]).unwrap_err();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/client_limits.txt");
    let refusals = format!("{too_many_limits}\n{impossible}\n{remembers_all}\n");
    tollgate_testkit::assert_golden(golden.as_ref(), &refusals);
}

#[test]
fn limits_that_nobody_uses_any_more_make_room_for_others() {
    let (limits, clock) = brought();
    fill(&limits);
    let kept = limits.get(CELL, bucket(7)).unwrap();
    assert!(limits.get(CELL, bucket(5000)).is_err(), "all are in use");
    clock.advance(Duration::from_secs(60));
    assert!(limits.get(CELL, bucket(1)).unwrap().alone().check("1").is_allowed());
    assert!(limits.get(CELL, bucket(5000)).is_ok());
    let known = limits.known[Transport::Resp as usize].read().len();
    assert_eq!(known, 3, "the new one, that of a key in use, and that which somebody has");
    assert!(!limits.get(CELL, bucket(1)).unwrap().alone().check("1").is_allowed());
    assert_eq!(kept.alone().check("7").remaining(), 6);
}

#[test]
fn longest_limits_expire_a_month_after_their_last_use() {
    let (limits, clock) = brought();
    let month = Duration::from_secs(31 * 24 * 60 * 60);
    for count in 1..=4096 {
        let limiter = limits.get(CELL, Limit::token_bucket(count, month)).unwrap();
        assert!(limiter.alone().check_n(count.to_string(), count).is_allowed());
    }
    clock.advance(month - FORGET_PAUSE);
    assert!(limits.get(CELL, bucket(5000)).is_err(), "all keep live state");
    let in_use = limits.get(CELL, Limit::token_bucket(4096, month)).unwrap();
    assert!(in_use.alone().check_n("4096", 4000).is_allowed());
    drop(in_use);
    clock.advance(FORGET_PAUSE);
    assert!(limits.get(CELL, bucket(5000)).is_ok());
    assert_eq!(limits.known[Transport::Resp as usize].read().len(), 2);
    let in_use = limits.get(CELL, Limit::token_bucket(4096, month)).unwrap();
    assert!(!in_use.alone().check_n("4096", 4000).is_allowed(), "its state was kept");
}

#[test]
fn limits_that_are_fresh_again_after_more_than_a_month_are_rejected() {
    let (limits, _) = brought();
    let day = Duration::from_secs(24 * 60 * 60);
    let (month, longer) = (31 * day, 31 * day + Duration::from_secs(1));
    let mut rejections = String::new();
    for (limit, within) in [
        (Limit::token_bucket(1, longer), Limit::token_bucket(1, month)),
        (Limit::token_bucket(1, day).burst(32), Limit::token_bucket(1, day).burst(31)),
        (Limit::token_bucket(u64::MAX, longer), Limit::token_bucket(u64::MAX, day)),
        (Limit::token_bucket(1, Duration::MAX), Limit::token_bucket(1, day)),
        (Limit::sliding_counter(5, longer), Limit::sliding_counter(5, month)),
    ] {
        for kind in [CELL, CRAB, Kind::Listed(0)] {
            let rejected = limits.get(kind, limit.clone()).unwrap_err();
            assert!(limits.get(kind, within.clone()).is_ok(), "{within}");
            if kind == CELL {
                rejections += &format!("{rejected}\n");
            }
        }
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/client_limits_too_long.txt");
    tollgate_testkit::assert_golden(golden.as_ref(), &rejections);
    let year = Limit::fixed_window(5, 365 * day);
    assert!(limits.get(Kind::Descriptor("year"), year).is_ok(), "Envoy's longest unit is a year");
}

#[test]
fn the_store_is_not_looked_through_all_the_time() {
    let (limits, clock) = brought();
    fill(&limits);
    assert!(limits.get(CELL, bucket(5000)).is_err());
    for count in 1..=4096 {
        limits.get(CELL, bucket(count)).unwrap().alone().reset(count.to_string());
    }
    clock.advance(FORGET_PAUSE - Duration::from_nanos(1));
    assert!(limits.get(CELL, bucket(5000)).is_err(), "it was tried just now");
    clock.advance(Duration::from_nanos(1));
    assert!(limits.get(CELL, bucket(5000)).is_ok());
}

#[test]
fn a_limit_that_is_refused_waits_for_nobody_who_reads() {
    let (limits, _) = brought();
    let of_resp = &limits.known[Transport::Resp as usize];
    let reading = of_resp.read();
    assert!(limits.get(CELL, bucket(0)).is_err());
    drop(reading);
    fill(&limits);
    assert!(limits.get(CELL, bucket(5000)).is_err());
    // With the lock of who writes this would never end.
    let _reading = of_resp.read();
    assert!(limits.get(CELL, bucket(5000)).is_err());
}

#[test]
fn a_limit_that_remembers_every_request_is_refused() {
    let (limits, _) = brought();
    let log = "10000000/h sliding_log".parse().unwrap();
    assert!(limits.listed(&[log]).is_err());
}
