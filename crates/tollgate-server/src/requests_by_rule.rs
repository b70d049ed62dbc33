//! Requests by rule: a request counts for every rule that it was charged under, not only for the
//! rule that decided it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tollgate::Ruling;
use tollgate::port::CountedRule;

use crate::active_names::ActiveNames;
use crate::bounds::MAX_COUNTED;
use crate::metrics::{OTHERS, OUTCOMES, add};

/// The requests of one rule since the server started, or since the rule came into the policy.
#[derive(Debug, Default)]
pub(crate) struct RuleRequests {
    allowed: AtomicU64,
    denied: AtomicU64,
    denied_by_others: AtomicU64,
    would_allow: AtomicU64,
    would_deny: AtomicU64,
    would_deny_alone: AtomicU64,
}

/// The counts of a rule at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleTotals {
    /// Requests that were charged under the rule.
    pub(crate) allowed: u64,
    /// Requests that the rule denied, whether or not another rule denied them too.
    pub(crate) denied: u64,
    /// Requests that the rule allowed and another one denied: they were not charged.
    pub(crate) denied_by_others: u64,
    /// Requests that a shadow rule would have allowed.
    pub(crate) would_allow: u64,
    /// Requests that a shadow rule would have denied.
    pub(crate) would_deny: u64,
    /// Those of `would_deny` that nothing else denied.
    pub(crate) would_deny_alone: u64,
}

/// The counts of all rules, never more than the bound.
#[derive(Debug, Default)]
pub(crate) struct RequestsByRule {
    by_name: BTreeMap<Box<str>, Arc<RuleRequests>>,
    /// The same by position in the policy, so that most requests look for no name. A rule that has
    /// moved in the policy is found by its name, and then again by its position.
    by_number: Vec<Option<(Box<str>, Arc<RuleRequests>)>>,
}

/// The outcome of a request for one rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleOutcome {
    Allowed,
    Denied,
    DeniedByOthers,
    WouldAllow,
    WouldDeny,
    WouldDenyAlone,
}

impl RuleOutcome {
    #[inline]
    pub(crate) fn of(rule: &CountedRule<'_>, ruling: &Ruling) -> RuleOutcome {
        match (rule.is_shadow(), rule.is_allowed(), ruling.is_allowed()) {
            (false, true, true) => RuleOutcome::Allowed,
            (false, true, false) => RuleOutcome::DeniedByOthers,
            (false, false, _) => RuleOutcome::Denied,
            (true, true, _) => RuleOutcome::WouldAllow,
            (true, false, false) => RuleOutcome::WouldDeny,
            (true, false, true) => RuleOutcome::WouldDenyAlone,
        }
    }
}

impl RuleRequests {
    #[inline]
    fn count(&self, outcome: RuleOutcome) {
        match outcome {
            RuleOutcome::Allowed => add(&self.allowed),
            RuleOutcome::Denied => add(&self.denied),
            RuleOutcome::DeniedByOthers => add(&self.denied_by_others),
            RuleOutcome::WouldAllow => add(&self.would_allow),
            RuleOutcome::WouldDeny => add(&self.would_deny),
            RuleOutcome::WouldDenyAlone => {
                add(&self.would_deny);
                add(&self.would_deny_alone);
            }
        }
    }

    fn totals(&self) -> RuleTotals {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RuleTotals {
            allowed: get(&self.allowed),
            denied: get(&self.denied),
            denied_by_others: get(&self.denied_by_others),
            would_allow: get(&self.would_allow),
            would_deny: get(&self.would_deny),
            would_deny_alone: get(&self.would_deny_alone),
        }
    }
}

impl RuleTotals {
    /// The decisions under a name that is no rule of the policy: each is a request of its own.
    pub(crate) fn of_decisions(counts: &[u64; OUTCOMES.len()]) -> RuleTotals {
        let [allowed, denied, blocked, error, ..] = *counts;
        let denied = denied.saturating_add(blocked).saturating_add(error);
        RuleTotals { allowed, denied, ..RuleTotals::default() }
    }

    /// All requests that the rule applied to.
    pub(crate) fn sum(&self) -> u64 {
        [self.allowed, self.denied, self.denied_by_others, self.would_allow, self.would_deny]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// The counts of a rule that is enforced, by outcome.
    pub(crate) fn enforced(&self) -> [(&'static str, u64); 3] {
        [
            ("allowed", self.allowed),
            ("denied", self.denied),
            ("denied_by_others", self.denied_by_others),
        ]
    }

    /// The counts of a shadow rule, by outcome.
    pub(crate) fn shadow(&self) -> [(&'static str, u64); 2] {
        [("would_allow", self.would_allow), ("would_deny", self.would_deny)]
    }

    /// The counts of an enforced rule as JSON.
    pub(crate) fn requests_json(&self) -> Value {
        self.enforced().into_iter().collect()
    }

    /// The counts of a shadow rule as JSON.
    pub(crate) fn shadow_json(&self) -> Value {
        json!({
            "would_allow": self.would_allow,
            "would_deny": self.would_deny,
            "would_deny_alone": self.would_deny_alone,
        })
    }
}

impl RequestsByRule {
    /// Counts a request for a rule that has counts already. Returns `false`, and counts nothing, if
    /// it has none or is not found by its position.
    #[inline]
    pub(crate) fn count(&self, rule: &CountedRule<'_>, outcome: RuleOutcome) -> bool {
        let known = self.by_number.get(rule.number());
        let Some(Some((name, requests))) = known else { return false };
        if **name != *rule.name() {
            return false;
        }
        requests.count(outcome);
        true
    }

    /// Counts a request for a rule, of which counts are made if need be.
    #[cold]
    pub(crate) fn count_or_make(&mut self, rule: &CountedRule<'_>, outcome: RuleOutcome) {
        let (number, name) = (rule.number(), rule.name());
        let is_full = self.by_name.len() >= MAX_COUNTED && !self.by_name.contains_key(name);
        let counted = if is_full { OTHERS } else { name };
        let requests = Arc::clone(self.by_name.entry(counted.into()).or_default());
        requests.count(outcome);
        if number < MAX_COUNTED {
            if self.by_number.len() <= number {
                self.by_number.resize(number + 1, None);
            }
            self.by_number[number] = Some((name.into(), requests));
        }
    }

    /// Forgets the rules that do not have one of `names`.
    pub(crate) fn keep_names(&mut self, names: &ActiveNames) {
        self.by_name.retain(|name, _| names.has_counts(name));
        self.by_number.clear();
    }

    /// Each rule and its counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, RuleTotals)> {
        self.by_name.iter().map(|(name, requests)| (&**name, requests.totals()))
    }
}
