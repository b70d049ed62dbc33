//! What came of it, as figures.

use std::time::Duration;

use serde::Serialize;

/// A decision, as whoever watches a simulation hears of it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Decided<'a> {
    /// Which run it belongs to, from 0, and how many there are.
    pub run: (usize, usize),
    /// How much of the run's time has passed, of a thousand.
    pub progress: u64,
    /// When it was asked for, in nanoseconds since the start.
    pub at_nanos: u64,
    /// Whose it was.
    pub client: &'a str,
    /// How many units it asked for.
    pub cost: u64,
    /// Whether it went ahead.
    pub allowed: bool,
    /// What was left after it; `None` where nothing limits.
    pub remaining: Option<u64>,
    /// What it was told of when to come again; `None` where never.
    pub retry_after: Option<Duration>,
    /// How long it waited for an answer and for its turn.
    pub wait: Duration,
}

/// What came of a simulation.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Simulated {
    /// What was asked: the limits as text, or the rules of a policy.
    pub subject: String,
    /// The traffic, as text.
    pub traffic: Vec<String>,
    /// What the random numbers were made of.
    pub seed: u64,
    /// How long it lasted.
    pub length_nanos: u64,
    /// The window in which the largest number admitted was looked for.
    pub window_nanos: u64,
    /// How long each of [`Run::slots`] is.
    pub slot_nanos: u64,
    /// Whether there is but one key: all clients were counted together, or there was one.
    pub together: bool,
    /// From when to when the store was away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_nanos: Option<(u64, u64)>,
    /// What somebody may not have meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// One, or as many as were put side by side.
    pub runs: Vec<Run>,
}

/// What came of one run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// What tells it from the others.
    pub name: String,
    /// The limits in it, as text; of a policy, the names of its rules.
    pub limits: Vec<String>,
    /// The count and the period of a single limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<(u64, u64)>,
    /// How many requests there were, retries not counted.
    pub offered: u64,
    /// How often was asked, retries counted.
    pub tries: u64,
    /// How many requests were admitted.
    pub admitted: u64,
    /// How many tries were refused.
    pub refused: u64,
    /// How many requests were never admitted: they gave up, or the time was over.
    pub unserved: u64,
    /// How many requests were admitted to wait for their turn: in a leaky queue.
    pub delayed: u64,
    /// How many tries were decided without the store.
    pub degraded: u64,
    /// How many tries no rule applied to.
    pub unlimited: u64,
    /// The most units of one client that went ahead in any window.
    pub busiest_client: Busiest,
    /// The most units of all clients together that went ahead in any window.
    pub busiest: Busiest,
    /// The same in the windows of the wall clock, which begin at multiples of their length.
    pub busiest_on_the_clock: Busiest,
    /// How long requests that were admitted had to wait, retries and turns counted.
    pub waits: Waits,
    /// When the last request that was admitted went ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_nanos: Option<u64>,
    /// How many clients there were.
    pub clients: usize,
    /// Jain's index of what was admitted of each client: 1 where all had the same, towards 0 the
    /// more few had it all.
    pub fairness: f64,
    /// The clients with the most refusals, at most ten.
    pub hit_hardest: Vec<ClientFigures>,
    /// Which rules refused, the most telling first.
    pub refused_by: Vec<RuleRefusals>,
    /// What happened over time.
    pub slots: Vec<Slot>,
}

/// The most units in any window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Busiest {
    /// How many.
    pub units: u64,
    /// Where the window begins.
    pub from_nanos: u64,
}

/// How long requests had to wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waits {
    /// Half of them waited no longer.
    pub median_nanos: u64,
    /// Nine of ten waited no longer.
    pub p90_nanos: u64,
    /// Ninety-nine of a hundred waited no longer.
    pub p99_nanos: u64,
    /// Nobody waited longer.
    pub longest_nanos: u64,
    /// How long of a hundred at most as many waited as the place in the list says, from 0 to 100;
    /// empty where nobody waited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_percent_nanos: Vec<u64>,
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClientFigures {
    /// What it is called.
    pub name: String,
    /// How many requests it had, retries not counted.
    pub offered: u64,
    /// How many were admitted.
    pub admitted: u64,
    /// How many tries were refused.
    pub refused: u64,
}

/// What one rule refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RuleRefusals {
    /// The rule; of limits, the limit.
    pub rule: String,
    /// How many tries it refused.
    pub refused: u64,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Slot {
    /// New requests.
    pub offered: u64,
    /// Tries that were admitted.
    pub admitted: u64,
    /// Tries that were refused.
    pub refused: u64,
    /// What of the admitted was decided without the store.
    pub degraded: u64,
    /// Requests that went ahead: later than they were admitted, where they had to wait.
    pub went_ahead: u64,
    /// The most units that went ahead in any window that ends in this slot: of the first client,
    /// or of all where they are counted together.
    pub in_window: u64,
    /// What the first client could still take at the end of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
}
