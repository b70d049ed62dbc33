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
use tollgate::{Reason, normalize_path, normalize_path_within, uri_path};
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
/// The other attributes of this family are in [`ORIGINAL_URL`].
const WITH_ORIGINAL_URL: [(&str, &str); 1] = [("x-original-method", "method")];
const ORIGINAL_URL: &str = "x-original-url";

/// What the client should see, of a refusal with the status that the proxy asks for.
const MEANT: HeaderName = HeaderName::from_static("tollgate-status");

/// The path of requests from the filter `ext_authz` of Envoy, which appends the path of its client.
const EXT_AUTHZ: &str = "/v1/ext_authz";

/// Where the method, the path and the host of a proxy's request are.
#[derive(Clone, Copy)]
enum Origin {
    /// In headers of a family.
    Headers,
    /// In the method, the end of the path and the `Host` of the call itself.
    Call,
}

pub(super) async fn authorize(State(app): State<Arc<App>>, head: Parts) -> Response {
    decide(&app, (&head, Origin::Headers), None).await
}

/// Whether a path is one of the filter `ext_authz`.
pub(super) fn is_ext_authz(path: &str) -> bool {
    let rest = path.strip_prefix(EXT_AUTHZ);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The filter `ext_authz` of Envoy over HTTP: the call has the method, the path and the host of the
/// request, whatever the headers of its client say.
pub(super) async fn ext_authz(State(app): State<Arc<App>>, head: Parts) -> Response {
    decide(&app, (&head, Origin::Call), None).await
}

/// With the status that a proxy understands as a refusal.
pub(super) async fn authorize_as(State(app): State<Arc<App>>, head: Parts) -> Response {
    let status = segment(&head.uri, 3);
    let known = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
    match known.filter(|status| status.is_client_error() || status.is_server_error()) {
        Some(status) => decide(&app, (&head, Origin::Headers), Some(status)).await,
        None => {
            let detail = format!(
                "{:?} is no status to refuse with, must be between 400 and 599, as in /v1/authorize/403",
                cut(status)
            );
            app.bad(&Problem::new(StatusCode::BAD_REQUEST, detail))
        }
    }
}

async fn decide(
    app: &App,
    (head, origin): (&Parts, Origin),
    refuse_with: Option<StatusCode>,
) -> Response {
    let attributes = match app.attributes(head, origin) {
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
            None if ruling.reason() == Reason::StoreUnavailable => {
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
    fn attributes<'r>(
        &'r self,
        head: &'r Parts,
        origin: Origin,
    ) -> Result<Vec<(&'r str, Cow<'r, str>)>, Problem> {
        let (headers, most) = (&head.headers, self.settings.bounds.key_length);
        let (family, url): (&[_], _) = match self.settings.proxy_headers {
            ProxyHeaders::XForwarded => (&X_FORWARDED, None),
            ProxyHeaders::XOriginal => (&X_ORIGINAL, None),
            ProxyHeaders::XOriginalUrl => (&WITH_ORIGINAL_URL, Some(ORIGINAL_URL)),
        };
        let mut attributes = Vec::with_capacity(8);
        if let Origin::Call = origin {
            attributes.push(("method", self.within_bound(Cow::Borrowed(head.method.as_str()))));
            let path = head.uri.path().strip_prefix(EXT_AUTHZ).unwrap_or_default();
            self.add_path(path.as_bytes(), &mut attributes);
            if let Some(host) = single(headers, "host")? {
                attributes.push(("host", self.within_bound(text_of(host))));
            }
        }
        let is_known = |attribute: &str| matches!(origin, Origin::Call) && attribute != "scheme";
        for &(header, attribute) in family {
            if is_known(attribute) {
                continue;
            }
            let Some(value) = single(headers, header)? else { continue };
            if attribute == "path" {
                self.add_path(value, &mut attributes);
            } else {
                attributes.push((attribute, self.within_bound(text_of(value))));
            }
        }
        if let (Origin::Headers, Some(header)) = (origin, url)
            && let Some(url) = single(headers, header)?
        {
            self.add_url(url, &mut attributes);
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

    /// Adds the scheme, the host and the path of a URL; of a path alone, the path.
    fn add_url<'h>(&self, url: &'h [u8], attributes: &mut Vec<(&'h str, Cow<'h, str>)>) {
        let Some(url) = OriginalUrl::parse(url) else { return self.add_path(url, attributes) };
        self.add_path(url.path, attributes);
        for (attribute, value) in [("host", url.host), ("scheme", url.scheme)] {
            // nginx leaves the host empty if its client has sent none.
            if !value.is_empty() {
                attributes.push((attribute, self.within_bound(text_of(value))));
            }
        }
    }

    /// Adds the path of a URI: normalized before it is cut, so that its end cannot hide what its
    /// beginning means.
    fn add_path<'h>(&self, uri: &'h [u8], attributes: &mut Vec<(&'h str, Cow<'h, str>)>) {
        let most = self.settings.bounds.key_length;
        let (raw, normal) = match text_of(uri) {
            Cow::Borrowed(uri) => (Cow::Borrowed(uri_path(uri)), normalize_path(uri)),
            Cow::Owned(uri) => (
                Cow::Owned(uri_path(&uri).to_owned()),
                Cow::Owned(normalize_path(&uri).into_owned()),
            ),
        };
        let raw = (raw != normal).then_some(raw);
        attributes.extend(raw.map(|raw| ("raw_path", self.cut(raw))));
        if normal.len() > most {
            add(self.metrics.over(Transport::Http, Bound::KeyLength));
            let cut = normalize_path_within(&normal, most).into_owned();
            attributes.push(("path", Cow::Owned(cut)));
        } else {
            attributes.push(("path", normal));
        }
    }

    /// What a client asks its proxy for, within the bound: it is cut, since a proxy may make an
    /// error of its own of any other answer.
    fn within_bound<'h>(&self, text: Cow<'h, str>) -> Cow<'h, str> {
        if text.len() > self.settings.bounds.key_length {
            add(self.metrics.over(Transport::Http, Bound::KeyLength));
        }
        self.cut(text)
    }

    fn cut<'h>(&self, text: Cow<'h, str>) -> Cow<'h, str> {
        let most = self.settings.bounds.key_length;
        match text {
            text if text.len() <= most => text,
            Cow::Borrowed(text) => Cow::Borrowed(cut_to(text, most)),
            Cow::Owned(text) => Cow::Owned(cut_to(&text, most).to_owned()),
        }
    }
}

/// The parts of a URL such as `https://shop.example/cart?a=1`.
struct OriginalUrl<'h> {
    scheme: &'h [u8],
    host: &'h [u8],
    /// With the query.
    path: &'h [u8],
}

impl OriginalUrl<'_> {
    /// Splits a URL that begins with a scheme; `None` for anything else.
    ///
    /// The host ends at the first slash, and not at `?` or `#` as in other URLs: nginx puts the
    /// `Host` of its client into the URL, and rejects only a slash in it. A client could hide the
    /// path behind `Host: a?`.
    fn parse(url: &[u8]) -> Option<OriginalUrl<'_>> {
        let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let end = url.iter().position(|byte| !is_scheme(byte)).filter(|end| *end > 0)?;
        let (scheme, rest) = url.split_at(end);
        let rest = rest.strip_prefix(b"://")?;
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        Some(OriginalUrl { scheme, host, path })
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

/// The text of a header: a byte that is no UTF-8 is escaped, as the client should have done.
fn text_of(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(escaped(value)),
    }
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
