//! Reading a step that sets or removes an override.

use std::collections::BTreeMap;

use tollgate::{Client, RuleLimits};
use toml::de::DeValue;

use super::data::{Change, Until};
use super::fields::Fields;
use super::policies::Policies;
use super::values;

/// The keys of an `override` table, as in a policy file, and `remove`.
const KEYS: [&str; 5] = ["client", "tier", "limits", "until", "remove"];

/// Reads an override from the step itself, or from its `override` table.
pub(super) fn read(step: &Fields<'_>, policies: &Policies<'_>) -> Option<Change> {
    let table = match step.value("override") {
        Some(value) => {
            Some(Fields::open(step.reader, value, format!("{}: override", step.place), &KEYS)?)
        }
        None => None,
    };
    let fields = table.as_ref().unwrap_or(step);
    let client = fields.get("client", values::attributes);
    let client = client.or_else(|| step.get("request", values::attributes)).unwrap_or_default();
    if client.is_empty() {
        fields.wrong("no client, write for example client = { user = \"42\" }");
    }
    let change = Change {
        client: client.into_iter().collect::<Client>(),
        tier: fields.get("tier", values::text),
        numbers: numbers(step, fields, policies),
        until: fields.get("until", until),
        remove: fields.get("remove", values::flag).unwrap_or(false),
    };
    let changes = ["tier", "limits", "limit"].iter().any(|key| fields.has(key));
    if change.remove == changes {
        fields.wrong("give the client a tier or limits, or say remove = true");
    }
    Some(change)
}

fn numbers(
    step: &Fields<'_>,
    fields: &Fields<'_>,
    policies: &Policies<'_>,
) -> BTreeMap<String, RuleLimits> {
    let mut numbers = BTreeMap::new();
    let mut add = |rule: &str, value: &toml::Spanned<DeValue<'_>>| {
        let line = step.reader.document.line(value.span().start);
        match policies.numbers(line, rule, value.get_ref()) {
            Ok(read) => drop(numbers.insert(rule.to_owned(), read)),
            Err(wrong) => wrong.into_iter().for_each(|message| step.reader.note(message)),
        }
    };
    match fields.value("limits").map(|value| value.get_ref()) {
        Some(DeValue::Table(table)) => {
            table.iter().for_each(|(rule, value)| add(rule.get_ref(), value));
        }
        Some(_) => {
            fields.wrong_in("limits", "limits must be a table such as { \"rule\" = \"5/s\" }");
        }
        None => {}
    }
    match (fields.value("limit"), fields.get("rule", values::text)) {
        (Some(value), Some(rule)) => add(&rule, value),
        (Some(_), None) => fields.wrong_in("limit", "limit needs the rule whose limit it is"),
        _ => {}
    }
    numbers
}

fn until(value: &DeValue<'_>) -> Result<Until, String> {
    if let Ok(length) = values::length(value) {
        return Ok(Until::After(length));
    }
    let wanted = "or a duration since the start such as \"1h\"";
    values::moment(value).map(Until::At).map_err(|wrong| format!("{wrong}, {wanted}"))
}
