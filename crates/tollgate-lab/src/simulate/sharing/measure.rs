//! How well a way held the limit, and what it cost.
#![allow(clippy::float_arithmetic, reason = "what is told decides nothing")]

use tollgate::port::ScriptPlan;
use tollgate::{Algorithm, Limit};

use super::result::SharedRun;
use super::world::Log;
use super::{Setting, Sharing};
use crate::simulate::busiest::sliding;
use crate::simulate::tally;

/// The figures of a run that lasted so long, where one gate would have admitted so many.
pub(super) fn tell(
    setting: &Setting<'_>,
    way: Sharing,
    (mut log, length): (Log, u64),
    exact: u64,
) -> SharedRun {
    log.admissions.sort_unstable();
    let of_keys = log.admissions.chunk_by(|a, b| a.0 == b.0);
    let over = of_keys.map(|events| {
        let events: Vec<(u64, u64)> = events.iter().map(|(_, at, units)| (*at, *units)).collect();
        over(&setting.limit, &setting.whole, &events)
    });
    let over = over.max().unwrap_or(0);
    SharedRun {
        way,
        offered: log.offered,
        tries: log.tries,
        admitted: log.admitted,
        refused: log.refused,
        calls: log.calls,
        calls_per_decision: log.calls as f64 / log.tries.max(1) as f64,
        used_percent: 100.0 * log.admitted as f64 / exact.max(1) as f64,
        over,
        over_at_most: over_at_most(setting, way),
        stranded: log.stranded,
        lost: log.lost,
        fairness: fairness(&log.nodes),
        in_window: in_window(setting, &log.admissions, length),
    }
}

/// By how many units a limit was exceeded at worst by what was admitted of one key, in order.
fn over(limit: &Limit, whole: &ScriptPlan, events: &[(u64, u64)]) -> u64 {
    let count = limit.count();
    match limit.algorithm() {
        Algorithm::SlidingLog => {
            let window = u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX);
            sliding(events, window).units.saturating_sub(count)
        }
        Algorithm::FixedWindow => {
            let same = |a: u64, b: u64| whole.end_after(a) == whole.end_after(b);
            let windows = events.chunk_by(|a, b| same(a.0, b.0));
            let units = windows.map(|events| events.iter().map(|(_, units)| units).sum::<u64>());
            units.max().unwrap_or(0).saturating_sub(count)
        }
        Algorithm::SlidingCounter => over_a_counter(limit, events),
        _ => over_a_bucket(limit, events),
    }
}

/// Over any interval d a bucket admits B + d x N / P. All in periods, so that nothing is rounded
/// before the end: the worst beginning so far is enough to know.
fn over_a_bucket(limit: &Limit, events: &[(u64, u64)]) -> u64 {
    let period = i128::try_from(limit.period().as_micros()).unwrap_or(i128::MAX);
    let (mut sum, mut least, mut most) = (0_i128, i128::MAX, 0_i128);
    for (at, units) in events {
        let paid = i128::from(*at) * i128::from(limit.count());
        least = least.min(sum * period - paid);
        sum += i128::from(*units);
        most = most.max(sum * period - paid - least);
    }
    let over = most - i128::from(limit.capacity()) * period;
    u64::try_from((over + period - 1) / period).unwrap_or(0)
}

/// At each admission, the sum of two windows.
fn over_a_counter(limit: &Limit, events: &[(u64, u64)]) -> u64 {
    let window = limit.period().as_micros();
    let (mut number, mut current, mut previous, mut most) = (0_u128, 0_u128, 0_u128, 0_u128);
    for (at, units) in events {
        let at = u128::from(*at);
        if at / window != number {
            previous = if at / window == number + 1 { current } else { 0 };
            (number, current) = (at / window, 0);
        }
        current += u128::from(*units);
        most = most.max(current + previous * (window - at % window) / window);
    }
    u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(limit.count())
}

