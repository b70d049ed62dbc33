//! What a limit means, in plain words.

use std::time::Duration;

use tollgate::{Algorithm, CalendarUnit, Limit, Limiter, ManualClock, WindowStart};

use crate::duration::human;

/// A limit, said in other words.
pub(super) struct Meaning {
    /// As it was given.
    pub(super) given: String,
    pub(super) limit: Limit,
    /// The algorithm's name in a limit's text.
    pub(super) algorithm: &'static str,
    pub(super) how: &'static str,
    pub(super) sustained: String,
    pub(super) at_once: String,
    pub(super) as_new: AsNew,
    pub(super) note: Option<String>,
}

/// When a key that took all it could is as good as new.
pub(super) enum AsNew {
    /// After so long, and from when that counts.
    After(Duration, &'static str),
    /// At the end of something that lasts so long at most.
    Within(Duration, &'static str),
    /// At the end of a calendar window, whose length varies.
    End(String),
}

impl Meaning {
    pub(super) fn of(given: &str, limit: &Limit) -> Meaning {
        let (algorithm, how) = counts(limit);
        Meaning {
            given: given.to_owned(),
            limit: limit.clone(),
            algorithm,
            how,
            sustained: sustained(limit),
            at_once: at_once(limit),
            as_new: as_new(limit),
            note: note(limit),
        }
    }
}

impl AsNew {
    pub(super) fn say(&self) -> String {
        match self {
            AsNew::After(length, since) => format!("{} after {since}", human(*length)),
            AsNew::Within(length, end) => format!("{end}, within {}", human(*length)),
            AsNew::End(end) => end.clone(),
        }
    }
}

fn counts(limit: &Limit) -> (&'static str, &'static str) {
    match limit.algorithm() {
        Algorithm::TokenBucket => {
            ("token_bucket", "token bucket: tokens flow back steadily, a request takes them out")
        }
        Algorithm::LeakyMeter => (
            "leaky_bucket meter",
            "leaky bucket (meter): requests pour in, it leaks steadily, what overflows is denied",
        ),
        Algorithm::LeakyQueue => (
            "leaky_bucket queue",
            "leaky bucket (queue): requests wait their turn and leave at equal distances",
        ),
        Algorithm::FixedWindow => {
            ("fixed_window", "fixed window: a count that starts again at zero with every window")
        }
        Algorithm::SlidingLog => (
            "sliding_log",
            "sliding log: remembers what was admitted and when, exact over every such interval",
        ),
        Algorithm::SlidingCounter => (
            "sliding_counter",
            "sliding counter: two windows, the older weighted by how much of it is in view",
        ),
        _ => ("unknown", "an algorithm this build has no words for"),
    }
}

fn sustained(limit: &Limit) -> String {
    let (count, period) = (limit.count(), limit.period());
    match (limit.algorithm(), limit.align()) {
        (Algorithm::FixedWindow, WindowStart::Calendar(unit)) => {
            let zone = limit.zone_name().unwrap_or("UTC");
            format!("{count} in each calendar {}, in {zone}", unit_name(unit))
        }
        (Algorithm::FixedWindow, WindowStart::FirstRequest) => {
            format!("{count} in the {} from a key's first request", human(period))
        }
        (Algorithm::FixedWindow, _) => {
            format!("{count} in each window of {}, the same windows for all keys", human(period))
        }
        (Algorithm::SlidingLog, _) => format!("{count} in any interval of {}", human(period)),
        (Algorithm::SlidingCounter, _) => {
            format!("about {count} in any interval of {}", human(period))
        }
        _ => format!("{count} per {}{}", period_name(period), spacing(limit)),
    }
}

/// How far apart a bucket's units come back, where that can be said in nanoseconds.
fn spacing(limit: &Limit) -> String {
    let (nanos, count) = (limit.period().as_nanos(), u128::from(limit.count()));
    if count <= 1 || nanos < count {
        return String::new();
    }
    let about = if nanos.is_multiple_of(count) { "" } else { "about " };
    let apart = u64::try_from(nanos / count).unwrap_or(u64::MAX);
    format!(", {about}one every {}", human(Duration::from_nanos(apart)))
}

fn at_once(limit: &Limit) -> String {
    let most = limit.capacity();
    match limit.algorithm() {
        Algorithm::LeakyQueue => {
            format!("{most}: one goes ahead, {} may wait their turn", most - 1)
        }
        _ => most.to_string(),
    }
}

fn as_new(limit: &Limit) -> AsNew {
    match (limit.algorithm(), limit.align()) {
        (Algorithm::FixedWindow, WindowStart::Calendar(unit)) => {
            AsNew::End(format!("when the {} ends", unit_name(unit)))
        }
        (Algorithm::FixedWindow, WindowStart::FirstRequest) => {
            AsNew::After(limit.period(), "the first request of the window")
        }
        (Algorithm::FixedWindow, _) => AsNew::Within(limit.period(), "when the window ends"),
        (Algorithm::SlidingLog, _) => AsNew::After(limit.period(), "the last request"),
        (Algorithm::SlidingCounter, _) => {
            AsNew::Within(2 * limit.period(), "before the next window has ended")
        }
        _ => AsNew::After(used_up(limit), "it was used up"),
    }
}

/// How long a bucket that was emptied at once needs, asked of the library.
fn used_up(limit: &Limit) -> Duration {
    let limiter = Limiter::builder(limit.clone()).clock(ManualClock::new()).max_keys(1).build();
    limiter.map_or(Duration::ZERO, |limiter| {
        limiter.check_n("somebody", limit.capacity()).reset_after()
    })
}

/// What surprises people about an algorithm.
fn note(limit: &Limit) -> Option<String> {
    let twice = limit.count().saturating_mul(2);
    match (limit.algorithm(), limit.align()) {
        (Algorithm::FixedWindow, WindowStart::FirstRequest) => None,
        (Algorithm::FixedWindow, _) => {
            Some(format!("up to {twice} may pass in a moment, around the end of a window"))
        }
        (Algorithm::SlidingCounter, _) => {
            Some("an estimate: it takes the older window's requests as spread evenly".to_owned())
        }
        _ => None,
    }
}

fn period_name(period: Duration) -> String {
    let name = match period.as_nanos() {
        1_000_000_000 => "second",
        60_000_000_000 => "minute",
        3_600_000_000_000 => "hour",
        86_400_000_000_000 => "day",
        604_800_000_000_000 => "week",
        _ => return human(period),
    };
    name.to_owned()
}

fn unit_name(unit: CalendarUnit) -> &'static str {
    match unit {
        CalendarUnit::Minute => "minute",
        CalendarUnit::Hour => "hour",
        CalendarUnit::Day => "day",
        CalendarUnit::Week => "week",
        CalendarUnit::Month => "month",
        _ => "window",
    }
}
