//! What traffic there is, and what happens to the nodes.

use std::time::Duration;

use tollgate::Limit;

use super::{SharingOptions, SimulateError};
use crate::traffic::{Random, Traffic};

/// A scene that is to be played.
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) traffic: Vec<Traffic>,
    pub(super) hot_percent: Option<u64>,
    pub(super) crashes: Vec<Duration>,
}

/// About how many requests a scene of ours has at the limit's rate.
const REQUESTS: u64 = 200_000;

/// How many requests of a hundred come to the first node where traffic is skewed.
const SKEWED: u64 = 90;

impl Stage {
    /// What somebody asked for.
    pub(super) fn given(traffic: Vec<Traffic>, options: &SharingOptions) -> Stage {
        Stage {
            name: "traffic".to_owned(),
            traffic,
            hot_percent: options.hot_percent,
            crashes: options.crashes.clone(),
        }
    }

    /// To which node the next request comes.
    pub(super) fn node(&self, nodes: u64, random: &mut Random) -> u32 {
        let node = match self.hot_percent {
            Some(percent) if random.below(100) < percent => 0,
            Some(_) => 1 + random.below(nodes.saturating_sub(1)),
            None => random.below(nodes),
        };
        u32::try_from(node).unwrap_or(0)
    }
}

/// The four scenes, made to a limit's measure.
pub(super) fn all(limit: &Limit, options: &SharingOptions) -> Result<Vec<Stage>, SimulateError> {
    let period = limit.period();
    let periods = u32::try_from(REQUESTS / limit.count()).unwrap_or(u32::MAX).clamp(3, 20);
    let length = period.saturating_mul(periods);
    let rate = |tenths: u64| {
        Limit::token_bucket((limit.count().saturating_mul(tenths) / 10).max(1), period).to_string()
    };
    let time = |time: Duration| match time.subsec_nanos() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}us", time.as_micros()),
    };
    let lasts = time(length);
    let stage = |name: &str, text: String| -> Result<Stage, SimulateError> {
        let traffic: Traffic = text.parse().map_err(|_| {
            let hint = "give some with --traffic \"poisson 20/s for 1min\"";
            SimulateError(format!("no traffic can be made for {limit}, {hint}"))
        })?;
        let hot_percent = options.hot_percent;
        let crashes = options.crashes.clone();
        Ok(Stage { name: name.to_owned(), traffic: vec![traffic], hot_percent, crashes })
    };
    let steady = stage("steady at 80%", format!("poisson {} for {lasts}", rate(8)))?;
    let skewed = stage(
        &format!("skewed at 200%, {SKEWED}% on one node"),
        format!("poisson {} for {lasts}", rate(20)),
    )?;
    let bursty = stage(
        "bursty, 400% a quarter of the time",
        format!(
            "onoff {} on {} off {} for {lasts}",
            rate(40),
            time(period / 2),
            time(period * 3 / 2)
        ),
    )?;
    let crash = stage("crashes at 120%", format!("poisson {} for {lasts}", rate(12)))?;
    let crashes = (1..10).map(|tenth| length * tenth / 10).collect();
    Ok(vec![
        steady,
        Stage { hot_percent: options.hot_percent.or(Some(SKEWED)), ..skewed },
        bursty,
        Stage { crashes, ..crash },
    ])
}
