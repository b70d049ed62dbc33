//! `tollgate check`: says what limits mean, and plays requests against them.

mod json;
mod lines;
mod meaning;
mod play;
mod table;

use std::io::Write;
use std::time::Duration;

use clap::Args;
use tollgate::{Limit, Timestamp};

use crate::paint::Paint;
use crate::{Failure, duration, moment};
use meaning::Meaning;
use play::{Play, Played};

/// How many limits are decided together at most.
const MOST_LIMITS: usize = 64;

/// How many requests are played at most: a second's work, and a table that fits memory.
const MOST_REQUESTS: u64 = 100_000;

/// Check limits, say what they mean, and play requests against them
///
/// Each limit is one argument, so keep it in quotes. Several limits are decided together, all or
/// nothing: a request that one of them denies is charged to none.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tollgate check \"100/min burst 20\"
  tollgate check \"100/min burst 20\" --requests 30 --every 100ms
  tollgate check \"5/s\" \"1000/day calendar Europe/Paris\" --requests 50 --every 0s --json

Exit codes: 0 every limit is fine, 1 the answer could not be written, 2 a limit or an option is wrong")]
pub(crate) struct Check {
    /// Limits such as "100/min burst 20" or "10/h sliding_log"
    #[arg(required = true, value_name = "LIMIT")]
    limits: Vec<String>,

    /// Play this many requests of one key
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_REQUESTS))]
    requests: Option<u64>,

    /// The time from one request to the next, such as 0s, 250ms or 1h30m
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse, requires = "requests")]
    every: Duration,

    /// How many units each request takes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), requires = "requests")]
    cost: u64,

    /// When the first request comes, such as 2026-03-29T00:59:00Z [default: 2000-01-01T00:00:00Z]
    #[arg(long, value_name = "RFC3339", value_parser = moment::read, requires = "requests")]
    start: Option<Timestamp>,

    /// Print every request, also where many are alike
    #[arg(long, requires = "requests")]
    all: bool,

    /// Print JSON: every request, times in nanoseconds
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self, out: &mut impl Write, paint: Paint) -> Result<(), Failure> {
        let limits = self.read_limits().map_err(Failure::Usage)?;
        let meanings: Vec<Meaning> = self
            .limits
            .iter()
            .zip(&limits)
            .map(|(given, limit)| Meaning::of(given, limit))
            .collect();
        let played = match self.requests {
            Some(requests) => Some(self.play(&limits, requests).map_err(Failure::Usage)?),
            None => None,
        };
        if self.json {
            return Ok(json::write(out, &meanings, played.as_ref())?);
        }
        table::write_meanings(out, paint, &meanings)?;
        if let Some(played) = &played {
            let shown = if self.all { lines::Shown::All } else { lines::Shown::Short };
            table::write_played(out, paint, played, shown)?;
        }
        Ok(())
    }

    fn read_limits(&self) -> Result<Vec<Limit>, Vec<String>> {
        if self.limits.len() > MOST_LIMITS {
            let given = self.limits.len();
            return Err(vec![format!("{given} limits were given, at most {MOST_LIMITS}")]);
        }
        let read: Vec<_> = self.limits.iter().map(|text| text.parse::<Limit>()).collect();
        let mut wrong: Vec<String> = self
            .limits
            .iter()
            .zip(&read)
            .filter_map(|(text, limit)| Some(format!("{text:?}: {}", limit.as_ref().err()?)))
            .collect();
        if wrong.is_empty() {
            return Ok(read.into_iter().flatten().collect());
        }
        let joined = self.limits.join(" ");
        if self.limits.len() > 1 && joined.parse::<Limit>().is_ok() {
            wrong.push(format!("if this is one limit, keep it in quotes: {joined:?}"));
        }
        Err(wrong)
    }

    fn play(&self, limits: &[Limit], requests: u64) -> Result<Played, Vec<String>> {
        let play = Play { requests, every: self.every, cost: self.cost, start: self.start };
        play.against(&self.limits, limits)
    }
}
