//! Traffic: who asks, when, how much, and what they do when they are refused.
//!
//! A [`Traffic`] is read from a text such as `poisson 120/s for 60s`: a shape, then options.
//!
//! | shape | what arrives |
//! |---|---|
//! | `steady RATE` | requests at equal distances |
//! | `poisson RATE` | requests that know nothing of each other |
//! | `bursts N every TIME` | N at once, again and again |
//! | `onoff RATE on TIME off TIME` | steady requests, then none, in turn |
//! | `ramp RATE to RATE` | ever more, or ever fewer |
//! | `edge N of WINDOW` | N just before a window ends and N just after, at every other end: an attack |
//! | `storm N` | N at once, and whatever their retries make of it |
//!
//! | option | meaning |
//! |---|---|
//! | `for TIME` | how long it lasts; a minute if not said |
//! | `at TIME` | when it begins |
//! | `from N clients [zipf S]` | whose requests they are: of all alike, or by Zipf's law |
//! | `as NAME` | what the client is called |
//! | `cost N` | how many units a request asks for |
//! | `retry after [jitter TIME]` | who is refused comes again when `Retry-After` says |
//! | `retry every TIME`, `retry backoff TIME` | who is refused comes again when it likes |
//! | `tries N` | how often a request is tried at most |
//! | `with NAME=VALUE …` | attributes for a policy; `{client}` in a value is the client's name |
//!
//! ```
//! use tollgate_lab::traffic::Traffic;
//!
//! let traffic: Traffic = "poisson 120/s for 30s from 50 clients zipf 1.1".parse()?;
//! assert_eq!(traffic.arrivals(7).count(), traffic.arrivals(7).count(), "by its seed");
//!
//! let error = "posson 120/s".parse::<Traffic>().unwrap_err().to_string();
//! assert!(error.starts_with(r#"unknown shape "posson", did you mean "poisson"?"#), "{error}");
//! # Ok::<(), tollgate_lab::traffic::TrafficError>(())
//! ```

mod arrivals;
mod clients;
mod random;
mod read;
mod words;

use std::fmt;
use std::time::Duration;

pub use arrivals::{Arrival, Arrivals};
pub use clients::Draws;
pub(crate) use clients::Roster;
pub(crate) use random::Random;
pub use words::read_duration;

/// How many clients there may be.
pub(crate) const MOST_CLIENTS: u64 = 1_000_000;

/// How long traffic may last, and begin after the start: ten years.
pub(crate) const LONGEST: Duration = Duration::from_secs(3_653 * 24 * 60 * 60);

/// What a client that was refused does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// It goes away.
    Never,
    /// It comes again when it was told to, or up to `jitter` later.
    After {
        /// Against a herd of those who were told the same.
        jitter: Duration,
    },
    /// It comes again after so long.
    Every(Duration),
    /// It comes again after so long, then twice as long, up to 64 times.
    Backoff(Duration),
}

/// So many in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    count: u64,
    period: Duration,
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Steady(Rate),
    Poisson(Rate),
    Bursts { size: u64, every: Duration },
    OnOff { rate: Rate, on: Duration, off: Duration },
    Ramp { from: Rate, to: Rate },
    Edge { size: u64, window: Duration },
    Storm { size: u64 },
}

/// Whose requests they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    Evenly(u64),
    /// How many, and the exponent in thousandths.
    Zipf(u64, u32),
}

/// Requests over time. Read from a text; see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub(crate) text: String,
    pub(crate) shape: Shape,
    pub(crate) start: Duration,
    pub(crate) length: Duration,
    pub(crate) clients: Clients,
    pub(crate) name: String,
    pub(crate) cost: u64,
    pub(crate) retry: Retry,
    pub(crate) tries: u32,
    pub(crate) attributes: Vec<(String, String)>,
}

/// Why a text is no traffic, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficError(pub(crate) String);

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TrafficError {}

impl Traffic {
    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// When it is over, retries and all.
    pub fn end(&self) -> Duration {
        self.start + self.length
    }

    /// How many units a request asks for.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The window that the traffic attacks at its edges, if it does.
    pub fn attacked_window(&self) -> Option<Duration> {
        match self.shape {
            Shape::Edge { window, .. } => Some(window),
            _ => None,
        }
    }

    /// About how many requests there are, retries not counted: of Poisson's the mean.
    pub fn expected(&self) -> u128 {
        let length = self.length.as_nanos();
        match self.shape {
            Shape::Steady(rate) | Shape::Poisson(rate) => rate.within(length),
            Shape::Bursts { size, every } => u128::from(size) * length.div_ceil(every.as_nanos()),
            Shape::OnOff { rate, on, off } => {
                let cycle = on.as_nanos() + off.as_nanos();
                let whole = length / cycle * on.as_nanos();
                rate.within(whole + (length % cycle).min(on.as_nanos()))
            }
            Shape::Ramp { from, to } => (from.within(length) + to.within(length)) / 2,
            Shape::Edge { size, window } => {
                2 * u128::from(size) * (length / window.as_nanos()).div_ceil(2)
            }
            Shape::Storm { size } => size.into(),
        }
    }

    /// When requests arrive and whose they are, in order; the same for a seed everywhere. Windows
    /// that are attacked end as if the clock began at 0.
    pub fn arrivals(&self, seed: u64) -> Arrivals {
        self.arrivals_at(seed, 0)
    }

    /// The same, where the clock shows so many nanoseconds at the start.
    pub(crate) fn arrivals_at(&self, seed: u64, clock: u64) -> Arrivals {
        Arrivals::new(self, seed, clock)
    }
}

impl Rate {
    /// How many there are in so many nanoseconds, rounded up.
    fn within(self, nanos: u128) -> u128 {
        // A count below 2⁶⁴ times a length below 2⁵⁹ fits.
        (u128::from(self.count) * nanos).div_ceil(self.period.as_nanos())
    }
}
