//! What was measured, as it is printed and written to JSON.

use serde::Serialize;

use crate::measure::quantile;
use crate::peers::{Traffic, Who};
use crate::stream::Spread;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Section {
    /// One request, one limit.
    Decisions,
    /// `check_many` beside single calls.
    Batch,
    /// `check_all` of three charges.
    Three,
    /// Quantiles of single calls.
    Tails,
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Section::Decisions => "decisions",
            Section::Batch => "batch",
            Section::Three => "three",
            Section::Tails => "tails",
        }
    }
}

/// Under what a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Scenario {
    pub(crate) keys: usize,
    pub(crate) spread: Spread,
    pub(crate) traffic: Traffic,
    pub(crate) threads: usize,
}

impl Scenario {
    pub(crate) fn keys_name(&self) -> String {
        keys_name(self.keys)
    }

    /// One key is spread over in one way only.
    pub(crate) fn spread_name(&self) -> &'static str {
        if self.keys == 1 { "" } else { self.spread.name() }
    }
}

pub(crate) fn keys_name(keys: usize) -> String {
    match keys {
        1 => "hot".to_owned(),
        1_000_000.. => format!("{}M", keys / 1_000_000),
        _ => format!("{}k", keys / 1000),
    }
}

pub(crate) fn threads_name(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// One contender beside another, round by round, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) peer: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) peer_nanos: Vec<f64>,
    pub(crate) ours_nanos: Vec<f64>,
}

/// How many times as long the peer takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
}

impl Pair {
    pub(crate) fn ratio(&self) -> Ratio {
        let rounds = self.peer_nanos.iter().zip(&self.ours_nanos);
        let ratios: Vec<f64> = rounds.map(|(peer, ours)| peer / ours).collect();
        let [median, p10, p90] = [0.5, 0.1, 0.9].map(|share| quantile(&ratios, share));
        Ratio { median, p10, p90 }
    }

    pub(crate) fn peer_median(&self) -> f64 {
        quantile(&self.peer_nanos, 0.5)
    }

    pub(crate) fn ours_median(&self) -> f64 {
        quantile(&self.ours_nanos, 0.5)
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) section: Section,
    pub(crate) scenario: Scenario,
    /// Of tails only: which share of calls is faster.
    pub(crate) quantile: Option<&'static str>,
    pub(crate) pairs: Vec<Pair>,
}

impl Row {
    pub(crate) fn new(section: Section, scenario: Scenario) -> Row {
        Row { name: name(section, &scenario), section, scenario, quantile: None, pairs: vec![] }
    }

    /// The row's pair of these two, if both were measured.
    pub(crate) fn pair(&self, peer: Who, ours: Who) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.peer == peer.name() && pair.ours == ours.name())
    }
}

/// What `--filter` looks at.
pub(crate) fn name(section: Section, scenario: &Scenario) -> String {
    let spread = match scenario.spread_name() {
        "" => String::new(),
        spread => format!("{spread}/"),
    };
    let (keys, traffic) = (scenario.keys_name(), scenario.traffic.name());
    format!("{}/{keys}/{spread}{traffic}/{}t", section.name(), scenario.threads)
}

/// What a limiter's keys occupy.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bytes {
    pub(crate) who: &'static str,
    pub(crate) keys: usize,
    /// Asked of the allocator, per key.
    pub(crate) heap: f64,
    /// Resident, per key: with what the allocator itself needs.
    pub(crate) resident: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) bytes: Vec<Bytes>,
    /// What is to be known about the numbers.
    pub(crate) notes: Vec<String>,
}
