//! What is counted. How Prometheus reads it is in `exposition.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tollgate::{Outcome, Reason, Ruling};
use tollgate_redis::Histogram;

use crate::bounds::{BOUNDS, Bound, MAX_COUNTED};
use crate::resp::Counters;
use crate::snapshots::SnapshotMetrics;

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

/// The tier of requests that have none.
const NO_TIER: &str = "";

/// The rule of those that are too many to be counted apart. No rule of a policy is called so.
const OTHERS: &str = "(others)";

/// What the server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) decisions: RwLock<Decisions>,
    pub(crate) bad_requests: AtomicU64,
    pub(crate) connections: [Connections; TRANSPORTS.len()],
    pub(crate) client_limits: [ClientCounts; TRANSPORTS.len()],
    /// What only the Redis protocol has.
    pub(crate) resp: Counters,
    pub(crate) holds_refused: AtomicU64,
    pub(crate) tls_failed: AtomicU64,
    over: [[AtomicU64; BOUNDS.len()]; TRANSPORTS.len()],
    latency: [Histogram; TRANSPORTS.len()],
    pub(crate) reloads: Reloads,
    /// Of certificates.
    pub(crate) tls_reloads: Reloads,
    pub(crate) snapshots: SnapshotMetrics,
    /// Requests of proxies whose clients' addresses were not believed.
    pub(crate) untrusted: AtomicU64,
}

/// Decisions by rule and tier: never more of these than the bound.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    by_rule: BTreeMap<Box<str>, ByTier>,
    /// Those of `by_rule` that are names of lists, and not of rules.
    lists: BTreeSet<Box<str>>,
    /// How many pairs of a rule and a tier there are.
    pairs: usize,
}

/// Few: they are looked through one by one.
type ByTier = Vec<(Box<str>, ByOutcome)>;

impl Decisions {
    fn get(&self, rule: &str, tier: &str) -> Option<&ByOutcome> {
        let of_rule = self.by_rule.get(rule)?;
        of_rule.iter().find(|(of, _)| **of == *tier).map(|(_, counts)| counts)
    }

    /// The same, made if need be, unless there are too many.
    pub(crate) fn get_or_make(&mut self, rule: &str, tier: &str) -> &ByOutcome {
        let is_full = self.pairs >= MAX_COUNTED && self.get(rule, tier).is_none();
        let (rule, tier) = if is_full { (OTHERS, NO_TIER) } else { (rule, tier) };
        let of_rule = self.by_rule.entry(rule.into()).or_default();
        let known = of_rule.iter().position(|(of, _)| **of == *tier);
        let place = known.unwrap_or_else(|| {
            self.pairs += 1;
            of_rule.push((tier.into(), ByOutcome::default()));
            of_rule.len() - 1
        });
        &of_rule[place].1
    }

    /// Notes that a name is the name of a list.
    fn note_list(&mut self, name: &str) {
        if self.by_rule.contains_key(name) && !self.lists.contains(name) {
            self.lists.insert(name.into());
        }
    }

    /// Returns `true` if a list of this name has decided.
    pub(crate) fn is_list(&self, name: &str) -> bool {
        self.lists.contains(name)
    }

    /// Each rule and tier with its counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str, &ByOutcome)> {
        self.by_rule.iter().flat_map(|(rule, of_rule)| {
            of_rule.iter().map(move |(tier, counts)| (&**rule, &**tier, counts))
        })
    }
}

/// The labels that a decision is counted under.
#[derive(Clone, Copy, Debug)]
struct DecisionLabels<'l> {
    rule: &'l str,
    tier: &'l str,
    /// `true` if `rule` is the name of a list.
    is_list: bool,
}

/// What became of the policy, or of the certificates, since the start.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    /// Grows with each that is put in force.
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
    /// Counts a batch of which so many were allowed, and so many can never be.
    pub(crate) fn add(&self, allowed: u64, errors: u64, of: usize) {
        let of = u64::try_from(of).unwrap_or(u64::MAX);
        let denied = of.saturating_sub(allowed).saturating_sub(errors);
        for (outcome, times) in [(ALLOWED, allowed), (DENIED, denied), (ERROR, errors)] {
            if times > 0 {
                self.0[outcome].fetch_add(times, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn decided(&self, outcome: Outcome, degraded: bool) {
        add(&self.0[match outcome {
            Outcome::Allowed => ALLOWED,
            Outcome::Denied => DENIED,
            Outcome::Invalid(_) => ERROR,
        }]);
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

    /// How often clients of a transport have gone over a bound.
    pub(crate) fn over(&self, transport: Transport, bound: Bound) -> &AtomicU64 {
        &self.over[transport as usize][bound as usize]
    }

    pub(crate) fn client_limits(&self, transport: Transport) -> &ClientCounts {
        &self.client_limits[transport as usize]
    }

    /// Counts a decision that was in earnest, of a request of this tier of the policy.
    pub(crate) fn decided(&self, transport: Transport, ruling: &Ruling, tier: Option<&str>) {
        let outcome = match ruling.reason() {
            _ if ruling.is_allowed() => ALLOWED,
            Reason::Block => BLOCKED,
            Reason::Error => ERROR,
            _ if ruling.error().is_some() => ERROR,
            _ => DENIED,
        };
        let labels = DecisionLabels {
            rule: ruling.rule().unwrap_or(NO_RULE),
            tier: tier.unwrap_or(NO_TIER),
            is_list: matches!(ruling.reason(), Reason::AllowList | Reason::DenyList),
        };
        self.count(transport, labels, outcome);
        if ruling.is_degraded() {
            self.count(transport, labels, DEGRADED);
        }
        for rule in ruling.shadow_rules().filter(|rule| !rule.is_allowed()) {
            let labels = DecisionLabels { rule: rule.rule(), is_list: false, ..labels };
            self.count(transport, labels, SHADOW_DENIED);
        }
    }

    fn count(&self, transport: Transport, labels: DecisionLabels<'_>, outcome: usize) {
        let DecisionLabels { rule, tier, is_list } = labels;
        if let Some(counts) = self.decisions.read().get(rule, tier) {
            add(&counts[transport as usize][outcome]);
            return;
        }
        let mut decisions = self.decisions.write();
        add(&decisions.get_or_make(rule, tier)[transport as usize][outcome]);
        // Under the same lock, so that no reader takes the list for a rule.
        if is_list {
            decisions.note_list(rule);
        }
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
    fn rules_and_tiers_past_the_bound_are_counted_together() {
        let metrics = Metrics::default();
        let of_tiers = MAX_COUNTED / 2;
        let count = |rule: &str, tier: &str| {
            let labels = DecisionLabels { rule, tier, is_list: false };
            metrics.count(Transport::Http, labels, ALLOWED);
        };
        for number in 0..of_tiers {
            count("one", &number.to_string());
        }
        for number in 0..MAX_COUNTED - of_tiers + 5 {
            count(&number.to_string(), "");
        }
        count("one", "7");
        let decisions = metrics.decisions.read();
        assert_eq!((decisions.pairs, decisions.iter().count()), (MAX_COUNTED + 1, MAX_COUNTED + 1));
        let allowed = |rule, tier| {
            decisions.get(rule, tier).unwrap()[Transport::Http as usize][ALLOWED]
                .load(Ordering::Relaxed)
        };
        assert_eq!((allowed(OTHERS, ""), allowed("one", "7"), allowed("one", "8")), (5, 2, 1));
    }
}
