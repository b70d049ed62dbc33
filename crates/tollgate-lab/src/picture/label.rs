//! Numbers as they stand beside an axis and in a table.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::chart::Unit;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// A number in a unit, in few characters: `1.5k`, `250ms`, `12.5%`, `2026-03-29 14:05:00`.
pub fn label(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Count => count(value),
        Unit::Seconds => seconds(value),
        Unit::Moment => moment(value, "%Y-%m-%d %H:%M:%S"),
        Unit::Percent => format!("{}%", decimals(value)),
    }
}

/// A number at a tick of an axis whose ticks are `step` apart: no more than tells it from its
/// neighbours.
pub fn label_between(unit: Unit, value: f64, step: f64) -> String {
    match unit {
        Unit::Moment if step >= DAY => moment(value, "%b %-d"),
        Unit::Moment if step >= HOUR && value % DAY == 0.0 => moment(value, "%b %-d"),
        Unit::Moment if step >= MINUTE => moment(value, "%H:%M"),
        Unit::Moment => moment(value, "%H:%M:%S"),
        _ => label(unit, value),
    }
}

fn count(value: f64) -> String {
    match value.abs() {
        size if size >= 1e12 => format!("{}T", decimals(value / 1e12)),
        size if size >= 1e9 => format!("{}G", decimals(value / 1e9)),
        size if size >= 1e6 => format!("{}M", decimals(value / 1e6)),
        size if size >= 1e4 => format!("{}k", decimals(value / 1e3)),
        _ => decimals(value),
    }
}

fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0s".to_owned(),
        size if size < 1e-6 => format!("{}ns", decimals(value * 1e9)),
        size if size < 1e-3 => format!("{}µs", decimals(value * 1e6)),
        size if size < 1.0 => format!("{}ms", decimals(value * 1e3)),
        size if size < MINUTE => format!("{}s", decimals(value)),
        size if size < HOUR => pair(value, MINUTE, ("m", 1.0, "s")),
        size if size < DAY => pair(value, HOUR, ("h", MINUTE, "m")),
        _ => pair(value, DAY, ("d", HOUR, "h")),
    }
}

/// Two units, the smaller only where there is something of it: `1m30s`, `2h`.
fn pair(value: f64, large: f64, (name, small, small_name): (&str, f64, &str)) -> String {
    let per = (large / small).round();
    let smalls = (value / small).round();
    let (whole, rest) = ((smalls / per).trunc(), smalls % per);
    if rest == 0.0 { format!("{whole}{name}") } else { format!("{whole}{name}{rest}{small_name}") }
}

/// Three digits that count, and no zeros at the end.
fn decimals(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let short = if places > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

fn moment(value: f64, format: &str) -> String {
    match Timestamp::from_second(value as i64) {
        Ok(moment) => moment.to_zoned(TimeZone::UTC).strftime(format).to_string(),
        Err(_) => decimals(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_in_few_characters() {
        let written = [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 0.25, "0.25"),
            (Unit::Count, 1_000.0, "1000"),
            (Unit::Count, 12_500.0, "12.5k"),
            (Unit::Count, 20_000_000.0, "20M"),
            (Unit::Seconds, 0.0, "0s"),
            (Unit::Seconds, 0.002, "2ms"),
            (Unit::Seconds, 59.5, "59.5s"),
            (Unit::Seconds, 90.0, "1m30s"),
            (Unit::Seconds, 3_599.9, "60m"),
            (Unit::Seconds, 7_200.0, "2h"),
            (Unit::Seconds, 129_600.0, "1d12h"),
            (Unit::Percent, 12.54, "12.5%"),
            (Unit::Moment, 1_774_742_400.0, "2026-03-29 00:00:00"),
        ];
        for (unit, value, text) in written {
            assert_eq!(label(unit, value), text);
        }
    }

    #[test]
    fn a_tick_says_no_more_than_tells_it_from_its_neighbours() {
        let midnight = 1_774_742_400.0;
        assert_eq!(label_between(Unit::Moment, midnight, 1.0), "00:00:00");
        assert_eq!(label_between(Unit::Moment, midnight + 3_600.0, 1_800.0), "01:00");
        assert_eq!(label_between(Unit::Moment, midnight, 3_600.0), "Mar 29");
        assert!(!label_between(Unit::Moment, f64::MAX, DAY).is_empty());
    }
}
