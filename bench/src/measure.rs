//! Measuring: contenders in turn, a few milliseconds each, for many rounds.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::peers::Run;
use crate::stream::Stream;

/// The most requests of a slice.
const MOST: usize = 1 << 18;
/// Slices are a multiple of this, so that batches are full.
const STEP: usize = 256;

/// How long and how often.
#[derive(Clone)]
pub(crate) struct Pace {
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
    pub(crate) progress: ProgressBar,
}

/// The order of contenders in a round: it starts with another one each time and turns around, so
/// that nobody always finds the caches as the same neighbour left them.
pub(crate) fn order(contenders: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |place| {
        let index = (place + round) % contenders;
        if round.is_multiple_of(2) { index } else { contenders - 1 - index }
    })
}

/// Where each thread reads the stream in a round; the same for all contenders.
pub(crate) fn starts(stream: &Stream, round: usize, threads: usize) -> Vec<usize> {
    let mut random = SmallRng::seed_from_u64(round as u64);
    (0..threads).map(|_| random.random_range(0..stream.len())).collect()
}

/// `length` requests from `start` on, or the last ones of the stream.
pub(crate) fn range(stream: &Stream, start: usize, length: usize) -> Range<usize> {
    let start = start.min(stream.len() - length);
    start..start + length
}

/// Nanoseconds per request and thread, for each contender in each round.
pub(crate) fn interleave(
    contenders: &[&dyn Run],
    stream: &Stream,
    threads: usize,
    pace: &Pace,
) -> Vec<Vec<f64>> {
    let lengths: Vec<usize> =
        contenders.iter().map(|contender| slice_length(*contender, stream, pace.slice)).collect();
    let mut nanos = vec![Vec::with_capacity(pace.rounds); contenders.len()];
    for round in 0..pace.rounds {
        let starts = starts(stream, round, threads);
        for index in order(contenders.len(), round) {
            let length = lengths[index];
            let wall = at_once(&starts, |start, ready| {
                // What the slice before has thrown out of the caches is not this one's fault.
                contenders[index].run(stream, range(stream, start / 2, length / 8));
                ready.wait();
                contenders[index].run(stream, range(stream, start, length));
            });
            nanos[index].push(wall.as_nanos() as f64 / length as f64);
        }
        pace.progress.inc(1);
    }
    nanos
}

/// How many requests fill a slice.
fn slice_length(contender: &dyn Run, stream: &Stream, slice: Duration) -> usize {
    let probe = 16 * STEP;
    contender.run(stream, 0..probe);
    let start = Instant::now();
    contender.run(stream, range(stream, stream.len() / 2, probe));
    let each = start.elapsed().as_secs_f64() / probe as f64;
    let length = (slice.as_secs_f64() / each) as usize;
    (length / STEP * STEP).clamp(STEP, MOST)
}

/// Runs `job` in one thread for each start, and says how long it took from when all were ready
/// until the last was done.
pub(crate) fn at_once(starts: &[usize], job: impl Fn(usize, &mut Ready<'_>) + Sync) -> Duration {
    let waiting = AtomicUsize::new(starts.len());
    let one = |start: usize| {
        let mut ready = Ready { waiting: &waiting, since: None };
        job(start, &mut ready);
        let end = Instant::now();
        (ready.since.unwrap_or(end), end)
    };
    let one = &one;
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let (first, others) = starts.split_first().expect("there is at least one thread");
        let others: Vec<_> = others.iter().map(|&start| scope.spawn(move || one(start))).collect();
        let mut times = vec![one(*first)];
        times.extend(others.into_iter().map(|other| other.join().expect("no check panics")));
        times
    });
    let began = times.iter().map(|(began, _)| *began).min();
    let ended = times.iter().map(|(_, ended)| *ended).max();
    began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began)
}

/// How many cores two threads really have: 2 on an idle machine. With fewer they take turns, and
/// rows of two threads say little about what happens when both ask at once.
pub(crate) fn cores() -> f64 {
    let work = |_: usize, ready: &mut Ready<'_>| {
        ready.wait();
        let mixed = (0..2_000_000_u64).fold(1, |mixed: u64, step| black_box(mixed ^ step));
        black_box(mixed);
    };
    let took = |starts: &[usize]| at_once(starts, work).as_secs_f64();
    let rounds: Vec<f64> = (0..21).map(|_| 2.0 * took(&[0]) / took(&[0, 0])).collect();
    quantile(&rounds, 0.5)
}

/// Where the threads of a slice wait for each other. They spin: a sleeping one would wake late.
pub(crate) struct Ready<'a> {
    waiting: &'a AtomicUsize,
    since: Option<Instant>,
}

impl Ready<'_> {
    pub(crate) fn wait(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        while self.waiting.load(Ordering::Relaxed) > 0 {
            std::hint::spin_loop();
        }
        self.since = Some(Instant::now());
    }
}

/// The value below which a share of `values` lies.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_its_turn_in_every_round() {
        for round in 0..10 {
            let mut turns: Vec<usize> = order(7, round).collect();
            turns.sort_unstable();
            assert!(turns.into_iter().eq(0..7));
        }
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!([0.0, 0.5, 1.0].map(|share| quantile(&values, share)), [1.0, 3.0, 5.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
