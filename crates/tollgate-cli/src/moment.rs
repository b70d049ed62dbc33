//! Moments as people write and read them: RFC 3339.

use jiff::Timestamp as Moment;
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
