//! RFC 9457: `application/problem+json`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use tollgate::Verbosity;

use super::{Refusal, Why};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

pub(super) fn response(refusal: &Refusal) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body(refusal)));
    *response.status_mut() = refusal.status();
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn body(refusal: &Refusal) -> String {
    let status = refusal.status();
    let (of_type, title) = match &refusal.why {
        Why::Limited => {
            (QUOTA_EXCEEDED, "Request cannot be satisfied as assigned quota has been exceeded")
        }
        _ => ("about:blank", reason(status)),
    };
    let mut json =
        format!("{{\"type\":\"{of_type}\",\"title\":\"{title}\",\"status\":{}", status.as_u16());
    if let Some(detail) = refusal.detail() {
        json.push_str(",\"detail\":");
        push_string(&mut json, &detail);
    }
    let limited = refusal.why == Why::Limited && refusal.verbosity == Verbosity::Full;
    if let Some(answer) = refusal.answer.as_ref().filter(|_| limited) {
        json.push_str(",\"violated-policies\":[");
        for (position, name) in answer.violated_public().into_iter().enumerate() {
            json.push_str(if position > 0 { "," } else { "" });
            push_string(&mut json, name);
        }
        json.push(']');
    }
    json.push('}');
    json
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Refused")
}

/// A text in quotes, with what JSON cannot carry escaped.
fn push_string(json: &mut String, text: &str) {
    use std::fmt::Write;
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            // Writing to a string does not fail.
            '\0'..='\x1f' => drop(write!(json, "\\u{:04x}", character as u32)),
            _ => json.push(character),
        }
    }
    json.push('"');
}
