//! Never too much: what was admitted, counted over every interval that the specification names.

use std::time::Duration;

use num_bigint::BigInt;
use tollgate::{Algorithm, Limit, ManualClock, WindowStart};

use super::KEY;
use crate::traffic::{Act, Trace};
use crate::under_test::{LimiterUnderTest, StoreUnderTest};

/// A request that was admitted. Moments are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: u128,
    cost: u128,
    goes_ahead: u128,
}

/// No interval admits more than the limit says.
pub fn never_too_much<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &Trace,
    tick: Duration,
) {
    let clock = trace.clock();
    let store = make(clock.clone());
    let limiter = store.limiter("limit", &trace.limit);
    let mut admitted = Vec::new();
    for step in &trace.steps {
        step.time.apply(&clock);
        let Act::Check(cost) = step.act else { continue };
        let answer = limiter.check_n(KEY, cost);
        if cost > 0 && answer.is_allowed() {
            let at = u128::from(clock.now().as_nanos());
            let goes_ahead = at + answer.delay.as_nanos();
            admitted.push(Admitted { at, cost: cost.into(), goes_ahead });
        }
    }
    check_intervals(&trace.limit, &admitted, tick);
}

fn check_intervals(limit: &Limit, admitted: &[Admitted], tick: Duration) {
    let window = limit.period().as_nanos();
    let most = u128::from(limit.capacity());
    match (limit.algorithm(), limit.align()) {
        (Algorithm::TokenBucket | Algorithm::LeakyMeter, _) => rate_holds(limit, admitted),
        (Algorithm::LeakyQueue, _) => departures_are_apart(limit, admitted, tick),
        (Algorithm::SlidingLog, _) => {
            for first in admitted {
                let interval =
                    |other: &Admitted| other.at >= first.at && other.at < first.at + window;
                let sum: u128 = admitted.iter().filter(|a| interval(a)).map(|a| a.cost).sum();
                assert!(sum <= most, "{sum} in the window from {}", first.at);
            }
        }
        (Algorithm::FixedWindow, WindowStart::Epoch) => {
            for first in admitted {
                let same = |other: &Admitted| other.at / window == first.at / window;
                let sum: u128 = admitted.iter().filter(|a| same(a)).map(|a| a.cost).sum();
                assert!(sum <= most, "{sum} in the window of {}", first.at);
            }
        }
        (Algorithm::SlidingCounter, _) => counter_sum_holds(limit, admitted),
        // Which window is which is the model's to say: the differential properties compare.
        _ => {}
    }
}

/// Over any interval d, admitted <= B + d x N / P: times P, in integers.
fn rate_holds(limit: &Limit, admitted: &[Admitted]) {
    let (count, period) = (BigInt::from(limit.count()), BigInt::from(limit.period().as_nanos()));
    for (index, first) in admitted.iter().enumerate() {
        let mut sum = BigInt::from(0);
        for last in &admitted[index..] {
            sum += last.cost;
            let refilled = BigInt::from(last.at - first.at) * &count;
            let most = BigInt::from(limit.capacity()) * &period + refilled;
            assert!(&sum * &period <= most, "{sum} from {} to {}", first.at, last.at);
        }
    }
}

/// Turns are P / N apart exactly; told in ticks, each is rounded up by less than one.
fn departures_are_apart(limit: &Limit, admitted: &[Admitted], tick: Duration) {
    let (count, period) = (BigInt::from(limit.count()), BigInt::from(limit.period().as_nanos()));
    for (index, first) in admitted.iter().enumerate() {
        let mut turns = BigInt::from(0);
        let mut before = first;
        for later in &admitted[index + 1..] {
            turns += before.cost;
            let apart = BigInt::from(later.goes_ahead) - BigInt::from(first.goes_ahead);
            assert!(
                (apart + tick.as_nanos()) * &count > &turns * &period,
                "{first:?} and {later:?}"
            );
            before = later;
        }
    }
}

/// At every admission, section 2's sum is within the limit.
fn counter_sum_holds(limit: &Limit, admitted: &[Admitted]) {
    let window = limit.period().as_nanos();
    for (index, last) in admitted.iter().enumerate() {
        let sum_of = |number: u128| -> u128 {
            let earlier = &admitted[..=index];
            earlier.iter().filter(|a| a.at / window == number).map(|a| a.cost).sum()
        };
        let number = last.at / window;
        let previous = number.checked_sub(1).map_or(0, sum_of);
        let used = sum_of(number) + previous * (window - last.at % window) / window;
        assert!(used <= u128::from(limit.capacity()), "{used} at {}", last.at);
    }
}
