//! What was seen. Events hold counts since the start of the server; what is shown are their
//! differences.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::told::{Counts, RuleCounts, Sample};

/// Ten minutes at one event a second; more than a wide terminal has columns.
const KEPT: usize = 600;

/// Latency is that of so many events: percentiles of one second would jump.
const LATENCY_EVENTS: usize = 10;

pub(super) const TRANSPORTS: [(&str, &str); 4] =
    [("http", "http"), ("grpc", "grpc"), ("resp", "resp"), ("store", "redis")];

/// Decisions a second, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    pub(super) allowed: u64,
    pub(super) refused: u64,
    /// Decided while the store was away; among the others, too.
    pub(super) degraded: u64,
    /// What shadow rules would have denied.
    pub(super) shadow: u64,
    /// Requests that the rule would have allowed, if it is in shadow.
    pub(super) would_allow: u64,
}

impl Rates {
    /// The rates of a rule as if it were enforced.
    pub(super) fn enforced(self) -> Rates {
        let allowed = self.allowed.saturating_add(self.would_allow);
        Rates { allowed, refused: self.refused.saturating_add(self.shadow), ..self }
    }
}

/// Between two events.
#[derive(Clone, Debug)]
struct Point {
    total: Rates,
    rules: BTreeMap<String, Rates>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Latency {
    pub(super) calls: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Nothing where nobody was looking.
    points: VecDeque<Option<Point>>,
    /// The last events and when they came.
    events: VecDeque<(Arc<Sample>, u64)>,
}

impl History {
    /// Adds an event that came at a moment of this machine's. It goes on from the last one if that
    /// is of the same start of the server and no older than `gap_ms`.
    pub(super) fn add(&mut self, sample: Arc<Sample>, at_ms: u64, gap_ms: u64) {
        let goes_on = self.events.back().is_some_and(|(before, at)| {
            before.boot == sample.boot && at_ms.saturating_sub(*at) <= gap_ms
        });
        if !goes_on {
            self.events.clear();
            if self.points.back().is_some_and(Option::is_some) {
                self.push(None);
            }
        } else if let Some(point) = self.events.back().and_then(|(old, _)| point(old, &sample)) {
            self.push(Some(point));
        }
        self.events.push_back((sample, at_ms));
        if self.events.len() > LATENCY_EVENTS + 1 {
            self.events.pop_front();
        }
    }

