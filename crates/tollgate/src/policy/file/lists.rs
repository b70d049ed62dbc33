//! Reading what is not a rule: `[[allow]]`, `[[deny]]`, `[tiers]` and `[[override]]`.

use std::collections::BTreeMap;

use super::conditions::conditions;
use super::keys::{LIST, OVERRIDE};
use super::numbers::numbers;
use super::tree::{Diagnostics, SettingFields, SettingSection, SpannedValue};
use super::values::{attributes, moment, table, text};
use crate::policy::{Client, ListEntry, Override, RuleLimits};

/// The list behind `value`; `owner` makes its owner from its name.
pub(super) fn listing<'t>(
    report: &mut Diagnostics,
    owner: &dyn Fn(Option<&'t str>) -> SettingSection<'t>,
    default_name: String,
    value: &'t SpannedValue<'t>,
) -> ListEntry {
    let Some(table) = value.get_ref().as_table() else {
        let here = owner(None).at("name");
        report.wrong_type(here, here.list(), "a table in double brackets", value);
        return ListEntry::new("");
    };
    let owner = owner(table.get("name").and_then(|value| value.get_ref().as_str()));
    let fields = SettingFields::read(report, owner, table, LIST);
    let mut listing = ListEntry::new(default_name);
    if let Some(value) = fields.get("name") {
        listing.name = text(report, owner.at("name"), "name", value).unwrap_or_default().to_owned();
    }
    if let Some(value) = fields.get("public_name") {
        let public = text(report, owner.at("public_name"), "public_name", value);
        listing.public_name = public.map(str::to_owned);
    }
    let here = owner.at("match");
    match fields.get("match") {
        None => {
            let message = "no `match`, it would hold everybody; write for example match = { ip = { cidr = \"10.0.0.0/8\" } }";
            report.error_at(here, value.span().start, message);
        }
        Some(matches) => {
            if matches.get_ref().as_table().is_some_and(|table| table.is_empty()) {
                let message = "`match` is empty, it would hold everybody; name an attribute";
                report.error_at(here, matches.span().start, message);
            }
            listing.matches = conditions(report, here, matches);
        }
    }
    listing
}

/// The limits that tiers have for rules.
pub(super) fn tiers<'t>(
    report: &mut Diagnostics,
    value: &'t SpannedValue<'t>,
) -> BTreeMap<String, BTreeMap<String, RuleLimits>> {
    let mut tiers = BTreeMap::new();
    let here = SettingSection::Policy.at("tiers");
    let wanted = "a table of tiers such as [tiers.pro]";
    for (tier, value) in table(report, here, wanted, value).into_iter().flatten() {
        let tier = tier.get_ref().as_ref();
        let Some(table) = value.get_ref().as_table() else {
            let wanted = "a table of rule names and their limits";
            report.wrong_type(here, &format!("tiers.{tier}"), wanted, value);
            continue;
        };
        let of_rule = |report: &mut Diagnostics, rule: &'t str, value| {
            let here = SettingSection::Tier(tier, rule).at("limit");
            (rule.to_owned(), numbers(report, here, rule, value))
        };
        let limits = table.iter().map(|(rule, value)| of_rule(report, rule.get_ref(), value));
        tiers.insert(tier.to_owned(), limits.collect());
    }
    tiers
}

/// The override of this number.
pub(super) fn one_override<'t>(
    report: &mut Diagnostics,
    number: usize,
    value: &'t SpannedValue<'t>,
) -> Override {
    let owner = SettingSection::Override(number, None);
    let mut change = Override::of(Client::new());
    let Some(table_of) = value.get_ref().as_table() else {
        report.wrong_type(
            owner.at("client"),
            "override",
            "a table, written as [[override]]",
            value,
        );
        report.suppress(owner.at("tier"));
        return change;
    };
    let fields = SettingFields::read(report, owner, table_of, OVERRIDE);
    if let Some(value) = fields.get("client") {
        let client = attributes(report, owner.at("client"), value);
        change.client = client.into_iter().map(|(name, _, text)| (name.to_owned(), text)).collect();
    }
    if let Some(value) = fields.get("tier") {
        change.tier = text(report, owner.at("tier"), "tier", value).map(str::to_owned);
    }
    if let Some(value) = fields.get("limits") {
        let here = owner.at("limits");
        let wanted = "a table of rule names and their limits";
        for (rule, value) in table(report, here, wanted, value).into_iter().flatten() {
            let rule = rule.get_ref().as_ref();
            let here = SettingSection::Override(number, Some(rule)).at("limits");
            change.limits.insert(rule.to_owned(), numbers(report, here, rule, value));
        }
        if value.get_ref().as_table().is_none() {
            // It was meant to change something, and what is wrong was said.
            report.suppress(owner.at("tier"));
        }
    }
    if let Some(value) = fields.get("until") {
        change.until = moment(report, owner.at("until"), value);
    }
    change
}
