//! The limits that are tried beside the one in force: round numbers around it.

use tollgate::{Algorithm, Limit, WindowStart};

/// How many limits are tried: ten a decade, from between a thousandth and a hundredth of the count
/// in force upwards.
pub(super) const RUNGS: usize = 48;

/// The round numbers of a decade.
const ROUND: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];

/// Limits like `limit`, with round counts and the count in force, smallest first. A bucket's burst
/// keeps its proportion.
pub(super) fn rungs(limit: &Limit) -> Vec<Limit> {
    let count = limit.count().max(1);
    let first = 10_u64.pow(count.ilog10().saturating_sub(2));
    let decades = std::iter::successors(Some(first), |decade| decade.checked_mul(10));
    let numbers =
        decades.flat_map(|decade| ROUND.map(|round| u128::from(round) * u128::from(decade)));
    let whole = numbers.filter(|number| number.is_multiple_of(10)).map(|number| number / 10);
    let round = whole.filter_map(|number| u64::try_from(number).ok());
    let mut counts: Vec<u64> = round.take(RUNGS - 1).chain([count]).collect();
    counts.sort_unstable();
    counts.dedup();
    let limits = counts.into_iter().map(|of| match of {
        of if of == count => limit.clone(),
        of => with_count(limit, of),
    });
    limits.filter(|limit| limit.validate().is_ok()).collect()
}

/// The same limit with another count.
fn with_count(limit: &Limit, count: u64) -> Limit {
    let period = limit.period();
    let like = match (limit.algorithm(), limit.align()) {
        (Algorithm::LeakyMeter, _) => Limit::leaky_bucket(count, period),
        (Algorithm::LeakyQueue, _) => Limit::leaky_queue(count, period),
        (Algorithm::SlidingLog, _) => return Limit::sliding_log(count, period),
        (Algorithm::SlidingCounter, _) => return Limit::sliding_counter(count, period),
        (Algorithm::FixedWindow, WindowStart::FirstRequest) => {
            return Limit::fixed_window(count, period).starting_at_first_request();
        }
        (Algorithm::FixedWindow, WindowStart::Calendar(unit)) => {
            let like = Limit::calendar(count, unit);
            return match limit.zone_name() {
                Some(zone) => like.zone(zone.to_owned()),
                None => like,
            };
        }
        (Algorithm::FixedWindow, _) => return Limit::fixed_window(count, period),
        _ => Limit::token_bucket(count, period),
    };
    let is_queue = limit.algorithm() == Algorithm::LeakyQueue;
    let burst = limit.capacity() - u64::from(is_queue);
    if burst == limit.count() {
        return like;
    }
    let scaled = (u128::from(burst) * u128::from(count)).div_ceil(u128::from(limit.count()));
    let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
    like.burst(if is_queue { scaled } else { scaled.max(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_round_and_the_limit_in_force_is_one() {
        let texts = |text: &str| {
            let limit: Limit = text.parse().unwrap();
            let rungs = rungs(&limit);
            assert!(rungs.contains(&limit), "{text}");
            assert!(rungs.len() <= RUNGS && rungs.is_sorted_by_key(Limit::count));
            rungs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let of_hundred = texts("100/min burst 20");
        assert_eq!(of_hundred[..3], ["1/min burst 1", "2/min burst 1", "3/min burst 1"]);
        assert!(of_hundred.contains(&"120/min burst 24".to_owned()));
        assert_eq!(texts("7/s")[..8], ["1/s", "2/s", "3/s", "4/s", "5/s", "6/s", "7/s", "8/s"]);
        assert_eq!(texts("1000000000/day")[0], "10000000/day");
        assert_eq!(texts("10/s leaky_bucket queue burst 0")[0], "1/s leaky_bucket queue burst 0");
        assert!(texts("100/day calendar Europe/Paris").iter().all(|text| text.contains("Paris")));
        assert!(texts("5/h fixed_window align first").iter().all(|text| text.contains("first")));
        for text in ["100/h sliding_log", "100/h sliding_counter", "100/h fixed_window"] {
            assert!(texts(text).iter().all(|rung| rung.ends_with(&text[4..])), "{text}");
        }
    }
}