    fn push(&mut self, point: Option<Point>) {
        if self.points.len() == KEPT {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    pub(super) fn last(&self) -> Option<&Sample> {
        self.events.back().map(|(sample, _)| &**sample)
    }

    /// When the last event came.
    pub(super) fn last_at(&self) -> Option<u64> {
        self.events.back().map(|(_, at)| *at)
    }

    /// Whether there are rates: these need two events.
    pub(super) fn has_rates(&self) -> bool {
        self.points.back().is_some_and(Option::is_some)
    }

    /// The last rates, of a rule or of all.
    pub(super) fn rates(&self, rule: Option<&str>) -> Rates {
        self.points.back().and_then(Option::as_ref).map(|point| point.of(rule)).unwrap_or_default()
    }

    /// The last `most` rates, the oldest first.
    pub(super) fn series(&self, rule: Option<&str>, most: usize) -> Vec<Option<Rates>> {
        let skipped = self.points.len().saturating_sub(most);
        let shown = self.points.iter().skip(skipped);
        shown.map(|point| point.as_ref().map(|point| point.of(rule))).collect()
    }

    /// Of a transport, or of the store, over the last events; nothing where nobody has asked.
    pub(super) fn latency(&self, of: &str) -> Option<Latency> {
        let ((first, _), (last, _)) = (self.events.front()?, self.events.back()?);
        let counts = |sample: &Sample| sample.latency.get(of).cloned().flatten();
        let (before, now) = (counts(first)?, counts(last)?);
        let since = now.iter().zip(before.iter().chain(std::iter::repeat(&0)));
        let counts: Vec<u64> = since.map(|(now, before)| now.saturating_sub(*before)).collect();
        let calls = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let steps = last.latency.get("steps_us").cloned().flatten()?;
        (calls > 0).then(|| Latency {
            calls,
            p50_us: quantile(&counts, calls, 500, &steps),
            p99_us: quantile(&counts, calls, 990, &steps),
        })
    }
}

impl Point {
    fn of(&self, rule: Option<&str>) -> Rates {
        match rule {
            None => self.total,
            Some(rule) => self.rules.get(rule).copied().unwrap_or_default(),
        }
    }
}

fn point(before: &Sample, now: &Sample) -> Option<Point> {
    let millis = now.uptime_ms.checked_sub(before.uptime_ms).filter(|millis| *millis > 0)?;
    let known: BTreeMap<&str, &RuleCounts> =
        before.rules.iter().map(|of| (of.rule.as_str(), of)).collect();
    let rules = now.rules.iter().map(|of| {
        let rates = match known.get(of.rule.as_str()) {
            Some(known) => rule_difference(known, of, millis),
            // Of many rules the busiest are named: what one had before it was is not known.
            None if now.rules_left_out > 0 => Rates::default(),
            None => rule_difference(&RuleCounts::default(), of, millis),
        };
        (of.rule.clone(), rates)
    });
    let (rules, total) = (rules.collect(), difference(&before.totals, &now.totals, millis));
    Some(Point { total, rules })
}

/// More in so many milliseconds, in thousandths a second.
fn rate_between(before: u64, now: u64, millis: u64) -> u64 {
    let more = u128::from(now.saturating_sub(before));
    u64::try_from(more * 1_000_000 / u128::from(millis.max(1))).unwrap_or(u64::MAX)
}

/// Requests of a rule, whichever rule decided.
fn rule_difference(before: &RuleCounts, now: &RuleCounts, millis: u64) -> Rates {
    let rate = |of: fn(&RuleCounts) -> u64| rate_between(of(before), of(now), millis);
    Rates {
        allowed: rate(|of| of.requests.allowed),
        refused: rate(|of| of.requests.denied),
        degraded: rate(|of| of.counts.degraded),
        shadow: rate(|of| of.shadow.unwrap_or_default().would_deny),
        would_allow: rate(|of| of.shadow.unwrap_or_default().would_allow),
    }
}

fn difference(before: &Counts, now: &Counts, millis: u64) -> Rates {
    let rate = |of: fn(&Counts) -> u64| rate_between(of(before), of(now), millis);
    Rates {
        would_allow: 0,
        allowed: rate(|of| of.allowed),
        refused: rate(refused),
        degraded: rate(|of| of.degraded),
        shadow: rate(|of| of.shadow_denied),
    }
}

/// What was not allowed, for whatever reason.
pub(super) fn refused(counts: &Counts) -> u64 {
    counts.denied.saturating_add(counts.blocked).saturating_add(counts.error)
}

/// Within a step, latencies are taken as spread evenly.
fn quantile(counts: &[u64], calls: u64, permille: u64, steps: &[u64]) -> u64 {
    let mut wanted = (u128::from(calls) * u128::from(permille)).div_ceil(1000);
    for (step, count) in counts.iter().enumerate() {
        let count = u128::from(*count);
        if count >= wanted && count > 0 {
            let from = step.checked_sub(1).and_then(|before| steps.get(before)).copied();
            let from = from.unwrap_or_default();
            let to = steps.get(step).copied().unwrap_or(from).max(from);
            let within = u128::from(to - from) * wanted / count;
            return from.saturating_add(u64::try_from(within).unwrap_or_default());
        }
        wanted -= count;
    }
    steps.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::sample;
    use super::*;

    fn history(seconds: &[(u64, u64)]) -> History {
        let mut history = History::default();
        for (second, allowed) in seconds {
            let mut sample = sample();
            sample.uptime_ms = second * 1000;
            sample.totals.allowed = *allowed;
            history.add(Arc::new(sample), second * 1000, 3500);
        }
        history
    }

    #[test]
    fn rates_are_differences_of_two_events() {
        assert!(!history(&[(1, 10)]).has_rates(), "one is not enough");
        let history = history(&[(1, 10), (2, 30), (4, 33)]);
        let allowed = |of: &Option<Rates>| of.unwrap().allowed;
        let series: Vec<u64> = history.series(None, 9).iter().map(allowed).collect();
        assert_eq!(series, [20_000, 1_500], "so many thousandths a second");
        assert_eq!(history.rates(None).allowed, 1_500);
        assert_eq!(history.series(None, 1).len(), 1, "the last");
    }

    #[test]
    fn time_that_nobody_has_seen_is_a_gap_and_so_is_a_restart() {
        let mut history = history(&[(1, 10), (2, 30), (20, 4000), (21, 4001)]);
        let shown: Vec<_> =
            history.series(None, 9).iter().map(|of| of.map(|of| of.allowed)).collect();
        assert_eq!(shown, [Some(20_000), None, Some(1_000)]);
        let mut restarted = sample();
        (restarted.boot, restarted.uptime_ms) = ("another".to_owned(), 500);
        history.add(Arc::new(restarted), 21_500, 3500);
        assert!(!history.has_rates());
    }

    #[test]
    fn an_event_that_came_twice_is_no_point() {
        assert!(!history(&[(1, 10), (1, 10)]).has_rates());
    }

    #[test]
    fn a_quantile_lies_in_its_step_and_beyond_all_steps_at_the_last() {
        let steps = [100, 200, 400];
        assert_eq!(quantile(&[0, 100, 0, 0], 100, 500, &steps), 150);
        assert_eq!(quantile(&[100, 0, 0, 100], 200, 990, &steps), 400);
        assert_eq!(quantile(&[1, 0, 0, 0], 1, 990, &steps), 100);
        assert_eq!(quantile(&[], 5, 500, &[]), 0);
    }

    #[test]
    fn latency_is_of_what_was_asked_since() {
        let mut history = History::default();
        for (second, slow) in [(1, 5), (2, 25)] {
            let mut sample = sample();
            sample.uptime_ms = second * 1000;
            sample.latency.insert("http".to_owned(), Some(vec![1000, slow, 0]));
            sample.latency.insert("steps_us".to_owned(), Some(vec![100, 200]));
            history.add(Arc::new(sample), second * 1000, 3500);
        }
        let latency = Latency { calls: 20, p50_us: 150, p99_us: 200 };
        assert_eq!(history.latency("http"), Some(latency));
        assert_eq!(history.latency("grpc"), None, "nobody has asked");
    }
}
