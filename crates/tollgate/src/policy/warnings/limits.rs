//! Whether one limit always denies before another does.

use std::time::Duration;

use crate::limit::{Algorithm, Limit, WindowStart};

/// What a limit admits at most: `at_once`, and then `count` per `period`.
struct Envelope {
    at_once: u128,
    count: u128,
    period: u128,
}

/// Whether a stream that `narrow` admits, on the same key, always fits into `wide`. Only where
/// that is certain: `false` says nothing.
pub(super) fn is_at_least_as_strict(narrow: &Limit, wide: &Limit) -> bool {
    if is_same_shape(narrow, wide) {
        return narrow.count() <= wide.count() && narrow.capacity() <= wide.capacity();
    }
    let Some(pace) = pace(narrow) else {
        return false;
    };
    let window = wide.period().as_nanos();
    let count = u128::from(wide.count());
    match wide.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyMeter | Algorithm::LeakyQueue => {
            pace.at_once <= u128::from(wide.capacity()) && pace.is_slower(count, window)
        }
        // A calendar's windows have no fixed length.
        Algorithm::FixedWindow if matches!(wide.align(), WindowStart::Calendar(_)) => false,
        Algorithm::FixedWindow | Algorithm::SlidingLog => pace.fits(window, 0, count),
        // It weighs the older window as if it had been even, so it may see a burst that is over.
        Algorithm::SlidingCounter => pace.fits(window, pace.at_once, count),
    }
}

/// Whether they differ in their counts alone, so that the smaller one is the stricter.
fn is_same_shape(a: &Limit, b: &Limit) -> bool {
    let shape = |limit: &Limit| (limit.algorithm(), limit.period(), limit.align());
    // Windows that begin at the first request may begin at different ones.
    shape(a) == shape(b) && a.zone_name() == b.zone_name() && a.align() != WindowStart::FirstRequest
}

fn pace(limit: &Limit) -> Option<Envelope> {
    let (count, period) = (u128::from(limit.count()), limit.period().as_nanos());
    let at_once = match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyMeter | Algorithm::LeakyQueue => {
            u128::from(limit.capacity())
        }
        Algorithm::SlidingLog => count,
        // The end of one window and the beginning of the next.
        Algorithm::FixedWindow if !matches!(limit.align(), WindowStart::Calendar(_)) => 2 * count,
        _ => return None,
    };
    (limit.period() > Duration::ZERO).then_some(Envelope { at_once, count, period })
}

impl Envelope {
    /// Whether it is at most `count` per `period` in the long run.
    fn is_slower(&self, count: u128, period: u128) -> bool {
        self.count * period <= count * self.period
    }

    /// Whether what is admitted in `window`, and `more`, is at most `count`.
    fn fits(&self, window: u128, more: u128, count: u128) -> bool {
        let steady = self.count.saturating_mul(window).div_ceil(self.period);
        self.at_once.saturating_add(steady).saturating_add(more) <= count
    }
}
