//! How much a key is asked for on this node.

use std::time::Duration;

use crate::time::Timestamp;

/// From how many decisions within a lease's time on a key is hot: a key that is asked for less often
/// would give back most of what it borrowed.
const HOT: u64 = 4;

/// What was asked for of a key lately, whether it was allowed or not: the counts of two spans, the
/// older weighted by how much of it is in view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// When the current span began.
    began: u64,
    current: DemandSample,
    previous: DemandSample,
}

#[derive(Clone, Copy, Debug, Default)]
struct DemandSample {
    times: u64,
    units: u64,
}

impl Demand {
    /// Notes that `cost` units were asked for. `span` is to be the same at every call: a lease's
    /// time to live.
    pub fn record(&mut self, span: Duration, cost: u64, now: Timestamp) {
        let seen = self.at(span, now);
        *self = Demand {
            current: DemandSample {
                times: seen.current.times.saturating_add(1),
                units: seen.current.units.saturating_add(cost),
            },
            ..seen
        };
    }

    /// The units that were asked for within the last `span`, about.
    pub fn within(&self, span: Duration, now: Timestamp) -> u64 {
        self.weigh(span, now, |asked| asked.units)
    }

    /// Whether the key is asked for often enough for a lease to be worth its while.
    pub fn is_high(&self, span: Duration, now: Timestamp) -> bool {
        self.weigh(span, now, |asked| asked.times) >= HOT
    }

    /// Whether nothing of it is left: it is as good as new.
    pub fn is_idle(&self, span: Duration, now: Timestamp) -> bool {
        self.weigh(span, now, |asked| asked.times) == 0
    }

    fn weigh(&self, span: Duration, now: Timestamp, of: impl Fn(&DemandSample) -> u64) -> u64 {
        let seen = self.at(span, now);
        let previous = of(&seen.previous);
        if previous == 0 {
            // Of a key that is new, and of most that are cold: a wide division takes longer.
            return of(&seen.current);
        }
        let span = nanos(span);
        let into = now.as_nanos().saturating_sub(seen.began).min(span);
        let weight = u128::from(previous) * u128::from(span - into) / u128::from(span);
        of(&seen.current).saturating_add(u64::try_from(weight).unwrap_or(u64::MAX))
    }

    /// The same with the spans that have ended put away.
    fn at(&self, span: Duration, now: Timestamp) -> Demand {
        let (span, now) = (nanos(span), now.as_nanos());
        let since = now.saturating_sub(self.began);
        if since < span {
            *self
        } else if since - span < span {
            let (began, previous) = (self.began.saturating_add(span), self.current);
            Demand { began, current: DemandSample::default(), previous }
        } else {
            Demand { began: now, ..Demand::default() }
        }
    }
}

/// Never zero, so that it can be divided by.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1)
}
