//! A ruling as JSON, and as the answer to a request.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use smallvec::SmallVec;
use tollgate::{HeaderFields, Limit, Outcome, Reason, RuleDecision, Ruling};

use super::browser::keep_to_us;
use super::problem::Problem;
use super::written::Object;
use crate::app::App;
use crate::client_limits::Listed;

/// A ruling for programs. Times are in milliseconds, rounded up.
#[derive(Debug)]
pub(super) struct Decision<'r> {
    allowed: bool,
    reason: &'static str,
    /// The rule or list that decided, by its public name.
    rule: Option<Cow<'r, str>>,
    /// Null where nothing limits, as is `remaining`.
    limit: Option<u64>,
    remaining: Option<u64>,
    /// Null where it never will be allowed.
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    /// How long to wait before going ahead.
    delay_ms: u64,
    /// Whether it was decided without the store, which is away.
    degraded: bool,
    /// Whether some of it was paid from what this server has borrowed from the store.
    leased: bool,
    error: Option<String>,
    rules: SmallVec<[RuleDecisionBody<'r>; 2]>,
}

/// How a request stands after what it took was given back.
#[derive(Debug)]
pub(super) struct Refunded<'r> {
    reason: &'static str,
    /// Whether the store is away, so that these are this server's own figures.
    degraded: bool,
    rules: SmallVec<[RuleDecisionBody<'r>; 2]>,
}

#[derive(Debug)]
struct RuleDecisionBody<'r> {
    /// The public name, if there is one.
    rule: Option<Cow<'r, str>>,
    allowed: bool,
    shadow: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    /// Whether it was paid from what this server has borrowed: the figures are its own view.
    leased: bool,
}

/// The figures of a ruling's rules, worked out once for all that tell them.
pub(super) type Rules<'r> = SmallVec<[RuleDecision<'r>; 2]>;

impl<'r> Decision<'r> {
    /// Of a ruling whose rules are these.
    pub(super) fn new(ruling: &'r Ruling, rules: &[RuleDecision<'r>]) -> Decision<'r> {
        let (allowed, rule) = (ruling.is_allowed(), ruling.decided_by_name());
        let decided = rules.iter().find(|of| !of.is_shadow() && Some(of.rule()) == rule);
        // Those on a list for who never passes have nothing left.
        let unlimited = || (ruling.reason() == Reason::DenyList).then_some(0);
        let wait = || decided.and_then(|of| of.retry_after());
        Decision {
            allowed,
            reason: reason(ruling.reason()),
            rule: ruling.public_rule().map(Cow::Borrowed),
            limit: decided.map_or_else(unlimited, |of| limited(of.limit())),
            remaining: decided.map_or_else(unlimited, |of| limited(of.remaining())),
            retry_after_ms: if allowed { Some(0) } else { wait().map(millis) },
            reset_after_ms: decided.map_or(0, |of| millis(of.reset_after())),
            delay_ms: millis(ruling.delay()),
            degraded: ruling.is_degraded(),
            leased: ruling.is_leased(),
            // Nothing is wrong with what is allowed.
            error: (!allowed).then(|| ruling.error()).flatten().map(|of| of.to_string()),
            rules: rules.iter().map(RuleDecisionBody::new).collect(),
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
            reason: reason(if error.is_some() { Reason::InvalidRequest } else { Reason::Limits }),
            rule: deciding.map(|(limit, _)| Cow::Owned(limit.to_string())),
            limit: decision.map(tollgate::Decision::limit),
            remaining: decision.map(tollgate::Decision::remaining),
            retry_after_ms: wait.map(millis),
            reset_after_ms: decision.map_or(0, |decision| millis(decision.reset_after())),
            delay_ms: millis(delay),
            degraded: listed.degraded,
            leased: false,
            error,
            rules: listed.each.iter().map(RuleDecisionBody::of_own).collect(),
        }
    }
}

