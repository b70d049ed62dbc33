//! A ruling as JSON, and as the answer to a request.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use tollgate::{HeaderFields, Limit, Outcome, Reason, RuleFigures, Ruling};

use super::browser::keep_to_us;
use super::problem::Problem;
use crate::app::App;
use crate::client_limits::Listed;

/// A ruling for programs. Times are in milliseconds, rounded up.
#[derive(Debug, Serialize)]
pub(super) struct Decision<'r> {
    allowed: bool,
    reason: &'static str,
    /// The rule or list that decided.
    rule: Option<Cow<'r, str>>,
    /// Null where nothing limits, as is `remaining`.
    limit: Option<u64>,
    remaining: Option<u64>,
    /// Null where it never will be allowed.
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    /// How long to wait before going ahead.
    #[serde(skip_serializing_if = "is_zero")]
    delay_ms: u64,
    /// Whether it was decided without the store, which is away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    degraded: bool,
    /// Whether some of it was paid from what this server has borrowed from the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    leased: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    rules: Vec<RuleDecision<'r>>,
}

#[derive(Debug, Serialize)]
struct RuleDecision<'r> {
    rule: Cow<'r, str>,
    allowed: bool,
    shadow: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    /// Whether it was paid from what this server has borrowed: the figures are its own view.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    leased: bool,
}

impl<'r> Decision<'r> {
    pub(super) fn new(ruling: &'r Ruling) -> Decision<'r> {
        Decision {
            allowed: ruling.is_allowed(),
            reason: reason(ruling.reason()),
            rule: ruling.rule().map(Cow::Borrowed),
            limit: limited(ruling.limit()),
            remaining: limited(ruling.remaining()),
            retry_after_ms: ruling.retry_after().map(millis),
            reset_after_ms: millis(ruling.reset_after()),
            delay_ms: millis(ruling.delay()),
            degraded: ruling.is_degraded(),
            leased: ruling.is_leased(),
            // Nothing is wrong with what is allowed.
            error: (!ruling.is_allowed())
                .then(|| ruling.error())
                .flatten()
                .map(|of| of.to_string()),
            rules: ruling.rules().map(|rule| RuleDecision::new(&rule)).collect(),
        }
    }
}

impl Decision<'static> {
    /// By limits that the request brought: each is called by its text.
    pub(super) fn of_own(listed: &Listed) -> Decision<'static> {
        let deciding = listed.deciding();
        let decision = deciding.map(|(_, decision)| decision);
        let error = decision.and_then(|decision| match decision.outcome() {
            Outcome::Invalid(error) => Some(error.to_string()),
            _ => None,
        });
        let delays = listed.each.iter().filter(|_| listed.allowed);
        let delay = delays.map(|(_, decision)| decision.delay()).max().unwrap_or_default();
        let wait = decision.and_then(tollgate::Decision::retry_after);
        Decision {
            allowed: listed.allowed,
            reason: reason(if error.is_some() { Reason::Error } else { Reason::Limits }),
            rule: deciding.map(|(limit, _)| Cow::Owned(limit.to_string())),
            limit: decision.map(tollgate::Decision::limit),
            remaining: decision.map(tollgate::Decision::remaining),
            retry_after_ms: wait.map(millis),
            reset_after_ms: decision.map_or(0, |decision| millis(decision.reset_after())),
            delay_ms: millis(delay),
            degraded: listed.degraded,
            leased: false,
            error,
            rules: listed.each.iter().map(RuleDecision::of_own).collect(),
        }
    }
}

impl<'r> RuleDecision<'r> {
    fn of_own((limit, decision): &(Limit, tollgate::Decision)) -> RuleDecision<'static> {
        RuleDecision {
            rule: Cow::Owned(limit.to_string()),
            allowed: decision.is_allowed(),
            shadow: false,
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(millis),
            reset_after_ms: millis(decision.reset_after()),
            leased: false,
        }
    }

    fn new(rule: &RuleFigures<'r>) -> RuleDecision<'r> {
        RuleDecision {
            rule: Cow::Borrowed(rule.rule()),
            allowed: rule.is_allowed(),
            shadow: rule.is_shadow(),
            limit: rule.limit(),
            remaining: rule.remaining(),
            retry_after_ms: rule.retry_after().map(millis),
            reset_after_ms: millis(rule.reset_after()),
            leased: rule.is_leased(),
        }
    }
}

pub(crate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NoRule => "no_rule",
        Reason::Limits => "limits",
        Reason::AllowList => "allow_list",
        Reason::DenyList => "deny_list",
        Reason::Block => "block",
        Reason::Error => "error",
        Reason::StoreAway => "store_away",
        _ => "other",
    }
}

/// Nothing is told where nothing limits.
fn limited(units: u64) -> Option<u64> {
    (units < u64::MAX).then_some(units)
}

pub(crate) fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl App {
    /// What is told of a ruling in headers.
    pub(crate) fn fields(&self, ruling: &Ruling) -> HeaderFields {
        self.settings.style.of_ruling(ruling, self.backend.clock())
    }

    /// A refusal as the client behind the asker gets it.
    pub(crate) fn refusal(&self, ruling: &Ruling, fields: &HeaderFields) -> Problem {
        Problem::of_ruling(ruling, fields, self.settings.style.tells())
    }
}

/// Bytes that the answer about a request takes.
const USUAL: usize = 512;

/// An answer of 200.
pub(crate) fn json(answer: &impl Serialize) -> Response {
    let mut written = Vec::with_capacity(USUAL);
    // Names, numbers and text always become JSON.
    let _ = serde_json::to_writer(&mut written, answer);
    written_json(written)
}

/// As [`json`], of what is JSON already.
pub(super) fn written_json(written: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(written));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    keep_to_us(headers);
    response
}

/// An answer of 200 that is ready.
pub(crate) fn text(of_type: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(of_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    keep_to_us(headers);
    response
}

/// Adds what is told of limits.
pub(super) fn tell(headers: &mut HeaderMap, fields: &HeaderFields) {
    for (name, value) in fields.iter_bytes() {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
