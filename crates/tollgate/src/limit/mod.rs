//! `Limit`: what is allowed. Plain data; its numbers are checked once, when it is put to use.

mod error;
mod period;
mod plan;
#[cfg(feature = "serde")]
mod serde;
mod share;
#[cfg(any(feature = "file", feature = "serde"))]
mod table;
mod text;
mod units;

use std::borrow::Cow;
use std::time::Duration;

pub use error::LimitError;
#[cfg(feature = "file")]
pub(crate) use period::{DisplayDuration, read_duration};
pub(crate) use plan::Plan;
#[cfg(feature = "file")]
pub(crate) use table::LimitTable;

/// How a limit counts. A token bucket is the right default for API traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A bucket of tokens that refills steadily; a request takes tokens out.
    TokenBucket,
    /// A bucket that leaks steadily; a request pours in and is denied when it would overflow.
    LeakyMeter,
    /// A queue that lets units leave at equal distances; a request is told how long to wait.
    LeakyQueue,
    /// A count that starts again at zero with every window.
    FixedWindow,
    /// What was admitted and when: exact over every interval as long as the window.
    SlidingLog,
    /// The counts of two windows, the older weighted by how much of it is still in view.
    SlidingCounter,
}

/// Where the windows of a fixed window begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WindowStart {
    /// At multiples of the window on the wall clock, the same for all keys.
    Epoch,
    /// At the key's first request.
    FirstRequest,
    /// With the minute, hour, day, week or month of a time zone.
    Calendar(CalendarUnit),
}

/// A window of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day, from midnight to midnight, however long daylight saving makes it.
    Day,
    /// A week, from Monday.
    Week,
    /// A month.
    Month,
}

/// What is allowed: an algorithm and its numbers.
///
/// A limit reads as it is said: `Limit::per_minute(100).burst(20)` is 100 per minute, at most 20
/// of them at once. The constructors are `const` and take any number; impossible ones (zero, a
/// window of a thousand years) are refused with a message that says what would be right, by
/// [`Limiter::new`](crate::Limiter::new), by [`Limit::validate`] and when parsed from text.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Limit;
///
/// const API: Limit = Limit::per_minute(100).burst(20);
/// const LOGIN: Limit = Limit::sliding_log(10, Duration::from_secs(3600));
///
/// assert_eq!(API, "100/min burst 20".parse()?);
/// assert_eq!(LOGIN.to_string(), "10/h sliding_log");
/// assert!(Limit::per_second(0).validate().is_err());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
///
/// It is not `Copy`: it owns the name of its time zone, which may come from a client. To be `Copy` it
/// would have to keep every such name in memory for ever.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    algorithm: Algorithm,
    count: u64,
    period: Duration,
    burst: Option<u64>,
    align: WindowStart,
    zone: Option<Cow<'static, str>>,
}

impl Limit {
    const fn new(algorithm: Algorithm, count: u64, period: Duration) -> Limit {
        Limit { algorithm, count, period, burst: None, align: WindowStart::Epoch, zone: None }
    }

    /// A token bucket that refills `count` tokens per second and holds as many.
    pub const fn per_second(count: u64) -> Limit {
        Limit::token_bucket(count, units::SECOND)
    }

    /// A token bucket that refills `count` tokens per minute and holds as many.
    pub const fn per_minute(count: u64) -> Limit {
        Limit::token_bucket(count, units::MINUTE)
    }

    /// A token bucket that refills `count` tokens per hour and holds as many.
    pub const fn per_hour(count: u64) -> Limit {
        Limit::token_bucket(count, units::HOUR)
    }

    /// A token bucket that refills `count` tokens per day of 24 hours and holds as many.
    pub const fn per_day(count: u64) -> Limit {
        Limit::token_bucket(count, units::DAY)
    }

    /// A token bucket that refills `count` tokens per `period` and holds as many; see
    /// [`burst`](Limit::burst).
    pub const fn token_bucket(count: u64, period: Duration) -> Limit {
        Limit::new(Algorithm::TokenBucket, count, period)
    }

    /// A leaky bucket that leaks `count` units per `period` and denies what would overflow it.
    pub const fn leaky_bucket(count: u64, period: Duration) -> Limit {
        Limit::new(Algorithm::LeakyMeter, count, period)
    }

