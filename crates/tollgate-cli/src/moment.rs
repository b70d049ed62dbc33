//! Moments as people write and read them: RFC 3339, or local time with its zone.

use jiff::{Timestamp as Moment, Zoned};
use tollgate::Timestamp;

/// Reads `2026-03-29T00:59:00Z`.
pub(crate) fn read(text: &str) -> Result<Timestamp, String> {
    let moment: Moment =
        text.parse().map_err(|_| format!("{text:?} is not a time such as 2026-03-29T00:59:00Z"))?;
    let nanos = u64::try_from(moment.as_nanosecond()).map(Timestamp::from_nanos);
    match nanos {
        Ok(start) if start < Timestamp::MAX => Ok(start),
        _ => Err(format!("{text:?} must be in or after 1970 and before 2262")),
    }
}

/// Writes it in UTC.
pub(crate) fn write(at: Timestamp) -> String {
    let moment = Moment::from_nanosecond(i128::from(at.as_nanos()));
    moment.map_or_else(|_| at.as_nanos().to_string(), |moment| moment.to_string())
}

/// Writes it as local time: `2026-03-01 14:29:32 UTC+1`.
pub(crate) fn write_local(at: &Zoned) -> String {
    format!("{} {}", at.strftime("%Y-%m-%d %H:%M:%S"), zone(at))
}

/// Writes the time of day alone: `14:29:32 UTC+1`.
pub(crate) fn write_time_of_day(at: &Zoned) -> String {
    format!("{} {}", at.strftime("%H:%M:%S"), zone(at))
}

/// The zone by its distance from UTC: `UTC+1`, `UTC-3:30`.
fn zone(at: &Zoned) -> String {
    let seconds = at.offset().seconds();
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    match (seconds, minutes) {
        (0, _) => "UTC".to_owned(),
        (_, 0) => format!("UTC{}{hours}", if seconds < 0 { '-' } else { '+' }),
        _ => format!("UTC{}{hours}:{minutes:02}", if seconds < 0 { '-' } else { '+' }),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::{TimeZone, offset};

    use super::*;

    #[test]
    fn local_time_names_its_zone() {
        let at: Moment = "2026-03-01T13:29:32.123456789Z".parse().unwrap();
        let half_past = jiff::tz::Offset::from_seconds(-(3 * 3600 + 30 * 60)).unwrap();
        for (offset, written) in [
            (offset(0), "2026-03-01 13:29:32 UTC"),
            (offset(1), "2026-03-01 14:29:32 UTC+1"),
            (offset(-11), "2026-03-01 02:29:32 UTC-11"),
            (half_past, "2026-03-01 09:59:32 UTC-3:30"),
        ] {
            assert_eq!(write_local(&at.to_zoned(TimeZone::fixed(offset))), written);
        }
        assert_eq!(write_time_of_day(&at.to_zoned(TimeZone::UTC)), "13:29:32 UTC");
    }
}
