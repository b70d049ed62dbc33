//! A refusal as gRPC tells it: an answer of trailers only, with the status and its details.
//!
//! The details are a `google.rpc.Status` that holds a `google.rpc.RetryInfo`, written by hand:
//! four fields of protobuf are less than a dependency.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::{Refusal, Why};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

const INVALID_ARGUMENT: u8 = 3;
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const INTERNAL: u8 = 13;
const UNAUTHENTICATED: u8 = 16;

pub(super) fn response(refusal: &Refusal) -> Response<Bytes> {
    let code = code(refusal);
    let message = refusal.detail().unwrap_or_else(|| "refused".to_owned());
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, HeaderValue::from(u16::from(code)));
    let mut set = |name, text: String| {
        // Both are plain ASCII, so this does not fail.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    set(MESSAGE, percent_encoded(&message));
    // The wait is told as exactly as Retry-After is, and only where that is.
    let told = refusal.fields.get("retry-after").and_then(|seconds| seconds.parse().ok());
    if let Some(seconds) = told.filter(|_| code == RESOURCE_EXHAUSTED) {
        let exact = refusal.retry_after.unwrap_or(Duration::from_secs(seconds));
        set(DETAILS, base64(&details(code, &message, exact)));
    }
    response
}

fn code(refusal: &Refusal) -> u8 {
    match (&refusal.why, refusal.status()) {
        (Why::Limited, _) | (_, StatusCode::TOO_MANY_REQUESTS) => RESOURCE_EXHAUSTED,
        (_, StatusCode::UNAUTHORIZED) => UNAUTHENTICATED,
        (_, StatusCode::FORBIDDEN) => PERMISSION_DENIED,
        (_, status) if status.is_client_error() => INVALID_ARGUMENT,
        _ => INTERNAL,
    }
}

/// `Status { code, message, details: [Any { type_url, value: RetryInfo { retry_delay } }] }`.
fn details(code: u8, message: &str, wait: Duration) -> Vec<u8> {
    let mut duration = Vec::new();
    number(&mut duration, 1, wait.as_secs());
    number(&mut duration, 2, u64::from(wait.subsec_nanos()));
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &duration);
    let mut any = Vec::new();
    bytes(&mut any, 1, RETRY_INFO.as_bytes());
    bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    number(&mut status, 1, u64::from(code));
    bytes(&mut status, 2, message.as_bytes());
    bytes(&mut status, 3, &any);
    status
}

/// A field that is a number; none where it is zero, as protobuf has it.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        message.push(field << 3);
        varint(message, value);
    }
}

/// A field that is text, bytes or a message.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, u64::try_from(value.len()).unwrap_or(u64::MAX));
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    message.push(u8::try_from(value).unwrap_or(0));
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Without padding, as gRPC wants to be written.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|place| u32::from(*chunk.get(place).unwrap_or(&0)));
        let bits = a << 16 | b << 8 | c;
        for place in 0..=chunk.len() {
            let index = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            text.push(char::from(ALPHABET[index]));
        }
    }
    text
}
