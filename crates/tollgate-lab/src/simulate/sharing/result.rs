//! What came of it, as figures.

use serde::Serialize;

use super::Sharing;

/// Ways to share a limit, side by side.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Shared {
    /// The limit, as text.
    pub subject: String,
    /// How many nodes share it.
    pub nodes: u64,
    /// What the random numbers were made of.
    pub seed: u64,
    /// How many units the limit has in its period.
    pub count: u64,
    /// The limit's period.
    pub window_nanos: u64,
    /// How long a lease lasts.
    pub lease_ttl_nanos: u64,
    /// The largest lease, in percent of what a new key admits.
    pub lease_share_percent: u64,
    /// How often nodes tell the store what they admitted, where they do so now and then.
    pub every_nanos: u64,
    /// How long an answer of the store takes.
    pub latency_nanos: u64,
    /// One for each kind of traffic.
    pub scenes: Vec<Scene>,
}

/// One kind of traffic.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Scene {
    /// What it is called.
    pub name: String,
    /// The traffic, as text.
    pub traffic: Vec<String>,
    /// How many requests of a hundred come to the first node, where nodes are not all alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_percent: Option<u64>,
    /// When nodes crash.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crashes_nanos: Vec<u64>,
    /// How long it lasts.
    pub length_nanos: u64,
    /// How long each of [`SharedRun::in_window`] is.
    pub slot_nanos: u64,
    /// What one gate with everything in one place admits.
    pub admitted_by_one_gate: u64,
    /// One for each way.
    pub runs: Vec<SharedRun>,
}

/// One way to share.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SharedRun {
    /// Which.
    pub way: Sharing,
    /// How many requests there were, retries not counted.
    pub offered: u64,
    /// How often was asked, retries counted.
    pub tries: u64,
    /// How many requests were admitted.
    pub admitted: u64,
    /// How many tries were refused.
    pub refused: u64,
    /// How often the store was called.
    pub calls: u64,
    /// The same for each try.
    pub calls_per_decision: f64,
    /// What was admitted, in percent of what one gate admits.
    pub used_percent: f64,
    /// By how many units the limit was exceeded at worst: over any interval, or in any window.
    pub over: u64,
    /// By how many it may be, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_at_most: Option<u64>,
    /// The most units that other nodes could still give out when somebody was refused.
    pub stranded: u64,
    /// Units that nodes had borrowed when they crashed.
    pub lost: u64,
    /// Jain's index of which part each node admitted of what it was asked: 1 where all had the same.
    pub fairness: f64,
    /// The units of the first key that went ahead in the window that ends with each slot of time.
    pub in_window: Vec<u64>,
}

impl Scene {
    /// What came of one way, if it is among those that were asked for.
    pub fn run_of(&self, way: Sharing) -> Option<&SharedRun> {
        self.runs.iter().find(|run| run.way == way)
    }
}
