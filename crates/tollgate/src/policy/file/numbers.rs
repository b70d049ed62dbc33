//! Reading limits: text, tables, arrays of them, and `unlimited`.

use toml::de::{DeTable, DeValue};

use super::keys::LIMIT;
use super::tree::{Diagnostics, SettingFields, SettingRef, SpannedValue};
use super::values::{text, whole};
use crate::limit::{Limit, LimitTable};
use crate::policy::RuleLimits;

const UNLIMITED: &str = "unlimited";

/// What a limit may be, for messages.
const WANTED: &str = "text such as \"100/min\", or a table with count and per";

/// The one limit of `limit`.
pub(super) fn one_limit(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    value: &SpannedValue<'_>,
) -> RuleLimits {
    if let DeValue::Array(_) = value.get_ref() {
        report.error_at(here, value.span().start, "`limit` is an array, several go into `limits`");
        return RuleLimits::Unlimited;
    }
    numbers(report, here, "limit", value)
}

/// The several limits of `limits`.
pub(super) fn several_limits(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    value: &SpannedValue<'_>,
) -> RuleLimits {
    if let DeValue::Array(_) = value.get_ref() {
        return numbers(report, here, "limits", value);
    }
    report.wrong_type(here, "limits", "an array of limits (a single one goes into `limit`)", value);
    RuleLimits::Unlimited
}

/// The limits of `name`: one, an array of them, or `unlimited`, which also stands in for what
/// cannot be read.
pub(super) fn numbers(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    name: &str,
    value: &SpannedValue<'_>,
) -> RuleLimits {
    if value.get_ref().as_str().is_some_and(is_unlimited) {
        return RuleLimits::Unlimited;
    }
    let DeValue::Array(values) = value.get_ref() else {
        return limit(report, here, name, value).map_or(RuleLimits::Unlimited, RuleLimits::from);
    };
    let mut limits = Vec::with_capacity(values.len());
    for value in values {
        if value.get_ref().as_str().is_some_and(is_unlimited) {
            let message = "\"unlimited\" must stand alone, not among other limits";
            report.error_at(here, value.span().start, message);
        } else {
            limits.extend(limit(report, here, name, value));
        }
    }
    let is_readable = values.is_empty() || !limits.is_empty();
    if is_readable { RuleLimits::All(limits) } else { RuleLimits::Unlimited }
}

fn is_unlimited(text: &str) -> bool {
    text.trim_ascii().eq_ignore_ascii_case(UNLIMITED)
}

fn limit(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    name: &str,
    value: &SpannedValue<'_>,
) -> Option<Limit> {
    match value.get_ref() {
        DeValue::String(text) => text
            .parse()
            .map_err(|error| report.error_at(here, value.span().start, &format!("{error}")))
            .ok(),
        DeValue::Table(table) => limit_table(report, here, table, value.span().start),
        _ => {
            report.wrong_type(here, name, WANTED, value);
            None
        }
    }
}

fn limit_table(
    report: &mut Diagnostics,
    here: SettingRef<'_>,
    table: &DeTable<'_>,
    at: usize,
) -> Option<Limit> {
    let fields = SettingFields::read(report, here.owner, table, LIMIT);
    let before = report.notes.len();
    let mut words = [None, None, None, None, None];
    for (key, word) in ["algorithm", "mode", "per", "align", "zone"].into_iter().zip(&mut words) {
        let value = fields.get(key);
        *word = value.and_then(|value| text(report, here, key, value)).map(str::to_owned);
    }
    let [algorithm, mode, per, align, zone] = words;
    let [count, burst] = ["count", "burst"].map(|key| {
        let value = fields.get(key)?;
        whole(report, here, key, value)
    });
    for key in ["count", "per"] {
        if fields.get(key).is_none() {
            let message = format!(
                "no `{key}`, a limit needs count and per, as in {{ count = 100, per = \"1m\" }}"
            );
            report.error_at(here, at, &message);
        }
    }
    if report.notes.len() > before {
        return None;
    }
    let table = LimitTable { algorithm, mode, count: count?, per: per?, burst, align, zone };
    let wrong = match table.build() {
        Ok(limit) => return Some(limit),
        Err(wrong) => wrong,
    };
    let value = wrong.key.and_then(|key| fields.get(key));
    let at = value.map_or(at, |value| value.span().start);
    report.error_at(here, at, &wrong.error.to_string());
    None
}
