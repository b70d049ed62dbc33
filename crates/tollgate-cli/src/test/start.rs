//! When a test begins that does not say: at a beginning of every window of its policies.

use std::time::Duration;

use jiff::Timestamp as Moment;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use tollgate::{Algorithm, CalendarUnit, Limit, Policy, Timestamp, WindowStart};

/// 2001-01-01T00:00:00Z: a Monday, and the first of a month and of a year.
const FIRST: u128 = 978_307_200 * 1_000_000_000;

/// The year 2200: late enough to be worth it, early enough that a test can go on for decades.
const LATEST: u128 = 7_258_118_400 * 1_000_000_000;

const DAY: u128 = 24 * 60 * 60 * 1_000_000_000;

/// How many beginnings are looked at for one that also suits the calendar: some hundred years of
/// days.
const MOST_TRIES: u128 = 50_000;

/// The first moment from 2001 on that is a multiple of every window on the wall clock, midnight in
/// UTC, and a beginning of the calendar's weeks and months where those are limited. Where there is
/// no such moment before 2200, what comes later in this list is given up first. The calendars of
/// named time zones are not looked at.
pub(super) fn default_start<'a>(policies: impl Iterator<Item = &'a Policy> + Clone) -> Timestamp {
    let limits = || policies.clone().flat_map(limits);
    let windows = limits().filter(|limit| is_on_the_grid(limit));
    let step = windows
        .map(|limit| limit.period().as_nanos())
        .try_fold(1, least_common_multiple)
        .unwrap_or(1);
    let weekly = limits().any(|limit| limit.align() == WindowStart::Calendar(CalendarUnit::Week));
    let monthly = limits().any(|limit| limit.align() == WindowStart::Calendar(CalendarUnit::Month));
    let multiples = |step: u128| {
        let first = FIRST.next_multiple_of(step);
        (0..MOST_TRIES).map(move |tries| first + tries * step).take_while(|nanos| *nanos < LATEST)
    };
    let daily = || multiples(least_common_multiple(step, DAY).unwrap_or(LATEST));
    let found = daily().find(|nanos| begins(*nanos, weekly, monthly));
    let start = found.or_else(|| daily().next()).or_else(|| multiples(step).next());
    Timestamp::from_nanos(u64::try_from(start.unwrap_or(FIRST)).unwrap_or(u64::MAX))
}

fn is_on_the_grid(limit: &Limit) -> bool {
    match limit.algorithm() {
        Algorithm::FixedWindow => limit.align() == WindowStart::Epoch,
        Algorithm::SlidingCounter => true,
        _ => false,
    }
}

/// Whether the calendar begins what is asked for.
fn begins(nanos: u128, weekly: bool, monthly: bool) -> bool {
    let moment = i128::try_from(nanos).ok().and_then(|nanos| Moment::from_nanosecond(nanos).ok());
    moment.is_some_and(|moment| {
        let date = moment.to_zoned(TimeZone::UTC).date();
        (!weekly || date.weekday() == Weekday::Monday) && (!monthly || date.day() == 1)
    })
}

/// All limits that a policy may come to apply.
fn limits(policy: &Policy) -> impl Iterator<Item = &Limit> {
    let rules = policy
        .rules
        .iter()
        .flat_map(|rule| std::iter::once(&rule.limits).chain(rule.tiers.values()));
    let tiers = policy.tiers.values().flat_map(|rules| rules.values());
    let overrides = policy.overrides.iter().flat_map(|change| change.limits.values());
    rules.chain(tiers).chain(overrides).flat_map(|numbers| numbers.limits())
}

/// The least common multiple, where it is not beyond all time.
fn least_common_multiple(a: u128, b: u128) -> Option<u128> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    let longest = Duration::from_secs(500 * 365 * 24 * 60 * 60).as_nanos();
    (a / x.max(1)).checked_mul(b).filter(|multiple| *multiple <= longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Rule;

    fn start(texts: &[&str]) -> String {
        let limits = texts.iter().map(|text| text.parse().unwrap());
        let rule = limits.fold(Rule::new("r"), Rule::limit);
        let policy = Policy::new().rule(rule);
        let nanos = default_start([&policy].into_iter()).as_nanos();
        Moment::from_nanosecond(nanos.into()).unwrap().to_string()
    }

    #[test]
    fn a_start_is_a_multiple_of_every_window() {
        assert_eq!(start(&["5/s"]), "2001-01-01T00:00:00Z");
        assert_eq!(start(&["5/day fixed_window", "1/90s sliding_counter"]), "2001-01-01T00:00:00Z");
        assert_eq!(start(&["5/month calendar", "5/week calendar"]), "2001-01-01T00:00:00Z");
        // The multiples of a week since 1970 are Thursdays.
        assert_eq!(start(&["5/week fixed_window"]), "2001-01-04T00:00:00Z");
        assert_eq!(start(&["5/week fixed_window", "9/month calendar"]), "2001-02-01T00:00:00Z");
    }

    #[test]
    fn windows_that_share_no_day_share_a_moment() {
        for texts in [
            ["5/7s fixed_window", "5/11s sliding_counter"],
            ["1/1001ms fixed_window", "1/7d fixed_window"],
        ] {
            let moment: Moment = start(&texts).parse().unwrap();
            for text in texts {
                let window = text.parse::<Limit>().unwrap().period().as_nanos();
                assert_eq!(moment.as_nanosecond() % i128::try_from(window).unwrap(), 0, "{text}");
            }
        }
    }

    #[test]
    fn windows_that_never_meet_begin_in_2001() {
        let primes = ["1/1000000007ms fixed_window", "1/998244353ms fixed_window"];
        assert_eq!(start(&primes), "2001-01-01T00:00:00Z");
        // Nor is a week of the calendar ever one of the multiples of a week since 1970.
        assert_eq!(start(&["5/week fixed_window", "5/week calendar"]), "2001-01-04T00:00:00Z");
    }
}
