//! Comparing two policies.

use std::collections::BTreeMap;

use tollgate::{Client, ListEntry, Override, Policy};

use super::rules;
use super::{Change, Detail, Kind};
use crate::{moment, words};

/// Everything that is not as it was: the policy as a whole, lists, rules, overrides.
pub(super) fn changes(old: &Policy, new: &Policy) -> Vec<Change> {
    let mut changes: Vec<Change> = whole(old, new).into_iter().collect();
    lists(&mut changes, "allow", &old.allow, &new.allow);
    lists(&mut changes, "deny", &old.deny, &new.deny);
    rules::rules(&mut changes, old, new);
    overrides(&mut changes, &old.overrides, &new.overrides);
    changes
}

/// Notes a setting that is not as it was.
pub(super) fn differ(
    details: &mut Vec<Detail>,
    setting: &'static str,
    old: impl Into<Option<String>>,
    new: impl Into<Option<String>>,
) {
    let (old, new) = (old.into(), new.into());
    if old != new {
        details.push(Detail { setting, whose: None, old, new });
    }
}

fn whole(old: &Policy, new: &Policy) -> Option<Change> {
    let mut details = Vec::new();
    differ(&mut details, "tier_from", old.tier_from.clone(), new.tier_from.clone());
    differ(&mut details, "default_tier", old.default_tier.clone(), new.default_tier.clone());
    let choice = |policy: &Policy| words::on_store_error(Some(policy.on_store_error));
    differ(&mut details, "on_store_error", choice(old), choice(new));
    let sync = |policy: &Policy| words::sync(Some(policy.sync));
    differ(&mut details, "sync", sync(old), sync(new));
    let ttl = |policy: &Policy| words::lease_ttl(Some(policy.lease_ttl));
    differ(&mut details, "lease_ttl", ttl(old), ttl(new));
    let share = |policy: &Policy| words::lease_share(Some(policy.lease_share));
    differ(&mut details, "lease_share", share(old), share(new));
    differ(&mut details, "partition", old.partition.clone(), new.partition.clone());
    let name = "the policy".to_owned();
    let change = Change { what: "policy", name, kind: Kind::Changed, details, consumption: None };
    (!change.details.is_empty()).then_some(change)
}

fn lists(changes: &mut Vec<Change>, what: &'static str, old: &[ListEntry], new: &[ListEntry]) {
    fn by_name(lists: &[ListEntry]) -> BTreeMap<&str, &ListEntry> {
        lists.iter().map(|list| (list.name.as_str(), list)).collect()
    }
    let (old, new) = (by_name(old), by_name(new));
    for name in names(&old, &new) {
        let (old, new) = (old.get(name).copied(), new.get(name).copied());
        let kind = kind(old.is_some(), new.is_some());
        let mut details = Vec::new();
        if [old, new].into_iter().flatten().any(|list| list.public_name.is_some()) {
            let public = |list: &ListEntry| words::public_name(list.public_name.as_deref());
            differ(&mut details, "public_name", old.map(public), new.map(public));
        }
        let matches = |list: &ListEntry| words::matches(&list.matches);
        differ(&mut details, "match", old.map(matches), new.map(matches));
        if !details.is_empty() {
            let name = (*name).to_owned();
            changes.push(Change { what, name, kind, details, consumption: None });
        }
    }
}

fn overrides(changes: &mut Vec<Change>, old: &[Override], new: &[Override]) {
    let by_client = |overrides: &[Override]| -> BTreeMap<Client, Override> {
        overrides.iter().map(|change| (change.client.clone(), change.clone())).collect()
    };
    let (old, new) = (by_client(old), by_client(new));
    for client in names(&old, &new) {
        let (old, new) = (old.get(client), new.get(client));
        let details = override_details(old, new);
        if !details.is_empty() || old.is_some() != new.is_some() {
            let kind = kind(old.is_some(), new.is_some());
            let name = words::client(client);
            changes.push(Change { what: "override", name, kind, details, consumption: None });
        }
    }
}

fn override_details(old: Option<&Override>, new: Option<&Override>) -> Vec<Detail> {
    let mut details = Vec::new();
    let tier = |of: Option<&Override>| of.and_then(|of| of.tier.clone());
    differ(&mut details, "tier", tier(old), tier(new));
    let until = |of: Option<&Override>| of.and_then(|of| of.until).map(moment::write);
    differ(&mut details, "until", until(old), until(new));
    let numbers = |of: Option<&Override>| -> BTreeMap<String, String> {
        let each = of.into_iter().flat_map(|of| &of.limits);
        each.map(|(rule, numbers)| (rule.clone(), words::numbers(numbers))).collect()
    };
    let (old, new) = (numbers(old), numbers(new));
    for rule in names(&old, &new) {
        let (old, new) = (old.get(rule).cloned(), new.get(rule).cloned());
        if old != new {
            let whose = Some(format!("rule {rule:?}"));
            details.push(Detail { setting: "limit", whose, old, new });
        }
    }
    details
}

/// What is in either, in order.
pub(super) fn names<'a, K: Ord, V>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let names: std::collections::BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    names.into_iter()
}

fn kind(was: bool, is: bool) -> Kind {
    match (was, is) {
        (false, _) => Kind::Added,
        (true, false) => Kind::Removed,
        (true, true) => Kind::Changed,
    }
}
