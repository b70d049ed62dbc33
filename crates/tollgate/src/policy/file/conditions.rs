//! Reading `match`: attributes, and what must hold for each.

use std::net::IpAddr;

use ipnet::IpNet;
use toml::de::DeValue;

use super::keys::{CONDITION, SettingSpec};
use super::tree::{Diagnostics, SettingFields, SettingRef, SpannedValue};
use super::values::{attribute_text, attribute_texts, flag, table};
use crate::policy::{Condition, Glob};

type ParsedConditions = Vec<(String, Condition)>;

/// What a condition may be, for messages.
const WANTED: &str = "text, an array of texts or a table such as { prefix = \"/api/\" }";

// `not` and `all` are the last two: what they hold is one of the others.
const _: () = assert!(CONDITION.len() > 2);

/// The conditions of a `match` table.
pub(super) fn conditions(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    value: &SpannedValue<'_>,
) -> ParsedConditions {
    let mut conditions = Vec::new();
    let wanted = "a table such as { route = \"/search\" }";
    let Some(table) = table(report, here, wanted, value) else {
        return conditions;
    };
    for (name, value) in table {
        let attribute = AttributeCondition { here, name: name.get_ref() };
        attribute.read(report, value, &mut |condition| {
            conditions.push((attribute.name.to_owned(), condition));
        });
    }
    conditions
}

struct AttributeCondition<'t> {
    here: SettingRef<'t>,
    name: &'t str,
}

impl AttributeCondition<'_> {
    fn read(
        &self,
        report: &mut Diagnostics,
        value: &SpannedValue<'_>,
        take: &mut dyn FnMut(Condition),
    ) {
        let DeValue::Table(_) = value.get_ref() else {
            return self.plain(report, value, take);
        };
        for (key, value) in self.fields(report, value, CONDITION) {
            match value.get_ref() {
                DeValue::Array(values) if key == "all" => {
                    values.iter().for_each(|value| self.one_of_all(report, value, take));
                }
                _ => self.keyed(report, key, value).into_iter().for_each(&mut *take),
            }
        }
    }

    /// One of `all`. Not by recursion: conditions within conditions within conditions say nothing
    /// that these do not.
    fn one_of_all(
        &self,
        report: &mut Diagnostics,
        value: &SpannedValue<'_>,
        take: &mut dyn FnMut(Condition),
    ) {
        let DeValue::Table(_) = value.get_ref() else {
            return self.plain(report, value, take);
        };
        for (key, value) in self.fields(report, value, &CONDITION[..CONDITION.len() - 1]) {
            self.keyed(report, key, value).into_iter().for_each(&mut *take);
        }
    }

    fn fields<'t>(
        &self,
        report: &mut Diagnostics,
        value: &'t SpannedValue<'t>,
        keys: &'static [SettingSpec],
    ) -> impl Iterator<Item = (&'static str, &'t SpannedValue<'t>)> + use<'t> {
        let table = value.get_ref().as_table();
        if table.is_some_and(|table| table.is_empty()) {
            let message = format!("no condition for {:?}, it must be {WANTED}", self.name);
            report.error_at(self.here, value.span().start, &message);
        }
        let fields = table.map(|table| SettingFields::read(report, self.here.owner, table, keys).0);
        fields.into_iter().flatten()
    }

    /// A condition that is not a table.
    fn plain(
        &self,
        report: &mut Diagnostics,
        value: &SpannedValue<'_>,
        take: &mut dyn FnMut(Condition),
    ) {
        match (attribute_text(value.get_ref()), value.get_ref()) {
            (Some(text), _) => take(Condition::Equals(text)),
            (None, DeValue::Array(values)) => {
                let texts = attribute_texts(report, self.here, self.name, values.iter());
                texts.map(Condition::AnyOf).into_iter().for_each(take);
            }
            (None, _) => report.wrong_type(self.here, self.name, WANTED, value),
        }
    }

    /// A key of a condition's table.
    fn keyed(
        &self,
        report: &mut Diagnostics,
        key: &'static str,
        value: &SpannedValue<'_>,
    ) -> Option<Condition> {
        match key {
            "present" | "absent" => {
                let is_present = flag(report, self.here, key, value)? == (key == "present");
                Some(if is_present { Condition::Present } else { Condition::Absent })
            }
            "is" => {
                let text = attribute_text(value.get_ref());
                if text.is_none() {
                    report.wrong_type(self.here, key, "text", value);
                }
                text.map(Condition::Equals)
            }
            "one_of" => match value.get_ref() {
                DeValue::Array(values) => {
                    attribute_texts(report, self.here, key, values.iter()).map(Condition::AnyOf)
                }
                _ => {
                    report.wrong_type(self.here, key, "an array of texts", value);
                    None
                }
            },
            "prefix" => self.one_or_many(report, key, value).map(Condition::Prefix),
            "glob" => {
                let globs = self.one_or_many(report, key, value)?;
                Some(Condition::Glob(globs.into_iter().map(Glob::new).collect()))
            }
            "cidr" => self.networks(report, value).map(Condition::Cidr),
            "not" => self.negated(report, value),
            _ => {
                report.wrong_type(self.here, key, "an array of conditions", value);
                None
            }
        }
    }

    /// What must not hold: one condition, so that it is plain what its negation is.
    fn negated(&self, report: &mut Diagnostics, value: &SpannedValue<'_>) -> Option<Condition> {
        let mut negated = None;
        match value.get_ref() {
            DeValue::Table(table) if table.len() > 1 => {
                let message = "`not` takes one condition, put several into `all` with a `not` each";
                report.error_at(self.here, value.span().start, message);
            }
            DeValue::Table(_) => {
                let keys = &CONDITION[..CONDITION.len() - 2];
                for (key, value) in self.fields(report, value, keys) {
                    negated = self.keyed(report, key, value);
                }
            }
            _ => self.plain(report, value, &mut |condition| negated = Some(condition)),
        }
        negated.map(|condition| !condition)
    }

    fn one_or_many(
        &self,
        report: &mut Diagnostics,
        key: &str,
        value: &SpannedValue<'_>,
    ) -> Option<Vec<String>> {
        match (attribute_text(value.get_ref()), value.get_ref()) {
            (Some(text), _) => Some(vec![text]),
            (None, DeValue::Array(values)) => {
                attribute_texts(report, self.here, key, values.iter())
            }
            (None, _) => {
                report.wrong_type(self.here, key, "text or an array of texts", value);
                None
            }
        }
    }

    fn networks(&self, report: &mut Diagnostics, value: &SpannedValue<'_>) -> Option<Vec<IpNet>> {
        let texts = self.one_or_many(report, "cidr", value)?;
        let places: Vec<_> = match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![value],
        };
        let mut networks = Some(Vec::new());
        for (text, place) in texts.iter().zip(places) {
            match (network(text), &mut networks) {
                (Ok(network), Some(networks)) => networks.push(network),
                (Ok(_), None) => {}
                (Err(message), _) => {
                    report.error_at(self.here, place.span().start, &message);
                    networks = None;
                }
            }
        }
        networks
    }
}

/// A network such as `10.0.0.0/8`; a bare address is the network of it alone.
fn network(text: &str) -> Result<IpNet, String> {
    let alone = text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().or(alone).map_err(|_| {
        format!("{text:?} is not a network, write for example 10.0.0.0/8 or 2001:db8::/32")
    })
}
