//! From descriptors to rules.
//!
//! The rate limit service walks its tree along a request's entries. At each of them it goes on
//! with the descriptor that has just this value, else with the first wildcard that fits, else
//! with the one that has the key alone, and never turns back. Rules all stand side by side, so
//! each says what its descriptors take and, of what they would take, what a sibling takes first.

use super::descriptor::{DESCRIPTOR, DOMAIN, attribute_names, shape};
use super::name::{EnvoyRuleNames, RulePath};
use super::report::{EnvoyDiagnostics, SourceLine};
use super::siblings::Siblings;
use super::tree::{Descriptor, Domain, EnvoyQuota, RateLimit, ValuePattern};
use crate::bounds::MAX_CONDITIONS;
use crate::limit::Limit;
use crate::policy::{AddressPrefix, Condition, KeyAttribute, ListEntry, Policy, Rule, RuleLimits};

/// A policy, and the lines that its rules and lists come from.
pub(super) struct WrittenRules {
    pub(super) policy: Policy,
    pub(super) rule_lines: Vec<usize>,
    pub(super) deny_lines: Vec<usize>,
}

/// The names that files of these domains give and leave, each of which is a rule's once.
pub(super) fn names<'d>(domains: impl Iterator<Item = &'d Domain>) -> EnvoyRuleNames {
    let mut given = Vec::new();
    domains.for_each(|domain| given_names(&domain.descriptors, &mut given));
    EnvoyRuleNames::new(given.into_iter())
}

/// The policy that decides as the file says.
pub(super) fn write(
    domain: &Domain,
    names: &mut EnvoyRuleNames,
    report: &mut EnvoyDiagnostics,
) -> WrittenRules {
    let mut writer = RuleWriter {
        domain,
        report,
        names,
        path: Vec::new(),
        size: 0,
        written: WrittenRules {
            policy: Policy::new(),
            rule_lines: Vec::new(),
            deny_lines: Vec::new(),
        },
    };
    let way = RulePath::new(&domain.name);
    writer.level(&domain.descriptors, &way);
    if writer.written.policy.rules.is_empty() && writer.written.policy.deny.is_empty() {
        writer.domain_alone(&way);
    }
    writer.written
}

fn given_names<'d>(descriptors: &'d [Descriptor], names: &mut Vec<&'d str>) {
    for descriptor in descriptors {
        names.extend(descriptor.limit.iter().filter_map(|limit| limit.name.as_deref()));
        given_names(&descriptor.children, names);
    }
}

struct RuleWriter<'d, 'r> {
    domain: &'d Domain,
    report: &'r mut EnvoyDiagnostics,
    names: &'r mut EnvoyRuleNames,
    /// The descriptors from the root to the one at hand.
    path: Vec<PathStep<'d>>,
    /// Roughly how much memory all conditions take.
    size: usize,
    written: WrittenRules,
}

/// A descriptor on the path.
struct PathStep<'d> {
    key: &'d str,
    /// What its entry must fulfil.
    conditions: Vec<Condition>,
    /// Whether each value counts for itself.
    counts_apart: bool,
}

