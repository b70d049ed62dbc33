//! Single values: text, numbers, durations, moments, and tables of texts.

use std::time::Duration;

use toml::de::{DeInteger, DeTable, DeValue};

use super::keys::{STORE_ERROR, SYNC};
use super::tree::{Diagnostics, SettingFields, SettingRef, SettingSection, SpannedValue};
use crate::limit::read_duration;
use crate::policy::check::closest;
use crate::policy::{OnStoreError, SyncMode};
use crate::time::Timestamp;

/// The text of `key`.
pub(super) fn text<'t>(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    key: &str,
    value: &'t SpannedValue<'t>,
) -> Option<&'t str> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        report.wrong_type(here, key, "text", value);
    }
    text
}

/// The text of an attribute's value; whole numbers and booleans are taken as their text.
pub(super) fn attribute_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.as_ref().to_owned()),
        DeValue::Integer(number) => whole_text(number),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The texts of an array of attribute values, if all of them are.
pub(super) fn attribute_texts<'t>(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    key: &str,
    values: impl IntoIterator<Item = &'t SpannedValue<'t>>,
) -> Option<Vec<String>> {
    let mut texts = Some(Vec::new());
    for value in values {
        match (attribute_text(value.get_ref()), &mut texts) {
            (Some(text), Some(texts)) => texts.push(text),
            (Some(_), None) => {}
            (None, _) => {
                report.wrong_type(here, key, "an array of texts", value);
                texts = None;
            }
        }
    }
    texts
}

/// Attributes and their values, as of a client.
pub(super) fn attributes<'t>(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    value: &'t SpannedValue<'t>,
) -> Vec<(&'t str, usize, String)> {
    let Some(table) = value.get_ref().as_table() else {
        report.wrong_type(here, here.setting, "a table such as { user = \"42\" }", value);
        return Vec::new();
    };
    let mut attributes = Vec::new();
    for (name, value) in table {
        match attribute_text(value.get_ref()) {
            Some(text) => attributes.push((name.get_ref().as_ref(), name.span().start, text)),
            None => report.wrong_type(here, name.get_ref(), "text", value),
        }
    }
    attributes
}

/// The whole number of `key`, at least 0.
pub(super) fn whole(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    key: &str,
    value: &SpannedValue<'_>,
) -> Option<u64> {
    let DeValue::Integer(number) = value.get_ref() else {
        report.wrong_type(here, key, "a whole number", value);
        return None;
    };
    let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
    if parsed.is_none() {
        let message = format!("`{key}` is {number}, must be from 0 to 2^64 - 1");
        report.error_at(here, value.span().start, &message);
    }
    parsed
}

pub(super) fn flag(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    key: &str,
    value: &SpannedValue<'_>,
) -> Option<bool> {
    let flag = value.get_ref().as_bool();
    if flag.is_none() {
        report.wrong_type(here, key, "true or false", value);
    }
    flag
}

pub(super) fn duration(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    key: &str,
    value: &SpannedValue<'_>,
) -> Option<Duration> {
    let Some(text) = value.get_ref().as_str() else {
        report.wrong_type(here, key, "a duration in quotes such as \"15m\"", value);
        return None;
    };
    read_duration(text)
        .map_err(|error| report.error_at(here, value.span().start, &format!("`{key}`: {error}")))
        .ok()
}

/// What to do when the store is away.
pub(super) fn on_store_error(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    fields: &SettingFields<'_>,
) -> Option<OnStoreError> {
    match word(report, owner.at("on_store_error"), STORE_ERROR, fields)? {
        "local" => Some(OnStoreError::Local),
        "allow" => Some(OnStoreError::Allow),
        _ => Some(OnStoreError::Deny),
    }
}

/// How nodes share what is counted.
pub(super) fn sync(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    fields: &SettingFields<'_>,
) -> Option<SyncMode> {
    match word(report, owner.at("sync"), SYNC, fields)? {
        "strict" => Some(SyncMode::Strict),
        _ => Some(SyncMode::Leased),
    }
}

/// How long a lease lasts, and the largest part of a limit that it has.
pub(super) fn lease(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    fields: &SettingFields<'_>,
) -> (Option<Duration>, Option<u8>) {
    let ttl = fields
        .get("lease_ttl")
        .and_then(|value| duration(report, owner.at("lease_ttl"), "lease_ttl", value));
    let share = fields.get("lease_share").and_then(|value| percent(report, owner, value));
    (ttl, share)
}

fn percent(
    report: &mut Diagnostics,
    owner: SettingSection<'_>,
    value: &SpannedValue<'_>,
) -> Option<u8> {
    let here = owner.at("lease_share");
    let Some(text) = value.get_ref().as_str() else {
        report.wrong_type(here, "lease_share", "a percentage in quotes such as \"10%\"", value);
        return None;
    };
    let digits = text.strip_suffix('%').filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let read = digits.and_then(|digits| digits.parse::<u8>().ok());
    if read.is_none() {
        let message = format!("`lease_share` is {text:?}, must be from \"1%\" to \"100%\"");
        report.error_at(here, value.span().start, &message);
    }
    read
}

/// The word of the setting at `here`, one of `known`.
fn word(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    known: &'static [&'static str],
    fields: &SettingFields<'_>,
) -> Option<&'static str> {
    let setting = here.setting;
    let value = fields.get(setting)?;
    let word = text(report, here, setting, value)?;
    let found = known.iter().copied().find(|one| *one == word);
    if found.is_none() {
        let right = match (closest(word, known.iter().copied()), known) {
            (Some(guess), _) => format!("did you mean {guess:?}?"),
            (None, [others @ .., last]) => format!("use {} or {last}", others.join(", ")),
            (None, []) => String::new(),
        };
        report.error_at(here, value.span().start, &format!("unknown {setting} {word:?}, {right}"));
    }
    found
}

/// A moment: RFC 3339 text, or a date-time of TOML with its offset.
pub(super) fn moment(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    value: &SpannedValue<'_>,
) -> Option<Timestamp> {
    let written = match value.get_ref() {
        DeValue::String(text) => text.as_ref().to_owned(),
        DeValue::Datetime(moment) => moment.to_string(),
        _ => {
            report.wrong_type(here, here.setting, "a time such as 2030-01-31T12:00:00Z", value);
            return None;
        }
    };
    let at = value.span().start;
    let Ok(moment) = written.parse::<jiff::Timestamp>() else {
        let message = format!(
            "{written:?} is not a time with its offset, write for example 2030-01-31T12:00:00Z"
        );
        report.error_at(here, at, &message);
        return None;
    };
    let nanos = u64::try_from(moment.as_nanosecond()).ok();
    let moment = nanos.filter(|nanos| *nanos <= Timestamp::MAX.as_nanos());
    if moment.is_none() {
        report.error_at(here, at, &format!("{written:?} must be between 1970 and 2262"));
    }
    moment.map(Timestamp::from_nanos)
}

/// The table of `key`.
pub(super) fn table<'t>(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    wanted: &str,
    value: &'t SpannedValue<'t>,
) -> Option<&'t DeTable<'t>> {
    let table = value.get_ref().as_table();
    if table.is_none() {
        report.wrong_type(here, here.setting, wanted, value);
    }
    table
}

fn whole_text(number: &DeInteger<'_>) -> Option<String> {
    i128::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
}
