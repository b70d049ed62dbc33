//! What was measured, as numbers.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::load::Load;
use super::plan::Plan;
use super::records::Measured;

/// A rate counts as kept where no more than a hundredth is missing, or so little time.
const LITTLE: Duration = Duration::from_millis(10);

/// What a run has found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) target: String,
    pub(super) protocol: &'static str,
    #[serde(rename = "loop")]
    pub(super) kind: &'static str,
    pub(super) connections: usize,
    pub(super) pipeline: usize,
    pub(super) keys: u32,
    pub(super) zipf: Option<String>,
    pub(super) seed: u64,
    pub(super) cost: u32,
    /// Whether somebody ended it early.
    pub(super) interrupted: bool,
    pub(super) warmup_requests: u64,
    pub(super) measured_nanos: u64,
    pub(super) requests: u64,
    pub(super) decisions: u64,
    pub(super) decisions_per_second: u64,
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) errors: Errors,
    pub(super) connections_lost: u64,
    pub(super) connections_given_up: u64,
    /// Of an open loop.
    pub(super) rate: Option<Rate>,
    /// From when requests were due: in a closed loop, from when they were sent.
    pub(super) latency_nanos: Latency,
    pub(super) latency_from_sent_nanos: Latency,
    pub(super) distribution: Vec<Bucket>,
}

#[derive(Debug, Serialize)]
pub(super) struct Errors {
    pub(super) total: u64,
    pub(super) kinds: Vec<Kind>,
}

#[derive(Debug, Serialize)]
pub(super) struct Kind {
    pub(super) kind: String,
    pub(super) count: u64,
    /// What the first of them said.
    pub(super) first: String,
}

/// What became of the rate that was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Rate {
    pub(super) asked: u64,
    pub(super) achieved: u64,
    pub(super) kept: bool,
    pub(super) due: u64,
    pub(super) never_sent: u64,
    /// The longest that a request was sent after it was due, and the last.
    pub(super) latest_nanos: u64,
    pub(super) last_nanos: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Latency {
    pub(super) mean: u64,
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
    #[serde(rename = "p99.9")]
    pub(super) p99_9: u64,
    pub(super) max: u64,
}

/// Answers that took longer than the bucket before, and no longer than this.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bucket {
    pub(super) to_nanos: u64,
    pub(super) count: u64,
}

/// When a run began to be measured and when it was told to stop.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) from: Instant,
    pub(super) stopped: Instant,
    pub(super) interrupted: bool,
}

impl Report {
    pub(super) fn new(plan: &Plan, load: &Load, span: Span) -> Report {
        let measured = load.records.sum();
        let failed = measured.failed();
        let kinds = measured.errors.iter().map(|(kind, met)| Kind {
            kind: kind.clone(),
            count: met.count,
            first: met.first.clone(),
        });
        // Answers to what was sent in time count although they come after it.
        let end = match plan.requests {
            Some(_) if !span.interrupted => measured.last_answer.unwrap_or(span.stopped),
            _ => measured.last_answer.max(Some(span.stopped)).unwrap_or(span.stopped),
        };
        let measured_nanos = nanos(end.saturating_duration_since(span.from));
        Report {
            target: load.asker.target.to_string(),
            protocol: load.asker.target.protocol.word(),
            kind: if plan.rate.is_some() { "open" } else { "closed" },
            connections: plan.connections,
            pipeline: plan.pipeline,
            keys: plan.keys,
            zipf: plan.zipf.clone(),
            seed: plan.seed,
            cost: load.asker.questions.cost,
            interrupted: span.interrupted,
            warmup_requests: load.records.warm(),
            measured_nanos,
            requests: measured.decisions() + failed,
            decisions: measured.decisions(),
            decisions_per_second: per_second(measured.decisions(), measured_nanos),
            allowed: measured.allowed,
            refused: measured.refused,
            errors: Errors { total: failed, kinds: kinds.collect() },
            connections_lost: load.records.lost(),
            connections_given_up: load.records.given_up(),
            rate: plan.rate.map(|asked| rate(asked, load, &measured, span)),
            latency_nanos: latency(&measured.from_due),
            latency_from_sent_nanos: latency(&measured.from_sent),
            distribution: distribution(&measured.from_due),
        }
    }
}

