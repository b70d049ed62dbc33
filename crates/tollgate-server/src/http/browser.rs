//! What browsers say of the page that asks, and what they are told of answers: a page of another
//! site reaches whatever its reader's machine does, also where nobody else can.

use http::header::{HeaderMap, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Request, StatusCode};

use super::problem::Problem;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Whether a browser says that a page asks which is not from this very server. No page can make it
/// say otherwise, and programs say nothing.
pub(crate) fn is_of_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_some_and(|site| site != b"same-origin" && site != b"none")
}

/// Why a page of another site is not answered, where it would spend, give back or hold what is its
/// reader's. Proxies that ask for their clients hand on what those say, and are answered.
pub(super) fn refused<B>(request: &Request<B>) -> Option<Problem> {
    if !is_of_another_site(request.headers()) || request.method() != Method::POST {
        return None;
    }
    let path = request.uri().path();
    let decides = path.starts_with("/v1/")
        && !path.starts_with("/v1/authorize")
        && !super::authorize::is_ext_authz(path);
    (decides || path == "/json").then(|| {
        let detail = "a page of another site may not ask this: ask from a server, without \
                      Sec-Fetch-Site";
        Problem::new(StatusCode::FORBIDDEN, detail)
    })
}

/// Keeps a browser from handing an answer to a page of another site, as a script or a picture.
pub(crate) fn keep_to_us(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}
