//! What goes on, as it goes on.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

use super::call::{Answer, Call, Reply};
use crate::bounds::MAX_EVENT_STREAMS;
use crate::http::{Problem, keep_to_us};
use crate::page::{self, NotOpened};

pub(super) async fn events(call: Call) -> Answer {
    let query = call.query(&["limit"])?;
    let most = query.get("limit").map(|_| query.most(1)).transpose()?;
    // A stream may outlive the token that it was opened with.
    let (app, who) = (Arc::downgrade(&call.app), call.who.clone());
    let may_see = move || app.upgrade().is_some_and(|app| app.operators.is_still(&who));
    let body = page::events(&call.app, most, may_see).map_err(|why| {
        let detail = match why {
            NotOpened::TooMany => {
                format!("{MAX_EVENT_STREAMS} already watch this server, try again later")
            }
            NotOpened::Stopping => "the server is stopping".to_owned(),
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    keep_to_us(headers);
    // A proxy that collected events would show them late.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    Ok(Reply::Stream(response))
}
