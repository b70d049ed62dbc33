//! What is legal in a policy and probably wrong.

mod addresses;
mod implies;
mod index;
mod limits;
mod reach;
mod spelling;

use std::collections::{HashMap, HashSet};

use ipnet::IpNet;

use super::check::closest;
use super::{
    AddressAttributes, AddressPrefix, Condition, Cost, Policy, PolicyLocation, PolicyProblem, Rule,
    SyncMode,
};
use crate::limit::{Algorithm, CalendarUnit, Limit, WindowStart};
use index::{ComparisonBudget, RuleComparison};

/// What is probably wrong with a valid policy, in no particular order.
pub(crate) fn warnings(policy: &Policy) -> Vec<PolicyProblem> {
    warnings_within(policy, &mut ComparisonBudget::new())
}

fn warnings_within(policy: &Policy, budget: &mut ComparisonBudget) -> Vec<PolicyProblem> {
    let mut found = Lints(Vec::new());
    let addresses = policy.address_attributes();
    for (number, rule) in policy.rules.iter().enumerate() {
        found.one_rule(number, rule);
        found.addresses(&PolicyLocation::Rule(number, "match"), &rule.matches, &addresses);
    }
    let lists = [&policy.allow, &policy.deny];
    for (list, place) in lists.into_iter().zip([PolicyLocation::Allow, PolicyLocation::Deny]) {
        for (number, listing) in list.iter().enumerate() {
            let at = place(number, "match");
            if let Some(why) = reach::contradiction(&listing.matches) {
                found.add(at.clone(), format!("it can hold nobody: {why}"));
            }
            found.networks(&at, &listing.matches);
            found.addresses(&at, &listing.matches, &addresses);
        }
    }
    found.hidden_by_lists(policy, budget);
    found.hidden_by_rules(policy, budget);
    found.tiers(policy);
    found.partition(policy);
    found.0.extend(spelling::misspelled(policy));
    found.0
}

struct Lints(Vec<PolicyProblem>);

/// What two rules share that count the same: the key with its defaults, and the cost.
type RuleIdentity<'p> = (Vec<(&'p str, Option<&'p str>, Option<AddressPrefix>)>, Vec<u8>);

impl Lints {
    fn add(&mut self, place: PolicyLocation, message: impl Into<String>) {
        self.0.push(PolicyProblem { place, message: message.into() });
    }

    /// What one rule alone shows.
    fn one_rule(&mut self, number: usize, rule: &Rule) {
        let at = |setting| PolicyLocation::Rule(number, setting);
        let why = reach::contradiction(&rule.matches).or_else(|| reach::lost_key(rule));
        if let Some(why) = why {
            self.add(at("match"), format!("no request can reach it: {why}"));
        }
        self.networks(&at("match"), &rule.matches);
        let limits = rule.limits.limits();
        if rule.key.is_empty() && !limits.is_empty() {
            let message = "`key` is empty, all requests share one limit; name an attribute such as \"user\" to give each its own";
            self.add(at("key"), message);
        }
        if rule.shadow && rule.block.is_some() {
            let message = "a rule in shadow never denies, so `block_for` does nothing";
            self.add(at("block_for"), message);
        }
        if rule.shadow && rule.sync == Some(SyncMode::Leased) {
            let message = "a rule in shadow asks the store each time, so `sync` does nothing";
            self.add(at("sync"), message);
        }
        for limit in limits.iter().filter(|limit| doubles(limit, limits)) {
            let twice = limit.count().saturating_mul(2);
            let message = format!(
                "\"{limit}\" lets {twice} pass within moments, where one window ends and the next begins; sliding_log and sliding_counter do not"
            );
            self.add(at("limit"), message);
        }
        for (place, limit) in limits.iter().enumerate() {
            let mut others = limits.iter().enumerate();
            let narrower = others.find(|(other, narrow)| {
                // Of two that are as strict as each other, the first stays.
                *other != place
                    && limits::is_at_least_as_strict(narrow, limit)
                    && (*other < place || !limits::is_at_least_as_strict(limit, narrow))
            });
            if let Some((_, narrow)) = narrower {
                let message = format!(
                    "\"{limit}\" can never bind: \"{narrow}\" beside it is at least as strict"
                );
                self.add(at("limit"), message);
            }
        }
    }