/// By how many units a way may exceed a limit, where that is known.
fn over_at_most(setting: &Setting<'_>, way: Sharing) -> Option<u64> {
    let limit = &setting.limit;
    match (way, limit.algorithm()) {
        (Sharing::Strict, _) => Some(0),
        (Sharing::Leased, Algorithm::FixedWindow | Algorithm::SlidingCounter) => Some(0),
        // A window is covered by two intervals of what is left of it without a lease's time.
        (Sharing::Leased, Algorithm::SlidingLog) => Some(limit.count()),
        (Sharing::Leased, _) => {
            let refill = setting.options.lease_ttl.as_nanos() * u128::from(limit.count());
            u64::try_from(refill.div_ceil(limit.period().as_nanos())).ok()
        }
        (Sharing::Periodic | Sharing::Divided, _) => None,
    }
}

/// Jain's index of the part that each node admitted, of those that were asked.
fn fairness(nodes: &[[u64; 2]]) -> f64 {
    let parts = || {
        let asked = nodes.iter().filter(|[asked, _]| *asked > 0);
        asked.map(|[asked, admitted]| *admitted as f64 / *asked as f64)
    };
    let (sum, squares) = (parts().sum::<f64>(), parts().map(|part| part * part).sum::<f64>());
    if squares == 0.0 { 1.0 } else { sum * sum / (parts().count() as f64 * squares) }
}

/// What went ahead of the first key in the window that ends with each slot.
fn in_window(setting: &Setting<'_>, admissions: &[(u32, u64, u64)], length: u64) -> Vec<u64> {
    let slot = tally::slot_length(length);
    let window = setting.limit.period().as_nanos();
    let start = u128::from(setting.start.as_nanos());
    let first = admissions.first().map_or(0, |(key, ..)| *key);
    let events: Vec<(u128, u64)> = admissions
        .iter()
        .take_while(|(key, ..)| *key == first)
        .map(|(_, at, units)| ((u128::from(*at) * 1000).saturating_sub(start), *units))
        .collect();
    let (mut units, mut from, mut to) = (0, 0, 0);
    let mut ends_with = |end: u128| {
        while to < events.len() && events[to].0 < end {
            units += events[to].1;
            to += 1;
        }
        while from < to && events[from].0 + window < end {
            units -= events[from].1;
            from += 1;
        }
        units
    };
    (1..=length.div_ceil(slot)).map(|number| ends_with(u128::from(number * slot))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::traffic::Random;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn how_far_a_bucket_was_exceeded_is_what_trying_all_intervals_finds() {
        let limit = Limit::token_bucket(3, SECOND).burst(5);
        let mut random = Random::new(5, 0);
        for _ in 0..300 {
            let many = random.below(20);
            let mut events: Vec<(u64, u64)> =
                (0..many).map(|_| (random.below(4_000_000), 1 + random.below(4))).collect();
            events.sort_unstable();
            let mut most = 0;
            for first in 0..events.len() {
                for last in first..events.len() {
                    let units: u64 = events[first..=last].iter().map(|(_, units)| units).sum();
                    let paid = (events[last].0 - events[first].0) * 3;
                    let over = (units * 1_000_000).saturating_sub(5_000_000 + paid);
                    most = most.max(over.div_ceil(1_000_000));
                }
            }
            assert_eq!(over_a_bucket(&limit, &events), most, "{events:?}");
        }
    }

    #[test]
    fn windows_and_logs_are_exceeded_by_what_is_over_their_count() {
        let over = |limit: Limit, events: &[(u64, u64)]| {
            over(&limit, &ScriptPlan::new(&limit).expect("it fits"), events)
        };
        let events = [(900_000, 6), (1_100_000, 7), (2_000_000, 1)];
        assert_eq!(over(Limit::fixed_window(5, SECOND), &events), 2);
        assert_eq!(over(Limit::sliding_log(5, SECOND), &events), 8);
        // 7, and nine tenths of 6.
        assert_eq!(over(Limit::sliding_counter(5, SECOND), &events), 7);
        assert_eq!(over(Limit::sliding_counter(20, SECOND), &events), 0);
        assert_eq!(over(Limit::sliding_log(5, SECOND), &[]), 0);
    }

    #[test]
    fn nodes_that_admit_the_same_part_are_treated_alike() {
        assert!((fairness(&[[100, 50], [10, 5], [0, 0]]) - 1.0).abs() < 1e-12);
        assert!((fairness(&[[100, 100], [100, 0]]) - 0.5).abs() < 1e-12);
        assert!((fairness(&[[5, 0]]) - 1.0).abs() < 1e-12);
    }
}