impl<'r> RuleDecisionBody<'r> {
    fn of_own((limit, decision): &(Limit, tollgate::Decision)) -> RuleDecisionBody<'static> {
        RuleDecisionBody {
            rule: Some(Cow::Owned(limit.to_string())),
            allowed: decision.is_allowed(),
            shadow: false,
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(millis),
            reset_after_ms: millis(decision.reset_after()),
            leased: false,
        }
    }

    fn new(rule: &RuleDecision<'r>) -> RuleDecisionBody<'r> {
        RuleDecisionBody {
            rule: rule.public_name().map(Cow::Borrowed),
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

/// Every reason that a decision can have.
pub(crate) const REASONS: [&str; 8] =
    ["limits", "no_rule", "allow_list", "deny_list", "block", "error", "store_away", "other"];

pub(crate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NoRule => "no_rule",
        Reason::Limits => "limits",
        Reason::AllowList => "allow_list",
        Reason::DenyList => "deny_list",
        Reason::Blocked => "block",
        Reason::InvalidRequest => "error",
        Reason::StoreUnavailable => "store_away",
        _ => "other",
    }
}

impl Decision<'_> {
    /// Writes the fields of an answer about a request. What is seldom so is told only where it is.
    pub(super) fn write_to(&self, object: &mut Object<'_>) {
        object.truth("allowed", self.allowed);
        object.text("reason", self.reason);
        object.text("rule", self.rule.as_deref());
        object.number("limit", self.limit);
        object.number("remaining", self.remaining);
        object.number("retry_after_ms", self.retry_after_ms);
        object.number("reset_after_ms", self.reset_after_ms);
        if self.delay_ms > 0 {
            object.number("delay_ms", self.delay_ms);
        }
        if self.degraded {
            object.truth("degraded", true);
        }
        if self.leased {
            object.truth("leased", true);
        }
        if let Some(error) = &self.error {
            object.text("error", error.as_str());
        }
        object.array("rules", self.rules.iter(), RuleDecisionBody::write);
    }

    /// Writes it as an object.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        self.write_to(&mut object);
        object.end();
    }

    /// An answer of 200 that says it.
    pub(super) fn response(&self) -> Response {
        let mut written = Vec::with_capacity(USUAL);
        self.write(&mut written);
        written_json(written)
    }
}

impl<'r> Refunded<'r> {
    pub(super) fn new(ruling: &'r Ruling) -> Refunded<'r> {
        Refunded {
            reason: reason(ruling.reason()),
            degraded: ruling.is_degraded(),
            rules: ruling.rules().map(|rule| RuleDecisionBody::new(&rule)).collect(),
        }
    }

    /// An answer of 200 that says it.
    pub(super) fn response(&self) -> Response {
        let mut written = Vec::with_capacity(USUAL);
        let mut object = Object::begin(&mut written);
        object.text("reason", self.reason);
        if self.degraded {
            object.truth("degraded", true);
        }
        object.array("rules", self.rules.iter(), RuleDecisionBody::write);
        object.end();
        written_json(written)
    }
}

impl RuleDecisionBody<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        object.text("rule", self.rule.as_deref());
        object.truth("allowed", self.allowed);
        object.truth("shadow", self.shadow);
        object.number("limit", self.limit);
        object.number("remaining", self.remaining);
        object.number("retry_after_ms", self.retry_after_ms);
        object.number("reset_after_ms", self.reset_after_ms);
        if self.leased {
            object.truth("leased", true);
        }
        object.end();
    }
}

/// Nothing is told where nothing limits.
fn limited(units: u64) -> Option<u64> {
    (units < u64::MAX).then_some(units)
}

pub(crate) fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl App {
    /// What is told of a ruling in headers.
    pub(crate) fn fields(&self, ruling: &Ruling) -> HeaderFields {
        self.settings.style.for_ruling(ruling, self.backend.clock())
    }

    /// A refusal as the client behind the asker gets it.
    pub(crate) fn refusal(&self, ruling: &Ruling, fields: &HeaderFields) -> Problem {
        Problem::of_ruling(ruling, fields, self.settings.style.verbosity())
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

/// The fields that nearly every answer has, ready: to make a name of a text takes longer than to use it.
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Adds what is told of limits.
pub(super) fn tell(headers: &mut HeaderMap, fields: &HeaderFields) {
    for (name, value) in fields.iter_bytes() {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            let name = match name {
                "ratelimit-policy" => POLICY,
                "ratelimit" => RATE_LIMIT,
                other => HeaderName::from_static(other),
            };
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_among_those_that_are_documented() {
        for of in [
            Reason::NoRule,
            Reason::Limits,
            Reason::AllowList,
            Reason::DenyList,
            Reason::Blocked,
            Reason::InvalidRequest,
            Reason::StoreUnavailable,
        ] {
            assert!(REASONS.contains(&reason(of)) && reason(of) != "other", "{of:?}");
        }
    }
}
