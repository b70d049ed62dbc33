//! The headers by which browsers name the page that asks, and those by which they keep an answer
//! from it: a page of another site reaches whatever its reader's machine reaches.

use http::header::{HeaderMap, HeaderName, HeaderValue, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use http::{Request, StatusCode};

use super::host::{Audience, is_origin_of};
use super::problem::{Problem, cut};
use crate::app::App;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Whether a browser says that a page asks which is not from this very server. No page can make it
/// say otherwise, and programs say nothing.
pub(crate) fn is_of_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_some_and(|site| site != b"same-origin" && site != b"none")
}

impl App {
    /// Returns the reason for which a request is rejected before its path is looked at: its `Host` is
    /// missing, ambiguous or unknown, or a page of another site sent it and it may change something.
    pub(super) fn rejection<B>(&self, request: &Request<B>) -> Option<Problem> {
        let audience = Audience::of(request.uri().path());
        let host = match self.named_host(request, audience) {
            Ok(host) => host,
            Err(problem) => return Some(problem),
        };
        let is_for_clients = matches!(audience, Audience::Probes | Audience::Proxies);
        if is_for_clients || request.method().is_safe() {
            return None;
        }
        let (headers, method) = (request.headers(), request.method());
        if is_of_another_site(headers) {
            let detail = format!(
                "a {method} of a page of another site is rejected: ask from a server, without \
                 Sec-Fetch-Site"
            );
            return Some(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        // Over plain HTTP browsers say the site only to this machine, and the origin to all. What
        // they say of the site holds also behind a proxy that replaces the host.
        let origin = foreign_origin(headers, host).filter(|_| !headers.contains_key(FETCH_SITE))?;
        let detail = format!(
            "a {method} of a page of {:?} is rejected, the host asked is {:?}: ask from a server, \
             without Origin, or let your proxy pass the Host on",
            cut(&origin),
            cut(host.unwrap_or_default())
        );
        Some(Problem::new(StatusCode::FORBIDDEN, detail))
    }
}

/// Returns the origin of the page that asks, if that is not `host`.
fn foreign_origin(headers: &HeaderMap, host: Option<&str>) -> Option<String> {
    let mut origins = headers.get_all(ORIGIN).iter().map(HeaderValue::as_bytes);
    let origin = origins.find(|origin| {
        let own = std::str::from_utf8(origin).ok().zip(host);
        own.is_none_or(|(origin, host)| !is_origin_of(origin, host))
    });
    origin.map(|origin| String::from_utf8_lossy(origin).into_owned())
}

/// Keeps a browser from handing an answer to a page of another site, as a script or a picture.
pub(crate) fn keep_to_us(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}
