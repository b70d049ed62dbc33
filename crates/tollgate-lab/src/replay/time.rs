//! The times of log lines, in microseconds since 1970.

/// Reads times; what two lines in a row have in common is read once.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The last date and offset of a common log, and the second at which that date began.
    common: ([u8; 16], u64),
    /// The last date as RFC 3339 writes it, and the day's number since 1970.
    date: ([u8; 10], u64),
}

const SECOND: u64 = 1_000_000;
const DAY_SECONDS: u64 = 86_400;

/// The last moment a [`tollgate::Timestamp`] can tell, in microseconds.
const LAST: u64 = u64::MAX / 2 / 1000;

impl Times {
    /// Reads `10/Oct/2000:13:55:36 -0700`.
    #[inline]
    pub(super) fn common(&mut self, text: &[u8]) -> Option<u64> {
        let text: &[u8; 26] = text.try_into().ok()?;
        let mut day = [0; 16];
        day[..11].copy_from_slice(&text[..11]);
        day[11..].copy_from_slice(&text[21..]);
        if self.common.0 != day {
            self.common = (day, common_day(&day)?);
        }
        if text[11] != b':' || text[20] != b' ' {
            return None;
        }
        within(self.common.1.checked_add(clock(&text[12..20])?)?.checked_mul(SECOND)?)
    }

    /// Reads any way to write a time: RFC 3339 with or without an offset, that of a common log,
    /// or a number since 1970 whose length says its unit.
    pub(super) fn any(&mut self, text: &[u8]) -> Option<u64> {
        let text = text.trim_ascii();
        let text = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
        if text.iter().take(4).all(u8::is_ascii_digit) && text.get(4) == Some(&b'-') {
            return self.rfc3339(text);
        }
        if text.get(2) == Some(&b'/') { self.common(text) } else { number(text) }
    }

    fn rfc3339(&mut self, text: &[u8]) -> Option<u64> {
        let (date, rest) = text.split_first_chunk::<10>()?;
        if self.date.0 != *date {
            self.date = (*date, day_number(date)?);
        }
        let (separator, rest) = rest.split_first()?;
        if !matches!(separator, b'T' | b't' | b' ') {
            return None;
        }
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let seconds = self.date.1.checked_mul(DAY_SECONDS)? + clock(time)?;
        let (micros, rest) = match rest.split_first() {
            Some((b'.' | b',', rest)) => fraction(rest)?,
            _ => (0, rest),
        };
        let local = seconds.checked_mul(SECOND)?.checked_add(micros)?;
        within(local.checked_add_signed(-offset(rest.trim_ascii_start())?)?)
    }
}

fn within(micros: u64) -> Option<u64> {
    (micros < LAST).then_some(micros)
}

/// `13:55:36` as seconds. A leap second is one too many, which is the next minute's first.
#[inline]
fn clock(text: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let (hours, minutes, seconds) = (two(*h1, *h2)?, two(*m1, *m2)?, two(*s1, *s2)?);
    let possible = hours < 24 && minutes < 60 && seconds < 61;
    possible.then_some(hours * 3600 + minutes * 60 + seconds)
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<u64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The second at which the day of a common log began: `10/Oct/2000-0700`.
#[cold]
fn common_day(day: &[u8; 16]) -> Option<u64> {
    const MONTHS: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let [d1, d2, b'/', m1, m2, m3, b'/', y @ ..] = day else { return None };
    let (year, offset_text) = y.split_at(4);
    let month = MONTHS.iter().position(|month| **month == [*m1, *m2, *m3])?;
    let month = u64::try_from(month).ok()? + 1;
    let days = days_since_1970(digits(year)?, month, two(*d1, *d2)?)?;
    let offset_micros = offset(offset_text).filter(|_| !offset_text.starts_with(b"Z"))?;
    let offset_seconds = offset_micros / i64::try_from(SECOND).ok()?;
    days.checked_mul(DAY_SECONDS)?.checked_add_signed(-offset_seconds)
}

/// The number of the day `2026-11-16`.
#[cold]
fn day_number(date: &[u8; 10]) -> Option<u64> {
    let [y @ .., b'-', m1, m2, b'-', d1, d2] = date else { return None };
    days_since_1970(digits(y)?, two(*m1, *m2)?, two(*d1, *d2)?)
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let whole = |number: u64| i8::try_from(number).ok();
    let year = i16::try_from(year).ok()?;
    let date = jiff::civil::Date::new(year, whole(month)?, whole(day)?).ok()?;
    let since = date.since(jiff::civil::date(1970, 1, 1)).ok()?;
    u64::try_from(since.get_days()).ok()
}

/// Microseconds of what follows a decimal point, and what follows that.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|digit| digit.is_ascii_digit()).count();
    let (decimals, rest) = text.split_at(length);
    if decimals.is_empty() {
        return None;
    }
    let micros = (0..6).fold(0, |micros, place| {
        micros * 10 + u64::from(decimals.get(place).map_or(0, |digit| digit - b'0'))
    });
    Some((micros, rest))
}

