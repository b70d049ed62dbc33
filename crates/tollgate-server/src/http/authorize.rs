//! Requests that a proxy asks about before it lets them pass.
//!
//! What is asked comes from headers that the proxy sets. The query is not looked at: proxies
//! append their client's to it. Whatever a client asks its proxy for is decided, since a proxy may
//! make an error of its own of ours.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use tollgate::Reason;
use tollgate_tower::PeerAddr;

use super::browser::keep_to_us;
use super::decision::tell;
use super::problem::{Problem, cut, cut_to};
use super::{ProxyHeaders, segment};
use crate::app::App;
use crate::bounds::Bound;
use crate::metrics::{Transport, add};

/// The header of each family, and the attribute that it becomes.
const X_FORWARDED: [(&str, &str); 4] = [
    ("x-forwarded-method", "method"),
    ("x-forwarded-uri", "path"),
    ("x-forwarded-host", "host"),
    ("x-forwarded-proto", "scheme"),
];
const X_ORIGINAL: [(&str, &str); 4] = [
    ("x-original-method", "method"),
    ("x-original-uri", "path"),
    ("x-original-host", "host"),
    ("x-original-proto", "scheme"),
];

/// What the client should see, of a refusal with the status that the proxy asks for.
const MEANT: HeaderName = HeaderName::from_static("tollgate-status");

pub(super) async fn authorize(State(app): State<Arc<App>>, head: Parts) -> Response {
    decide(&app, &head, None).await
}

/// With the status that a proxy understands as a refusal.
pub(super) async fn authorize_as(State(app): State<Arc<App>>, head: Parts) -> Response {
    let status = segment(&head.uri, 3);
    let known = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
    match known.filter(|status| status.is_client_error() || status.is_server_error()) {
        Some(status) => decide(&app, &head, Some(status)).await,
        None => {
            let detail = format!(
                "{:?} is no status to refuse with, must be between 400 and 599, as in /v1/authorize/403",
                cut(status)
            );
            app.bad(&Problem::new(StatusCode::BAD_REQUEST, detail))
        }
    }
}

async fn decide(app: &App, head: &Parts, refuse_with: Option<StatusCode>) -> Response {
    let attributes = match app.attributes(head) {
        Ok(attributes) => attributes,
        // With a status that the proxy understands, whatever is wrong.
        Err(problem) => {
            let response = app.bad(&problem);
            return match refuse_with {
                Some(status) => without_body(status, problem.status()),
                None => response,
            };
        }
    };
    let asked: tollgate::Request<'_> =
        attributes.iter().map(|(name, value)| (*name, &**value)).collect();
    let ruling = app.backend.check(&asked).await;
    app.decided(Transport::Http, &asked, &ruling);
    let fields = app.fields(&ruling);
    let mut response = if ruling.is_allowed() {
        Response::new(Body::empty())
    } else {
        let refusal = app.refusal(&ruling, &fields);
        match refuse_with {
            Some(status) => without_body(status, refusal.status()),
            // Proxies take 5xx for a failure of ours, and many are told to let pass then.
            None if ruling.reason() == Reason::StoreAway => {
                refusal.with_status(StatusCode::TOO_MANY_REQUESTS).response()
            }
            None => refusal.response(),
        }
    };
    tell(response.headers_mut(), &fields);
    response
}

/// A denial with the status that the proxy understands, and the one that its client should see in a
/// header: not every denial has a `Retry-After` to be told by. It has no body, since nginx closes
/// its connection when the answer to a subrequest has one.
fn without_body(status: StatusCode, meant: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(MEANT, HeaderValue::from(meant.as_u16()));
    keep_to_us(headers);
    response
}

