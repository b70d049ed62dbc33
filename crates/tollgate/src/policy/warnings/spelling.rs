//! Names of attributes that look like a misspelling of another.
//!
//! A misspelled attribute is legal: the rule simply never applies. Only names that occur once are
//! considered, and only differences that typing errors cause and that other names seldom have, so
//! that `user` and `users` or `plan_a` and `plan_b` are left alone.

use std::collections::HashMap;

use crate::bounds::{MAX_NAME_COMPARISONS, MAX_NAME_SEGMENT};
use crate::policy::{Cost, Policy, PolicyLocation, PolicyProblem};

/// Attributes that the server itself sets or that rules read by default.
const KNOWN: [&str; 9] =
    ["ip", "path", "raw_path", "method", "host", "scheme", "domain", "descriptor", "tier"];

/// The places where a policy has an attribute.
struct AttributeUses<'p> {
    name: &'p str,
    first: PolicyLocation,
    count: usize,
}

impl AttributeUses<'_> {
    fn is_known(&self) -> bool {
        KNOWN.contains(&self.name)
    }
}

/// Returns a warning for each attribute that occurs once and resembles another.
pub(super) fn misspelled(policy: &Policy) -> Vec<PolicyProblem> {
    let all = uses(policy);
    let mut comparisons = 0;
    let mut problems = Vec::new();
    for (number, once) in all.iter().enumerate() {
        if once.count > 1 || once.is_known() {
            continue;
        }
        let others = all.iter().enumerate().filter(|(other, uses)| {
            // Of two names that occur once each, the later one is reported.
            *other < number || uses.count > 1 || uses.is_known()
        });
        let mut likeliest: Option<&AttributeUses<'_>> = None;
        for (_, other) in others.filter(|(other, _)| *other != number) {
            comparisons += 1;
            if comparisons > MAX_NAME_COMPARISONS {
                return problems;
            }
            let is_likelier = likeliest.is_none_or(|likeliest| other.count > likeliest.count);
            if is_likelier && resembles(once.name, other.name) {
                likeliest = Some(other);
            }
        }
        if let Some(other) = likeliest {
            problems.push(PolicyProblem {
                place: once.first.clone(),
                message: message(once, other, policy),
            });
        }
    }
    problems
}

fn message(once: &AttributeUses<'_>, other: &AttributeUses<'_>, policy: &Policy) -> String {
    let more = match other.count {
        0 | 1 => String::new(),
        2 => " and 1 other place".to_owned(),
        count => format!(" and {} other places", count - 1),
    };
    let place = place_text(&other.first, policy);
    format!(
        "the attribute {:?} occurs only here and resembles {:?} in {place}{more}; write them alike if they are one",
        once.name, other.name
    )
}

fn place_text(place: &PolicyLocation, policy: &Policy) -> String {
    match place {
        PolicyLocation::Rule(number, setting) => {
            format!("`{setting}` of rule {:?}", policy.rules[*number].name)
        }
        PolicyLocation::Allow(number, setting) => {
            format!("`{setting}` of allow list {:?}", policy.allow[*number].name)
        }
        PolicyLocation::Deny(number, setting) => {
            format!("`{setting}` of deny list {:?}", policy.deny[*number].name)
        }
        PolicyLocation::Override(number, setting) => {
            format!("`{setting}` of override {}", number + 1)
        }
        PolicyLocation::Policy(setting) => format!("`{setting}`"),
        PolicyLocation::Tier(tier, _) => format!("tier {tier:?}"),
    }
}

/// Returns each attribute with its places, in the order of the first ones. A setting of a rule is
/// one place.
fn uses(policy: &Policy) -> Vec<AttributeUses<'_>> {
    let mut all: Vec<AttributeUses<'_>> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut last: HashMap<&str, PolicyLocation> = HashMap::new();
    let mut add = |name, place: PolicyLocation| {
        if last.insert(name, place.clone()).as_ref() == Some(&place) {
            return;
        }
        let number = *numbers.entry(name).or_insert(all.len());
        match all.get_mut(number) {
            Some(uses) => uses.count += 1,
            None => all.push(AttributeUses { name, first: place, count: 1 }),
        }
    };
    add(&policy.tier_from, PolicyLocation::Policy("tier_from"));
    for (number, rule) in policy.rules.iter().enumerate() {
        rule.matches.iter().for_each(|(name, _)| add(name, PolicyLocation::Rule(number, "match")));
        rule.key.iter().for_each(|part| add(&part.attribute, PolicyLocation::Rule(number, "key")));
        if let Cost::Attribute { name, .. } = &rule.cost {
            add(name, PolicyLocation::Rule(number, "cost"));
        }
    }
    for (number, list) in policy.allow.iter().enumerate() {
        list.matches.iter().for_each(|(name, _)| add(name, PolicyLocation::Allow(number, "match")));
    }
    for (number, list) in policy.deny.iter().enumerate() {
        list.matches.iter().for_each(|(name, _)| add(name, PolicyLocation::Deny(number, "match")));
    }
    for (number, change) in policy.overrides.iter().enumerate() {
        change.client.keys().for_each(|name| add(name, PolicyLocation::Override(number, "client")));
    }
    all
}

