//! Connections of HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{self, pin};
use std::sync::Arc;
use std::time::Instant;

use ::http::Method;
use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tollgate_tower::PeerAddr;
use tower_service::Service;

use super::alarm::Alarm;
use super::telling::Telling;
use crate::app::App;
use crate::bounds::{Bound, HEAD_TIMEOUT, WRITE_TIMEOUT};
use crate::listen::{Accepted, Listener, Stop, drain};
use crate::metrics::{Transport, add};
use crate::patience::Patience;
use crate::serve::Stopped;

/// What a connection too many is told.
pub(crate) const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 114\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"too many connections, try again later\"}";

/// What a client is told whose head has begun and takes too long.
const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/problem+json\r\n\
cache-control: no-store\r\nconnection: close\r\ncontent-length: 110\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Request Timeout\",\"status\":408,\"detail\":\"the head of the request took too long\"}";

/// What nearly all requests ask for.
const CHECK: &str = "/v1/check";

/// What a listener answers with.
struct Site {
    app: Arc<App>,
    router: Router,
    whom: Whom,
}

/// Who is answered there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Everybody,
    Operators,
    Probes,
}

/// Answers until it is time to stop, and ends what is in flight within its bound.
pub(crate) async fn serve(listener: Listener, app: Arc<App>, stop: Stop) -> Stopped {
    let router = super::router(Arc::clone(&app));
    serve_site(listener, Site { app, router, whom: Whom::Everybody }, stop).await
}

/// As [`serve`], for operators alone.
pub(crate) async fn serve_operators(listener: Listener, app: Arc<App>, stop: Stop) -> Stopped {
    let router = super::operators_router(Arc::clone(&app));
    serve_site(listener, Site { app, router, whom: Whom::Operators }, stop).await
}

/// As [`serve`], for health checks alone.
pub(crate) async fn serve_health(listener: Listener, app: Arc<App>, stop: Stop) -> Stopped {
    let router = super::health_router(Arc::clone(&app));
    serve_site(listener, Site { app, router, whom: Whom::Probes }, stop).await
}

async fn serve_site(listener: Listener, site: Site, stop: Stop) -> Stopped {
    let site = Arc::new(site);
    let mut connections = JoinSet::new();
    let mut stopping = pin!(stop.wait());
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(&site.app) => accepted,
        };
        connections.spawn(answer(accepted, Arc::clone(&site), stop.clone()));
    }
    drop(listener);
    drain(connections, site.app.settings.drain).await
}

/// Answers a connection that says something.
async fn answer(accepted: Accepted, site: Arc<Site>, stop: Stop) {
    if accepted.speaks(&stop).await {
        // In a box of its own, so that one that says nothing does not take up its room.
        Box::pin(converse(accepted, site, stop)).await;
    }
}

/// Answers a connection's requests until either side has had enough.
async fn converse(accepted: Accepted, site: Arc<Site>, stop: Stop) {
    let peer = accepted.peer;
    let Some((stream, _place)) = accepted.open().await else { return };
    let (app, bounds) = (Arc::clone(&site.app), site.app.settings.bounds);
    let alarm = Alarm::default();
    let timer = alarm.clone();
    let service = service_fn(move |request: ::http::Request<Incoming>| {
        let (site, alarm) = (Arc::clone(&site), alarm.clone());
        async move {
            let began = Instant::now();
            let answer = site.answer(request, (peer, alarm)).await;
            site.app.metrics.latency(Transport::Http).record(began.elapsed());
            Ok::<_, Infallible>(answer)
        }
    });
    let stream = Patience::new(stream, WRITE_TIMEOUT).first_byte(bounds.first_byte);
    let mut connection = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(bounds.idle.unwrap_or(HEAD_TIMEOUT))
        .max_header_size(bounds.head)
        // A head and the beginning of a body.
        .max_buf_size(2 * bounds.head)
        .serve_connection(TokioIo::new(Telling::new(stream)), service);
    let ended = tokio::select! {
        // First, so that who is answered after the end has begun is told to go.
        biased;
        () = stop.wait() => {
            // Answers what has begun, and closes.
            pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
        ended = &mut connection => ended,
    };
    if let Err(error) = ended {
        // What is no HTTP is answered by now, and what takes too long not at all.
        if error.is_parse_too_large() {
            add(app.metrics.over(Transport::Http, Bound::Head));
        } else if error.is_timeout() {
            add(app.metrics.over(Transport::Http, Bound::Waiting));
        }
        if error.is_parse() {
            add(&app.metrics.bad_requests);
        }
        tracing::debug!(%peer, %error, "a connection ended early");
        let parts = connection.into_parts();
        // Who has not begun is not told: it may take that for the answer to what it sends just now.
        if error.is_timeout() && !parts.read_buf.is_empty() {
            let mut stream = parts.io.into_inner();
            // The client may be gone: then there is nobody to tell.
            let _ = stream.write_all(TOO_SLOW).await;
            let _ = stream.shutdown().await;
        }
    }
}

impl Site {
    async fn answer(
        &self,
        mut request: ::http::Request<Incoming>,
        (peer, alarm): (SocketAddr, Alarm),
    ) -> Response {
        if self.whom != Whom::Probes
            && let Some(problem) = self.app.rejection(&request)
        {
            return self.app.bad(&problem);
        }
        // Nearly all ask for this, and a router costs more than the answer.
        let is_check = request.method() == Method::POST && request.uri().path() == CHECK;
        if is_check && self.whom == Whom::Everybody {
            let (head, body) = request.into_parts();
            let too_late = alarm.wait(self.app.settings.bounds.body_time);
            return super::check::check(&self.app, &head.uri, (body, too_late)).await;
        }
        request.extensions_mut().insert(PeerAddr(peer));
        // The end of this path is the client's: a router could take it for one of its own.
        if self.whom == Whom::Everybody && super::authorize::is_ext_authz(request.uri().path()) {
            let (head, _) = request.into_parts();
            let app = axum::extract::State(Arc::clone(&self.app));
            return Box::pin(super::authorize::ext_authz(app, head)).await;
        }
        // A router is always ready.
        let Ok(answer) = Box::pin(self.router.clone().call(request)).await;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_ready_are_as_long_as_they_say() {
        for (answer, status) in [(NO_ROOM, 503), (TOO_SLOW, 408)] {
            let text = std::str::from_utf8(answer).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["status"], status);
        }
    }
}
