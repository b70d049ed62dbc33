//! Writing a policy: one way for each thing, and only what differs from the default.

use std::fmt::Write as _;

use crate::bounds::{DEFAULT_LEASE_SHARE, DEFAULT_LEASE_TTL};
use crate::limit::DisplayDuration;
use crate::policy::{
    BlockPolicy, Condition, Cost, KeyAttribute, ListEntry, OnStoreError, Override, Policy, Rule,
    RuleLimits, SyncMode,
};
use crate::time::Timestamp;

/// The text of `policy`.
pub(super) fn policy(policy: &Policy) -> String {
    let mut out = String::new();
    if policy.tier_from != "tier" {
        line(&mut out, "tier_from", &quoted(&policy.tier_from));
    }
    if let Some(tier) = &policy.default_tier {
        line(&mut out, "default_tier", &quoted(tier));
    }
    if policy.on_store_error != OnStoreError::Local {
        line(&mut out, "on_store_error", &quoted(word(policy.on_store_error)));
    }
    if policy.sync != SyncMode::Strict {
        line(&mut out, "sync", &quoted(sync(policy.sync)));
    }
    if policy.lease_ttl != DEFAULT_LEASE_TTL {
        line(&mut out, "lease_ttl", &quoted(&DisplayDuration(policy.lease_ttl).to_string()));
    }
    if policy.lease_share != DEFAULT_LEASE_SHARE {
        line(&mut out, "lease_share", &quoted(&format!("{}%", policy.lease_share)));
    }
    if let Some(attribute) = &policy.partition {
        line(&mut out, "partition", &quoted(attribute));
    }
    policy.rules.iter().for_each(|one| rule(&mut out, one));
    policy.allow.iter().for_each(|one| list(&mut out, "[[allow]]", one));
    policy.deny.iter().for_each(|one| list(&mut out, "[[deny]]", one));
    for (tier, limits) in &policy.tiers {
        head(&mut out, &format!("[tiers.{}]", key(tier)));
        for (rule, one) in limits {
            line(&mut out, &key(rule), &numbers(one));
        }
    }
    policy.overrides.iter().for_each(|one| change(&mut out, one));
    out
}

fn rule(out: &mut String, rule: &Rule) {
    head(out, "[[rule]]");
    line(out, "name", &quoted(&rule.name));
    if let Some(name) = &rule.public_name {
        line(out, "public_name", &quoted(name));
    }
    if !rule.matches.is_empty() {
        line(out, "match", &conditions(&rule.matches));
    }
    line(out, "key", &array(rule.key.iter().map(part)));
    if rule.key.iter().any(|part| part.default.is_some()) {
        line(out, "defaults", &defaults(&rule.key));
    }
    let setting = if rule.limits.limits().len() > 1 { "limits" } else { "limit" };
    line(out, setting, &numbers(&rule.limits));
    if !rule.tiers.is_empty() {
        let tiers = rule.tiers.iter().map(|(tier, one)| (key(tier), numbers(one)));
        line(out, "tiers", &table(tiers));
    }
    if rule.cost != Cost::Request {
        line(out, "cost", &cost(&rule.cost));
    }
    if rule.shadow {
        line(out, "shadow", "true");
    }
    if let Some(one) = &rule.block {
        line(out, "block_for", &block(one));
    }
    if let Some(choice) = rule.on_store_error {
        line(out, "on_store_error", &quoted(word(choice)));
    }
    if let Some(mode) = rule.sync {
        line(out, "sync", &quoted(sync(mode)));
    }
    if let Some(ttl) = rule.lease_ttl {
        line(out, "lease_ttl", &quoted(&DisplayDuration(ttl).to_string()));
    }
    if let Some(share) = rule.lease_share {
        line(out, "lease_share", &quoted(&format!("{share}%")));
    }
}

fn list(out: &mut String, header: &str, list: &ListEntry) {
    head(out, header);
    line(out, "name", &quoted(&list.name));
    if let Some(name) = &list.public_name {
        line(out, "public_name", &quoted(name));
    }
    line(out, "match", &conditions(&list.matches));
}

fn change(out: &mut String, change: &Override) {
    head(out, "[[override]]");
    let client = change.client.iter().map(|(name, value)| (key(name), quoted(value)));
    line(out, "client", &table(client));
    if let Some(tier) = &change.tier {
        line(out, "tier", &quoted(tier));
    }
    if !change.limits.is_empty() {
        let limits = change.limits.iter().map(|(rule, one)| (key(rule), numbers(one)));
        line(out, "limits", &table(limits));
    }
    if let Some(moment) = change.until {
        line(out, "until", &until(moment));
    }
}

fn head(out: &mut String, header: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(header);
    out.push('\n');
}

fn line(out: &mut String, name: &str, value: &str) {
    out.extend([name, " = ", value, "\n"]);
}

