//! Reading `[[rule]]`.

use super::conditions::conditions;
use super::keys::{ADDRESS, BLOCK, COST, RULE};
use super::numbers::{numbers, one_limit, several_limits};
use super::tree::{Diagnostics, SettingFields, SettingSection, SpannedValue};
use super::values::{
    attributes, duration, flag, lease, on_store_error, sync, table as table_of, text, whole,
};
use crate::policy::{AddressPrefix, BlockPolicy, Cost, KeyAttribute, Rule, RuleLimits};
use toml::de::DeValue;

/// The rule of this number. What cannot be read is left at its default and noted.
pub(super) fn rule<'t>(
    report: &mut Diagnostics,
    number: usize,
    value: &'t SpannedValue<'t>,
) -> Rule {
    let Some(table) = value.get_ref().as_table() else {
        let owner = SettingSection::Rule(number, None);
        report.wrong_type(owner.at("name"), "rule", "a table, written as [[rule]]", value);
        return Rule { limits: RuleLimits::Unlimited, ..Rule::new("") };
    };
    let name = table.get("name").and_then(|value| value.get_ref().as_str());
    let owner = SettingSection::Rule(number, name);
    let fields = SettingFields::read(report, owner, table, RULE);
    let mut rule = Rule::new("");
    if let Some(value) = fields.get("name") {
        rule.name = text(report, owner.at("name"), "name", value).unwrap_or_default().to_owned();
    }
    if let Some(value) = fields.get("public_name") {
        let public = text(report, owner.at("public_name"), "public_name", value);
        rule.public_name = public.map(str::to_owned);
    }
    if let Some(value) = fields.get("match") {
        rule.matches = conditions(report, owner.at("match"), value);
    }
    rule.key = key(report, owner, &fields);
    rule.limits = own_numbers(report, owner, &fields);
    if let Some(value) = fields.get("tiers") {
        let wanted = "a table such as { pro = \"1000/min\" }";
        let tiers = table_of(report, owner.at("tiers"), wanted, value);
        for (tier, value) in tiers.into_iter().flatten() {
            let here = SettingSection::Tier(tier.get_ref(), name.unwrap_or_default()).at("tiers");
            let numbers = numbers(report, here, tier.get_ref(), value);
            rule.tiers.insert(tier.get_ref().as_ref().to_owned(), numbers);
        }
    }
    if let Some(value) = fields.get("cost") {
        rule.cost = cost(report, owner, value).unwrap_or(rule.cost);
    }
    if let Some(value) = fields.get("shadow") {
        rule.shadow = flag(report, owner.at("shadow"), "shadow", value).unwrap_or_default();
    }
    if let Some(value) = fields.get("block_for") {
        rule.block = block(report, owner, value);
    }
    rule.on_store_error = on_store_error(report, owner, &fields);
    rule.sync = sync(report, owner, &fields);
    (rule.lease_ttl, rule.lease_share) = lease(report, owner, &fields);
    rule
}

fn own_numbers(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    fields: &SettingFields<'_>,
) -> RuleLimits {
    let here = owner.at("limit");
    match (fields.get("limit"), fields.get("limits")) {
        (Some(one), None) => one_limit(report, here, one),
        (None, Some(several)) => several_limits(report, here, several),
        (None, None) => RuleLimits::All(Vec::new()),
        (Some(one), Some(several)) => {
            let at = one.span().start.max(several.span().start);
            report.error_at(here, at, "both `limit` and `limits`, put all of them into `limits`");
            one_limit(report, here, one);
            several_limits(report, here, several)
        }
    }
}

fn key(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    fields: &SettingFields<'_>,
) -> Vec<KeyAttribute> {
    let here = owner.at("key");
    let mut parts: Vec<KeyAttribute> = Vec::new();
    if let Some(value) = fields.get("key") {
        let wanted =
            "an array of attribute names such as [\"user\"] or [{ ip = { v4 = 32, v6 = 64 } }]";
        let DeValue::Array(values) = value.get_ref() else {
            report.wrong_type(here, "key", wanted, value);
            return parts;
        };
        for value in values {
            match value.get_ref() {
                DeValue::String(attribute) => parts.push(attribute.as_ref().into()),
                DeValue::Table(table) if table.len() == 1 => {
                    parts.extend(table.iter().filter_map(|(attribute, prefix)| {
                        let prefix = address(report, owner, prefix)?;
                        Some(KeyAttribute::address(attribute.get_ref().as_ref(), prefix))
                    }));
                }
                _ => report.wrong_type(here, "key", wanted, value),
            }
        }
    }
    let Some(value) = fields.get("defaults") else {
        return parts;
    };
    let here = owner.at("defaults");
    for (attribute, at, default) in attributes(report, here, value) {
        match parts.iter_mut().find(|part| part.attribute == attribute) {
            Some(part) => part.default = Some(default),
            None => {
                let message = format!(
                    "a default for {attribute:?}, which is not in `key`; add it or leave it out"
                );
                report.error_at(here, at, &message);
            }
        }
    }
    parts
}

