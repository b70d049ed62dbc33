//! Why a gate decides as it does.

use super::attributes::{AttributeId, RequestScratch};
use super::canonical::CanonicalTexts;
use super::compiled::ListMatch;
use super::resolve::{ResolvedRequest, RuleKeyValues};
use super::{ActivePolicy, Gate};
use crate::policy::{Condition, OverrideSource, Policy, Request, Rule, RuleLimits};

/// Which rules apply to a request and why the others do not.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The list that holds the request, and whether it passes for it.
    pub list: Option<(String, bool)>,
    /// The request's tier.
    pub tier: Option<String>,
    /// Where that comes from.
    pub tier_source: TierSource,
    /// The origin of the override of the request's client, if it has one.
    pub override_source: Option<OverrideSource>,
    /// Every rule, in the order of the policy.
    pub rules: Vec<RuleExplanation>,
}

/// Where a request's tier comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TierSource {
    /// It has none.
    None,
    /// The attribute.
    Attribute,
    /// An override of the client.
    Override,
    /// The policy's default.
    Default,
}

/// What becomes of one rule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleExplanation {
    /// Its name.
    pub rule: String,
    /// Whether it applies.
    pub verdict: RuleMatch,
    /// The attributes of its key and their values in this request; empty where it does not apply.
    pub key: Vec<(String, String)>,
    /// How many units the request takes of it; `None` where it does not apply.
    pub cost: Option<u64>,
    /// The numbers in force for this request.
    pub numbers: RuleLimits,
    /// Where they come from.
    pub source: LimitSource,
    /// Whether it only reports.
    pub shadow: bool,
    /// Whether nodes borrow from the store what they spend of it; a gate in memory does not.
    pub leased: bool,
}

/// Where a rule's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitSource {
    /// The rule itself.
    Rule,
    /// The request's tier.
    Tier,
    /// An override of the client.
    Override,
}

/// Whether a rule applies.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RuleMatch {
    /// It does.
    Applies,
    /// A condition does not hold: the attribute, what was wanted, and its value.
    ConditionFailed {
        /// The attribute.
        attribute: String,
        /// What must hold.
        condition: Condition,
        /// What it is in the request.
        value: Option<String>,
    },
    /// An attribute of its key is not there, and has no default.
    KeyMissing {
        /// The attribute.
        attribute: String,
    },
    /// The attribute that says its cost is not a whole number.
    InvalidCost {
        /// The attribute.
        attribute: String,
        /// What it is in the request.
        value: String,
    },
}

impl Gate {
    /// Which rules apply to the request and why the others do not, with the numbers in force.
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        Explaining { in_force: &self.0.in_force.load(), request }.explanation()
    }
}

struct Explaining<'e, 'r> {
    in_force: &'e ActivePolicy,
    request: &'e Request<'r>,
}

impl<'e> Explaining<'e, '_> {
    fn policy(&self) -> &Policy {
        &self.in_force.compiled.policy
    }

    fn explanation(&self) -> Explanation {
        let mut texts = CanonicalTexts::new();
        let mut room = RequestScratch::new();
        let resolved = ResolvedRequest::new(self.in_force, self.request, &mut texts, &mut room);
        let policy = self.policy();
        let list = resolved.list().map(|list| match list {
            ListMatch::Allow(number) => (policy.allow[number].name.clone(), true),
            ListMatch::Deny(number) => (policy.deny[number].name.clone(), false),
        });
        let by_override = resolved.own.is_some_and(|own| own.source.tier.is_some());
        let tier_source = match resolved.tier {
            None => TierSource::None,
            Some(_) if by_override => TierSource::Override,
            Some(_) if self.request.get(&policy.tier_from).is_some() => TierSource::Attribute,
            Some(_) => TierSource::Default,
        };
        let rules = policy.rules.iter().enumerate();
        let rules = rules.map(|(number, rule)| self.report(&resolved, number, rule)).collect();
        Explanation {
            list,
            tier: resolved.tier.map(str::to_owned),
            tier_source,
            override_source: resolved.own.map(|own| own.source.origin()),
            rules,
        }
    }

    fn report(
        &self,
        resolved: &ResolvedRequest<'e>,
        number: usize,
        rule: &Rule,
    ) -> RuleExplanation {
        let (numbers, source) = self.numbers(resolved, rule);
        let (verdict, key, cost) = self.verdict(resolved, number, rule);
        let (numbers, rule_name) = (numbers.clone(), rule.name.clone());
        let leased = self.policy().lease_settings(rule).is_some_and(|lease| {
            let mut limits = numbers.limits().iter();
            limits.len() > 0 && limits.all(|limit| lease.allow(limit))
        });
        let shadow = rule.shadow;
        RuleExplanation { rule: rule_name, verdict, key, cost, numbers, source, shadow, leased }
    }

    fn numbers<'n>(
        &'n self,
        resolved: &'n ResolvedRequest<'_>,
        rule: &'n Rule,
    ) -> (&'n RuleLimits, LimitSource) {
        if let Some(own) = resolved.own.and_then(|own| own.source.limits.get(&rule.name)) {
            return (own, LimitSource::Override);
        }
        let numbers = self.policy().numbers(rule, resolved.tier);
        let of_rule = std::ptr::eq(numbers, &raw const rule.limits);
        (numbers, if of_rule { LimitSource::Rule } else { LimitSource::Tier })
    }

    fn verdict(
        &self,
        resolved: &ResolvedRequest<'e>,
        number: usize,
        rule: &Rule,
    ) -> (RuleMatch, Vec<(String, String)>, Option<u64>) {
        let compiled = &self.in_force.compiled;
        let name = |attribute: AttributeId| compiled.attributes.name(attribute).to_owned();
        let nothing = |verdict| (verdict, Vec::new(), None);
        if let Some((attribute, condition)) =
            compiled.index.first_failing(compiled.entry(number), &resolved.values)
        {
            let value = resolved.values.get(*attribute).map(str::to_owned);
            let (attribute, condition) = (name(*attribute), condition.clone());
            return nothing(RuleMatch::ConditionFailed { attribute, condition, value });
        }
        let of_rule = &compiled.rules[number];
        let key = match RuleKeyValues::of(of_rule, &resolved.values) {
            Err(attribute) => return nothing(RuleMatch::KeyMissing { attribute: name(attribute) }),
            Ok(key) => key,
        };
        let values = rule.key.iter().zip(key.values());
        let key = values.map(|(part, value)| (part.attribute.clone(), value.to_owned()));
        match of_rule.cost.price(self.request.said(), &resolved.values) {
            Ok(price) => (RuleMatch::Applies, key.collect(), Some(price.cost)),
            Err((attribute, value)) => {
                let (attribute, value) = (name(attribute), value.to_owned());
                (RuleMatch::InvalidCost { attribute, value }, key.collect(), None)
            }
        }
    }
}
