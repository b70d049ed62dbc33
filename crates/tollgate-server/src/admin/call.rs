//! What an operator asks, and what is answered.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{StatusCode, Uri};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tollgate::{Rule, Timestamp};

use super::change::Change;
use super::tokens::{AdminRole, TokenDigest};
use crate::app::App;
use crate::bounds::{Bounds, MAX_PAGE};
use crate::http::{Attributes, Problem, cut};
use crate::operate::{AdminFailure, ClientAttributes};

/// A question of an operator who was let in.
pub(super) struct Call {
    pub(super) app: Arc<App>,
    pub(super) who: Who,
    pub(super) uri: Uri,
    pub(super) body: Body,
    pub(super) begun: Begun,
}

/// The change that a question is about to make, so that it is written down also where it fails.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<Mutex<Option<Change>>>);

impl Begun {
    /// To be called before anything is changed.
    pub(super) fn change(&self, action: &'static str, target: Value) {
        *self.0.lock() = Some(Change::new(action, target));
    }

    pub(super) fn take(&self) -> Option<Change> {
        self.0.lock().take()
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) name: String,
    pub(super) role: AdminRole,
    /// `None` where none is needed.
    pub(super) token: Option<TokenDigest>,
    pub(super) from: Option<IpAddr>,
}

/// What is answered.
pub(super) enum Reply {
    /// Nothing was changed.
    Told(Value),
    /// Nothing was changed, and the answer is no JSON.
    Text(&'static str, String),
    Changed(Change),
    /// Nothing was changed, and the answer goes on.
    Stream(Response),
}

pub(super) type Answer = Result<Reply, Problem>;

impl Call {
    /// The body, of at most so many bytes.
    pub(super) async fn bytes(&mut self, most: usize) -> Result<Bytes, Problem> {
        self.app.long_body(std::mem::take(&mut self.body), most).await
    }

    /// The body, of as many bytes as anybody's.
    pub(super) async fn short_bytes(&mut self) -> Result<Bytes, Problem> {
        self.bytes(self.bounds().body).await
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.app.settings.bounds
    }

    /// The query, of which only these names are known.
    pub(super) fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::read(self.uri.query().unwrap_or_default(), known)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.app.backend.clock().now()
    }
}

/// What a query says.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    fn read(text: &str, known: &[&str]) -> Result<Query, Problem> {
        let mut read: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                let known = match known {
                    [] => "there is none here".to_owned(),
                    known => format!("must be {}", known.join(", ")),
                };
                return Err(wrong(format!("unknown name {:?} in the query, {known}", cut(&name))));
            }
            if read.iter().any(|(other, _)| *other == name) {
                return Err(wrong(format!("{name:?} is in the query twice")));
            }
            read.push((name, value));
        }
        Ok(Query(read))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// How many entries are wanted.
    pub(super) fn most(&self, unless_said: usize) -> Result<usize, Problem> {
        let Some(text) = self.get("limit") else { return Ok(unless_said) };
        let most = text.parse().ok().filter(|most| (1..=MAX_PAGE).contains(most));
        most.ok_or_else(|| {
            let text = cut(text);
            wrong(format!("\"limit\" is {text:?}, must be a whole number from 1 to {MAX_PAGE}"))
        })
    }

    /// A name that is true or false.
    pub(super) fn is(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => Err(wrong(format!("{name:?} is {:?}, must be true or false", cut(text)))),
        }
    }

    /// The attributes that keys are searched by, if any are given.
    pub(super) fn attributes(&self, bounds: &Bounds) -> Result<Option<ClientAttributes>, Problem> {
        let Some(text) = self.get("attributes") else { return Ok(None) };
        let given: Attributes<'_> = serde_json::from_str(text).map_err(|_| {
            let text = cut(text);
            wrong(format!(
                "\"attributes\" is {text:?}, must be an object such as {{\"user\": \"42\"}}"
            ))
        })?;
        given.check(bounds)?;
        Ok(Some(ClientAttributes::new(given.iter())))
    }

    /// Where a list goes on.
    pub(super) fn cursor<T: DeserializeOwned>(&self) -> Result<Option<T>, Problem> {
        let Some(text) = self.get("cursor") else { return Ok(None) };
        let bytes = unhex(text).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        bytes.map(Some).ok_or_else(|| {
            wrong("\"cursor\" is none of ours, must be the \"next\" of an earlier answer")
        })
    }
}