impl<'d> RuleWriter<'d, '_> {
    fn level(&mut self, siblings: &'d [Descriptor], way: &RulePath) {
        let groups = Siblings::new(siblings);
        for descriptor in siblings {
            let way = way.then(&descriptor.key, &descriptor.value);
            let spot = SourceLine { line: descriptor.line, rule: Some(way.name()) };
            let conditions = match groups.conditions(descriptor) {
                Ok(conditions) => conditions,
                Err(line) => {
                    let message = format!("never reached, line {line} takes all its values");
                    self.report.warning(spot, message);
                    continue;
                }
            };
            if !self.has_room(spot, conditions.iter().map(size).sum()) {
                return;
            }
            let counts_apart =
                !matches!(descriptor.value, ValuePattern::Exact(_)) && !descriptor.shared;
            self.path.push(PathStep { key: &descriptor.key, conditions, counts_apart });
            if let Some(limit) = &descriptor.limit {
                self.limit(descriptor, limit, &way);
            }
            self.level(&descriptor.children, &way);
            self.path.pop();
        }
    }

    /// Writes a rule for a file without limits, so that the policy names its domain: the service
    /// applies limits that clients bring only in domains of its files. The rule applies to no
    /// descriptor.
    fn domain_alone(&mut self, way: &RulePath) {
        let mut rule = Rule::new(self.names.take(None, way)).public_name("");
        rule.matches = vec![
            (DOMAIN.to_owned(), Condition::Equals(self.domain.name.clone())),
            (DESCRIPTOR.to_owned(), Condition::Absent),
        ];
        rule.limits = RuleLimits::Unlimited;
        self.written.rule_lines.push(1);
        self.written.policy.rules.push(rule);
    }

    /// Whether there is room for so many bytes more. Without, it is an error and nothing more is
    /// written.
    fn has_room(&mut self, spot: SourceLine<'_>, bytes: usize) -> bool {
        let had_room = self.size <= MAX_CONDITIONS;
        self.size = self.size.saturating_add(bytes);
        let has_room = self.size <= MAX_CONDITIONS;
        if had_room && !has_room {
            let message = format!(
                "the rules up to here take more than {} MiB, split the file or have fewer siblings of one key",
                MAX_CONDITIONS >> 20
            );
            self.report.error(spot, message);
        }
        has_room
    }

    /// Writes the rule for the descriptor at the end of the path.
    fn limit(&mut self, descriptor: &Descriptor, limit: &RateLimit, way: &RulePath) {
        let name = self.names.take(limit.name.as_deref(), way);
        let spot = SourceLine { line: limit.line, rule: Some(&name) };
        if let Some(given) = limit.name.as_deref().filter(|given| *given != name) {
            let times = self.names.times_given(given);
            let message =
                format!("{times} limits are named {given:?}, this one is called {name:?}");
            self.report.warning(spot, message);
        }
        let steps = self.path.iter().flat_map(|step| &step.conditions);
        if !self.has_room(spot, steps.map(size).sum()) {
            return;
        }
        let (matches, key) = self.matches();
        // Clients see only the name that the file gives: the way to a descriptor is internal.
        let given = limit.name.as_deref().unwrap_or_default();
        let public_name = (given != name).then(|| given.to_owned());
        match limit.numbers {
            EnvoyQuota::Per { count: 0, .. } if descriptor.shadow => {
                let message =
                    "`requests_per_unit` is 0 and `shadow_mode` denies nothing, so it is left out";
                self.report.warning(spot, message);
            }
            EnvoyQuota::Per { count: 0, .. } => {
                self.written.deny_lines.push(limit.line);
                self.written.policy.deny.push(ListEntry { name, public_name, matches });
            }
            EnvoyQuota::Per { .. } | EnvoyQuota::Unlimited => {
                let mut rule = Rule::new(name).key(key);
                rule.public_name = public_name;
                rule.matches = matches;
                rule.shadow = descriptor.shadow;
                rule.limits = numbers(&limit.numbers);
                self.written.rule_lines.push(limit.line);
                self.written.policy.rules.push(rule);
            }
        }
    }

    /// What the path asks of a request, and the attributes whose values count for themselves.
    fn matches(&self) -> (Vec<(String, Condition)>, Vec<KeyAttribute>) {
        let keys: Vec<&str> = self.path.iter().map(|step| step.key).collect();
        let mut matches = vec![
            (DOMAIN.to_owned(), Condition::Equals(self.domain.name.clone())),
            (DESCRIPTOR.to_owned(), Condition::Equals(shape(&keys))),
        ];
        let mut key = Vec::new();
        for (name, step) in attribute_names(&keys).into_iter().zip(&self.path) {
            let conditions = step.conditions.iter().cloned();
            matches.extend(conditions.map(|condition| (name.to_string(), condition)));
            if step.counts_apart {
                // The service counts each value apart, so also each address.
                key.push(match &*name {
                    "ip" => KeyAttribute::address(name, AddressPrefix::WHOLE),
                    _ => KeyAttribute::from(name),
                });
            }
        }
        (matches, key)
    }
}

fn numbers(amount: &EnvoyQuota) -> RuleLimits {
    match *amount {
        EnvoyQuota::Unlimited => RuleLimits::Unlimited,
        EnvoyQuota::Per { count, unit } => Limit::fixed_window(u64::from(count), unit).into(),
    }
}

fn size(condition: &Condition) -> usize {
    const EACH: usize = 48;
    match condition {
        Condition::Equals(value) => EACH + value.len(),
        Condition::AnyOf(values) | Condition::Prefix(values) => {
            values.iter().map(|value| EACH + value.len()).sum()
        }
        Condition::Glob(globs) => globs.iter().map(|glob| EACH + glob.as_str().len()).sum(),
        Condition::Not(other) => EACH + size(other),
        Condition::Cidr(_) | Condition::Present | Condition::Absent => EACH,
    }
}
