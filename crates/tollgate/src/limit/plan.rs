//! A limit's numbers, checked and made ready for arithmetic: what the algorithms work with.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::{Algorithm, CalendarUnit, Limit, LimitError, WindowStart};
use crate::algorithm::{Bucket, FixedWindow, SlidingCounter, SlidingLog, WindowBoundary};
use crate::bounds::{MAX_LOG, MAX_PERIOD, MIN_PERIOD};

/// A checked limit. Whatever holds one may trust its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    Bucket(Bucket),
    FixedWindow(FixedWindow),
    SlidingLog(SlidingLog),
    SlidingCounter(SlidingCounter),
}

impl Plan {
    pub(crate) fn new(limit: &Limit) -> Result<Plan, LimitError> {
        check_numbers(limit)?;
        let window = nanos(limit.period);
        let count = limit.count;
        Ok(match limit.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyMeter | Algorithm::LeakyQueue => {
                Plan::Bucket(bucket(limit)?)
            }
            Algorithm::FixedWindow => {
                Plan::FixedWindow(FixedWindow { count, start: start(limit, window)? })
            }
            Algorithm::SlidingLog => {
                at_most(count, MAX_LOG, "sliding log", "use sliding_counter for more")?;
                Plan::SlidingLog(SlidingLog { count, window })
            }
            Algorithm::SlidingCounter => Plan::SlidingCounter(SlidingCounter { count, window }),
        })
    }
}

/// What every limit must have, and what belongs to some algorithms only.
fn check_numbers(limit: &Limit) -> Result<(), LimitError> {
    let refuse = |message: String| Err(LimitError::new(message));
    if limit.count == 0 {
        return refuse("count is 0, must be at least 1".to_owned());
    }
    if limit.period < MIN_PERIOD {
        return refuse(format!("period is {:?}, must be at least {MIN_PERIOD:?}", limit.period));
    }
    if limit.period > MAX_PERIOD {
        return refuse(format!("period is {:?}, must be at most 100 years", limit.period));
    }
    if limit.burst.is_some() && !limit.is_bucket() {
        return refuse(
            "burst belongs to a token or leaky bucket, leave it out of a window".to_owned(),
        );
    }
    if limit.burst == Some(0) && limit.algorithm != Algorithm::LeakyQueue {
        return refuse("burst is 0, must be at least 1 for anything to pass".to_owned());
    }
    if limit.align != WindowStart::Epoch && limit.algorithm != Algorithm::FixedWindow {
        return refuse(
            "only a fixed window can start at the first request or by the calendar".to_owned(),
        );
    }
    if limit.zone.is_some() && !matches!(limit.align, WindowStart::Calendar(_)) {
        return refuse("a time zone belongs to a calendar window, write for example 1000/day calendar Europe/Paris".to_owned());
    }
    Ok(())
}

fn at_most(count: u64, most: u64, what: &str, instead: &str) -> Result<(), LimitError> {
    if count <= most {
        return Ok(());
    }
    Err(LimitError::new(format!(
        "count is {count}, must be at most {most} for a {what}: {instead}"
    )))
}

fn bucket(limit: &Limit) -> Result<Bucket, LimitError> {
    if limit.burst == Some(u64::MAX) && limit.algorithm == Algorithm::LeakyQueue {
        return Err(LimitError::new("burst is 2^64 - 1, must be less for a queue"));
    }
    let shapes = limit.algorithm == Algorithm::LeakyQueue;
    let bucket = Bucket::new(limit.count, nanos(limit.period), limit.capacity(), shapes);
    if bucket.refill_nanos() > u128::from(nanos(MAX_PERIOD)) {
        return Err(LimitError::new(format!(
            "a burst of {} at {} per {:?} takes more than 100 years to refill, lower the burst or raise the count",
            limit.capacity(),
            limit.count,
            limit.period,
        )));
    }
    Ok(bucket)
}

fn start(limit: &Limit, window: u64) -> Result<WindowBoundary, LimitError> {
    Ok(match limit.align {
        WindowStart::Epoch => WindowBoundary::Epoch { window },
        WindowStart::FirstRequest => WindowBoundary::First { window },
        WindowStart::Calendar(unit) => WindowBoundary::Calendar { unit, zone: zone(limit, unit)? },
    })
}

fn zone(limit: &Limit, unit: CalendarUnit) -> Result<TimeZone, LimitError> {
    debug_assert_eq!(limit.period, unit.nominal());
    match limit.zone.as_deref() {
        None => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| {
            LimitError::new(format!(
                "unknown time zone {name:?}, use an IANA name such as Europe/Paris or UTC"
            ))
        }),
    }
}

/// The caller has checked that the duration is at most [`MAX_PERIOD`], which fits.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
