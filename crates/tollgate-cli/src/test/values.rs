//! What stands behind a key of a test file. Each reader says what would be right.

use std::time::Duration;

use tollgate::Timestamp;
use toml::de::DeValue;

use super::fields::expected;
use crate::duration;

pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| expected("a text", value))
}

pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| expected("true or false", value))
}

/// Any whole number; those out of reach come as the nearest one.
pub(super) fn integer(value: &DeValue<'_>) -> Result<i128, String> {
    let DeValue::Integer(number) = value else {
        return Err(expected("a whole number", value));
    };
    let digits = number.as_str();
    let beyond = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
    Ok(i128::from_str_radix(digits, number.radix()).unwrap_or(beyond))
}

/// A whole number from 0.
pub(super) fn count(value: &DeValue<'_>) -> Result<u64, String> {
    let number = integer(value)?;
    u64::try_from(number).map_err(|_| format!("must be from 0 to {}", u64::MAX))
}

pub(super) fn length(value: &DeValue<'_>) -> Result<Duration, String> {
    let wanted = "a duration such as \"0s\", \"1.5s\" or \"1h30m\"";
    let text = value.as_str().ok_or_else(|| expected(wanted, value))?;
    duration::parse(text).map_err(|_| format!("is {text:?}, must be {wanted}"))
}

pub(super) fn moment(value: &DeValue<'_>) -> Result<Timestamp, String> {
    let wanted = "a time such as \"2026-11-15T12:00:00Z\"";
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        _ => return Err(expected(wanted, value)),
    };
    crate::moment::read(&text)
        .map_err(|_| format!("is {text:?}, must be {wanted}, with its offset and before 2262"))
}

/// An attribute's value: numbers and truths are their text.
pub(super) fn attribute(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(_) => Ok(integer(value)?.to_string()),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        _ => Err(expected("a text", value)),
    }
}

/// Names and values, as in `{ user = "42", route = "/search" }`.
pub(super) fn attributes(value: &DeValue<'_>) -> Result<Vec<(String, String)>, String> {
    let wanted = "a table such as { user = \"42\" }";
    let table = value.as_table().ok_or_else(|| expected(wanted, value))?;
    let pair = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let name: &str = AsRef::<str>::as_ref(name.get_ref() as &std::borrow::Cow<'_, str>);
        let value = attribute(value.get_ref()).map_err(|wrong| format!("`{name}` {wrong}"))?;
        Ok((name.to_owned(), value))
    };
    table.iter().map(pair).collect()
}

/// A text or a list of texts.
pub(super) fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(values) => values.iter().map(|value| attribute(value.get_ref())).collect(),
        _ => Ok(vec![attribute(value)?]),
    }
}

/// The value as it would stand behind a key, on one line.
pub(super) fn inline(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(values) => {
            let values: Vec<_> = values.iter().map(|value| inline(value.get_ref())).collect();
            format!("[{}]", values.join(", "))
        }
        DeValue::Table(table) => {
            let pair = |(key, value): (
                &toml::Spanned<std::borrow::Cow<'_, str>>,
                &toml::Spanned<DeValue<'_>>,
            )| {
                format!("{} = {}", quoted(key.get_ref()), inline(value.get_ref()))
            };
            let pairs: Vec<_> = table.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

/// A text in TOML's quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            _ if c.is_control() => quoted += &format!("\\U{:08x}", u32::from(c)),
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}