/// Microseconds of `Z`, `+02:00`, `-0700`, or nothing, which is UTC.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [h1, h2] => (two(*h1, *h2)?, 0),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => (two(*h1, *h2)?, two(*m1, *m2)?),
        _ => return None,
    };
    let seconds = i64::try_from(hours * 3600 + minutes * 60).ok()?;
    (hours < 24 && minutes < 60).then_some(sign * seconds * 1_000_000)
}

/// A number since 1970: its length says whether of seconds, milliseconds, microseconds or
/// nanoseconds.
fn number(text: &[u8]) -> Option<u64> {
    let length = text.iter().take_while(|digit| digit.is_ascii_digit()).count();
    let (whole, rest) = text.split_at(length);
    let number = digits(whole).filter(|_| length > 0)?;
    let micros = match rest.split_first() {
        None => 0,
        // What is finer than a microsecond is cut off.
        Some((b'.', decimals)) => match fraction(decimals)? {
            (micros, []) => micros,
            _ => return None,
        },
        Some(_) => return None,
    };
    let micros = match length {
        0..=11 => number.checked_mul(SECOND)?.checked_add(micros)?,
        12..=14 => number.checked_mul(1000)?.checked_add(micros / 1000)?,
        15..=17 => number,
        _ => number / 1000,
    };
    within(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T10:13:50Z.
    const AT: u64 = 1_794_824_030 * SECOND;

    #[test]
    fn a_time_is_read_however_it_is_written() {
        let written = [
            ("16/Nov/2026:10:13:50 +0000", AT),
            ("[16/Nov/2026:11:13:50 +0100]", AT),
            ("16/Nov/2026:03:43:50 -0630", AT),
            ("2026-11-16T10:13:50Z", AT),
            ("2026-11-16t10:13:50z", AT),
            ("2026-11-16 10:13:50", AT),
            ("2026-11-16T12:13:50+02:00", AT),
            ("2026-11-16T12:13:50+0200", AT),
            ("2026-11-16 12:13:50 +02", AT),
            ("2026-11-16T10:13:50.1Z", AT + 100_000),
            ("2026-11-16T10:13:50,123456789", AT + 123_456),
            ("1794824030", AT),
            ("1794824030.25", AT + 250_000),
            ("1794824030250", AT + 250_000),
            ("1794824030250.5", AT + 250_500),
            ("1794824030250001", AT + 250_001),
            ("1794824030250001999", AT + 250_001),
            ("2016-12-31T23:59:60Z", 1_483_228_800 * SECOND),
            ("1970-01-01T00:00:00Z", 0),
        ];
        let mut times = Times::default();
        for (text, micros) in written.iter().chain(written.iter().rev()) {
            assert_eq!(times.any(text.as_bytes()), Some(*micros), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        let wrong = [
            "",
            "-",
            "now",
            "16/Nov/2026:10:13:50",
            "16/Nov/2026:10:13:50 Z0000",
            "32/Nov/2026:10:13:50 +0000",
            "16/Nix/2026:10:13:50 +0000",
            "16/Nov/2026:24:13:50 +0000",
            "16/Nov/2026:10:60:50 +0000",
            "16/Nov/2026:1a:13:50 +0000",
            "16/Nov/1969:10:13:50 +0000",
            "2026-11-16",
            "2026-11-16T10:13",
            "2026-11-16x10:13:50",
            "2026-11-16T10:13:50.Z",
            "2026-11-16T10:13:50+25:00",
            "2026-02-30T10:13:50Z",
            "2026-11-16T10:13:50 CET",
            "1970-01-01T00:00:00+01:00",
            "99999999999999999999",
            "1.",
            "1e9",
            "12x",
            "-5",
            "9999-12-31T00:00:00Z",
            "\u{ff11}794824030",
        ];
        let mut times = Times::default();
        for text in wrong {
            assert_eq!(times.any(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_remembered_of_a_day_is_of_that_day() {
        let mut times = Times::default();
        let first = times.common(b"16/Nov/2026:00:00:00 +0000");
        let next = times.common(b"17/Nov/2026:00:00:00 +0000");
        let elsewhere = times.common(b"17/Nov/2026:00:00:00 -0100");
        assert_eq!(next, first.map(|first| first + DAY_SECONDS * SECOND));
        assert_eq!(elsewhere, next.map(|next| next + 3600 * SECOND));
    }
}
