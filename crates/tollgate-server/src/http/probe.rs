//! What those who operate it ask.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use tollgate::{EnvoyFolder, RejectedFile};

use super::browser::keep_to_us;
use super::problem::Problem;
use crate::app::App;
use crate::bounds::MAX_REJECTED_FILES;
use crate::exposition;
use crate::reload::outcome;

/// What people read.
const TEXT: &str = "text/plain; charset=utf-8";

/// Whether the process lives.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it should get requests.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Response {
    if app.stopping.load(Ordering::Relaxed) {
        let detail = "the server is stopping, ask another";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).response();
    }
    // Every rule says what to do without the store, so that this server answers all the same:
    // without it, no server would. The same holds if a file is rejected.
    let mut reasons = Vec::new();
    match app.backend.health().and_then(|health| health.outage) {
        None if app.backend.is_up() => {}
        None => reasons.push("the store has not been reached yet".to_owned()),
        Some(outage) => reasons.push(format!(
            "the store {} has been away for {} s: {}",
            outage.address,
            outage.duration.as_secs(),
            outage.cause
        )),
    }
    reasons.extend(app.operators.envoy_folder().into_iter().flat_map(rejected_files));
    if reasons.is_empty() {
        return super::text(TEXT, "ready\n".to_owned());
    }
    let line = |reason: &String| format!("ready, degraded: {reason}\n");
    super::text(TEXT, reasons.iter().map(line).collect())
}

/// The rejected files of a folder, by name: errors quote configuration, which this port does not
/// show.
fn rejected_files(folder: &EnvoyFolder) -> Vec<String> {
    let rejected = folder.rejected();
    let named = rejected.iter().take(MAX_REJECTED_FILES);
    let name = |file: &RejectedFile| {
        let (name, outcome) = (file.name.escape_debug(), outcome(file));
        format!("the Envoy file {name} is rejected, {outcome}")
    };
    let mut reasons: Vec<String> = named.map(name).collect();
    if let more @ 1.. = rejected.len().saturating_sub(MAX_REJECTED_FILES) {
        reasons.push(format!("{more} more Envoy files are rejected"));
    }
    reasons
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = exposition::text(&app, app.holds.len(app.backend.clock().now()));
    let mut response = Response::new(text.into());
    let of_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, of_type);
    keep_to_us(response.headers_mut());
    response
}

/// What can be asked, for programs and those who write them.
pub(super) async fn openapi(State(app): State<Arc<App>>) -> Response {
    super::text("application/json", app.document.get(&app.settings.bounds).to_owned())
}
