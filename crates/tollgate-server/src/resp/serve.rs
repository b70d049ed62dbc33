//! Accepts connections, within their bound, until told to stop.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Resp, connection};
use crate::app::App;
use crate::listen::{Accepted, Listener, Stop};
use crate::metrics::Transport;
use crate::serve::Stopped;

/// What a connection too many is told.
pub(crate) const NO_ROOM: &[u8] = b"-ERR max number of clients reached, try again later\r\n";

/// Serves the Redis protocol on `listener` until `shutdown` is there: then accepts no more, lets
/// connections write what they are answering, and returns once they have or their time is up.
pub async fn serve_resp(
    listener: TcpListener,
    resp: Resp,
    shutdown: impl Future<Output = ()> + Send,
) {
    let most = resp.0.bounds.connections;
    let listener = Listener::new(listener, Transport::Resp, most, NO_ROOM);
    let (stopper, stop) = Stop::new();
    let mut serving = pin!(run(listener, resp, stop));
    tokio::select! {
        () = shutdown => {}
        _ = &mut serving => return,
    }
    stopper.stop();
    serving.await;
}

/// Answers until it is time to stop, and ends what is in flight within its bound.
pub(crate) async fn serve(listener: Listener, app: Arc<App>, stop: Stop) -> Stopped {
    run(listener, Resp::of(app), stop).await
}

async fn run(listener: Listener, resp: Resp, stop: Stop) -> Stopped {
    let mut connections = JoinSet::new();
    let mut stopping = pin!(stop.wait());
    loop {
        let accepted: Accepted = tokio::select! {
            () = &mut stopping => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(&resp.0.app) => accepted,
        };
        let (resp, stop) = (resp.clone(), stop.wait());
        connections.spawn(async move {
            if let Some((stream, _place)) = accepted.open().await {
                connection::run(stream, resp, stop).await;
            }
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    match timeout(resp.0.bounds.drain, all).await {
        Ok(()) => Stopped::InOrder,
        Err(_) => {
            connections.shutdown().await;
            Stopped::CutOff
        }
    }
}
