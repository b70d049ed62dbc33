//! Limits: round ones, awkward ones and random ones.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{CalendarUnit, Limit};

use super::NANO;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Valid limits of every algorithm, their periods in whole ticks.
pub fn any_limits(tick: Duration) -> impl Strategy<Value = Limit> {
    prop_oneof![
        3 => prop::sample::select(awkward(tick)),
        1 => prop::sample::select(one_limit_of_each()),
        3 => random(tick),
        1 => calendars(),
    ]
}

/// A small limit of each algorithm and alignment, each of a capacity of ten.
pub fn one_limit_of_each() -> Vec<Limit> {
    vec![
        Limit::per_second(10),
        Limit::per_hour(7).burst(10),
        Limit::leaky_bucket(10, MINUTE),
        Limit::leaky_queue(3, SECOND).burst(9),
        Limit::fixed_window(10, MINUTE),
        Limit::fixed_window(10, MINUTE).starting_at_first_request(),
        Limit::calendar(10, CalendarUnit::Month).zone("Europe/Paris"),
        Limit::sliding_log(10, MINUTE),
        Limit::sliding_counter(10, MINUTE),
    ]
}

/// Rates that do not divide, numbers that do not pack, and the smallest of everything.
fn awkward(tick: Duration) -> Vec<Limit> {
    // A store of coarser time is one whose script counts in doubles.
    let most = if tick > NANO { 1 << 53 } else { u64::MAX };
    vec![
        Limit::token_bucket(1, 2 * SECOND),
        Limit::per_second(3),
        Limit::per_second(1).burst(10),
        Limit::per_hour(1).burst(2),
        Limit::per_day(86_399).burst(7),
        Limit::per_day(1_000_003),
        Limit::per_day(1_000_003).burst(1),
        Limit::per_day(1 << 40),
        Limit::token_bucket(7919, 104_729 * MILLI).burst(1 << 37),
        Limit::leaky_bucket(1, MILLI),
        Limit::leaky_bucket(3, SECOND).burst(1),
        Limit::leaky_bucket(1 << 40, DAY),
        Limit::leaky_queue(3, SECOND).burst(0),
        Limit::leaky_queue(1_000_003, DAY).burst(5),
        Limit::leaky_queue(7, MINUTE),
        Limit::leaky_queue(1 << 40, DAY),
        Limit::fixed_window(1, MILLI),
        Limit::fixed_window(5, 7 * SECOND),
        Limit::fixed_window(most, HOUR),
        Limit::fixed_window(5, 7 * SECOND).starting_at_first_request(),
        Limit::fixed_window(1, MILLI).starting_at_first_request(),
        Limit::sliding_log(1, MILLI),
        Limit::sliding_log(5, 7 * SECOND),
        Limit::sliding_log(100_003, HOUR),
        Limit::sliding_counter(1, MILLI),
        Limit::sliding_counter(7, 10 * SECOND),
        Limit::sliding_counter(1_000_003, DAY),
        Limit::sliding_counter(1 << 40, DAY),
    ]
}

/// Windows of the calendar, in zones that shift their clocks in every way.
pub fn calendars() -> impl Strategy<Value = Limit> {
    use CalendarUnit::{Day, Hour, Minute, Month, Week};
    let zones = [
        "UTC",
        "Europe/Paris",
        "America/New_York",
        "America/Sao_Paulo",
        "America/Havana",
        "Asia/Kolkata",
        "Asia/Beirut",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Chatham",
    ];
    let units = prop::sample::select(vec![Minute, Hour, Day, Week, Month]);
    let zones = prop::sample::select(zones.to_vec());
    (1..20_u64, units, zones)
        .prop_map(|(count, unit, zone)| Limit::calendar(count, unit).zone(zone))
}

fn random(tick: Duration) -> impl Strategy<Value = Limit> {
    let kinds: [fn(u64, Duration) -> Limit; 7] = [
        Limit::token_bucket,
        Limit::leaky_bucket,
        Limit::leaky_queue,
        Limit::fixed_window,
        |count, window| Limit::fixed_window(count, window).starting_at_first_request(),
        Limit::sliding_log,
        Limit::sliding_counter,
    ];
    let counts = prop_oneof![1..20_u64, 1..10_000_u64];
    let bursts = prop_oneof![2 => Just(None), 1 => (1..30_u64).prop_map(Some)];
    (0..kinds.len(), counts, periods(tick), bursts).prop_map(move |(kind, count, period, burst)| {
        let limit = kinds[kind](count, period);
        match burst {
            Some(units) if kind < 3 => limit.burst(units),
            _ => limit,
        }
    })
}

/// A millisecond to some days, few of them round.
fn periods(tick: Duration) -> impl Strategy<Value = Duration> {
    let tick = u64::try_from(tick.as_nanos()).expect("a tick is short");
    (6..15_u32, 100..1000_u64).prop_flat_map(move |(zeros, digits)| {
        let about = 10_u64.pow(zeros) / 100 * digits;
        (0..10_u64.pow(zeros))
            .prop_map(move |more| Duration::from_nanos((about + more) / tick * tick))
    })
}
