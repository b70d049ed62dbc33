//! What came of the requests: counts, and how long each took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::schedule::Turn;
use super::trouble::Trouble;

/// So many are enough that connections seldom meet at one; each is a quarter of a megabyte.
const SHARDS: usize = 16;

/// Shorter and longer answers count as these: 100 ns and an hour.
const SHORTEST: u64 = 100;
const LONGEST: u64 = 3_600_000_000_000;

/// Figures are right to one part in a thousand.
const DIGITS: u8 = 3;

/// Different kinds of errors that are told apart.
const MOST_KINDS: usize = 64;

/// What a request was answered.
#[derive(Debug)]
pub(super) enum Outcome {
    Allowed,
    Refused,
    Failed(Trouble),
}

/// How often one kind of error was met, and what the first said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) count: u64,
    pub(super) first: String,
}

/// What was measured, by several threads at once.
#[derive(Debug)]
pub(super) struct Records {
    shards: Vec<Mutex<Measured>>,
    /// Answers and errors so far, with those of the warm-up.
    answers: AtomicU64,
    errors: AtomicU64,
    warm: AtomicU64,
    lost: AtomicU64,
    given_up: AtomicU64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) errors: BTreeMap<String, Met>,
    /// Nanoseconds from when a decision's request was due.
    pub(super) from_due: Histogram<u64>,
    /// Nanoseconds from when it was sent.
    pub(super) from_sent: Histogram<u64>,
    /// The longest that a request was sent after it was due.
    pub(super) latest: Duration,
    /// When the last was sent, and the last decision came.
    pub(super) last_sent: Option<Instant>,
    pub(super) last_answer: Option<Instant>,
}

impl Records {
    pub(super) fn new() -> Records {
        Records {
            shards: (0..SHARDS).map(|_| Mutex::new(Measured::new())).collect(),
            answers: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            warm: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }
    }

    /// A request of a connection was answered now, or will not be.
    pub(super) fn add(&self, connection: usize, turn: Turn, sent: Instant, outcome: Outcome) {
        let now = Instant::now();
        let count = match &outcome {
            Outcome::Failed(_) => &self.errors,
            _ => &self.answers,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if !turn.measured {
            self.warm.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut measured = self.shards[connection % SHARDS].lock();
        measured.latest = measured.latest.max(sent.saturating_duration_since(turn.due));
        measured.last_sent = measured.last_sent.max(Some(sent));
        match outcome {
            Outcome::Failed(trouble) => return measured.fail(trouble),
            Outcome::Allowed => measured.allowed += 1,
            Outcome::Refused => measured.refused += 1,
        }
        measured.last_answer = measured.last_answer.max(Some(now));
        measured.from_due.saturating_record(nanos(now - turn.due));
        measured.from_sent.saturating_record(nanos(now - sent));
    }

    /// A connection has ended that was still wanted.
    pub(super) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection could not be made again.
    pub(super) fn give_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Requests that were sent to warm up.
    pub(super) fn warm(&self) -> u64 {
        self.warm.load(Ordering::Relaxed)
    }

    /// Everything so far.
    pub(super) fn sum(&self) -> Measured {
        let mut sum = Measured::new();
        self.shards.iter().for_each(|shard| sum.add(&shard.lock()));
        sum
    }
}

impl Measured {
    #[allow(clippy::expect_used, reason = "the bounds are written above")]
    fn new() -> Measured {
        let histogram = || {
            Histogram::new_with_bounds(SHORTEST, LONGEST, DIGITS).expect("the bounds are in order")
        };
        Measured {
            allowed: 0,
            refused: 0,
            errors: BTreeMap::new(),
            from_due: histogram(),
            from_sent: histogram(),
            latest: Duration::ZERO,
            last_sent: None,
            last_answer: None,
        }
    }

    pub(super) fn decisions(&self) -> u64 {
        self.allowed + self.refused
    }

    pub(super) fn failed(&self) -> u64 {
        self.errors.values().map(|met| met.count).sum()
    }

    fn fail(&mut self, trouble: Trouble) {
        self.meet(&trouble.kind, &Met { count: 1, first: trouble.said });
    }

    fn meet(&mut self, kind: &str, met: &Met) {
        let known = self.errors.len() < MOST_KINDS || self.errors.contains_key(kind);
        let kind = if known { kind } else { "others" };
        let sum = self.errors.entry(kind.to_owned()).or_default();
        sum.count += met.count;
        if sum.first.is_empty() {
            sum.first.clone_from(&met.first);
        }
    }

    fn add(&mut self, other: &Measured) {
        self.allowed += other.allowed;
        self.refused += other.refused;
        other.errors.iter().for_each(|(kind, met)| self.meet(kind, met));
        self.latest = self.latest.max(other.latest);
        self.last_sent = self.last_sent.max(other.last_sent);
        self.last_answer = self.last_answer.max(other.last_answer);
        // Both have the same bounds, by which alone it could fail.
        let _ = self.from_due.add(&other.from_due);
        let _ = self.from_sent.add(&other.from_sent);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_request_has_waited_since_it_was_due() {
        let now = Instant::now();
        let records = Records::new();
        let turn = Turn { number: 0, due: now - Duration::from_secs(2), measured: true };
        records.add(0, turn, now, Outcome::Allowed);
        let sum = records.sum();
        assert!(sum.from_due.max() >= 1_999_000_000, "{}", sum.from_due.max());
        assert!(sum.from_sent.max() < sum.from_due.max());
        assert!(sum.latest >= Duration::from_secs(2));
    }

    #[test]
    fn what_warms_up_is_not_measured() {
        let records = Records::new();
        let turn = Turn { number: 0, due: Instant::now(), measured: false };
        records.add(3, turn, Instant::now(), Outcome::Refused);
        assert_eq!((records.warm(), records.answers(), records.sum().decisions()), (1, 1, 0));
    }

    #[test]
    fn errors_are_counted_by_kind_and_kinds_are_bounded() {
        let records = Records::new();
        let turn = Turn { number: 0, due: Instant::now(), measured: true };
        for number in 0..1000 {
            let said = format!("said {number}");
            let kind = format!("status {}", number % 500);
            let trouble = Trouble::answered(kind, said.as_bytes());
            records.add(number, turn, Instant::now(), Outcome::Failed(trouble));
        }
        let sum = records.sum();
        assert_eq!(sum.failed(), 1000);
        assert!(sum.errors.len() <= MOST_KINDS + 1, "{}", sum.errors.len());
        assert_eq!(sum.errors["status 0"], Met { count: 2, first: "said 0".to_owned() });
        assert_eq!(sum.from_due.len(), 0, "an error has no latency");
    }
}
