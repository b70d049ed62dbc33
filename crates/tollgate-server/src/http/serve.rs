//! Connections of HTTP.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tollgate_tower::PeerAddr;
use tower_service::Service;

use crate::app::App;
use crate::bounds::{Bound, HEAD_TIMEOUT, WRITE_TIMEOUT};
use crate::listen::{Accepted, Listener, Stop};
use crate::metrics::{Transport, add};
use crate::patience::Patience;
use crate::serve::Stopped;

/// What a connection too many is told.
pub(crate) const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 114\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"too many connections, try again later\"}";

/// Answers until it is time to stop, and ends what is in flight within its bound.
pub(crate) async fn serve(listener: Listener, app: Arc<App>, stop: Stop) -> Stopped {
    let router = super::router(Arc::clone(&app));
    serve_router(listener, (app, router), stop).await
}

/// As [`serve`], for operators alone.
pub(crate) async fn serve_operators(listener: Listener, app: Arc<App>, stop: Stop) -> Stopped {
    let router = super::operators_router(Arc::clone(&app));
    serve_router(listener, (app, router), stop).await
}

async fn serve_router(
    listener: Listener,
    (app, router): (Arc<App>, Router),
    stop: Stop,
) -> Stopped {
    let graceful = GracefulShutdown::new();
    let mut stopping = pin!(stop.wait());
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => break,
            accepted = listener.accept(&app) => accepted,
        };
        let shared = (Arc::clone(&app), router.clone());
        tokio::spawn(answer(accepted, shared, graceful.watcher()));
    }
    drop(listener);
    match tokio::time::timeout(app.settings.drain, graceful.shutdown()).await {
        Ok(()) => Stopped::InOrder,
        Err(_) => Stopped::CutOff,
    }
}

/// Answers a connection's requests until either side has had enough.
async fn answer(accepted: Accepted, (app, router): (Arc<App>, Router), watcher: Watcher) {
    let peer = accepted.peer;
    let Some((stream, _place)) = accepted.open().await else { return };
    let shared = Arc::clone(&app);
    let service = service_fn(move |mut request: ::http::Request<Incoming>| {
        request.extensions_mut().insert(PeerAddr(peer));
        let began = Instant::now();
        let app = Arc::clone(&app);
        let mut router = router.clone();
        async move {
            let answer = match super::browser::refused(&request) {
                Some(problem) => Ok(app.bad(&problem)),
                // A router is always ready.
                None => router.call(request).await,
            };
            app.metrics.latency(Transport::Http).record(began.elapsed());
            answer
        }
    });
    let bounds = &shared.settings.bounds;
    let stream = Patience::new(stream, WRITE_TIMEOUT).first_byte(bounds.first_byte);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.idle.unwrap_or(HEAD_TIMEOUT))
        .max_header_size(bounds.head)
        // A head and the beginning of a body.
        .max_buf_size(2 * bounds.head)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        // hyper has answered these by itself, if there was anything to answer.
        if error.is_parse_too_large() {
            add(shared.metrics.over(Transport::Http, Bound::Head));
        } else if error.is_timeout() {
            add(shared.metrics.over(Transport::Http, Bound::Waiting));
        }
        if error.is_parse() {
            add(&shared.metrics.bad_requests);
        }
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_connection_too_many_is_as_long_as_it_says() {
        let text = std::str::from_utf8(NO_ROOM).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
