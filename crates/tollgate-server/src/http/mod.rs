//! HTTP: JSON for programs, and headers for proxies.

mod alarm;
mod authorize;
mod body;
mod browser;
mod check;
mod decision;
mod hold;
mod host;
mod own;
mod probe;
mod problem;
mod rate_limit;
mod serve;
mod telling;
mod untrusted;
mod written;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{any, get, post};
use http::{Method, StatusCode, Uri};

use crate::app::App;
use crate::metrics::Transport;
pub(crate) use body::{Attributes, parse};
pub(crate) use browser::{is_of_another_site, keep_to_us};
pub(crate) use decision::{REASONS, json, millis, reason, text};
pub(crate) use hold::Holds;
pub use host::{HostName, HostNameError};
pub(crate) use host::{is_origin_of, is_this_machine};
pub(crate) use problem::{Problem, cut, cut_to};
pub(crate) use serve::{NO_ROOM, serve, serve_health, serve_operators};

/// Which headers of a proxy say what its client asks for. Only one family is believed: a proxy
/// that sets one passes the other on as the client has sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeaders {
    /// `X-Forwarded-Method`, `-Uri`, `-Host` and `-Proto`, as Caddy and Traefik send them.
    #[default]
    XForwarded,
    /// `X-Original-Method`, `-URI`, `-Host` and `-Proto`, as recipes for nginx do.
    XOriginal,
    /// `X-Original-Method`, and `X-Original-URL` with the scheme, the host and the path, as
    /// ingress-nginx and recipes for Authelia send them.
    XOriginalUrl,
}

impl App {
    /// The answer to a request that cannot be understood.
    pub(crate) fn bad(&self, problem: &Problem) -> Response {
        if let Some(bound) = problem.over {
            crate::metrics::add(self.metrics.over(Transport::Http, bound));
        }
        self.count_bad(problem.response())
    }

    /// An answer to a request that cannot be understood.
    pub(crate) fn count_bad(&self, response: Response) -> Response {
        crate::metrics::add(&self.metrics.bad_requests);
        response
    }
}

impl App {
    fn nothing_at(&self, uri: &Uri, known: &str) -> Response {
        let detail = format!("there is nothing at {:?}, try one of {known}", cut(uri.path()));
        self.bad(&Problem::new(StatusCode::NOT_FOUND, detail))
    }
}

fn router(app: Arc<App>) -> Router {
    let router = Router::new()
        .route("/v1/check", post(check::routed))
        .route("/v1/check/batch", post(check::batch))
        .route("/v1/peek", post(check::peek))
        .route("/v1/refund", post(check::refund))
        .route("/v1/reserve", post(hold::reserve))
        .route("/v1/reserve/{id}/commit", post(hold::commit))
        .route("/v1/reserve/{id}/cancel", post(hold::cancel))
        .route("/v1/reserve/{id}/settle", post(hold::settle))
        .route("/v1/authorize", any(authorize::authorize))
        .route("/v1/authorize/{status}", any(authorize::authorize_as))
        // Of the same form as in the document; `serve.rs` answers all paths that begin so.
        .route("/v1/ext_authz/{path}", any(authorize::ext_authz))
        .route("/json", post(rate_limit::json))
        .route("/healthz", get(probe::healthz))
        .route("/readyz", get(probe::readyz))
        .route("/metrics", get(probe::metrics))
        .route("/openapi.json", get(probe::openapi));
    let with_everybody = app.operators.is_with_everybody();
    let router = if with_everybody { router.merge(for_operators()) } else { router };
    whole(router.fallback(unknown), app)
}

/// What operators are answered where nobody else is.
fn operators_router(app: Arc<App>) -> Router {
    let router = Router::new()
        .route("/healthz", get(probe::healthz))
        .route("/openapi.json", get(probe::openapi));
    whole(router.merge(for_operators()).fallback(unknown_to_operators), app)
}

/// Health checks, and nothing that decides or tells more.
fn health_router(app: Arc<App>) -> Router {
    let router =
        Router::new().route("/healthz", get(probe::healthz)).route("/readyz", get(probe::readyz));
    whole(router.fallback(unknown_to_probes), app)
}

/// Their questions, and the page that asks them.
fn for_operators() -> Router<Arc<App>> {
    crate::admin::router().merge(crate::page::router())
}

fn whole(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    router.method_not_allowed_fallback(wrong_method).with_state(app)
}

/// A part of the path, as it was sent.
fn segment(uri: &Uri, place: usize) -> &str {
    uri.path().split('/').nth(place).unwrap_or_default()
}

async fn unknown(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let known = "POST /v1/check, /v1/check/batch, /v1/peek, /v1/refund, /v1/reserve and \
                 /v1/reserve/ID/commit, /cancel, /settle; any method /v1/authorize, /v1/ext_authz; POST /json; GET /, \
                 /healthz, /readyz, /metrics, /openapi.json";
    let is_of_operators = uri.path().starts_with("/admin");
    app.nothing_at(
        &uri,
        &match app.operators.is_with_everybody() {
            true if is_of_operators => crate::admin::asked(),
            false if is_of_operators => format!("{known}; operators are not answered on this port"),
            _ => known.to_owned(),
        },
    )
}

async fn unknown_to_operators(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let known = crate::admin::asked();
    let elsewhere = "; decisions are asked for on another port";
    let elsewhere = if uri.path().starts_with("/v1/") { elsewhere } else { "" };
    app.nothing_at(&uri, &format!("GET /, /healthz, /openapi.json, {known}{elsewhere}"))
}

async fn unknown_to_probes(State(app): State<Arc<App>>, uri: Uri) -> Response {
    app.nothing_at(&uri, "GET /healthz, /readyz")
}

async fn wrong_method(State(app): State<Arc<App>>, method: Method, uri: Uri) -> Response {
    let right = match uri.path() {
        "/json" => "POST",
        path if path.starts_with("/v1/") => "POST",
        path if path.starts_with("/admin/") => "another method, see /openapi.json",
        _ => "GET",
    };
    let method = cut(method.as_str()).to_owned();
    let detail = format!("{} is asked for with {right}, not {method:?}", cut(uri.path()));
    app.bad(&Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail))
}