    /// Networks that are not what they look like.
    fn networks(&mut self, at: &PolicyLocation, conditions: &[(String, Condition)]) {
        for (_, condition) in conditions {
            let Condition::Cidr(networks) = condition else { continue };
            for network in networks {
                if let IpNet::V6(v6) = network
                    && v6.addr().to_ipv4_mapped().is_some()
                {
                    let message = format!(
                        "\"{network}\" holds no address: IPv4 in IPv6 counts as IPv4, write it so"
                    );
                    self.add(at.clone(), message);
                } else if network.trunc() != *network {
                    let message = format!(
                        "\"{network}\" means \"{}\", write that or a single address",
                        network.trunc()
                    );
                    self.add(at.clone(), message);
                }
            }
        }
    }

    /// Conditions on addresses that hold for no address.
    fn addresses(
        &mut self,
        at: &PolicyLocation,
        conditions: &[(String, Condition)],
        addresses: &AddressAttributes,
    ) {
        let conditions = conditions.iter().filter(|(name, _)| addresses.contains_key(name));
        for message in conditions.flat_map(|(name, condition)| addresses::never(name, condition)) {
            self.add(at.clone(), message);
        }
    }

    /// Rules all of whose requests are on a list.
    fn hidden_by_lists(&mut self, policy: &Policy, budget: &mut ComparisonBudget) {
        for (lists, what) in [(&policy.allow, "allow"), (&policy.deny, "deny")] {
            let index = RuleComparison::of(lists.iter().map(|list| list.matches.as_slice()));
            for (number, rule) in policy.rules.iter().enumerate() {
                let covers = |list: usize| implies::implies(rule, &lists[list].matches);
                if let Some(list) = index.find(rule, budget, covers) {
                    let message = format!(
                        "no request can reach it: {what} list {:?} holds all of them",
                        lists[list].name
                    );
                    self.add(PolicyLocation::Rule(number, "match"), message);
                }
            }
        }
    }

    /// Limits that another rule with the same key always outdoes.
    fn hidden_by_rules(&mut self, policy: &Policy, budget: &mut ComparisonBudget) {
        let replaced = replaced(policy);
        let is_plain = |rule: &Rule| {
            !rule.shadow && rule.tiers.is_empty() && !replaced.contains(rule.name.as_str())
        };
        let mut groups: HashMap<RuleIdentity<'_>, Vec<usize>> = HashMap::new();
        for (number, rule) in policy.rules.iter().enumerate().filter(|(_, rule)| is_plain(rule)) {
            let key = rule.key.iter().map(|part| {
                (part.attribute.as_str(), part.default.as_deref(), part.address_prefix())
            });
            groups.entry((key.collect(), cost(rule))).or_default().push(number);
        }
        for group in groups.into_values().filter(|group| group.len() > 1) {
            let rules: Vec<_> = group.iter().map(|number| &policy.rules[*number]).collect();
            let index = RuleComparison::of(rules.iter().map(|rule| rule.matches.as_slice()));
            for (place, rule) in rules.iter().enumerate() {
                for limit in rule.limits.limits() {
                    let outdoes = |other: usize| {
                        other != place && hides(rules[other], rule, limit, other < place)
                    };
                    if let Some(other) = index.find(rule, budget, outdoes) {
                        let message = format!(
                            "\"{limit}\" can never bind: rule {:?} counts the same requests and is at least as strict",
                            rules[other].name
                        );
                        self.add(PolicyLocation::Rule(group[place], "limit"), message);
                    }
                }
            }
        }
    }

    /// Tiers that are named and have no numbers, and numbers that no tier can use.
    fn partition(&mut self, policy: &Policy) {
        let Some(attribute) = &policy.partition else { return };
        let keys = policy.rules.iter().flat_map(|rule| &rule.key);
        let mut keys = keys.map(|part| part.attribute.as_str());
        if !keys.clone().any(|name| name == attribute) {
            let message = match closest(attribute, keys.by_ref()) {
                Some(guess) => format!(
                    "no rule has {attribute:?} in its `key`, so it does nothing, did you mean {guess:?}?"
                ),
                None => format!("no rule has {attribute:?} in its `key`, so it does nothing"),
            };
            self.add(PolicyLocation::Policy("partition"), message);
        }
    }