    /// A leaky bucket that shapes: admitted units leave one by one, `period / count` apart, and
    /// [`delay`](crate::Decision::delay) says how long a request has to wait for its turn.
    pub const fn leaky_queue(count: u64, period: Duration) -> Limit {
        Limit::new(Algorithm::LeakyQueue, count, period)
    }

    /// `count` per window, windows starting at multiples of `window` on the wall clock; see
    /// [`starting_at_first_request`](Limit::starting_at_first_request) and [`calendar`](Limit::calendar) for other starts.
    pub const fn fixed_window(count: u64, window: Duration) -> Limit {
        Limit::new(Algorithm::FixedWindow, count, window)
    }

    /// `count` per minute, hour, day, week or month of the calendar, in UTC unless a
    /// [`zone`](Limit::zone) is named.
    pub const fn calendar(count: u64, unit: CalendarUnit) -> Limit {
        let mut limit = Limit::fixed_window(count, unit.nominal());
        limit.align = WindowStart::Calendar(unit);
        limit
    }

    /// At most `count` in every interval as long as `window`, to the nanosecond.
    pub const fn sliding_log(count: u64, window: Duration) -> Limit {
        Limit::new(Algorithm::SlidingLog, count, window)
    }

    /// About `count` in every interval as long as `window`, in 16 bytes a key.
    pub const fn sliding_counter(count: u64, window: Duration) -> Limit {
        Limit::new(Algorithm::SlidingCounter, count, window)
    }

    /// How much a bucket holds: what may pass at once after a quiet spell, or for a queue how
    /// many units may wait. Without it, a bucket holds the count of one period.
    #[must_use]
    pub const fn burst(mut self, units: u64) -> Limit {
        self.burst = Some(units);
        self
    }

    /// Starts a fixed window at the key's first request instead of on the wall clock.
    #[must_use]
    pub const fn starting_at_first_request(mut self) -> Limit {
        self.align = WindowStart::FirstRequest;
        self
    }

    /// The IANA time zone of a calendar window, such as `Europe/Paris`.
    #[must_use]
    pub fn zone(mut self, name: impl Into<Cow<'static, str>>) -> Limit {
        self.zone = Some(name.into());
        self
    }

    /// Says what is wrong with the numbers, or nothing.
    ///
    /// # Errors
    /// Where they are zero, too large to be kept exact, or do not belong to the algorithm.
    pub fn validate(&self) -> Result<(), LimitError> {
        Plan::new(self).map(drop)
    }

    /// How the limit counts.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Units per period.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The period of a bucket or the window; for a calendar month, 30 days.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Where a fixed window begins; [`WindowStart::Epoch`] for every other algorithm.
    pub const fn align(&self) -> WindowStart {
        self.align
    }

    /// The time zone that was named for a calendar window.
    pub fn zone_name(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The most that a new key admits at one instant: a bucket's burst (one more for a queue,
    /// whose first unit does not wait), a window's count.
    pub const fn capacity(&self) -> u64 {
        let held = match self.burst {
            Some(units) => units,
            None => self.count,
        };
        match self.algorithm {
            Algorithm::LeakyQueue => held.saturating_add(1),
            _ => held,
        }
    }

    /// Whether the algorithm is a bucket, which alone has a burst.
    const fn is_bucket(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::TokenBucket | Algorithm::LeakyMeter | Algorithm::LeakyQueue
        )
    }
}

impl CalendarUnit {
    /// The unit's length where it does not vary; a month counts as 30 days.
    const fn nominal(self) -> Duration {
        match self {
            CalendarUnit::Minute => units::MINUTE,
            CalendarUnit::Hour => units::HOUR,
            CalendarUnit::Day => units::DAY,
            CalendarUnit::Week => units::WEEK,
            CalendarUnit::Month => units::MONTH,
        }
    }

    /// The nominal length in nanoseconds.
    #[allow(clippy::cast_possible_truncation, reason = "a month has less than 2^52 nanoseconds")]
    pub(crate) const fn nominal_nanos(self) -> u64 {
        self.nominal().as_nanos() as u64
    }
}
