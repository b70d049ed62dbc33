//! The period of a limit's text, such as `min` or `1h30m`, and exact decimals.

use std::fmt;
use std::time::Duration;

use super::text::{error, is_digits, split_before, too_long};
use super::{CalendarUnit, Limit, LimitError, WindowStart, units};

type UnitNames = &'static [&'static str];

struct PeriodUnit {
    /// First the word for one of it, as in `5/day`; then the name after a number, as in `5/2d`.
    names: UnitNames,
    length: Duration,
    calendar: Option<CalendarUnit>,
}

const fn unit(names: UnitNames, length: Duration, calendar: Option<CalendarUnit>) -> PeriodUnit {
    PeriodUnit { names, length, calendar }
}

/// Longest first, the order in which a duration is written.
const UNITS: [PeriodUnit; 9] = [
    unit(&["month", "month"], units::MONTH, Some(CalendarUnit::Month)),
    unit(&["week", "w", "weeks"], units::WEEK, Some(CalendarUnit::Week)),
    unit(&["day", "d", "days"], units::DAY, Some(CalendarUnit::Day)),
    unit(&["h", "h", "hr", "hour", "hours"], units::HOUR, Some(CalendarUnit::Hour)),
    unit(&["min", "m", "minute", "minutes"], units::MINUTE, Some(CalendarUnit::Minute)),
    unit(&["s", "s", "sec", "second", "seconds"], units::SECOND, None),
    unit(&["ms", "ms"], Duration::from_millis(1), None),
    unit(&["us", "us"], Duration::from_micros(1), None),
    unit(&["ns", "ns"], Duration::from_nanos(1), None),
];

pub(super) struct Period {
    pub(super) nanos: u128,
    pub(super) last_unit: Option<CalendarUnit>,
}

impl Period {
    /// Reads a unit or a duration; `rate` is where it stands, for messages.
    pub(super) fn parse(text: &str, rate: &str) -> Result<Period, LimitError> {
        if text.is_empty() {
            return Err(error(format!("{rate:?} has no period, write for example 100/min")));
        }
        let mut period = Period { nanos: 0, last_unit: None };
        let mut shortest = Duration::MAX;
        let mut rest = text;
        while !rest.is_empty() {
            let (number, after) = split_before(rest, |c| !matches!(c, '0'..='9' | '.' | '_'));
            let is_alone = number.is_empty();
            let (name, after) = split_before(after, |c| c.is_ascii_digit() && !is_alone);
            if name.is_empty() {
                return Err(error(format!("{number:?} in {rate:?} has no unit such as s or min")));
            }
            let unit = find_unit(name, rate)?;
            let amount = Decimal::parse("period", if is_alone { "1" } else { number })?;
            if unit.length >= shortest {
                return Err(error(format!("{text:?} must go from long units to short, each once")));
            }
            if unit.calendar == Some(CalendarUnit::Month) && !is_alone {
                return Err(error(format!("month in {rate:?} must stand alone, as in 5/month")));
            }
            let nanos = amount.times(unit.length.as_nanos(), rate)?;
            period.nanos = period.nanos.checked_add(nanos).ok_or_else(|| too_long(rate))?;
            (period.last_unit, shortest, rest) = (unit.calendar, unit.length, after);
        }
        Ok(period)
    }
}

/// A number without rounding: `value / scale`, the scale a power of ten.
pub(super) struct Decimal {
    pub(super) value: u128,
    pub(super) scale: u128,
}

impl Decimal {
    pub(super) fn parse(what: &str, text: &str) -> Result<Decimal, LimitError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(error(format!("{what} {text:?} is not a number such as 100 or 0.5")));
        }
        let fraction = fraction.trim_end_matches(['0', '_']).replace('_', "");
        let digits = whole.replace('_', "") + &fraction;
        let scale = u32::try_from(fraction.len()).ok().and_then(|zeros| 10_u128.checked_pow(zeros));
        match (digits.parse(), scale) {
            (Ok(value), Some(scale)) => Ok(Decimal { value, scale }),
            _ => Err(error(format!("{what} {text:?} has too many digits, write at most 38"))),
        }
    }

    fn times(&self, nanos: u128, rate: &str) -> Result<u128, LimitError> {
        let product = self.value.checked_mul(nanos).ok_or_else(|| too_long(rate))?;
        if !product.is_multiple_of(self.scale) {
            return Err(error(format!("period in {rate:?} is finer than 1ns, use fewer decimals")));
        }
        Ok(product / self.scale)
    }
}

pub(super) fn write_period(f: &mut fmt::Formatter<'_>, limit: &Limit) -> fmt::Result {
    let is_whole = |unit: &&PeriodUnit| match limit.align {
        WindowStart::Calendar(named) => unit.calendar == Some(named),
        _ => unit.length == limit.period && (units::SECOND..=units::WEEK).contains(&unit.length),
    };
    if let Some(unit) = UNITS.iter().find(is_whole) {
        return f.write_str(unit.names[0]);
    }
    write_duration(f, limit.period)
}

fn write_duration(f: &mut fmt::Formatter<'_>, duration: Duration) -> fmt::Result {
    if duration.is_zero() {
        return f.write_str("0s");
    }
    // Short periods read better in one unit: 90s and 1500ms, but 1h30m.
    let is_short = duration < 2 * units::MINUTE;
    let longest = if is_short { units::SECOND } else { units::DAY };
    let mut left = duration.as_nanos();
    for unit in UNITS.iter().filter(|unit| unit.length <= longest) {
        let length = unit.length.as_nanos();
        if left >= length && (!is_short || left.is_multiple_of(length)) {
            write!(f, "{}{}", left / length, unit.names[1])?;
            left %= length;
        }
    }
    Ok(())
}

/// Writes a duration as [`read_duration`] reads it.
#[cfg(feature = "file")]
pub(crate) struct DisplayDuration(pub(crate) Duration);

#[cfg(feature = "file")]
impl fmt::Display for DisplayDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_duration(f, self.0)
    }
}

/// Reads a duration such as `15m`, `1h 30m` or `500ms`.
#[cfg(feature = "file")]
pub(crate) fn read_duration(text: &str) -> Result<Duration, LimitError> {
    let is_part = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with(|c: char| c.is_ascii_alphabetic())
    };
    if text.len() > crate::bounds::MAX_LIMIT_TEXT || !text.split_ascii_whitespace().all(is_part) {
        return Err(error(format!("{text:?} is not a duration such as 15m or 1h 30m")));
    }
    let joined = text.split_ascii_whitespace().collect::<String>();
    if joined.is_empty() {
        return Err(error("the duration is empty, write for example 15m or 1h 30m"));
    }
    if joined.to_ascii_lowercase().contains("month") {
        return Err(error(format!("a month in {text:?} has no fixed length, write 30d")));
    }
    let nanos = Period::parse(&joined, text)?.nanos;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| too_long(text))
}

fn find_unit(name: &str, rate: &str) -> Result<&'static PeriodUnit, LimitError> {
    let is_named =
        |unit: &&PeriodUnit| unit.names.iter().any(|known| known.eq_ignore_ascii_case(name));
    UNITS.iter().find(is_named).ok_or_else(|| {
        error(format!("unknown unit {name:?} in {rate:?}, use ms, s, min, h, day, week"))
    })
}