    fn tiers(&mut self, policy: &Policy) {
        let mut known: HashSet<&str> = policy.tiers.keys().map(String::as_str).collect();
        known.extend(policy.rules.iter().flat_map(|rule| rule.tiers.keys()).map(String::as_str));
        let nowhere = |tier: &str| match closest(tier, known.iter().copied()) {
            Some(guess) => format!(
                "no rule and no [tiers] has limits for tier {tier:?}, did you mean {guess:?}?"
            ),
            None => format!("no rule and no [tiers] has limits for tier {tier:?}"),
        };
        if let Some(tier) = policy.default_tier.as_deref().filter(|tier| !known.contains(tier)) {
            self.add(PolicyLocation::Policy("default_tier"), nowhere(tier));
        }
        let mut said = HashSet::new();
        for (number, change) in policy.overrides.iter().enumerate() {
            let tier = change.tier.as_deref().filter(|tier| !known.contains(tier));
            // Once for each tier, as many clients may share one.
            if let Some(tier) = tier.filter(|tier| said.insert(*tier) && said.len() <= 100) {
                self.add(PolicyLocation::Override(number, "tier"), nowhere(tier));
            }
        }
        for rule in &policy.rules {
            for tier in rule.tiers.keys() {
                if policy.tiers.get(tier).is_some_and(|limits| limits.contains_key(&rule.name)) {
                    let place = PolicyLocation::Tier(tier.clone(), rule.name.clone());
                    self.add(place, "it is never used, the rule's own `tiers` come first");
                }
            }
        }
    }
}

/// Whether a burst where two windows meet lets twice the count pass.
fn doubles(limit: &Limit, beside: &[Limit]) -> bool {
    // Who counts by the day of a calendar means a plan, not protection from bursts.
    let is_plan = matches!(
        limit.align(),
        WindowStart::Calendar(CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month)
    );
    let smooths = |other: &Limit| {
        other.algorithm() != Algorithm::FixedWindow && other.capacity() <= limit.count()
    };
    limit.algorithm() == Algorithm::FixedWindow && !is_plan && !beside.iter().any(smooths)
}

/// Rules whose numbers a tier or a client replaces.
fn replaced(policy: &Policy) -> HashSet<&str> {
    let by_tier = policy.tiers.values().flat_map(|limits| limits.keys());
    let by_client = policy.overrides.iter().flat_map(|change| change.limits.keys());
    by_tier.chain(by_client).map(String::as_str).collect()
}

/// What tells costs apart.
fn cost(rule: &Rule) -> Vec<u8> {
    match &rule.cost {
        Cost::Request => Vec::new(),
        Cost::Units(units) => units.to_le_bytes().to_vec(),
        Cost::Attribute { name, multiplier, default } => {
            [&multiplier.to_le_bytes(), &default.to_le_bytes(), name.as_bytes()].concat()
        }
    }
}

/// Whether `narrow` denies whenever `limit` of `rule` would. Of two rules that are as strict as
/// each other, the first stays.
fn hides(narrow: &Rule, rule: &Rule, limit: &Limit, is_first: bool) -> bool {
    let outdone = narrow.limits.limits().iter().any(|other| {
        limits::is_at_least_as_strict(other, limit)
            && (is_first || !limits::is_at_least_as_strict(limit, other))
    });
    outdone && implies::implies(rule, &narrow.matches)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::index::MOST;
    use super::*;
    use crate::policy::Glob;

    /// The comparisons for `rules` rules that differ in one condition.
    fn looks(rules: usize, condition: fn(String) -> Condition) -> usize {
        let rule = |number: usize| {
            let rule = Rule::new(number.to_string()).key(["user"]).limit(Limit::per_second(1));
            rule.matches("route", condition(format!("/{number}/")))
        };
        let policy = (0..rules).map(rule).fold(Policy::new(), Policy::rule);
        let mut budget = ComparisonBudget::new();
        warnings_within(&policy, &mut budget);
        budget.looks
    }

    #[test]
    fn comparisons_of_rules_with_exact_values_grow_with_the_rules() {
        assert_eq!([700, 7_000].map(|rules| looks(rules, Condition::Equals)), [700, 7_000]);
    }

    #[test]
    fn comparisons_of_rules_with_patterns_are_bounded() {
        let patterns: [fn(String) -> Condition; 2] = [
            |text| Condition::Prefix(vec![text]),
            |text| Condition::Glob(vec![Glob::new(text + "*")]),
        ];
        for pattern in patterns {
            assert_eq!(looks(700, pattern), 700 * 700, "each with each");
            // Each with each would be 49,000,000. Past the bound, each rule looks once more.
            let many = looks(7_000, pattern);
            assert!((MOST..MOST + 7_000).contains(&many), "{many}");
        }
    }
}
