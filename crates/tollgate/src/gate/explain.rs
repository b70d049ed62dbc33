//! Why a gate decides as it does.

use super::attributes::{Attribute, Room};
use super::canonical::CanonicalTexts;
use super::compiled::Listed;
use super::resolve::{Resolved, RuleKey};
use super::{Gate, InForce};
use crate::policy::{Condition, Numbers, OverrideSource, Policy, Request, Rule};

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
    pub rules: Vec<RuleReport>,
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
pub struct RuleReport {
    /// Its name.
    pub rule: String,
    /// Whether it applies.
    pub verdict: Verdict,
    /// The attributes of its key and their values in this request; empty where it does not apply.
    pub key: Vec<(String, String)>,
    /// How many units the request takes of it; `None` where it does not apply.
    pub cost: Option<u64>,
    /// The numbers in force for this request.
    pub numbers: Numbers,
    /// Where they come from.
    pub source: NumbersSource,
    /// Whether it only reports.
    pub shadow: bool,
    /// Whether nodes borrow from the store what they spend of it; a gate in memory does not.
    pub leased: bool,
}

/// Where a rule's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumbersSource {
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
pub enum Verdict {
    /// It does.
    Applies,
    /// A condition does not hold: the attribute, what was wanted, and its value.
    NoMatch {
        /// The attribute.
        attribute: String,
        /// What must hold.
        condition: Condition,
        /// What it is in the request.
        value: Option<String>,
    },
    /// An attribute of its key is not there, and has no default.
    KeyAbsent {
        /// The attribute.
        attribute: String,
    },
    /// The attribute that says its cost is not a whole number.
    BadCost {
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
    in_force: &'e InForce,
    request: &'e Request<'r>,
}

impl<'e> Explaining<'e, '_> {
    fn policy(&self) -> &Policy {
        &self.in_force.compiled.policy
    }

    fn explanation(&self) -> Explanation {
        let mut texts = CanonicalTexts::new();
        let mut room = Room::new();
        let resolved = Resolved::new(self.in_force, self.request, &mut texts, &mut room);
        let policy = self.policy();
        let list = resolved.list().map(|list| match list {
            Listed::Allow(number) => (policy.allow[number].name.clone(), true),
            Listed::Deny(number) => (policy.deny[number].name.clone(), false),
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

    fn report(&self, resolved: &Resolved<'e>, number: usize, rule: &Rule) -> RuleReport {
        let (numbers, source) = self.numbers(resolved, rule);
        let (verdict, key, cost) = self.verdict(resolved, number, rule);
        let (numbers, rule_name) = (numbers.clone(), rule.name.clone());
        let leased = self.policy().lease_settings(rule).is_some_and(|lease| {
            let mut limits = numbers.limits().iter();
            limits.len() > 0 && limits.all(|limit| lease.allow(limit))
        });
        let shadow = rule.shadow;
        RuleReport { rule: rule_name, verdict, key, cost, numbers, source, shadow, leased }
    }

    fn numbers<'n>(
        &'n self,
        resolved: &'n Resolved<'_>,
        rule: &'n Rule,
    ) -> (&'n Numbers, NumbersSource) {
        if let Some(own) = resolved.own.and_then(|own| own.source.numbers.get(&rule.name)) {
            return (own, NumbersSource::Override);
        }
        let numbers = self.policy().numbers(rule, resolved.tier);
        let of_rule = std::ptr::eq(numbers, &raw const rule.numbers);
        (numbers, if of_rule { NumbersSource::Rule } else { NumbersSource::Tier })
    }

    fn verdict(
        &self,
        resolved: &Resolved<'e>,
        number: usize,
        rule: &Rule,
    ) -> (Verdict, Vec<(String, String)>, Option<u64>) {
        let compiled = &self.in_force.compiled;
        let name = |attribute: Attribute| compiled.attributes.name(attribute).to_owned();
        let nothing = |verdict| (verdict, Vec::new(), None);
        if let Some((attribute, condition)) =
            compiled.index.first_failing(compiled.entry(number), &resolved.values)
        {
            let value = resolved.values.get(*attribute).map(str::to_owned);
            let (attribute, condition) = (name(*attribute), condition.clone());
            return nothing(Verdict::NoMatch { attribute, condition, value });
        }
        let of_rule = &compiled.rules[number];
        let key = match RuleKey::of(of_rule, &resolved.values) {
            Err(attribute) => return nothing(Verdict::KeyAbsent { attribute: name(attribute) }),
            Ok(key) => key,
        };
        let values = rule.key.iter().zip(key.values());
        let key = values.map(|(part, value)| (part.attribute.clone(), value.to_owned()));
        match of_rule.cost.price(self.request.said(), &resolved.values) {
            Ok(price) => (Verdict::Applies, key.collect(), Some(price.cost)),
            Err((attribute, value)) => {
                let (attribute, value) = (name(attribute), value.to_owned());
                (Verdict::BadCost { attribute, value }, key.collect(), None)
            }
        }
    }
}
