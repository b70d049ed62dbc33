//! Tails: how long single calls take when everybody asks for the same key.

use std::sync::{Mutex, PoisonError};

use crate::measure::{Pace, at_once, order, quantile, range, starts};
use crate::peers::{Loaded, Traffic, Who};
use crate::report::{Pair, Report, Row, Scenario, Section, name};
use crate::rows::{THREADS, doubt};
use crate::stream::{Spread, Stream};

/// Without limitador, whose calls take microseconds anyway.
const CONTENDERS: [Who; 6] =
    [Who::Ours, Who::Governor, Who::Throttlecrab, Who::Naive, Who::Ratelimit, Who::LeakyBucket];

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Calls per thread and round: of two threads, forty lie above the last quantile.
const CALLS: usize = 20_000;

/// The rows that are asked for.
pub(crate) fn chosen(filter: &str) -> Vec<Scenario> {
    let spread = Spread::Uniform;
    Traffic::BOTH
        .into_iter()
        .flat_map(|traffic| THREADS.map(|threads| Scenario { keys: 1, spread, traffic, threads }))
        .filter(|scenario| name(Section::Tails, scenario).contains(filter))
        .collect()
}

pub(crate) fn run(chosen: &[Scenario], pace: &Pace, report: &mut Report) {
    let stream = Stream::sample(1, CALLS);
    for scenario in chosen {
        let load = |who: Who| {
            let loaded = who.load(1, scenario.traffic);
            report.notes.extend(doubt(who, &*loaded, 1, scenario.traffic));
            loaded
        };
        let loaded = CONTENDERS.map(load);
        pace.progress.set_message(name(Section::Tails, scenario));
        let nanos = measure(&loaded, &stream, scenario.threads, pace);
        for (index, (label, _)) in QUANTILES.iter().enumerate() {
            let mut row = Row::new(Section::Tails, *scenario);
            row.name = format!("{}/{label}", row.name);
            row.quantile = Some(label);
            let of = |contender: usize| nanos[contender].iter().map(|round| round[index]).collect();
            row.pairs = (1..CONTENDERS.len())
                .map(|peer| Pair {
                    peer: CONTENDERS[peer].name(),
                    ours: CONTENDERS[0].name(),
                    peer_nanos: of(peer),
                    ours_nanos: of(0),
                })
                .collect();
            report.rows.push(row);
        }
    }
}

/// The quantiles of each contender in each round, in nanoseconds.
fn measure(
    loaded: &[Box<dyn Loaded>],
    stream: &Stream,
    threads: usize,
    pace: &Pace,
) -> Vec<Vec<[f64; 3]>> {
    let clock = quanta::Clock::new();
    let mut nanos = vec![Vec::with_capacity(pace.rounds); loaded.len()];
    for round in 0..pace.rounds {
        let starts = starts(stream, round, threads);
        for index in order(loaded.len(), round) {
            let calls: Mutex<Vec<f64>> = Mutex::default();
            at_once(&starts, |_, ready| {
                let mut ticks = Vec::with_capacity(CALLS);
                loaded[index].run(stream, range(stream, 0, CALLS / 8));
                ready.wait();
                loaded[index].time_each((stream, 0..CALLS), &clock, &mut ticks);
                let took = ticks.iter().map(|&ticks| clock.delta_as_nanos(0, ticks) as f64);
                calls.lock().unwrap_or_else(PoisonError::into_inner).extend(took);
            });
            let calls = calls.into_inner().unwrap_or_else(PoisonError::into_inner);
            nanos[index].push(QUANTILES.map(|(_, share)| quantile(&calls, share)));
        }
        pace.progress.inc(1);
    }
    nanos
}
