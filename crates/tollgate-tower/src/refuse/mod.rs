//! Refusing: the answer to a request that is not served.

mod grpc;
mod problem;

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{HeaderName, Response, StatusCode};
use tollgate::{HeaderFields, RequestError, Verbosity};

use crate::answer::Answer;
use crate::fields;
use crate::head::Head;
use crate::settings::{Settings, Speaks};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A limit denies it, for now: 429.
    Limited,
    /// It is on a list of those who never pass: 403.
    Listed,
    /// Its cost can never be taken: 400.
    Wrong(RequestError),
    /// It lacks an attribute.
    Missing {
        /// The attribute.
        attribute: String,
        /// What the layer was told to answer.
        status: StatusCode,
    },
    /// A header of which it may have one value is in it more than once.
    Repeated {
        /// The header.
        name: HeaderName,
        /// The status configured for requests without the attribute; 400 for a cost.
        status: StatusCode,
    },
    /// A header that says its cost, or the size of its body, is missing or wrong.
    BadHeader {
        /// The header.
        name: HeaderName,
        /// What the layer was told to answer, 400 where the header is there and is wrong.
        status: StatusCode,
    },
}

/// A request that is refused, for answers of one's own.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub(crate) why: Why,
    pub(crate) answer: Option<Answer>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) fields: HeaderFields,
    pub(crate) verbosity: Verbosity,
}

/// In the extensions of an answer: a layer has refused the request, so those above it give back
/// what they hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

impl Refusal {
    /// Of a request that was not decided on.
    pub(crate) fn unasked(why: Why, verbosity: Verbosity) -> Box<Refusal> {
        let fields = HeaderFields::new();
        Box::new(Refusal { why, answer: None, retry_after: None, fields, verbosity })
    }

    /// Why.
    pub fn why(&self) -> &Why {
        &self.why
    }

    /// The decision, where there was one.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// After how long the same request is allowed, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match &self.why {
            Why::Limited => StatusCode::TOO_MANY_REQUESTS,
            Why::Listed => StatusCode::FORBIDDEN,
            Why::Wrong(_) => StatusCode::BAD_REQUEST,
            Why::Missing { status, .. }
            | Why::Repeated { status, .. }
            | Why::BadHeader { status, .. } => *status,
        }
    }

    /// What may be told of it in words; nothing of what is the server's own fault.
    pub fn detail(&self) -> Option<String> {
        let told = self.verbosity == Verbosity::Full && !self.status().is_server_error();
        told.then(|| match &self.why {
            Why::Limited => match self.fields.get("retry-after") {
                Some("1") => "too many requests, try again in 1 second".to_owned(),
                Some(seconds) => format!("too many requests, try again in {seconds} seconds"),
                None => "too many requests".to_owned(),
            },
            Why::Listed => "this client may not pass".to_owned(),
            Why::Wrong(error) => error.to_string(),
            Why::Missing { attribute, .. } => format!("the request lacks {attribute:?}"),
            Why::Repeated { name, .. } => {
                format!("the header {name} was sent twice, send it once")
            }
            Why::BadHeader { name, .. } => {
                format!("the header {name} must be there once and be a whole number")
            }
        })
    }
}

/// The answer to a refused request.
pub(crate) fn respond(settings: &Settings, refusal: &Refusal, head: Head<'_>) -> Response<Bytes> {
    let mut response = match (&settings.respond, settings.speaks) {
        (Some(respond), _) => respond(refusal, head),
        (None, Speaks::Http) => problem::response(refusal),
        (None, Speaks::Grpc) => grpc::response(refusal),
    };
    let headers = response.headers_mut();
    // A cache that kept a refusal would refuse everybody.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    fields::add(headers, &refusal.fields);
    response.extensions_mut().insert(Refused);
    response
}
