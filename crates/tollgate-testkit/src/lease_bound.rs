//! How much a fleet may admit with leases, held against what it did admit.

use std::time::Duration;

use tollgate::{Algorithm, Limit, WindowStart};

/// Units that were admitted, at a microsecond of the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Admission {
    /// When.
    pub at: u64,
    /// How many.
    pub units: u64,
    /// The end of the window that the store charged them in, for a window of the first request.
    pub window_ends: u64,
}

/// Checks that nodes with leases of `ttl` have admitted no more than they may. With a `ttl` of
/// zero that is what a fleet without leases may admit.
///
/// - Token bucket, meter: over any interval d at most B + (d + ttl) x N / P.
/// - Fixed window: at most L in every window.
/// - Sliding log: at most L in every interval of W - ttl.
/// - Sliding counter: the sum of two windows is at most L at every admission.
///
/// # Errors
/// Says where there was too much.
///
/// # Panics
/// For a queue, which is never leased, and for windows of the calendar.
pub fn within_lease_bound(
    limit: &Limit,
    ttl: Duration,
    admissions: &[Admission],
) -> Result<(), String> {
    let mut admissions = admissions.to_vec();
    admissions.sort_unstable();
    let (window, ttl) = (limit.period().as_micros(), ttl.as_micros());
    match (limit.algorithm(), limit.align()) {
        (Algorithm::TokenBucket | Algorithm::LeakyMeter, _) => rate_holds(limit, ttl, &admissions),
        (Algorithm::FixedWindow, WindowStart::Epoch) => {
            windows_hold(limit, &admissions, |one| u128::from(one.at) / window)
        }
        (Algorithm::FixedWindow, WindowStart::FirstRequest) => {
            if let Some(late) = admissions.iter().find(|one| one.at >= one.window_ends) {
                return Err(format!("{late:?} was spent after its window"));
            }
            windows_hold(limit, &admissions, |one| u128::from(one.window_ends))
        }
        (Algorithm::SlidingLog, _) => log_holds(limit, window - ttl, &admissions),
        (Algorithm::SlidingCounter, _) => counter_holds(limit, window, &admissions),
        (algorithm, align) => panic!("nothing is known of {algorithm:?} {align:?}"),
    }
}

/// All in periods, so that nothing is rounded. Between two admissions the sum of both and all in
/// between is compared with the time between; the worst beginning so far is enough to know.
fn rate_holds(limit: &Limit, ttl: u128, admissions: &[Admission]) -> Result<(), String> {
    let signed = |number: u128| i128::try_from(number).expect("a test's numbers are small");
    let (count, period) = (i128::from(limit.count()), signed(limit.period().as_micros()));
    let most = i128::from(limit.capacity()) * period + signed(ttl) * count;
    let (mut sum, mut least, mut since) = (0_i128, i128::MAX, 0);
    for one in admissions {
        let paid = i128::from(one.at) * count;
        if sum * period - paid < least {
            (least, since) = (sum * period - paid, one.at);
        }
        sum += i128::from(one.units);
        let over = sum * period - paid - least - most;
        if over > 0 {
            let units = over / period + 1;
            return Err(format!("about {units} too many from {since} to {}", one.at));
        }
    }
    Ok(())
}

fn windows_hold(
    limit: &Limit,
    admissions: &[Admission],
    window: impl Fn(&Admission) -> u128,
) -> Result<(), String> {
    let mut admissions = admissions.to_vec();
    admissions.sort_by_key(&window);
    for same in admissions.chunk_by(|a, b| window(a) == window(b)) {
        let units: u64 = same.iter().map(|one| one.units).sum();
        if units > limit.count() {
            return Err(format!("{units} in the window of {}", same[0].at));
        }
    }
    Ok(())
}

fn log_holds(limit: &Limit, reach: u128, admissions: &[Admission]) -> Result<(), String> {
    let (mut units, mut first) = (0, 0);
    for one in admissions {
        units += one.units;
        // Units that are a window apart are of two windows.
        while u128::from(one.at - admissions[first].at) >= reach {
            units -= admissions[first].units;
            first += 1;
        }
        if units > limit.count() {
            return Err(format!("{units} from {} to {}", admissions[first].at, one.at));
        }
    }
    Ok(())
}

fn counter_holds(limit: &Limit, window: u128, admissions: &[Admission]) -> Result<(), String> {
    for (index, last) in admissions.iter().enumerate() {
        let sum_of = |number: u128| -> u128 {
            let earlier = admissions[..=index].iter();
            let same = earlier.filter(|one| u128::from(one.at) / window == number);
            same.map(|one| u128::from(one.units)).sum()
        };
        let at = u128::from(last.at);
        let previous = (at / window).checked_sub(1).map_or(0, sum_of);
        let used = sum_of(at / window) + previous * (window - at % window) / window;
        if used > u128::from(limit.count()) {
            return Err(format!("{used} at {}", last.at));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn admissions(list: &[(u64, u64)]) -> Vec<Admission> {
        list.iter()
            .map(|(at, units)| Admission { at: *at, units: *units, window_ends: 0 })
            .collect()
    }

    #[test]
    fn one_unit_more_than_the_bound_is_too_much() {
        let half = SECOND / 2;
        let bucket = Limit::per_second(10).burst(20);
        let log = Limit::sliding_log(10, SECOND);
        let counter = Limit::sliding_counter(10, SECOND);
        for (limit, ttl, list, holds) in [
            // 20, 5 within the lease's time, and 10 of the second between.
            (&bucket, half, [(0, 25), (1_000_000, 10)], true),
            (&bucket, half, [(0, 25), (999_999, 10)], false),
            (&bucket, Duration::ZERO, [(0, 20), (100_000, 1)], true),
            (&bucket, Duration::ZERO, [(0, 20), (99_999, 1)], false),
            (&Limit::fixed_window(10, SECOND), SECOND, [(999_999, 10), (1_000_000, 10)], true),
            (&Limit::fixed_window(10, SECOND), SECOND, [(1_000_000, 10), (1_999_999, 1)], false),
            (&log, half, [(0, 10), (500_000, 10)], true),
            (&log, half, [(0, 10), (499_999, 1)], false),
            (&counter, half, [(500_000, 10), (1_500_000, 5)], true),
            (&counter, half, [(500_000, 10), (1_500_000, 6)], false),
        ] {
            let checked = within_lease_bound(limit, ttl, &admissions(&list));
            assert_eq!(checked.is_ok(), holds, "{limit} {ttl:?} {list:?}: {checked:?}");
        }
    }

    #[test]
    fn a_unit_spent_after_its_window_is_too_much() {
        let limit = Limit::fixed_window(10, SECOND).starting_at_first_request();
        let spent =
            |at| within_lease_bound(&limit, SECOND, &[Admission { at, units: 1, window_ends: 9 }]);
        assert!(spent(8).is_ok());
        assert!(spent(9).is_err());
    }
}
