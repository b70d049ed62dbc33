//! Decimals in the text of a limit: exact, and no larger a burst than they say.

use std::time::Duration;

use tollgate::Limit;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[track_caller]
fn reads(text: &str, limit: &Limit) {
    assert_eq!(text.parse().as_ref(), Ok(limit), "{text}");
}

#[test]
fn a_decimal_moves_into_the_period_and_stays_exact() {
    reads("1/1.5s", &Limit::token_bucket(1, SECOND * 3 / 2));
    reads("0.5/s", &Limit::token_bucket(1, 2 * SECOND));
    reads("1.5/s sliding_log", &Limit::sliding_log(3, 2 * SECOND));
    reads("1.5/s fixed_window", &Limit::fixed_window(3, 2 * SECOND));
}

#[test]
fn a_bucket_holds_what_its_decimal_says_rounded_up() {
    reads("1.5/s", &Limit::token_bucket(3, 2 * SECOND).burst(2));
    reads("0.3/s", &Limit::token_bucket(3, 10 * SECOND).burst(1));
    reads("2.50/min", &Limit::token_bucket(5, 2 * MINUTE).burst(3));
}

#[test]
fn a_burst_that_is_named_counts_instead() {
    reads("0.3/s burst 7", &Limit::token_bucket(3, 10 * SECOND).burst(7));
}
