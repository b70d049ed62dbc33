//! Header fields, from text into an answer.

use bytes::Bytes;
use http::header::{Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::HeaderFields;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Adds what is told. Lists of limits go on where a layer beneath has begun them; of anything else
/// what is there stays, since that layer is nearer to the request.
pub(crate) fn add(headers: &mut HeaderMap, fields: HeaderFields) {
    let (text, values) = fields.into_text();
    // One text that all values share.
    let text = Bytes::from(text);
    for (name, range) in values {
        let Some(name) = known(name) else { continue };
        // Names in quotes are a list's.
        let is_list = text.get(range.start) == Some(&b'"');
        let Ok(told) = HeaderValue::from_maybe_shared(text.slice(range)) else { continue };
        match headers.entry(name) {
            Entry::Vacant(entry) => drop(entry.insert(told)),
            Entry::Occupied(mut entry) if is_list => entry.append(told),
            Entry::Occupied(_) => {}
        }
    }
}

fn known(name: &str) -> Option<HeaderName> {
    Some(match name {
        "ratelimit-policy" => POLICY,
        "ratelimit" => RATE_LIMIT,
        "ratelimit-limit" => LIMIT,
        "ratelimit-remaining" => REMAINING,
        "ratelimit-reset" => RESET,
        "x-ratelimit-limit" => X_LIMIT,
        "x-ratelimit-remaining" => X_REMAINING,
        "x-ratelimit-reset" => X_RESET,
        "retry-after" => RETRY_AFTER,
        _ => return HeaderName::from_bytes(name.as_bytes()).ok(),
    })
}