/// The part of an address that a key counts.
fn address(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    value: &SpannedValue<'_>,
) -> Option<AddressPrefix> {
    let here = owner.at("key");
    let Some(table) = value.get_ref().as_table() else {
        report.wrong_type(
            here,
            "key",
            "a table such as { v4 = 32, v6 = 64 } for an address",
            value,
        );
        return None;
    };
    let fields = SettingFields::read(report, owner, table, ADDRESS);
    let default = AddressPrefix::default();
    let v4 = bits(report, owner, &fields, ("v4", default.v4(), 32));
    let v6 = bits(report, owner, &fields, ("v6", default.v6(), 128));
    Some(AddressPrefix::new(v4?, v6?))
}

/// The bits that `name` says, at most `most`, or `default`.
fn bits(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    fields: &SettingFields<'_>,
    (name, default, most): (&str, u8, u8),
) -> Option<u8> {
    let here = owner.at("key");
    let Some(value) = fields.get(name) else { return Some(default) };
    let bits = whole(report, here, name, value)?;
    let known = u8::try_from(bits).ok().filter(|bits| *bits <= most);
    if known.is_none() {
        let message = format!("`{name}` is {bits}, must be from 0 to {most}");
        report.error_at(here, value.span().start, &message);
    }
    known
}

fn cost(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    value: &SpannedValue<'_>,
) -> Option<Cost> {
    let here = owner.at("cost");
    let table = match value.get_ref() {
        DeValue::Integer(_) => return whole(report, here, "cost", value).map(Cost::Units),
        DeValue::Table(table) => table,
        _ => {
            let wanted = "a whole number or a table such as { attribute = \"tokens\" }";
            report.wrong_type(here, "cost", wanted, value);
            return None;
        }
    };
    let fields = SettingFields::read(report, owner, table, COST);
    let Some(attribute) = fields.get("attribute") else {
        let message = "no `attribute`, write for example cost = { attribute = \"tokens\" }";
        report.error_at(here, value.span().start, message);
        return None;
    };
    let mut number = |key| match fields.get(key) {
        Some(value) => whole(report, here, key, value),
        None => Some(1),
    };
    let (multiplier, default) = (number("multiplier"), number("default"));
    let name = text(report, here, "attribute", attribute)?.to_owned();
    Some(Cost::Attribute { name, multiplier: multiplier?, default: default? })
}

fn block(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    value: &SpannedValue<'_>,
) -> Option<BlockPolicy> {
    let here = owner.at("block_for");
    let DeValue::Table(table) = value.get_ref() else {
        return duration(report, here, "block_for", value).map(BlockPolicy::fixed);
    };
    let fields = SettingFields::read(report, owner, table, BLOCK);
    let factor = match fields.get("factor") {
        Some(value) => whole(report, here, "factor", value).and_then(|factor| {
            let message = format!("factor is {factor}, must be at most {}", u32::MAX);
            let narrow = u32::try_from(factor);
            narrow.map_err(|_| report.error_at(here, value.span().start, &message)).ok()
        }),
        None => Some(1),
    };
    let max = fields.get("max").map(|value| duration(report, here, "max", value));
    let Some(first) = fields.get("first") else {
        let message = "no `first`, write for example { first = \"15m\", factor = 2, max = \"1d\" }";
        report.error_at(here, value.span().start, message);
        return None;
    };
    let first = duration(report, here, "first", first)?;
    let max = match (max, factor) {
        (Some(max), _) => max?,
        (None, Some(1) | None) => first,
        (None, Some(_)) => {
            let message = "`factor` without `max`, say how long the longest block is";
            report.error_at(here, value.span().start, message);
            return None;
        }
    };
    Some(BlockPolicy { first, factor: factor?, max })
}
