//! The `rate_limit` of a descriptor.

use std::time::Duration;

use super::read::{DescriptorReader, LIMIT_KEYS};
use super::report::SourceLine;
use super::tree::{EnvoyQuota, RateLimit};
use super::yaml::{YamlEntry, YamlValue, shown};
use crate::policy::check::closest;

const DAY: u64 = 24 * 60 * 60;

/// The units with the lengths that the rate limit service gives them.
const UNITS: &[(&str, u64)] = &[
    ("second", 1),
    ("minute", 60),
    ("hour", 60 * 60),
    ("day", DAY),
    ("week", 7 * DAY),
    ("month", 30 * DAY),
    ("year", 365 * DAY),
];

/// What a `rate_limit` says, before it is known whether it fits together.
#[derive(Default)]
struct QuotaFields {
    unit: Option<(usize, String)>,
    count: Option<(usize, String)>,
    unlimited: bool,
    name: Option<String>,
}

impl DescriptorReader<'_> {
    pub(super) fn rate_limit(
        &mut self,
        spot: SourceLine<'_>,
        entry: &YamlEntry,
    ) -> Option<RateLimit> {
        if matches!(entry.value.value, YamlValue::Null) {
            return None;
        }
        let spot = spot.at(entry.line);
        let entries = self.map(spot, "`rate_limit`", &entry.value)?;
        let mut parts = QuotaFields::default();
        for entry in entries {
            let line = entry.line;
            match entry.key.as_str() {
                "unit" => parts.unit = self.entry_text(spot, entry).map(|text| (line, text)),
                "requests_per_unit" => {
                    parts.count = self.entry_text(spot, entry).map(|text| (line, text));
                }
                "unlimited" => parts.unlimited = self.flag(spot, entry),
                "name" => parts.name = self.entry_text(spot, entry),
                "replaces" => {
                    if !self.list(spot, entry).is_empty() {
                        let message = "`replaces` cannot be expressed: it makes the limit of one descriptor depend on the other descriptors of the request";
                        self.report.error(spot.at(line), message);
                    }
                }
                _ => {
                    let elsewhere = [(
                        &[
                            "shadow_mode",
                            "share_threshold",
                            "detailed_metric",
                            "value_to_metric",
                            "descriptors",
                            "key",
                            "value",
                        ][..],
                        "beside `rate_limit`",
                    )];
                    self.report.unknown_key(spot, entry, LIMIT_KEYS, &elsewhere);
                }
            }
        }
        let numbers = self.amount(spot, &parts)?;
        Some(RateLimit { line: entry.line, name: parts.name, numbers })
    }

    fn amount(&mut self, spot: SourceLine<'_>, parts: &QuotaFields) -> Option<EnvoyQuota> {
        let unit = parts.unit.as_ref().map(|(line, text)| self.unit(spot.at(*line), text));
        let count = parts.count.as_ref().map(|(line, text)| self.count(spot.at(*line), text));
        if parts.unlimited {
            if unit.is_some() {
                let message = "a `unit` beside `unlimited`, leave one of them out";
                self.report.error(spot, message);
            }
            if count.is_some() {
                let message = "`requests_per_unit` has no effect beside `unlimited`";
                self.report.warning(spot, message);
            }
            return Some(EnvoyQuota::Unlimited);
        }
        if unit.is_none() {
            self.report.error(spot, format!("no `unit`, must be one of {}", units()));
        }
        if count.is_none() {
            let message = "no `requests_per_unit`, write 0 to deny everything";
            self.report.error(spot, message);
        }
        Some(EnvoyQuota::Per { count: count??, unit: unit?? })
    }

    fn unit(&mut self, spot: SourceLine<'_>, text: &str) -> Option<Duration> {
        let lower = text.to_ascii_lowercase();
        if let Some((_, seconds)) = UNITS.iter().find(|(name, _)| *name == lower) {
            return Some(Duration::from_secs(*seconds));
        }
        let names = UNITS.iter().map(|(name, _)| *name);
        let near = (lower.len() <= 64).then(|| closest(&lower, names)).flatten();
        let message = match near {
            Some(near) => format!("unknown unit {:?}, did you mean {near:?}?", shown(text)),
            None => format!("unknown unit {:?}, must be one of {}", shown(text), units()),
        };
        self.report.error(spot, message);
        None
    }

    fn count(&mut self, spot: SourceLine<'_>, text: &str) -> Option<u32> {
        // With a leading zero, YAML 1.1 reads an octal number and YAML 1.2 a decimal one.
        let is_plain = text == "0" || !text.starts_with(['0', '+', '_']);
        let count = text.replace('_', "").parse().ok().filter(|_| is_plain);
        if count.is_none() {
            let message = format!(
                "`requests_per_unit` is {:?}, must be a whole number of at most {}",
                shown(text),
                u32::MAX
            );
            self.report.error(spot, message);
        }
        count
    }
}

fn units() -> String {
    let names: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}
