//! Durations as people write and read them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

const MICRO: u128 = 1_000;
const MILLI: u128 = 1_000 * MICRO;
const SECOND: u128 = 1_000 * MILLI;

/// Longest first.
const UNITS: [(u128, &str); 3] =
    [(24 * 60 * 60 * SECOND, "d"), (60 * 60 * SECOND, "h"), (60 * SECOND, "m")];

/// Reads `250ms`, `1s`, `1h30m` or `2 days`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 0s, 250ms, 1s or 1h30m");
    let span: Span = text.parse().map_err(|_| wrong())?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    Duration::try_from(signed).map_err(|_| wrong())
}

/// Writes a duration for the eye: exact where it is short, rounded up where it has more than
/// three decimals.
pub(crate) fn human(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let rounded = match nanos {
        _ if nanos < MILLI => nanos,
        _ if nanos < SECOND => nanos.next_multiple_of(MICRO),
        _ => nanos.next_multiple_of(MILLI),
    };
    match rounded {
        0 => "0s".to_owned(),
        _ if rounded < MICRO => format!("{rounded}ns"),
        _ if rounded < MILLI => decimal(rounded, MICRO, "us"),
        _ if rounded < SECOND => decimal(rounded, MILLI, "ms"),
        _ => long(rounded),
    }
}

/// Writes a duration to the nanosecond, so that it reads back the same.
pub(crate) fn exact(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        _ if nanos < MICRO => format!("{nanos}ns"),
        _ if nanos < MILLI => exact_decimal(nanos, MICRO, "us"),
        _ if nanos < SECOND => exact_decimal(nanos, MILLI, "ms"),
        _ => {
            let (minutes, rest) = (nanos - nanos % (60 * SECOND), nanos % (60 * SECOND));
            let seconds = if rest > 0 { exact_decimal(rest, SECOND, "s") } else { String::new() };
            long(minutes) + &seconds
        }
    }
}

/// `nanos` in a unit, with all its decimals and no zeros at the end.
fn exact_decimal(nanos: u128, unit: u128, name: &str) -> String {
    let width = unit.ilog10() as usize;
    let decimals = format!(".{:0width$}", nanos % unit);
    format!("{}{}{name}", nanos / unit, decimals.trim_end_matches('0').trim_end_matches('.'))
}

fn long(nanos: u128) -> String {
    let mut text = String::new();
    let mut left = nanos;
    for (length, name) in UNITS {
        if left >= length {
            text += &format!("{}{name}", left / length);
            left %= length;
        }
    }
    if left > 0 {
        text += &decimal(left, SECOND, "s");
    }
    text
}

/// `nanos` in a unit, with up to three decimals and no zeros at the end.
fn decimal(nanos: u128, unit: u128, name: &str) -> String {
    let (whole, thousandths) = (nanos / unit, nanos % unit / (unit / 1000));
    let decimals = format!(".{thousandths:03}");
    let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
    format!("{whole}{decimals}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_in_few_words() {
        let written = [
            (0, "0s"),
            (999, "999ns"),
            (1_500, "1.5us"),
            (600_000_000, "600ms"),
            (142_857_143, "142.858ms"),
            (999_999_999, "1s"),
            (12_000_000_000, "12s"),
            (12_142_857_143, "12.143s"),
            (5_400_000_000_000, "1h30m"),
            (90_061_001_000_000, "1d1h1m1.001s"),
        ];
        for (nanos, text) in written {
            assert_eq!(human(Duration::from_nanos(nanos)), text);
        }
        assert!(human(Duration::MAX).ends_with('s'));
    }

    #[test]
    fn an_exact_duration_reads_back_the_same() {
        let written = [
            (0, "0s"),
            (999, "999ns"),
            (1_001, "1.001us"),
            (142_857_143, "142.857143ms"),
            (60_000_000_000, "1m"),
            (59_999_999_999, "59.999999999s"),
            (3_600_000_000_001, "1h0.000000001s"),
            (90_061_001_000_000, "1d1h1m1.001s"),
        ];
        for (nanos, text) in written {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(exact(duration), text);
            assert_eq!(parse(text), Ok(duration), "{text}");
        }
    }

    #[test]
    fn a_duration_is_read_in_the_units_of_a_limit() {
        let read = [
            ("0s", 0),
            ("250ms", 250),
            ("1.5s", 1_500),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
        ];
        for (text, millis) in read {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "1", "-1s", "1 month", "1x", "\u{1b}[31m", "99999999999999999999s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
