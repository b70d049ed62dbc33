//! What can be wrong with a policy, found all at once.

use std::collections::HashSet;
use std::fmt;

use super::{BlockPolicy, Condition, Cost, Override, Policy, RuleLimits};
use crate::bounds::{MAX_BLOCK, MAX_GUESSES, MAX_LIMITS_PER_RULE, MAX_RULE_NAME};

/// Everything that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// One for each thing, in the order of the policy; never empty.
    pub problems: Vec<PolicyProblem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// Where.
    pub place: PolicyLocation,
    /// What, and what would be right.
    pub message: String,
}

/// Where in a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyLocation {
    /// The rule of this number, and the setting of it.
    Rule(usize, &'static str),
    /// The list of those who pass, by number, and the setting of it.
    Allow(usize, &'static str),
    /// The list of those who never pass, by number, and the setting of it.
    Deny(usize, &'static str),
    /// The numbers of a rule (the second) in a tier (the first).
    Tier(String, String),
    /// The override of this number, and the setting of it.
    Override(usize, &'static str),
    /// The policy as a whole, and the setting of it.
    Policy(&'static str),
}

/// Everything that is wrong with `policy`.
pub(crate) fn check(policy: &Policy) -> Result<(), PolicyError> {
    let mut problems = ProblemList::default();
    problems.rules(policy);
    problems.lists(policy);
    problems.tiers(policy);
    let names = rule_names(policy);
    for (number, change) in policy.overrides.iter().enumerate() {
        problems.one_override(number, change, &names);
    }
    problems.clients(policy);
    problems.found.extend(policy.lease_problems());
    if policy.tier_from.is_empty() {
        problems.add(PolicyLocation::Policy("tier_from"), "tier_from is empty, name an attribute");
    }
    if policy.partition.as_deref() == Some("") {
        problems.add(PolicyLocation::Policy("partition"), "partition is empty, name an attribute");
    }
    problems.into_result()
}

/// Everything that is wrong with an override of `policy`.
pub(super) fn check_override(policy: &Policy, change: &Override) -> Result<(), PolicyError> {
    let mut problems = ProblemList::default();
    problems.one_override(0, change, &rule_names(policy));
    problems.into_result()
}

fn rule_names(policy: &Policy) -> HashSet<&str> {
    policy.rules.iter().map(|rule| rule.name.as_str()).collect()
}

#[derive(Default)]
struct ProblemList {
    found: Vec<PolicyProblem>,
    guesses: usize,
}

impl ProblemList {
    fn add(&mut self, place: PolicyLocation, message: impl Into<String>) {
        self.found.push(PolicyProblem { place, message: message.into() });
    }

    fn into_result(self) -> Result<(), PolicyError> {
        if self.found.is_empty() { Ok(()) } else { Err(PolicyError { problems: self.found }) }
    }

    fn rules(&mut self, policy: &Policy) {
        let mut seen = HashSet::new();
        for (number, rule) in policy.rules.iter().enumerate() {
            let at = |setting| PolicyLocation::Rule(number, setting);
            self.name(at("name"), &rule.name);
            self.public_name(at("public_name"), rule.public_name.as_deref());
            if !seen.insert(&rule.name) && !rule.name.is_empty() {
                let message =
                    format!("a second rule {:?}, every rule needs a name of its own", rule.name);
                self.add(at("name"), message);
            }
            self.conditions(&at, &rule.matches);
            if rule.limits == RuleLimits::All(Vec::new()) {
                self.add(at("limit"), "no limit, write for example limit = \"100/min\"");
            }
            self.numbers(at("limit"), &rule.limits);
            for (tier, numbers) in &rule.tiers {
                self.named_numbers(at("tiers"), tier, numbers);
            }
            let mut attributes = HashSet::new();
            for part in &rule.key {
                if part.attribute.is_empty() {
                    self.add(at("key"), "an attribute's name is empty");
                } else if !attributes.insert(&part.attribute) {
                    self.add(at("key"), format!("{:?} is named twice", part.attribute));
                }
            }
            self.cost(at("cost"), &rule.cost);
            if let Some(block) = &rule.block {
                self.block(at("block_for"), block);
            }
        }
    }

    fn lists(&mut self, policy: &Policy) {
        let rules = rule_names(policy);
        let mut seen = HashSet::new();
        let allow = policy.allow.iter().enumerate();
        let deny = policy.deny.iter().enumerate();
        let lists = allow.map(|(number, list)| (true, number, list));
        for (allows, number, list) in lists.chain(deny.map(|(number, list)| (false, number, list)))
        {
            let at = |setting| match allows {
                true => PolicyLocation::Allow(number, setting),
                false => PolicyLocation::Deny(number, setting),
            };
            self.name(at("name"), &list.name);
            self.public_name(at("public_name"), list.public_name.as_deref());
            let is_taken = rules.contains(list.name.as_str()) || !seen.insert(&list.name);
            if is_taken && !list.name.is_empty() {
                let message =
                    format!("the name {:?} is taken, every list needs one of its own", list.name);
                self.add(at("name"), message);
            }
            self.conditions(&at, &list.matches);
        }
    }

    fn tiers(&mut self, policy: &Policy) {
        let rules = rule_names(policy);
        for (tier, numbers) in &policy.tiers {
            for (rule, numbers) in numbers {
                let place = PolicyLocation::Tier(tier.clone(), rule.clone());
                if !rules.contains(rule.as_str()) {
                    self.unknown_rule(place.clone(), rule, &rules);
                }
                self.named_numbers(place, rule, numbers);
            }
        }
    }

    fn one_override(&mut self, number: usize, change: &Override, rules: &HashSet<&str>) {
        let at = |setting| PolicyLocation::Override(number, setting);
        if change.client.is_empty() {
            self.add(at("client"), "no client, write for example client = { user = \"42\" }");
        }
        if change.client.keys().any(String::is_empty) {
            self.add(at("client"), "an attribute's name is empty");
        }
        if change.tier.is_none() && change.limits.is_empty() {
            self.add(at("tier"), "it changes nothing, give the client a tier or limits");
        }
        for (rule, numbers) in &change.limits {
            if !rules.contains(rule.as_str()) {
                self.unknown_rule(at("limits"), rule, rules);
            }
            self.named_numbers(at("limits"), rule, numbers);
        }
    }

    fn clients(&mut self, policy: &Policy) {
        let mut seen = HashSet::with_capacity(policy.overrides.len());
        for (number, change) in policy.overrides.iter().enumerate() {
            if !seen.insert(&change.client) {
                let message = "a second override of this client, put both into one";
                self.add(PolicyLocation::Override(number, "client"), message);
            }
        }
    }

    fn name(&mut self, place: PolicyLocation, name: &str) {
        if name.is_empty() {
            self.add(place, "no name, every rule and list needs one");
        } else if name.len() > MAX_RULE_NAME {
            self.add(
                place,
                format!("the name has {} bytes, must have at most {MAX_RULE_NAME}", name.len()),
            );
        } else if !name.chars().all(|c| matches!(c, ' '..='~') && c != '"' && c != '\\') {
            let message = format!(
                "the name {name:?} has characters that headers cannot carry, use printable ASCII without \" and \\"
            );
            self.add(place, message);
        }
    }

    /// Checks a name that clients see, which may be empty.
    fn public_name(&mut self, place: PolicyLocation, name: Option<&str>) {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.name(place, name);
        }
    }

    fn conditions(
        &mut self,
        at: &dyn Fn(&'static str) -> PolicyLocation,
        conditions: &[(String, Condition)],
    ) {
        for (attribute, condition) in conditions {
            if attribute.is_empty() {
                self.add(at("match"), "an attribute's name is empty");
            }
            if condition.is_empty() {
                self.add(
                    at("match"),
                    format!("the list for {attribute:?} is empty, nothing can match it"),
                );
            }
        }
    }

    fn unknown_rule(&mut self, place: PolicyLocation, name: &str, rules: &HashSet<&str>) {
        self.guesses += 1;
        let known =
            rules.iter().copied().take(if self.guesses > MAX_GUESSES { 0 } else { usize::MAX });
        let message = match closest(name, known) {
            Some(close) => format!("unknown rule {name:?}, did you mean {close:?}?"),
            None => format!("unknown rule {name:?}"),
        };
        self.add(place, message);
    }

    fn named_numbers(&mut self, place: PolicyLocation, name: &str, numbers: &RuleLimits) {
        if *numbers == RuleLimits::All(Vec::new()) {
            self.add(
                place.clone(),
                format!("{name:?} has no limit, write \"unlimited\" if that is meant"),
            );
        }
        self.numbers(place, numbers);
    }

    fn numbers(&mut self, place: PolicyLocation, numbers: &RuleLimits) {
        let limits = numbers.limits();
        if limits.len() > MAX_LIMITS_PER_RULE {
            let message =
                format!("{} limits, a rule has at most {MAX_LIMITS_PER_RULE}", limits.len());
            self.add(place.clone(), message);
        }
        for limit in limits {
            if let Err(error) = limit.validate() {
                self.add(place.clone(), error.to_string());
            }
        }
    }

    fn cost(&mut self, place: PolicyLocation, cost: &Cost) {
        match cost {
            Cost::Units(0) => self.add(place, "cost is 0, must be at least 1"),
            Cost::Attribute { name, .. } if name.is_empty() => {
                self.add(place, "the attribute's name is empty");
            }
            Cost::Attribute { multiplier: 0, .. } => {
                self.add(place, "multiplier is 0, must be at least 1");
            }
            Cost::Attribute { default: 0, .. } => {
                self.add(place, "default is 0, must be at least 1");
            }
            _ => {}
        }
    }

    fn block(&mut self, place: PolicyLocation, block: &BlockPolicy) {
        if block.first.is_zero() {
            self.add(place.clone(), "block_for is 0s, leave it out where nothing is to be blocked");
        }
        if block.factor == 0 {
            self.add(place.clone(), "factor is 0, must be at least 1");
        }
        if block.max < block.first {
            let message = format!(
                "max is {:?}, must be at least the first block of {:?}",
                block.max, block.first
            );
            self.add(place.clone(), message);
        }
        if block.max > MAX_BLOCK {
            self.add(place, "a block lasts more than 100 years, use a deny list");
        }
    }
}

/// The known name that `name` was most likely meant to be.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate));
    let (distance, best) = near.min()?;
    let length = name.chars().count();
    (distance < length && distance <= 2.max(length / 3)).then_some(best)
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            PolicyLocation::Rule(number, setting) => write!(f, "rule {}: {setting}: ", number + 1)?,
            PolicyLocation::Allow(number, setting) => {
                write!(f, "allow {}: {setting}: ", number + 1)?
            }
            PolicyLocation::Deny(number, setting) => write!(f, "deny {}: {setting}: ", number + 1)?,
            PolicyLocation::Tier(tier, rule) => write!(f, "tier {tier:?}: rule {rule:?}: ")?,
            PolicyLocation::Override(number, setting) => {
                write!(f, "override {}: {setting}: ", number + 1)?
            }
            PolicyLocation::Policy(setting) => write!(f, "{setting}: ")?,
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for PolicyError {}
