//! What is counted. How Prometheus reads it is in `exposition.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tollgate::{Reason, Ruling};
use tollgate_redis::Histogram;

use crate::bounds::MAX_COUNTED_RULES;
use crate::resp::Counters;

/// The last two are counted beside the first four, of which each decision has one.
pub(crate) const OUTCOMES: [&str; 6] =
    ["allowed", "denied", "blocked", "error", "shadow_denied", "degraded"];
const ALLOWED: usize = 0;
const DENIED: usize = 1;
const BLOCKED: usize = 2;
const ERROR: usize = 3;
const SHADOW_DENIED: usize = 4;
const DEGRADED: usize = 5;

/// The rule of what no rule decided.
const NO_RULE: &str = "";

/// The rule of those that are too many to be counted apart. No rule of a policy is called so.
const OTHERS: &str = "(others)";

/// What the server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) decisions: RwLock<BTreeMap<Box<str>, Arc<ByOutcome>>>,
    pub(crate) bad_requests: AtomicU64,
    pub(crate) connections: [Connections; TRANSPORTS.len()],
    pub(crate) client_limits: [ClientCounts; TRANSPORTS.len()],
    /// What only the Redis protocol has.
    pub(crate) resp: Counters,
    pub(crate) holds_refused: AtomicU64,
    pub(crate) tls_failed: AtomicU64,
    latency: [Histogram; TRANSPORTS.len()],
    pub(crate) reloads: Reloads,
}

/// What became of the policy since the start.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    /// Grows with each policy that is put in force.
    pub(crate) changed: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Whether the last try was refused.
    pub(crate) last_refused: AtomicBool,
}

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Resp,
    Grpc,
}

impl Transport {
    pub(crate) fn word(self) -> &'static str {
        TRANSPORTS[self as usize].1
    }
}

/// Decisions by limits that clients bring: kept apart, so that none costs a look in a map.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts(pub(crate) [AtomicU64; OUTCOMES.len()]);

impl ClientCounts {
    /// Counts a batch of which so many were allowed.
    pub(crate) fn add(&self, allowed: u64, of: usize) {
        let denied = u64::try_from(of).unwrap_or(u64::MAX).saturating_sub(allowed);
        if allowed > 0 {
            self.0[ALLOWED].fetch_add(allowed, Ordering::Relaxed);
        }
        if denied > 0 {
            self.0[DENIED].fetch_add(denied, Ordering::Relaxed);
        }
    }

    pub(crate) fn decided(&self, allowed: bool, degraded: bool) {
        self.add(u64::from(allowed), 1);
        if degraded {
            add(&self.0[DEGRADED]);
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

pub(crate) const TRANSPORTS: [(Transport, &str); 3] =
    [(Transport::Http, "http"), (Transport::Resp, "resp"), (Transport::Grpc, "grpc")];

/// How many decisions of a rule had each outcome, over each transport.
pub(crate) type ByOutcome = [[AtomicU64; OUTCOMES.len()]; TRANSPORTS.len()];

impl Metrics {
    pub(crate) fn connections(&self, transport: Transport) -> &Connections {
        &self.connections[transport as usize]
    }

    /// How long a transport's answers took.
    pub(crate) fn latency(&self, transport: Transport) -> &Histogram {
        &self.latency[transport as usize]
    }

    pub(crate) fn client_limits(&self, transport: Transport) -> &ClientCounts {
        &self.client_limits[transport as usize]
    }

    /// Counts a decision that was in earnest.
    pub(crate) fn decided(&self, transport: Transport, ruling: &Ruling) {
        let outcome = match ruling.reason() {
            _ if ruling.is_allowed() => ALLOWED,
            Reason::Block => BLOCKED,
            Reason::Error => ERROR,
            _ if ruling.error().is_some() => ERROR,
            _ => DENIED,
        };
        let rule = ruling.rule().unwrap_or(NO_RULE);
        self.count(transport, rule, outcome);
        if ruling.is_degraded() {
            self.count(transport, rule, DEGRADED);
        }
        for rule in ruling.rules().filter(|rule| rule.is_shadow() && !rule.is_allowed()) {
            self.count(transport, rule.rule(), SHADOW_DENIED);
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
}

/// Adds one.
pub(crate) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_past_the_bound_are_counted_together() {
        let metrics = Metrics::default();
        for number in 0..MAX_COUNTED_RULES + 5 {
            metrics.count(Transport::Http, &number.to_string(), ALLOWED);
        }
        let decisions = metrics.decisions.read();
        assert_eq!(decisions.len(), MAX_COUNTED_RULES + 1);
        let others = &decisions[OTHERS][Transport::Http as usize];
        assert_eq!(others[ALLOWED].load(Ordering::Relaxed), 5);
    }
}