impl App {
    /// What is known of the request that a proxy asks about.
    fn attributes<'r>(&'r self, head: &'r Parts) -> Result<Vec<(&'r str, Cow<'r, str>)>, Problem> {
        let (headers, most) = (&head.headers, self.settings.bounds.key_length);
        let family = match self.settings.proxy_headers {
            ProxyHeaders::XForwarded => X_FORWARDED,
            ProxyHeaders::XOriginal => X_ORIGINAL,
        };
        let mut attributes = Vec::with_capacity(8);
        for (header, attribute) in family {
            if let Some(value) = single(headers, header)? {
                let value = if attribute == "path" { path(value) } else { value };
                attributes.push((attribute, self.readable(value)));
            }
        }
        if let Some(PeerAddr(peer)) = head.extensions.get() {
            self.notice_untrusted(peer.ip(), headers);
            let client = self.settings.client_ip.of(peer.ip(), headers);
            attributes.push(("ip", Cow::Owned(client.to_string())));
        }
        for (attribute, header) in &self.settings.header_attributes {
            if let Some(value) = text(headers, header.as_str(), most)? {
                attributes.push((attribute, Cow::Borrowed(value)));
            }
        }
        Ok(attributes)
    }

    /// What a client asks its proxy for, as text within the bound: it is cut, and a byte that is no
    /// text is escaped as a client should have.
    fn readable<'h>(&self, value: &'h [u8]) -> Cow<'h, str> {
        let text = match std::str::from_utf8(value) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(escaped(value)),
        };
        let most = self.settings.bounds.key_length;
        if text.len() <= most {
            return text;
        }
        add(self.metrics.over(Transport::Http, Bound::KeyLength));
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(cut_to(text, most)),
            Cow::Owned(text) => Cow::Owned(cut_to(&text, most).to_owned()),
        }
    }
}

/// The value of a header that must not be there twice: the client may have sent the other.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h [u8]>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        let what = "is there twice, let the proxy replace what its client sends";
        return Err(wrong(name, what));
    }
    Ok(value.map(HeaderValue::as_bytes))
}

/// The same where it says who asks, which is not cut: two clients would become one.
fn text<'h>(headers: &'h HeaderMap, name: &str, most: usize) -> Result<Option<&'h str>, Problem> {
    let Some(value) = single(headers, name)? else { return Ok(None) };
    match std::str::from_utf8(value) {
        Ok(text) if text.len() <= most => Ok(Some(text)),
        Ok(_) => {
            let detail = format!("the header {name} is too long, it may have {most} bytes");
            Err(Problem::over(Bound::KeyLength, detail))
        }
        Err(_) => Err(wrong(name, "is not UTF-8")),
    }
}

fn wrong(name: &str, what: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, format!("the header {name} {what}"))
}

fn escaped(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len() + 16);
    for chunk in value.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string never fails.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The path of a URI: without the host, where it is absolute, and without the query.
fn path(uri: &[u8]) -> &[u8] {
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
    let first = uri.iter().position(ends).unwrap_or(uri.len());
    let rest = match uri[..first].strip_suffix(b":") {
        Some(_) => uri[first..].strip_prefix(b"//"),
        None => None,
    };
    let from_path = match rest {
        Some(rest) => &rest[rest.iter().position(ends).unwrap_or(rest.len())..],
        None => uri,
    };
    let end = from_path.iter().position(|byte| matches!(byte, b'?' | b'#'));
    match &from_path[..end.unwrap_or(from_path.len())] {
        b"" => b"/",
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn a_path_is_found_in_whatever_a_proxy_calls_a_uri() {
        for (uri, expected) in [
            ("/search?q=1", "/search"),
            ("/search", "/search"),
            ("https://shop.example/cart?x", "/cart"),
            ("https://shop.example", "/"),
            ("https://shop.example?x=/y", "/"),
            ("?q", "/"),
            ("", "/"),
            ("/to?next=http://other/path", "/to"),
            ("/a://b", "/a://b"),
            ("a?b://c", "a"),
            ("http:/x", "http:/x"),
        ] {
            assert_eq!(path(uri.as_bytes()), expected.as_bytes(), "{uri:?}");
        }
    }
}
