//! The page for people, served at `/` where operators are answered. Its files are in the binary and
//! it asks nobody but this server; what it shows comes from the questions of operators.

mod feed;
mod sample;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use sha2::{Digest, Sha256};
use tollgate_tower::PeerAddr;

use crate::app::App;
pub(crate) use feed::{Feed, NotOpened, events};

/// A file of the page.
struct Asset {
    path: &'static str,
    of_type: &'static str,
    bytes: &'static [u8],
    tag: OnceLock<HeaderValue>,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const fn asset(path: &'static str, of_type: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { path, of_type, bytes, tag: OnceLock::new() }
}

static ASSETS: [Asset; 18] = [
    asset("/", HTML, include_bytes!("assets/index.html")),
    asset("/page/icon.svg", SVG, include_bytes!("assets/icon.svg")),
    asset("/page/page.css", CSS, include_bytes!("assets/page.css")),
    asset("/page/theme.js", SCRIPT, include_bytes!("assets/theme.js")),
    asset("/page/main.js", SCRIPT, include_bytes!("assets/main.js")),
    asset("/page/dom.js", SCRIPT, include_bytes!("assets/dom.js")),
    asset("/page/server.js", SCRIPT, include_bytes!("assets/server.js")),
    asset("/page/history.js", SCRIPT, include_bytes!("assets/history.js")),
    asset("/page/chart.js", SCRIPT, include_bytes!("assets/chart.js")),
    asset("/page/live.js", SCRIPT, include_bytes!("assets/live.js")),
    asset("/page/loudest.js", SCRIPT, include_bytes!("assets/loudest.js")),
    asset("/page/keys.js", SCRIPT, include_bytes!("assets/keys.js")),
    asset("/page/status.js", SCRIPT, include_bytes!("assets/status.js")),
    asset("/page/change.js", SCRIPT, include_bytes!("assets/change.js")),
    asset("/page/outage.js", SCRIPT, include_bytes!("assets/outage.js")),
    asset("/page/changes.js", SCRIPT, include_bytes!("assets/changes.js")),
    asset("/page/simulate.js", SCRIPT, include_bytes!("assets/simulate.js")),
    asset("/page/policy.js", SCRIPT, include_bytes!("assets/policy.js")),
];

/// What a browser may do with the page: run our scripts and ask this server, and nothing else. With
/// trusted types no script can make markup of text, whatever a key is called.
const ALLOWED: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", ALLOWED),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
];

/// The page's files, and whether it needs a token.
pub(crate) fn router() -> Router<Arc<App>> {
    let router = Router::new().route(ACCESS, get(access));
    ASSETS.iter().fold(router, |router, asset| {
        router
            .route(asset.path, get(move |headers: HeaderMap| async move { file(asset, &headers) }))
    })
}

/// No question of programs: no part of what `/openapi.json` describes.
const ACCESS: &str = "/page/access";

/// What the page shows before it has a token, and whether it needs one.
async fn access(State(app): State<Arc<App>>, request: Request) -> Response {
    let peer = request.extensions().get::<PeerAddr>().map(|PeerAddr(peer)| peer.ip());
    let access = app.operators.access(request.headers(), peer);
    crate::http::json(&json!({"access": access.word(), "health": sample::health(&app)}))
}

fn file(asset: &'static Asset, asked: &HeaderMap) -> Response {
    let tag = asset.tag();
    let known = asked.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|known| {
        let mut tags = known.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
        tags.any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
    });
    let mut response = match is_known {
        true => Response::new(axum::body::Body::empty()),
        false => Response::new(asset.bytes.into()),
    };
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.of_type));
    headers.insert(ETAG, tag);
    // Kept, and asked about each time: a page of one version never runs a script of another.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

impl Asset {
    fn tag(&self) -> HeaderValue {
        let tag = || {
            let digest = Sha256::digest(self.bytes);
            let hex: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
            let tag = HeaderValue::try_from(format!("\"{hex}\""));
            // Digits and quotes are right in a header.
            tag.unwrap_or(HeaderValue::from_static("\"\""))
        };
        self.tag.get_or_init(tag).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn text(path: &str) -> &'static str {
        let found = ASSETS.iter().find(|asset| asset.path == path).unwrap();
        std::str::from_utf8(found.bytes).unwrap()
    }

    #[test]
    fn every_file_of_the_page_is_served_and_every_file_that_is_named_is_there() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/assets"));
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut served: Vec<_> = ASSETS
            .iter()
            .map(|asset| match asset.path {
                "/" => "index.html".to_owned(),
                path => path.strip_prefix("/page/").unwrap().to_owned(),
            })
            .collect();
        served.sort();
        assert_eq!(files, served);
        for asset in &ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for (before, after) in [("from \"./", "\""), ("=\"/page/", "\"")] {
                for named in text.split(before).skip(1) {
                    let named = named.split(after).next().unwrap();
                    assert!(served.iter().any(|file| file == named), "{}: {named}", asset.path);
                }
            }
        }
    }

    #[test]
    fn no_file_asks_elsewhere_or_makes_markup_of_text() {
        for asset in &ASSETS {
            let text = text(asset.path).replace("http://www.w3.org/2000/svg", "");
            for never in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
                "localStorage.setItem(\"token",
                "style=\"",
                "onclick=",
                "@import",
            ] {
                assert!(!text.contains(never), "{} has {never}", asset.path);
            }
        }
    }
}
