//! Comparing the rules of two policies: by name, and for each tier.

use std::collections::BTreeSet;

use tollgate::{Policy, Rule, RuleLimits};

use super::compare::differ;
use super::{Change, Consumption, Detail, Kind};
use crate::words;

/// A rule in its policy.
#[derive(Clone, Copy)]
struct Side<'a> {
    policy: &'a Policy,
    rule: &'a Rule,
}

/// The rules that are not as they were, in the order of the new policy, then those that are gone.
pub(super) fn rules(changes: &mut Vec<Change>, old: &Policy, new: &Policy) {
    for rule in &new.rules {
        let side = Side { policy: new, rule };
        match find(old, &rule.name) {
            Some(before) => changes.extend(changed(before, side)),
            None => changes.push(added(old, side)),
        }
    }
    for rule in old.rules.iter().filter(|rule| find(new, &rule.name).is_none()) {
        let side = Side { policy: old, rule };
        let details = side.settings().map(|(setting, whose, text)| Detail {
            setting,
            whose,
            old: Some(text),
            new: None,
        });
        changes.push(Change {
            what: "rule",
            name: rule.name.clone(),
            kind: Kind::Removed,
            details: details.collect(),
            consumption: Some(Consumption::Forgotten),
        });
    }
}

fn find<'a>(policy: &'a Policy, name: &str) -> Option<Side<'a>> {
    let rule = policy.rules.iter().find(|rule| rule.name == name)?;
    Some(Side { policy, rule })
}

fn added(old: &Policy, side: Side<'_>) -> Change {
    let is_gone = |rule: &&Rule| find(side.policy, &rule.name).is_none();
    let is_same = |rule: &&Rule| {
        let same = Rule::clone(rule);
        let mut renamed = side.rule.clone();
        renamed.name.clone_from(&same.name);
        renamed == same
    };
    let renamed = old.rules.iter().filter(is_gone).find(is_same);
    let consumption = renamed.map_or(Consumption::StartsAtNothing, |rule| {
        Consumption::StartsAnewRenamedFrom(rule.name.clone())
    });
    let details = side.settings().map(|(setting, whose, text)| Detail {
        setting,
        whose,
        old: None,
        new: Some(text),
    });
    Change {
        what: "rule",
        name: side.rule.name.clone(),
        kind: Kind::Added,
        details: details.collect(),
        consumption: Some(consumption),
    }
}

fn changed(old: Side<'_>, new: Side<'_>) -> Option<Change> {
    let mut details = Vec::new();
    let (was, is) = (old.rule, new.rule);
    let public = |rule: &Rule| words::public_name(rule.public_name.as_deref());
    differ(&mut details, "public_name", public(was), public(is));
    differ(&mut details, "match", words::matches(&was.matches), words::matches(&is.matches));
    differ(&mut details, "key", words::key(&was.key), words::key(&is.key));
    let numbers_change = numbers(&mut details, old, new);
    differ(&mut details, "cost", words::cost(&was.cost), words::cost(&is.cost));
    differ(&mut details, "shadow", was.shadow.to_string(), is.shadow.to_string());
    let block = |rule: &Rule| words::block(rule.block.as_ref());
    differ(&mut details, "block_for", block(was), block(is));
    let choice = |rule: &Rule| words::on_store_error(rule.on_store_error);
    differ(&mut details, "on_store_error", choice(was), choice(is));
    differ(&mut details, "sync", words::sync(was.sync), words::sync(is.sync));
    let ttl = |rule: &Rule| words::lease_ttl(rule.lease_ttl);
    differ(&mut details, "lease_ttl", ttl(was), ttl(is));
    let share = |rule: &Rule| words::lease_share(rule.lease_share);
    differ(&mut details, "lease_share", share(was), share(is));
    let attributes = |rule: &Rule| -> Vec<String> {
        rule.key.iter().map(|part| part.attribute.clone()).collect()
    };
    let consumption = match numbers_change {
        _ if attributes(was) != attributes(is) => Consumption::StartsAnewOtherKey,
        true => Consumption::KeptInProportion,
        false => Consumption::Kept,
    };
    (!details.is_empty()).then(|| Change {
        what: "rule",
        name: is.name.clone(),
        kind: Kind::Changed,
        details,
        consumption: Some(consumption),
    })
}

