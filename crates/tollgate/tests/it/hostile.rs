//! Hostile numbers: any time, any cost, limits at the edge of what is accepted. Never a panic, a
//! wrap, or an admission too many.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{CalendarUnit, Limit, Limiter, ManualClock, MemoryStore, Outcome, Timestamp};
use tollgate_testkit::{Act, Move, NANO, Step, Trace, cases, contract, manual, one_limit_of_each};

const YEARS_100: Duration = Duration::from_secs(36_525 * 86_400);

/// Small, large, and one beside a power of two.
fn numbers() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        1..10_u64,
        any::<u64>(),
        (0..64_u32, -1..=1_i64).prop_map(|(bit, off)| (1_u64 << bit).saturating_add_signed(off)),
        Just(u64::MAX),
    ]
}

fn periods() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::from_millis(1)),
        Just(YEARS_100),
        Just(YEARS_100 - NANO),
        (1_000_000..u64::try_from(YEARS_100.as_nanos()).expect("fits"))
            .prop_map(Duration::from_nanos),
    ]
}

/// Everything that is accepted, however absurd.
fn absurd_limits() -> impl Strategy<Value = Limit> {
    let kinds: [fn(u64, Duration, u64) -> Limit; 10] = [
        |count, period, _| Limit::token_bucket(count, period),
        |count, period, burst| Limit::token_bucket(count, period).burst(burst),
        |count, period, burst| Limit::leaky_bucket(count, period).burst(burst),
        |count, period, _| Limit::leaky_queue(count, period),
        |count, period, burst| Limit::leaky_queue(count, period).burst(burst),
        |count, period, _| Limit::fixed_window(count, period),
        |count, period, _| Limit::fixed_window(count, period).starting_at_first_request(),
        |count, period, _| Limit::sliding_log(count % 10_000_001, period),
        |count, period, _| Limit::sliding_counter(count, period),
        |count, _, _| Limit::calendar(count, CalendarUnit::Month),
    ];
    (0..kinds.len(), numbers(), periods(), numbers())
        .prop_map(move |(kind, count, period, burst)| kinds[kind](count, period, burst))
        .prop_filter("a valid limit", |limit| limit.validate().is_ok())
}

/// Moments from the first to the last.
fn moments() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3_u64,
        any::<u64>(),
        Just(Timestamp::MAX.as_nanos()),
        Just(u64::MAX),
        (0..2_000_000_000_u64).prop_map(|seconds| seconds * 1_000_000_000),
    ]
}

/// Jumps of the clock to anywhere, forwards, and hostile costs.
fn absurd_traces() -> impl Strategy<Value = Trace> {
    let idle = prop_oneof![Just(0), numbers()].prop_map(Duration::from_nanos);
    let act = prop_oneof![
        8 => numbers().prop_map(Act::Check),
        1 => numbers().prop_map(Act::Peek),
        1 => numbers().prop_map(Act::Refund),
    ];
    let step = (idle, act).prop_map(|(idle, act)| Step { time: Move::Forward(idle), act });
    (absurd_limits(), moments(), prop::collection::vec(step, 1..20)).prop_map(
        |(limit, start, steps)| Trace { limit, start: Timestamp::from_nanos(start), steps },
    )
}

fn store(clock: ManualClock) -> MemoryStore {
    MemoryStore::builder().clock(clock).max_keys(100).build().expect("the bound is possible")
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn absurd_numbers_are_decided_as_the_model_does(trace in absurd_traces()) {
        contract::same_answer_everywhere(store, &trace, NANO);
    }

    #[test]
    fn absurd_numbers_admit_no_interval_too_much(trace in absurd_traces()) {
        contract::never_too_much(store, &trace, NANO);
    }

    #[test]
    fn nothing_panics_at_any_time_and_cost(
        limit in absurd_limits(),
        calls in prop::collection::vec((moments(), 0..9_u8, numbers()), 1..30),
    ) {
        let clock = ManualClock::new();
        let limiter = Limiter::builder(limit).clock(clock.clone()).max_keys(4).build().unwrap();
        for (at, call, number) in calls {
            clock.set(Timestamp::from_nanos(at));
            call_anything(&limiter, call, number);
            let status = limiter.status("ana");
            prop_assert!(status.remaining() <= status.limit());
        }
    }

    #[test]
    fn other_numbers_at_any_time_never_give_more_than_their_capacity(
        limits in prop::collection::vec(absurd_limits(), 2..6),
        costs in prop::collection::vec((numbers(), numbers()), 2..6),
    ) {
        let clock = ManualClock::new();
        let store = store(clock.clone());
        for (limit, (cost, idle)) in limits.into_iter().zip(costs) {
            let limiter = store.limiter("changing", limit).unwrap();
            let before = limiter.status("ana").remaining();
            let decision = limiter.check_n("ana", cost);
            let taken = if decision.is_allowed() { cost } else { 0 };
            prop_assert_eq!(decision.remaining(), before - taken);
            clock.advance(Duration::from_nanos(idle));
        }
    }
}