/// What a client writes as a cursor to get what follows.
pub(super) fn cursor(place: &impl serde::Serialize) -> String {
    let json = serde_json::to_vec(place).unwrap_or_default();
    json.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(hex_digit).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// A part of a query without its escapes.
fn decoded(text: &str) -> Result<String, Problem> {
    let refuse = || wrong(format!("{:?} in the query is not UTF-8 or wrongly escaped", cut(text)));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit));
                let (Some(high), Some(low)) = digits else { return Err(refuse()) };
                high << 4 | low
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| refuse())
}

/// What a question that makes no sense is answered with.
pub(super) fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// The rule of that name, or what there is instead.
pub(super) fn rule<'p>(policy: &'p tollgate::Policy, name: &str) -> Result<&'p Rule, Problem> {
    policy.rules.iter().find(|rule| rule.name == name).ok_or_else(|| {
        let mut names: Vec<_> =
            policy.rules.iter().take(20).map(|rule| rule.name.as_str()).collect();
        if policy.rules.len() > names.len() {
            names.push("…");
        }
        let detail =
            format!("there is no rule {:?}, the rules are: {}", cut(name), names.join(", "));
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

/// A moment for programs: RFC 3339 in UTC, in whole seconds.
pub(super) fn at(moment: Timestamp) -> String {
    let seconds = i64::try_from(moment.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    // Every moment lies before 2262, which is within jiff's years.
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Attributes and values as an object, to be read: what is very long is cut, and names no key.
pub(super) fn object<N: AsRef<str>, V: AsRef<str>>(
    pairs: impl IntoIterator<Item = (N, V)>,
) -> Value {
    let entry = |(name, value): (N, V)| (name.as_ref().to_owned(), short(value.as_ref()).into());
    Value::Object(pairs.into_iter().map(entry).collect())
}

/// The same uncut, to be sent back as whom a change is about.
pub(super) fn entire<N: AsRef<str>, V: AsRef<str>>(
    pairs: impl IntoIterator<Item = (N, V)>,
) -> Value {
    let entry = |(name, value): (N, V)| (name.as_ref().to_owned(), value.as_ref().into());
    Value::Object(pairs.into_iter().map(entry).collect())
}

/// A value for a list: what is very long is cut.
fn short(value: &str) -> Cow<'_, str> {
    match cut_at(value, crate::bounds::MAX_SHOWN_KEY) {
        shown if shown.len() == value.len() => shown.into(),
        shown => format!("{shown}…").into(),
    }
}

fn cut_at(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl From<AdminFailure> for Problem {
    fn from(failure: AdminFailure) -> Problem {
        Problem::new(failure.status, failure.detail)
    }
}

impl Reply {
    pub(super) fn response(self) -> Response {
        match self {
            Reply::Told(value) => crate::http::json(&value),
            Reply::Text(of_type, text) => crate::http::text(of_type, text),
            Reply::Stream(response) => response,
            Reply::Changed(change) => crate::http::json(&json!(change)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Query, Problem> {
        Query::read(text, &["rule", "limit", "cursor"])
    }

    #[test]
    fn a_query_is_read_with_its_escapes_and_strictly() {
        let query = read("rule=a%20b+c%C3%BC&limit=7&").ok().unwrap();
        assert_eq!((query.get("rule"), query.most(1).ok()), (Some("a b cü"), Some(7)));
        for text in ["rul=a", "rule=a&rule=b", "rule=%f", "rule=%zz", "rule=%ff"] {
            assert!(read(text).is_err(), "{text}");
        }
        for limit in ["0", "1001", "-1", "x", "", "1e9"] {
            assert!(read(&format!("limit={limit}")).ok().unwrap().most(1).is_err(), "{limit}");
        }
    }

    #[test]
    fn a_cursor_leads_back_to_where_it_was_made() {
        let place = ("rüle".to_owned(), 3_u64);
        let query = read(&format!("cursor={}", cursor(&place))).ok().unwrap();
        assert_eq!(query.cursor().ok().unwrap(), Some(place));
        for text in ["zz", "f", "6e756c", "", "%00"] {
            let query = read(&format!("cursor={text}")).ok().unwrap();
            assert!(query.cursor::<(String, u64)>().is_err(), "{text}");
        }
    }
}