/// Notes whose numbers change; whether any do.
fn numbers(details: &mut Vec<Detail>, old: Side<'_>, new: Side<'_>) -> bool {
    let before = details.len();
    let tiers: BTreeSet<&str> = old.tiers().chain(new.tiers()).collect();
    let others = if tiers.is_empty() { None } else { Some("everybody else".to_owned()) };
    let mut rows = vec![(others, old.numbers(None), new.numbers(None))];
    let default = |side: Side<'_>| side.policy.default_tier.clone();
    if default(old).is_some() || default(new).is_some() {
        let (was, is) = (default(old), default(new));
        let whose = Some("requests without a tier".to_owned());
        rows.push((whose, old.numbers(was.as_deref()), new.numbers(is.as_deref())));
    }
    for tier in tiers {
        let whose = Some(format!("tier {tier:?}"));
        rows.push((whose, old.numbers(Some(tier)), new.numbers(Some(tier))));
    }
    for (whose, old, new) in rows.into_iter().filter(|(_, old, new)| old != new) {
        let (old, new) = (Some(words::numbers(old)), Some(words::numbers(new)));
        details.push(Detail { setting: "limit", whose, old, new });
    }
    details.len() > before
}

impl<'a> Side<'a> {
    /// The tiers that have numbers of their own.
    fn tiers(self) -> impl Iterator<Item = &'a str> {
        let shared =
            self.policy.tiers.iter().filter(move |(_, rules)| rules.contains_key(&self.rule.name));
        self.rule.tiers.keys().chain(shared.map(|(tier, _)| tier)).map(String::as_str)
    }

    /// The numbers for a tier: the rule's own come before those that the policy gives the tier.
    fn numbers(self, tier: Option<&str>) -> &'a RuleLimits {
        let own = tier.and_then(|tier| self.rule.tiers.get(tier));
        let shared = || tier.and_then(|tier| self.policy.tiers.get(tier)?.get(&self.rule.name));
        own.or_else(shared).unwrap_or(&self.rule.limits)
    }

    /// What the rule says, where that is not what every rule says.
    fn settings(self) -> impl Iterator<Item = (&'static str, Option<String>, String)> {
        let rule = self.rule;
        let plain = Rule::new("");
        let mut settings = vec![
            ("match", None, words::matches(&rule.matches)),
            ("key", None, words::key(&rule.key)),
            ("limit", None, words::numbers(&rule.limits)),
        ];
        let tiers: BTreeSet<&str> = self.tiers().collect();
        settings.extend(tiers.into_iter().map(|tier| {
            let numbers = words::numbers(self.numbers(Some(tier)));
            ("limit", Some(format!("tier {tier:?}")), numbers)
        }));
        if rule.public_name.is_some() {
            settings.push(("public_name", None, words::public_name(rule.public_name.as_deref())));
        }
        if rule.cost != plain.cost {
            settings.push(("cost", None, words::cost(&rule.cost)));
        }
        if rule.shadow {
            settings.push(("shadow", None, "true".to_owned()));
        }
        if rule.block.is_some() {
            settings.push(("block_for", None, words::block(rule.block.as_ref())));
        }
        if rule.on_store_error.is_some() {
            settings.push(("on_store_error", None, words::on_store_error(rule.on_store_error)));
        }
        if rule.sync.is_some() {
            settings.push(("sync", None, words::sync(rule.sync)));
        }
        if rule.lease_ttl.is_some() {
            settings.push(("lease_ttl", None, words::lease_ttl(rule.lease_ttl)));
        }
        if rule.lease_share.is_some() {
            settings.push(("lease_share", None, words::lease_share(rule.lease_share)));
        }
        settings.into_iter()
    }
}