fn call_anything(limiter: &Limiter, call: u8, number: u64) {
    let key = ["ana", "ben", "eve", "kim", "lea"][usize::try_from(number % 5).unwrap_or(0)];
    match call {
        0 => drop(limiter.check_n(key, number)),
        1 => drop(limiter.peek_n(key, number)),
        2 => limiter.refund(key, number),
        3 => drop(limiter.check_up_to(key, number)),
        4 => drop(limiter.reserve(key, number).map(|reservation| reservation.settle(u64::MAX))),
        5 => drop(limiter.reserve_for(key, 1, Duration::MAX).map(std::mem::forget)),
        6 => drop(limiter.reserve(key, number)),
        7 => drop(limiter.acquire(key).cost(number).max_waiters(0).timeout(Duration::ZERO).wait()),
        _ => drop(limiter.keys().count()),
    }
}

#[test]
fn a_cost_of_everything_is_refused_everywhere() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        assert!(limiter.check("ana").is_allowed());
        for key in ["ana", "ben"] {
            assert!(matches!(limiter.check_n(key, u64::MAX).outcome(), Outcome::Invalid(_)));
            assert!(matches!(limiter.peek_n(key, u64::MAX).outcome(), Outcome::Invalid(_)));
            assert!(limiter.reserve(key, u64::MAX).is_err());
            assert!(limiter.acquire(key).cost(u64::MAX).wait().is_err());
        }
        let twice = [limiter.charge("ana").cost(u64::MAX), limiter.charge("ana").cost(u64::MAX)];
        assert!(!tollgate::check_all(&twice).is_allowed());
        assert_eq!(limiter.status("ana").used(), 1);
    }
}

#[test]
fn a_refund_of_everything_makes_a_key_new_and_not_more() {
    for limit in one_limit_of_each() {
        let (limiter, _) = manual(limit);
        assert!(limiter.check_n("ana", 9).is_allowed());
        limiter.refund("ana", u64::MAX);
        assert!(limiter.status("ana").is_fresh(), "{:?}", limiter.limit());
        assert_eq!(limiter.status("ana").remaining(), 10);
    }
}

#[test]
fn at_the_end_of_time_no_capacity_comes_back() {
    for limit in one_limit_of_each() {
        let clock = ManualClock::at(Timestamp::from_nanos(u64::MAX));
        let limiter = Limiter::builder(limit).clock(clock.clone()).build().unwrap();
        assert!(limiter.check_n("ana", 10).is_allowed());
        clock.advance(Duration::MAX);
        assert!(!limiter.check("ana").is_allowed(), "{:?}", limiter.limit());
    }
}

#[test]
fn a_window_that_is_remembered_is_not_reopened_by_a_clock_set_back() {
    for limit in ["10/min fixed_window", "10/min first", "10/min calendar", "10/min sliding_log"] {
        let clock = ManualClock::new();
        let start = clock.now();
        let limiter =
            Limiter::builder(limit.parse().unwrap()).clock(clock.clone()).build().unwrap();
        assert!(limiter.check_n("ana", 10).is_allowed());
        clock.advance(Duration::from_secs(60));
        assert!(limiter.check("ana").is_allowed());
        limiter.store().reclaim();
        clock.set(start.saturating_add(Duration::from_secs(59)));
        assert_eq!(limiter.check_up_to("ana", 10).units, 9, "{limit}");
    }
}

#[test]
fn a_clock_set_back_while_the_numbers_change_mints_nothing() {
    let clock = ManualClock::new();
    let store = store(clock.clone());
    let hourly = Limit::per_hour(10);
    assert!(store.limiter("api", hourly).unwrap().check_n("ana", 10).is_allowed());
    let taken_at = clock.now();
    clock.set(Timestamp::from_nanos(taken_at.as_nanos() - 3_600_000_000_000));
    let doubled = store.limiter("api", Limit::per_hour(20)).unwrap();
    doubled.refund("ana", 1);
    clock.set(taken_at);
    assert_eq!(doubled.status("ana").remaining(), 1, "an hour was paid twice");
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn a_calendar_window_always_ends(
        seconds in 0..4_000_000_000_u64,
        unit in prop::sample::select(vec![
            CalendarUnit::Minute, CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week,
            CalendarUnit::Month,
        ]),
        zone in prop::sample::select(vec![
            "Africa/Monrovia", "America/St_Johns", "Europe/Dublin", "Asia/Gaza", "Asia/Kathmandu",
            "Pacific/Kwajalein", "Antarctica/Troll", "Africa/Casablanca",
        ]),
    ) {
        let clock = ManualClock::at(Timestamp::from_secs(seconds));
        let limit = Limit::calendar(1, unit).zone(zone);
        let limiter = Limiter::builder(limit).clock(clock).build().unwrap();
        prop_assert!(limiter.check("ana").reset_after() <= Duration::from_secs(33 * 86_400));
    }
}

#[test]
fn a_day_that_is_entered_twice_ends() {
    // Newfoundland set its clocks back at one minute past midnight: Sunday, Saturday, Sunday.
    let saturday_again = Timestamp::from_secs(1_289_098_000);
    let limit = Limit::calendar(1, CalendarUnit::Day).zone("America/St_Johns");
    let clock = ManualClock::at(saturday_again);
    let limiter = Limiter::builder(limit).clock(clock).build().unwrap();
    assert!(limiter.check("ana").reset_after() <= Duration::from_secs(86_400));
}