/// Whether two names are probably one: they differ in case or separators, or in one typing error
/// within one of their words.
fn resembles(a: &str, b: &str) -> bool {
    let plain = |name: &str| -> Vec<char> {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    if plain(a) == plain(b) {
        return true;
    }
    let (mut a, mut b) = (words(a), words(b));
    let mut differing = None;
    loop {
        match (a.next(), b.next()) {
            (None, None) => break,
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) if differing.is_none() => differing = Some((one, other)),
            _ => return false,
        }
    }
    differing.is_some_and(|(one, other)| is_typing_error(one, other))
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphanumeric())
}

/// Whether one word is the other with one letter more, with two neighbors swapped or with another
/// letter. Short words have many such neighbors that are words, too (`get` and `set`).
fn is_typing_error(one: &str, other: &str) -> bool {
    if one.len().max(other.len()) > MAX_NAME_SEGMENT || strsim::osa_distance(one, other) != 1 {
        return false;
    }
    let (mut short, mut long): (Vec<char>, Vec<char>) =
        (one.chars().collect(), other.chars().collect());
    if short.len() > long.len() {
        std::mem::swap(&mut short, &mut long);
    }
    let alike = short.iter().zip(&long).take_while(|(a, b)| a == b).count();
    if alike == 0 {
        // The first letter is seldom wrong: `uid` and `guid`, `host` and `post`.
        return false;
    }
    let is_letter = |word: &[char], at: usize| word.get(at).is_some_and(|c| c.is_alphabetic());
    if short.len() < long.len() {
        let may_be_lost = match long[alike] {
            // In the middle of a word.
            _ if alike < short.len() => short.len() >= 3,
            // The plural, and the ending of `cached` and `router`.
            's' => false,
            'd' | 'r' if short.last() == Some(&'e') => false,
            'e' => short.len() >= 3,
            // `model` is no error for `mode`.
            _ => short.len() >= 5,
        };
        return may_be_lost && is_letter(&long, alike);
    }
    let is_swap = short.get(alike + 1) == long.get(alike)
        && short.get(alike) == long.get(alike + 1)
        && short[alike..] != long[alike..];
    is_letter(&short, alike) && is_letter(&long, alike) && long.len() >= if is_swap { 4 } else { 6 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::resembles;

    #[test]
    fn typing_errors_resemble_the_name() {
        for (wrong, right) in [
            ("usr", "user"),
            ("rout", "route"),
            ("uesr", "user"),
            ("tenent", "tenant"),
            ("usr_id", "user_id"),
            ("tennant", "tenant"),
            ("adress", "address"),
            ("remote-adress", "remote-address"),
            ("User", "user"),
            ("user-id", "user_id"),
            ("userId", "user_id"),
            ("pth", "path"),
            ("tenan", "tenant"),
        ] {
            assert!(resembles(wrong, right) && resembles(right, wrong), "{wrong} {right}");
        }
    }

    #[test]
    fn names_that_are_both_meant_do_not_resemble_each_other() {
        for (a, b) in [
            ("user", "users"),
            ("token", "tokens"),
            ("request", "requests"),
            ("id", "ip"),
            ("ip", "zip"),
            ("uid", "gid"),
            ("uid", "guid"),
            ("guid", "uuid"),
            ("get", "set"),
            ("org", "app"),
            ("app_id", "api_id"),
            ("api", "app"),
            ("host", "post"),
            ("src_ip", "dst_ip"),
            ("plan_a", "plan_b"),
            ("zone1", "zone2"),
            ("key", "key2"),
            ("cache", "cached"),
            ("route", "router"),
            ("path", "raw_path"),
            ("user", "user_id"),
            ("tier", "tiers"),
            ("city", "code"),
            ("state", "stage"),
            ("scope", "score"),
            ("region", "reason"),
            ("model", "mode"),
        ] {
            assert!(!resembles(a, b) && !resembles(b, a), "{a} {b}");
        }
    }
}