fn numbers(numbers: &RuleLimits) -> String {
    match numbers {
        RuleLimits::Unlimited => quoted("unlimited"),
        RuleLimits::All(limits) => match limits.as_slice() {
            [limit] => quoted(&limit.to_string()),
            limits => array(limits.iter().map(|limit| quoted(&limit.to_string()))),
        },
    }
}

fn part(part: &KeyAttribute) -> String {
    let Some(prefix) = part.address else { return quoted(&part.attribute) };
    let bits = [("v4", prefix.v4()), ("v6", prefix.v6())];
    let bits = table(bits.map(|(name, bits)| (name.to_owned(), bits.to_string())));
    table([(key(&part.attribute), bits)])
}

fn defaults(parts: &[KeyAttribute]) -> String {
    let given = parts.iter().filter_map(|part| Some((&part.attribute, part.default.as_ref()?)));
    table(given.map(|(attribute, default)| (key(attribute), quoted(default))))
}

fn cost(cost: &Cost) -> String {
    match cost {
        // Left out, since it is what a rule without a cost means.
        Cost::Request => String::new(),
        Cost::Units(units) => units.to_string(),
        Cost::Attribute { name, multiplier, default } => {
            let numbers = [("multiplier", multiplier), ("default", default)];
            let numbers = numbers.into_iter().filter(|(_, number)| **number != 1);
            let numbers = numbers.map(|(name, number)| (name.to_owned(), number.to_string()));
            table(std::iter::once(("attribute".to_owned(), quoted(name))).chain(numbers))
        }
    }
}

fn block(block: &BlockPolicy) -> String {
    let text = |duration| quoted(&DisplayDuration(duration).to_string());
    if *block == BlockPolicy::fixed(block.first) {
        return text(block.first);
    }
    let settings = [
        ("first", text(block.first)),
        ("factor", block.factor.to_string()),
        ("max", text(block.max)),
    ];
    table(settings.map(|(name, value)| (name.to_owned(), value)))
}

/// The conditions, those of one attribute together.
fn conditions(conditions: &[(String, Condition)]) -> String {
    let mut attributes: Vec<(&str, Vec<&Condition>)> = Vec::new();
    for (attribute, condition) in conditions {
        match attributes.iter_mut().find(|(name, _)| name == attribute) {
            Some((_, several)) => several.push(condition),
            None => attributes.push((attribute, vec![condition])),
        }
    }
    table(attributes.iter().map(|(name, several)| (key(name), together(several))))
}

/// All conditions of one attribute.
fn together(conditions: &[&Condition]) -> String {
    if let [condition] = conditions {
        return match condition {
            Condition::Equals(_) | Condition::AnyOf(_) => keyed(condition).1,
            _ => table([keyed(condition)]),
        };
    }
    let parts: Vec<_> = conditions.iter().map(|condition| keyed(condition)).collect();
    let is_once = |name: &str| parts.iter().filter(|(other, _)| other == name).count() == 1;
    if parts.iter().all(|(name, _)| is_once(name)) {
        return table(parts);
    }
    table([("all".to_owned(), array(parts.into_iter().map(|part| table([part]))))])
}

/// A condition as a key of a table.
fn keyed(condition: &Condition) -> (String, String) {
    let one_or_many = |texts: Vec<String>| match texts.as_slice() {
        [one] => one.clone(),
        _ => array(texts),
    };
    let (name, value) = match condition {
        Condition::Equals(text) => ("is", quoted(text)),
        Condition::AnyOf(texts) => ("one_of", array(texts.iter().map(|text| quoted(text)))),
        Condition::Prefix(texts) => {
            ("prefix", one_or_many(texts.iter().map(|text| quoted(text)).collect()))
        }
        Condition::Glob(globs) => {
            ("glob", one_or_many(globs.iter().map(|glob| quoted(glob.as_str())).collect()))
        }
        Condition::Cidr(networks) => {
            ("cidr", one_or_many(networks.iter().map(|net| quoted(&net.to_string())).collect()))
        }
        Condition::Present => ("present", "true".to_owned()),
        Condition::Absent => ("absent", "true".to_owned()),
        Condition::Not(other) => ("not", together(&[other])),
    };
    (name.to_owned(), value)
}

fn until(moment: Timestamp) -> String {
    let written = jiff::Timestamp::from_nanosecond(i128::from(moment.as_nanos()));
    // Every moment lies before 2262, which is within jiff's years.
    written.unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn word(choice: OnStoreError) -> &'static str {
    match choice {
        OnStoreError::Local => "local",
        OnStoreError::Allow => "allow",
        OnStoreError::Deny => "deny",
    }
}

fn sync(mode: SyncMode) -> &'static str {
    match mode {
        SyncMode::Strict => "strict",
        SyncMode::Leased => "leased",
    }
}

fn array(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(", "))
}

fn table(entries: impl IntoIterator<Item = (String, String)>) -> String {
    let entries: Vec<_> =
        entries.into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
}

/// A key, in quotes where it needs them.
fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
