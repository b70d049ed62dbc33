//! What a run is to do, checked.

use std::time::Duration;

use tollgate_lab::traffic::Draws;

use super::target::{Protocol, Target};

/// A connection more is a file more, and a task; servers turn away more than these.
const MOST_CONNECTIONS: usize = 10_000;

/// Requests at once on a connection, and on all together: each is remembered until it is answered.
const MOST_PIPELINE: usize = 1024;
const MOST_AT_ONCE: usize = 100_000;

/// Requests a second: beyond it a machine cannot send.
const MOST_RATE: u64 = 10_000_000;

/// A week.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) connections: usize,
    pub(super) pipeline: usize,
    /// Requests a second of an open loop.
    pub(super) rate: Option<u64>,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    /// Instead of a duration.
    pub(super) requests: Option<u64>,
    pub(super) keys: u32,
    pub(super) zipf: Option<String>,
    pub(super) seed: u64,
}

impl Plan {
    /// Everything that is wrong with it.
    pub(super) fn check(&self, target: &Target) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        let mut bounded = |name: &str, value: u64, most: u64| {
            if value == 0 || value > most {
                wrong.push(format!("{name} is {value}, must be from 1 to {most}"));
            }
        };
        bounded("--connections", self.connections as u64, MOST_CONNECTIONS as u64);
        bounded("--pipeline", self.pipeline as u64, MOST_PIPELINE as u64);
        bounded("--rate", self.rate.unwrap_or(1), MOST_RATE);
        bounded("--requests", self.requests.unwrap_or(1), u64::MAX);
        bounded("--keys", self.keys.into(), u32::MAX.into());
        let at_once = self.connections.saturating_mul(self.pipeline);
        if wrong.is_empty() && at_once > MOST_AT_ONCE {
            wrong.push(format!(
                "--connections times --pipeline is {at_once}, must be at most {MOST_AT_ONCE}"
            ));
        }
        if self.pipeline > 1 && target.protocol == Protocol::Http {
            wrong.push(
                "--pipeline is for rls and resp: over HTTP a connection has one request at a time, use more --connections"
                    .to_owned(),
            );
        }
        if self.duration.is_zero() {
            wrong.push("--duration is 0s, must be more".to_owned());
        }
        if self.duration > LONGEST || self.warmup > LONGEST {
            wrong.push("--duration and --warmup must be at most 7 days".to_owned());
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    pub(super) fn draws(&self) -> Result<Draws, String> {
        match &self.zipf {
            None => Ok(Draws::evenly(self.keys, self.seed)),
            Some(exponent) => Draws::zipf(self.keys, exponent, self.seed)
                .map_err(|error| format!("--keys with --zipf: {error}")),
        }
    }
}
