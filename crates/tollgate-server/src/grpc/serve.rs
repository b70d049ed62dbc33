//! Connections of gRPC: HTTP/2, each within its bounds.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic_health::ServingStatus;

use super::service::Services;
use crate::app::App;
use crate::bounds::{
    Bound, CONNECTION_WINDOW, GRPC_IDLE, HEAD_TIMEOUT, MAX_HEADERS, MAX_STREAMS, PING_EVERY,
    PING_TIMEOUT, WRITE_TIMEOUT,
};
use crate::listen::{Accepted, Listener, Stop, drain};
use crate::metrics::{Transport, add};
use crate::patience::Patience;
use crate::serve::Stopped;

/// What a connection too many is told: settings, which come first, and GOAWAY with "enhance your
/// calm".
pub(crate) const NO_ROOM: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\
\x00\x00\x2d\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0b\
too many connections, try again later";

/// Answers until it is time to stop, and ends what is in flight within its bound.
pub(crate) async fn serve(listener: Listener, app: Arc<App>, stop: Stop) -> Stopped {
    let (services, health) = Services::new(Arc::clone(&app));
    let names = ["", "envoy.service.ratelimit.v3.RateLimitService"];
    for name in names {
        health.set_service_status(name, ServingStatus::Serving).await;
    }
    let mut connections = JoinSet::new();
    let mut stopping = pin!(stop.wait());
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(&app) => accepted,
        };
        connections.spawn(answer(accepted, services.clone(), stop.clone()));
    }
    drop(listener);
    for name in names {
        health.set_service_status(name, ServingStatus::NotServing).await;
    }
    // Who watches is told, and then there is no more to watch: it would hold the end up.
    for name in names {
        health.clone().clear_service_status(name).await;
    }
    drain(connections, app.settings.drain).await
}

/// Answers a connection that says something.
async fn answer(accepted: Accepted, services: Services, stop: Stop) {
    if accepted.speaks(&stop).await {
        // In a box of its own, so that one that says nothing does not take up its room.
        Box::pin(converse(accepted, services, stop)).await;
    }
}

/// Answers a connection's calls until either side has had enough.
async fn converse(accepted: Accepted, services: Services, stop: Stop) {
    let peer = accepted.peer;
    let Some((stream, _place)) = accepted.open().await else { return };
    let app = services.app();
    let calls = Arc::new(AtomicU64::new(0));
    let service = service_fn({
        let calls = Arc::clone(&calls);
        move |request| {
            calls.fetch_add(1, Ordering::Relaxed);
            services.clone().answer(request)
        }
    });
    let bounds = &app.settings.bounds;
    let stream = Patience::new(stream, WRITE_TIMEOUT).first_byte(bounds.first_byte);
    let connection = http2::Builder::new(Calls(Arc::clone(&app)))
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS)
        // A whole message without waiting, and so many on a connection that do not ask for room.
        .initial_stream_window_size(stream_window(bounds.message))
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let enough = async {
        tokio::select! {
            () = stop.wait() => {}
            () = idle(&calls, bounds.idle.unwrap_or(GRPC_IDLE)) => {}
        }
    };
    tokio::select! {
        ended = &mut connection => {
            if let Err(error) = ended {
                // Somebody who speaks something else, or has gone, or does not answer.
                match error.is_timeout() {
                    true => add(app.metrics.over(Transport::Grpc, Bound::Waiting)),
                    false => add(&app.metrics.bad_requests),
                }
                tracing::debug!(%peer, %error, "a connection ended early");
            }
            return;
        }
        () = enough => {}
    }
    // Tells the client to go elsewhere, and lets what it has begun end.
    connection.as_mut().graceful_shutdown();
    let _ = timeout(app.settings.drain, connection).await;
}

/// Lets calls go on by themselves, where the server's end waits for them.
#[derive(Clone)]
struct Calls(Arc<App>);

impl<F> Executor<F> for Calls
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, call: F) {
        self.0.tasks.spawn(call);
    }
}

/// Ready when nothing was called for long; at first, when nothing was called at all.
async fn idle(calls: &AtomicU64, longest: Duration) {
    let (mut seen, mut patience) = (0, HEAD_TIMEOUT.min(longest));
    loop {
        sleep(patience).await;
        let now = calls.load(Ordering::Relaxed);
        if now == seen {
            return;
        }
        (seen, patience) = (now, longest);
    }
}

/// HTTP/2 knows none that is larger than a connection's.
fn stream_window(message: usize) -> u32 {
    u32::try_from(message).unwrap_or(u32::MAX).clamp(65_535, CONNECTION_WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_too_many_gets_frames_as_long_as_they_say() {
        let (settings, goaway) = NO_ROOM.split_at(9);
        assert_eq!(settings, [0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let length = usize::from(goaway[2]);
        assert_eq!((goaway[3], goaway.len()), (7, 9 + length));
    }
}
