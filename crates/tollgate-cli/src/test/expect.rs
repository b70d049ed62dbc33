//! What a step must come to: reading it, and comparing it with what was seen.

use std::time::Duration;

use serde::Serialize;
use toml::Spanned;
use toml::de::DeValue;

use super::fields::{Fields, expected, unknown};
use super::value::Value;
use super::values;

/// The keys of `expect`.
pub(super) const KEYS: [&str; 13] = [
    "allowed",
    "remaining",
    "retry_after",
    "reset_after",
    "delay",
    "limit",
    "rule",
    "rules",
    "allowed_count",
    "taken",
    "error",
    "reason",
    "known",
];

/// The keys of a rule in `expect.rules`.
pub(super) const RULE_KEYS: [&str; 9] = [
    "allowed",
    "remaining",
    "retry_after",
    "reset_after",
    "delay",
    "limit",
    "shadow",
    "blocked",
    "applies",
];

/// What a decision may rest on.
const REASONS: [&str; 6] = ["no_rule", "limits", "allow_list", "deny_list", "block", "error"];

type Figures = Vec<(String, Value)>;

/// What must be seen; what is not named may be anything.
#[derive(Default)]
pub(super) struct Expect {
    figures: Figures,
    rules: Vec<(String, Figures)>,
}

/// What was seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) figures: Vec<(&'static str, Value)>,
    pub(super) rules: Vec<(String, Vec<(&'static str, Value)>)>,
}

/// A figure that is not what it must be.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Difference {
    pub(super) field: String,
    pub(super) expected: Value,
    pub(super) got: Value,
}

impl Expect {
    /// Reads the `expect` of a step.
    pub(super) fn read(step: &Fields<'_>) -> Expect {
        let Some(value) = step.value("expect") else {
            return Expect::default();
        };
        let place = format!("{}: expect", step.place);
        let Some(fields) = Fields::open(step.reader, value, place, &KEYS) else {
            return Expect::default();
        };
        Expect { figures: figures(&fields, &KEYS), rules: rules(&fields) }
    }

    pub(super) fn names(&self, figure: &str) -> bool {
        self.figures.iter().any(|(name, _)| name == figure)
    }

    /// Where what was seen is not what must be, told by a store whose shortest time is `tick`.
    pub(super) fn compare(&self, seen: &Seen, tick: Duration) -> Vec<Difference> {
        let mut differences = Vec::new();
        for (field, wanted) in &self.figures {
            let wanted = wanted.in_ticks(tick);
            differ(&mut differences, field.clone(), &wanted, find(&seen.figures, field));
        }
        for (rule, figures) in &self.rules {
            let found = seen.rules.iter().find(|(name, _)| name == rule);
            let applies = found.is_some();
            for (field, wanted) in figures {
                let got = match (field.as_str(), found) {
                    ("applies", _) => Value::Flag(applies),
                    ("blocked", Some((_, got))) => blocked(wanted, find(got, field)),
                    (_, Some((_, got))) => find(got, field),
                    (_, None) => Value::Text("the rule does not apply".to_owned()),
                };
                let wanted = wanted.in_ticks(tick);
                differ(&mut differences, format!("rules.{rule}.{field}"), &wanted, got);
            }
        }
        differences
    }
}

fn differ(differences: &mut Vec<Difference>, field: String, wanted: &Value, got: Value) {
    let is_fine = match (wanted, &got) {
        (Value::Text(part), Value::Text(whole)) if field == "error" => whole.contains(part),
        // No rule is the same as one without a name.
        (Value::Text(none), Value::Nothing) if field == "rule" => none.is_empty(),
        _ => *wanted == got,
    };
    if !is_fine {
        differences.push(Difference { field, expected: wanted.clone(), got });
    }
}

fn find(figures: &[(&'static str, Value)], field: &str) -> Value {
    let found = figures.iter().find(|(name, _)| *name == field);
    found.map_or(Value::Nothing, |(_, value)| value.clone())
}

/// A block is asked for by whether there is one, or by how long it lasts.
fn blocked(wanted: &Value, got: Value) -> Value {
    match (wanted, got) {
        (Value::Flag(_), got) => Value::Flag(got != Value::Nothing),
        (_, Value::Nothing) => Value::Flag(false),
        (_, got) => got,
    }
}

fn rules(fields: &Fields<'_>) -> Vec<(String, Figures)> {
    let Some(value) = fields.value("rules") else {
        return Vec::new();
    };
    let place = format!("{}: rules", fields.place);
    let Some(table) = table_of_any(fields, value, place) else {
        return Vec::new();
    };
    let read = |(rule, value): (&str, _)| {
        let place = format!("{}: rule {rule:?}", fields.place);
        let one = Fields::open(fields.reader, value, place, &RULE_KEYS)?;
        Some((rule.to_owned(), figures(&one, &RULE_KEYS)))
    };
    table.entries().filter_map(read).collect()
}

/// A table whose keys are names of the user's.
fn table_of_any<'a>(
    fields: &Fields<'a>,
    value: &'a Spanned<DeValue<'a>>,
    place: String,
) -> Option<Fields<'a>> {
    let names: Vec<&str> = match value.get_ref() {
        DeValue::Table(table) => table.keys().map(|key| key.get_ref().as_ref()).collect(),
        _ => Vec::new(),
    };
    Fields::open(fields.reader, value, place, &names)
}

fn figures(fields: &Fields<'_>, keys: &[&str]) -> Figures {
    let one = |key: &&str| {
        let value = fields.get(key, |value| figure(key, value))?;
        Some(((*key).to_owned(), value))
    };
    keys.iter().filter(|key| **key != "rules").filter_map(one).collect()
}

/// Reads a figure of the kind that its key has.
fn figure(key: &str, value: &DeValue<'_>) -> Result<Value, String> {
    match (key, value) {
        ("allowed" | "known" | "shadow" | "applies", _) => values::flag(value).map(Value::Flag),
        ("blocked", DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        ("remaining" | "limit", DeValue::String(text)) if text == "unlimited" => {
            Ok(Value::Number(u64::MAX))
        }
        ("remaining" | "limit" | "allowed_count" | "taken", _) => {
            values::count(value).map(Value::Number)
        }
        ("retry_after", DeValue::String(text)) if text == "never" => Ok(Value::Never),
        ("retry_after" | "reset_after" | "delay" | "blocked", _) => {
            values::length(value).map(Value::Length)
        }
        ("reason", DeValue::String(text)) if !REASONS.contains(&text.as_ref()) => {
            Err(format!("is wrong: {}", unknown("reason", text, &REASONS)))
        }
        ("rule" | "error" | "reason", _) => values::text(value).map(Value::Text),
        _ => Err(expected("a figure", value)),
    }
}
