//! From places of a policy to lines of its file.

use toml::de::{DeTable, DeValue};

use super::tree::{SettingSection, SpannedValue};
use crate::policy::{Policy, PolicyLocation};

/// The tables a policy was read from, in the order of the policy.
pub(super) struct SourceMap<'t> {
    pub(super) top: &'t DeTable<'t>,
    pub(super) rules: Vec<&'t SpannedValue<'t>>,
    pub(super) allow: Vec<&'t SpannedValue<'t>>,
    pub(super) deny: Vec<&'t SpannedValue<'t>>,
    pub(super) overrides: Vec<&'t SpannedValue<'t>>,
}

impl SourceMap<'_> {
    /// Where in the text a place is: its key, or else the head of its table.
    pub(super) fn find(&self, place: &PolicyLocation) -> usize {
        let (table, setting) = match place {
            PolicyLocation::Rule(number, setting) => (self.rules.get(*number), *setting),
            PolicyLocation::Allow(number, setting) => (self.allow.get(*number), *setting),
            PolicyLocation::Deny(number, setting) => (self.deny.get(*number), *setting),
            PolicyLocation::Override(number, setting) => (self.overrides.get(*number), *setting),
            PolicyLocation::Policy(setting) => return key(self.top, setting).unwrap_or(0),
            PolicyLocation::Tier(tier, rule) => return self.tier(tier, rule).unwrap_or(0),
        };
        let Some(value) = table else { return 0 };
        let head = value.span().start;
        let DeValue::Table(table) = value.get_ref() else { return head };
        let several = || if setting == "limit" { key(table, "limits") } else { None };
        key(table, setting).or_else(several).unwrap_or(head)
    }

    fn tier(&self, tier: &str, rule: &str) -> Option<usize> {
        let tiers = self.top.get("tiers")?.get_ref().as_table()?;
        key(tiers.get(tier)?.get_ref().as_table()?, rule)
    }
}

fn key(table: &DeTable<'_>, name: &str) -> Option<usize> {
    table.get_key_value(name).map(|(key, _)| key.span().start)
}

/// Whose the place is, with its name.
pub(super) fn owner<'p>(policy: &'p Policy, place: &'p PolicyLocation) -> SettingSection<'p> {
    fn named(name: Option<&String>) -> Option<&str> {
        name.map(String::as_str).filter(|name| !name.is_empty())
    }
    match place {
        PolicyLocation::Rule(number, _) => {
            SettingSection::Rule(*number, named(policy.rules.get(*number).map(|rule| &rule.name)))
        }
        PolicyLocation::Allow(number, _) => {
            SettingSection::Allow(*number, named(policy.allow.get(*number).map(|list| &list.name)))
        }
        PolicyLocation::Deny(number, _) => {
            SettingSection::Deny(*number, named(policy.deny.get(*number).map(|list| &list.name)))
        }
        PolicyLocation::Tier(tier, rule) => SettingSection::Tier(tier, rule),
        PolicyLocation::Override(number, _) => SettingSection::Override(*number, None),
        PolicyLocation::Policy(_) => SettingSection::Policy,
    }
}
