//! What is counted. How Prometheus reads it is in `exposition.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use smallvec::SmallVec;
use tollgate::port::CountedRule;
use tollgate::{Outcome, Reason, Ruling};
use tollgate_redis::Histogram;

use crate::active_names::ActiveNames;
use crate::bounds::{BOUNDS, Bound, MAX_COUNTED};
use crate::requests_by_rule::{RequestsByRule, RuleOutcome};
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
pub(crate) const NO_RULE: &str = "";

/// The tier of requests that have none.
const NO_TIER: &str = "";

/// The rule of those that are too many to be counted apart. No rule of a policy is called so.
pub(crate) const OTHERS: &str = "(others)";

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
    /// The decisions of rules that have left the policy, so that totals never shrink.
    removed_rules: ByOutcome,
    /// The decisions of lists that have left the policy, so that their sum never shrinks.
    removed_lists: ByOutcome,
    /// Requests for every rule that they were charged under.
    pub(crate) requests: RequestsByRule,
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

    /// Adds one if there is a count already. Returns `false`, and adds nothing, if there is none.
    #[inline]
    fn count(&self, transport: Transport, increment: Increment<'_>) -> bool {
        match increment {
            Increment::Decision(labels, outcome) => {
                let counts = self.get(labels.rule, labels.tier);
                counts.inspect(|counts| add(&counts[transport as usize][outcome])).is_some()
            }
            Increment::Request(rule, outcome) => self.requests.count(&rule, outcome),
        }
    }

    /// Adds one, to a count that is made if need be.
    #[cold]
    fn count_or_make(&mut self, transport: Transport, increment: Increment<'_>) {
        match increment {
            Increment::Decision(labels, outcome) => {
                add(&self.get_or_make(labels.rule, labels.tier)[transport as usize][outcome]);
                // Under the same lock, so that no reader takes the list for a rule.
                if labels.is_list {
                    self.note_list(labels.rule);
                }
            }
            Increment::Request(rule, outcome) => self.requests.count_or_make(&rule, outcome),
        }
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

    /// Forgets the rules and lists that do not have one of `names`.
    pub(crate) fn keep_names(&mut self, names: &ActiveNames) {
        let (lists, pairs) = (&self.lists, &mut self.pairs);
        let (removed_rules, removed_lists) = (&mut self.removed_rules, &mut self.removed_lists);
        self.by_rule.retain(|rule, of_rule| {
            let is_kept = names.has_counts(rule);
            if !is_kept {
                *pairs -= of_rule.len();
                let is_list = lists.contains(rule);
                let removed = if is_list { &mut *removed_lists } else { &mut *removed_rules };
                of_rule.iter().for_each(|(_, counts)| add_counts(removed, counts));
            }
            is_kept
        });
        self.lists.retain(|list| names.has_counts(list));
        self.requests.keep_names(names);
    }

    /// The decisions of rules that have left the policy.
    pub(crate) fn removed_rules(&self) -> &ByOutcome {
        &self.removed_rules
    }

    /// The decisions of lists that have left the policy.
    pub(crate) fn removed_lists(&self) -> &ByOutcome {
        &self.removed_lists
    }

    /// Each rule and tier with its counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str, &ByOutcome)> {
        self.by_rule.iter().flat_map(|(rule, of_rule)| {
            of_rule.iter().map(move |(tier, counts)| (&**rule, &**tier, counts))
        })
    }
}

/// Adds the counts of one rule and tier to sums.
pub(crate) fn add_counts(sums: &mut ByOutcome, counts: &ByOutcome) {
    for (sum, count) in sums.iter_mut().flatten().zip(counts.iter().flatten()) {
        let sum = sum.get_mut();
        *sum = sum.saturating_add(count.load(Ordering::Relaxed));
    }
}

/// One more for one count.
#[derive(Clone, Copy, Debug)]
enum Increment<'l> {
    /// A decision, under the rule or list that decided.
    Decision(DecisionLabels<'l>, usize),
    /// A request, under a rule that has charged or denied it.
    Request(CountedRule<'l>, RuleOutcome),
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
            Reason::Blocked => BLOCKED,
            Reason::InvalidRequest => ERROR,
            _ if ruling.error().is_some() => ERROR,
            _ => DENIED,
        };
        let labels = DecisionLabels {
            rule: ruling.decided_by_name().unwrap_or(NO_RULE),
            tier: tier.unwrap_or(NO_TIER),
            is_list: matches!(ruling.reason(), Reason::AllowList | Reason::DenyList),
        };
        let mut missing = SmallVec::<[Increment<'_>; 4]>::new();
        let known = self.decisions.read();
        let mut count = |increment| {
            if !known.count(transport, increment) {
                missing.push(increment);
            }
        };
        count(Increment::Decision(labels, outcome));
        if ruling.is_degraded() {
            count(Increment::Decision(labels, DEGRADED));
        }
        for rule in ruling.counted_rules() {
            count(Increment::Request(rule, RuleOutcome::of(&rule, ruling)));
            if rule.is_shadow() && !rule.is_allowed() {
                let labels = DecisionLabels { rule: rule.name(), is_list: false, ..labels };
                count(Increment::Decision(labels, SHADOW_DENIED));
            }
        }
        drop(known);
        if !missing.is_empty() {
            let mut decisions = self.decisions.write();
            for increment in missing {
                decisions.count_or_make(transport, increment);
            }
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
            let increment = Increment::Decision(labels, ALLOWED);
            metrics.decisions.write().count_or_make(Transport::Http, increment);
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