fn rate(asked: u64, load: &Load, measured: &Measured, span: Span) -> Rate {
    let sent = measured.decisions() + measured.failed();
    let due = load.schedule.due_before(span.stopped) - load.schedule.due_before(span.from);
    let never_sent = due.saturating_sub(sent);
    // The last was due one distance before so many were.
    let last_sent = measured.last_sent.unwrap_or(span.from).saturating_duration_since(span.from);
    let last_due = Duration::from_nanos(scaled(sent.saturating_sub(1), asked));
    let behind = last_sent.saturating_sub(last_due);
    let last_moment = match never_sent {
        0 => last_sent,
        _ => span.stopped.saturating_duration_since(span.from).max(last_sent),
    };
    let took = nanos(last_moment).max(scaled(sent, asked));
    let kept = never_sent <= (due / 100).max(1) && behind <= LITTLE.max(last_sent / 100);
    Rate {
        asked,
        achieved: per_second(sent, took),
        kept,
        due,
        never_sent,
        latest_nanos: nanos(measured.latest),
        last_nanos: nanos(behind),
    }
}

/// How long so many take at a rate, in nanoseconds.
fn scaled(many: u64, rate: u64) -> u64 {
    let nanos = u128::from(many) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

fn per_second(many: u64, nanos: u64) -> u64 {
    let rate = u128::from(many) * 1_000_000_000 / u128::from(nanos.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn latency(of: &Histogram<u64>) -> Latency {
    #[allow(
        clippy::float_arithmetic,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of durations, for the eye"
    )]
    let mean = of.mean() as u64;
    Latency {
        mean,
        p50: of.value_at_quantile(0.5),
        p90: of.value_at_quantile(0.9),
        p99: of.value_at_quantile(0.99),
        p99_9: of.value_at_quantile(0.999),
        max: of.max(),
    }
}

/// Counts in steps of 1, 2, 5, 10 … from a microsecond up, without the empty ones at both ends.
fn distribution(of: &Histogram<u64>) -> Vec<Bucket> {
    let decades = (3..=12).map(|power| 10u64.pow(power));
    let bounds = decades.flat_map(|decade| [decade, 2 * decade, 5 * decade]);
    let mut buckets: Vec<Bucket> = bounds.map(|to_nanos| Bucket { to_nanos, count: 0 }).collect();
    for value in of.iter_recorded() {
        // A histogram knows a value to a thousandth, and tells the most that it may be.
        let lowest = of.lowest_equivalent(value.value_iterated_to());
        let at = buckets.partition_point(|bucket| bucket.to_nanos < lowest);
        if let Some(bucket) = buckets.get_mut(at) {
            bucket.count += value.count_at_value();
        }
    }
    let first = buckets.iter().position(|bucket| bucket.count > 0).unwrap_or(buckets.len());
    let last = buckets.iter().rposition(|bucket| bucket.count > 0).map_or(first, |at| at + 1);
    buckets.drain(first..last).collect()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_has_every_answer_once_in_steps_that_people_read() {
        let mut histogram = Histogram::new_with_bounds(100, 3_600_000_000_000, 3).expect("bounds");
        for (value, many) in [(1_500, 3), (2_000, 1), (4_999, 2), (700_000_000, 5)] {
            histogram.record_n(value, many).expect("in bounds");
        }
        let buckets = distribution(&histogram);
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 11);
        assert_eq!(buckets[0], Bucket { to_nanos: 2_000, count: 4 });
        assert_eq!(buckets[1], Bucket { to_nanos: 5_000, count: 2 });
        assert_eq!(buckets.last(), Some(&Bucket { to_nanos: 1_000_000_000, count: 5 }));
        assert!(distribution(&Histogram::new(3).expect("digits")).is_empty());
    }
}
