//! From places of a policy to lines of its file.

use toml::de::{DeTable, DeValue};

use super::tree::{Owner, Value};
use crate::policy::{Place, Policy};

/// The tables a policy was read from, in the order of the policy.
pub(super) struct Sources<'t> {
    pub(super) top: &'t DeTable<'t>,
    pub(super) rules: Vec<&'t Value<'t>>,
    pub(super) allow: Vec<&'t Value<'t>>,
    pub(super) deny: Vec<&'t Value<'t>>,
    pub(super) overrides: Vec<&'t Value<'t>>,
}

impl Sources<'_> {
    /// Where in the text a place is: its key, or else the head of its table.
    pub(super) fn find(&self, place: &Place) -> usize {
        let (table, setting) = match place {
            Place::Rule(number, setting) => (self.rules.get(*number), *setting),
            Place::Allow(number, setting) => (self.allow.get(*number), *setting),
            Place::Deny(number, setting) => (self.deny.get(*number), *setting),
            Place::Override(number, setting) => (self.overrides.get(*number), *setting),
            Place::Policy(setting) => return key(self.top, setting).unwrap_or(0),
            Place::Tier(tier, rule) => return self.tier(tier, rule).unwrap_or(0),
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
pub(super) fn owner<'p>(policy: &'p Policy, place: &'p Place) -> Owner<'p> {
    fn named(name: Option<&String>) -> Option<&str> {
        name.map(String::as_str).filter(|name| !name.is_empty())
    }
    match place {
        Place::Rule(number, _) => {
            Owner::Rule(*number, named(policy.rules.get(*number).map(|rule| &rule.name)))
        }
        Place::Allow(number, _) => {
            Owner::Allow(*number, named(policy.allow.get(*number).map(|list| &list.name)))
        }
        Place::Deny(number, _) => {
            Owner::Deny(*number, named(policy.deny.get(*number).map(|list| &list.name)))
        }
        Place::Tier(tier, rule) => Owner::Tier(tier, rule),
        Place::Override(number, _) => Owner::Override(*number, None),
        Place::Policy(_) => Owner::Policy,
    }
}
