//! What is counted, and how Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tollgate::{Reason, Ruling};

use crate::backend::Backend;
use crate::bounds::MAX_COUNTED_RULES;
use crate::resp::Counters;

const OUTCOMES: [&str; 5] = ["allowed", "denied", "blocked", "shadow_denied", "error"];

/// The rule of what no rule decided.
const NO_RULE: &str = "";

/// The rule of those that are too many to be counted apart. No rule of a policy is called so.
const OTHERS: &str = "(others)";

/// What the server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    decisions: RwLock<BTreeMap<Box<str>, Arc<ByOutcome>>>,
    pub(crate) bad_requests: AtomicU64,
    connections: [Connections; TRANSPORTS.len()],
    client_limits: [ClientCounts; TRANSPORTS.len()],
    /// What only the Redis protocol has.
    pub(crate) resp: Counters,
    pub(crate) holds_refused: AtomicU64,
}

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Resp,
    Grpc,
}

/// Decisions by limits that clients bring: kept apart, so that none costs a look in a map.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    allowed: AtomicU64,
    denied: AtomicU64,
    degraded: AtomicU64,
}

impl ClientCounts {
    /// Counts a batch of which so many were allowed.
    pub(crate) fn add(&self, allowed: u64, of: usize) {
        let denied = u64::try_from(of).unwrap_or(u64::MAX).saturating_sub(allowed);
        if allowed > 0 {
            self.allowed.fetch_add(allowed, Ordering::Relaxed);
        }
        if denied > 0 {
            self.denied.fetch_add(denied, Ordering::Relaxed);
        }
    }

    pub(crate) fn decided(&self, allowed: bool, degraded: bool) {
        self.add(u64::from(allowed), 1);
        if degraded {
            add(&self.degraded);
        }
    }
}

/// The connections of a transport.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub(crate) accepted: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Connections {
    pub(crate) fn open(&self) -> u64 {
        let closed = self.closed.load(Ordering::Relaxed);
        self.accepted.load(Ordering::Relaxed).saturating_sub(closed)
    }
}

const TRANSPORTS: [(Transport, &str); 3] =
    [(Transport::Http, "http"), (Transport::Resp, "resp"), (Transport::Grpc, "grpc")];

/// How many decisions of a rule had each outcome, over each transport.
type ByOutcome = [[AtomicU64; OUTCOMES.len()]; TRANSPORTS.len()];

impl Metrics {
    pub(crate) fn connections(&self, transport: Transport) -> &Connections {
        &self.connections[transport as usize]
    }

    pub(crate) fn client_limits(&self, transport: Transport) -> &ClientCounts {
        &self.client_limits[transport as usize]
    }

    /// Counts a decision that was in earnest.
    pub(crate) fn decided(&self, transport: Transport, ruling: &Ruling) {
        let outcome = match ruling.reason() {
            _ if ruling.is_allowed() => 0,
            Reason::Block => 2,
            Reason::Error => 4,
            _ if ruling.error().is_some() => 4,
            _ => 1,
        };
        self.count(transport, ruling.rule().unwrap_or(NO_RULE), outcome);
        for rule in ruling.rules().filter(|rule| rule.is_shadow() && !rule.is_allowed()) {
            self.count(transport, rule.rule(), 3);
        }
    }

    fn count(&self, transport: Transport, rule: &str, outcome: usize) {
        if let Some(counts) = self.decisions.read().get(rule) {
            add(&counts[transport as usize][outcome]);
            return;
        }
        let mut decisions = self.decisions.write();
        let rule = if decisions.len() < MAX_COUNTED_RULES { rule } else { OTHERS };
        add(&decisions.entry(rule.into()).or_default()[transport as usize][outcome]);
    }

    /// Prometheus' text format.
    pub(crate) fn text(&self, backend: &Backend, holds: usize) -> String {
        let mut text = String::with_capacity(4096);
        family(&mut text, "tollgate_decisions_total", "counter", "Decisions by rule and outcome.");
        for (rule, counts) in self.decisions.read().iter() {
            for ((_, transport), counts) in TRANSPORTS.iter().zip(counts.iter()) {
                write_outcomes(&mut text, (rule, transport), counts);
            }
        }
        let live = backend.live_keys().map_or(0, |keys| u64::try_from(keys).unwrap_or(u64::MAX));
        let holds = u64::try_from(holds).unwrap_or(u64::MAX);
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        for (name, kind, help, value) in [
            ("live_keys", "gauge", "Keys that the store keeps now.", live),
            (
                "evictions_total",
                "counter",
                "Keys forgotten early, the store was full.",
                backend.evictions(),
            ),
            (
                "turned_away_total",
                "counter",
                "Requests refused, the store was full.",
                backend.turned_away(),
            ),
            ("holds", "gauge", "Reservations that are open now.", holds),
            (
                "holds_refused_total",
                "counter",
                "Reservations refused, too many were open.",
                get(&self.holds_refused),
            ),
            (
                "bad_requests_total",
                "counter",
                "Requests that could not be understood.",
                get(&self.bad_requests),
            ),
        ] {
            let name = format!("tollgate_{name}");
            family(&mut text, &name, kind, help);
            let _ = writeln!(text, "{name} {value}");
        }
        self.write_connections(&mut text);
        text
    }

    fn write_connections(&self, text: &mut String) {
        let mut of_each = |name: &str, help: &str, value: fn(&Connections) -> u64| {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            family(text, name, kind, help);
            for ((_, transport), connections) in TRANSPORTS.iter().zip(&self.connections) {
                let value = value(connections);
                let _ = writeln!(text, "{name}{{transport=\"{transport}\"}} {value}");
            }
        };
        let open = "Connections that are open now.";
        of_each("tollgate_connections", open, Connections::open);
        of_each("tollgate_connections_accepted_total", "Connections taken.", |of| {
            of.accepted.load(Ordering::Relaxed)
        });
        let refused = "Connections refused, too many were open.";
        of_each("tollgate_connections_refused_total", refused, |of| {
            of.refused.load(Ordering::Relaxed)
        });
    }
}

fn write_outcomes(text: &mut String, (rule, transport): (&str, &str), counts: &[AtomicU64]) {
    for (outcome, count) in OUTCOMES.iter().zip(counts) {
        let count = count.load(Ordering::Relaxed);
        if count > 0 {
            let rule = escaped(rule);
            let labels = format!("rule=\"{rule}\",outcome=\"{outcome}\",transport=\"{transport}\"");
            // Writing to a string does not fail.
            let _ = writeln!(text, "tollgate_decisions_total{{{labels}}} {count}");
        }
    }
}

/// Adds one.
pub(crate) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A label's value, with what would end it escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use tollgate::{Gate, Policy};

    use super::*;

    #[test]
    fn rules_past_the_bound_are_counted_together() {
        let metrics = Metrics::default();
        for number in 0..MAX_COUNTED_RULES + 5 {
            metrics.count(Transport::Http, &number.to_string(), 0);
        }
        assert_eq!(metrics.decisions.read().len(), MAX_COUNTED_RULES + 1);
        let backend = Backend::Memory(Gate::new(Policy::new()).unwrap());
        let others = "rule=\"(others)\",outcome=\"allowed\",transport=\"http\"} 5\n";
        assert!(metrics.text(&backend, 0).contains(others));
    }

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        let metrics = Metrics::default();
        metrics.count(Transport::Http, "a\"b\\c\nd", 1);
        let backend = Backend::Memory(Gate::new(Policy::new()).unwrap());
        assert!(metrics.text(&backend, 0).contains("{rule=\"a\\\"b\\\\c\\nd\",outcome=\"denied\""));
    }
}
