//! RFC 9457: `application/problem+json`.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use tollgate::{Decision, HeaderFields, Outcome, Reason, Ruling, Verbosity};
use tollgate_redis::StoreError;

use super::browser::keep_to_us;
use crate::bounds::Bound;
use crate::client_limits::Listed;

/// The type of a problem that is no more than its status.
const BLANK: &str = "about:blank";
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const QUOTA_TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";

const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
const REDUCED_TITLE: &str =
    "Request cannot be satisfied due to temporary server capacity constraints";

/// How much of a client's text is repeated to it.
const SHOWN: usize = 100;

/// What is wrong, and what would be right.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    of_type: &'static str,
    title: &'static str,
    #[serde(serialize_with = "number")]
    status: StatusCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// What would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<&'static str>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated: Option<Vec<String>>,
    /// Everything that is wrong with a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Box<serde_json::Value>>,
    /// The bound that was gone over, if that is it.
    #[serde(skip)]
    pub(crate) over: Option<Bound>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            of_type: BLANK,
            title: title(status),
            status,
            detail: Some(detail.into()),
            example: None,
            violated: None,
            errors: None,
            over: None,
        }
    }

    /// A request that goes over a bound.
    pub(crate) fn over(bound: Bound, detail: impl Into<String>) -> Problem {
        let status = match bound {
            Bound::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Bound::BodyTime => StatusCode::REQUEST_TIMEOUT,
            Bound::Bodies => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem { over: Some(bound), ..Problem::new(status, detail) }
    }

    /// With each thing that is wrong.
    pub(crate) fn errors(mut self, errors: serde_json::Value) -> Problem {
        self.errors = Some(Box::new(errors));
        self
    }

    /// With a body that would be right.
    pub(crate) fn example(mut self, example: &'static str) -> Problem {
        self.example = Some(example);
        self
    }

    /// The store has no answer, and what was asked may not have been done.
    pub(super) fn store_away(error: &StoreError) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{error}, try again later"))
    }

    /// A ruling that does not let a request pass, as told to the one who sent it.
    pub(super) fn of_ruling(ruling: &Ruling, fields: &HeaderFields, tells: Verbosity) -> Problem {
        let mut problem = match (ruling.error(), ruling.reason()) {
            (Some(error), _) => Problem::new(StatusCode::BAD_REQUEST, error.to_string()),
            (None, Reason::DenyList) => {
                Problem::new(StatusCode::FORBIDDEN, "this client may not pass")
            }
            (None, Reason::StoreUnavailable) => {
                let violated = ruling.public_rule().into_iter().map(str::to_owned);
                Problem::reduced(violated.collect(), tells)
            }
            _ => {
                let refusing =
                    ruling.rules().filter(|rule| !rule.is_shadow() && !rule.is_allowed());
                let violated = refusing.filter_map(|rule| rule.public_name().map(str::to_owned));
                Problem::limited(violated.collect(), fields, tells)
            }
        };
        problem.detail = problem.detail.filter(|_| tells == Verbosity::Full);
        problem
    }

    /// The same by limits that the request brought.
    pub(super) fn of_own(
        listed: &Listed,
        deciding: &Decision,
        fields: &HeaderFields,
        tells: Verbosity,
    ) -> Problem {
        let mut problem = match deciding.outcome() {
            Outcome::Invalid(error) => Problem::new(StatusCode::BAD_REQUEST, error.to_string()),
            _ => {
                let refusing = listed.each.iter().filter(|(_, decision)| !decision.is_allowed());
                let violated = refusing.map(|(limit, _)| limit.to_string()).collect();
                Problem::limited(violated, fields, tells)
            }
        };
        problem.detail = problem.detail.filter(|_| tells == Verbosity::Full);
        problem
    }

    /// Limits that do not let a request pass, by their names.
    pub(crate) fn limited(
        violated: Vec<String>,
        fields: &HeaderFields,
        tells: Verbosity,
    ) -> Problem {
        let detail = match fields.get("retry-after") {
            Some("1") => "too many requests, try again in 1 second".to_owned(),
            Some(seconds) => format!("too many requests, try again in {seconds} seconds"),
            None => "too many requests".to_owned(),
        };
        Problem {
            of_type: QUOTA_EXCEEDED,
            title: QUOTA_TITLE,
            violated: (tells == Verbosity::Full).then_some(violated),
            ..Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
        }
    }

    /// As the client should see it.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Refused for want of a store, whatever the client has used.
    fn reduced(violated: Vec<String>, tells: Verbosity) -> Problem {
        let detail = "limits cannot be kept for the moment, try again later";
        Problem {
            of_type: REDUCED_CAPACITY,
            title: REDUCED_TITLE,
            violated: (tells == Verbosity::Full).then_some(violated),
            ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        }
    }

    /// Answered with another status, for proxies that understand few.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Problem {
        self.status = status;
        if self.of_type == BLANK {
            self.title = title(status);
        }
        self
    }

    /// What is wrong, where that is not the asker's fault.
    pub(crate) fn our_fault(&self) -> Option<&str> {
        self.detail.as_deref().filter(|_| self.status.is_server_error())
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        // Plain text and numbers always become JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // A cache that kept a refusal would refuse everybody.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        keep_to_us(headers);
        response
    }
}

/// As RFC 9457 wants it of a problem that is no more than its status.
fn title(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Refused")
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

/// As much of a client's text as is repeated to it.
pub(crate) fn cut(text: &str) -> &str {
    cut_to(text, SHOWN)
}

/// At most so many bytes of a text, and no part of a character.
pub(crate) fn cut_to(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
