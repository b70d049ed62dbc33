//! Accepts connections, within their bound, until told to stop.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::threads::Threads;
use super::{Resp, connection};
use crate::app::App;
use crate::backend::Backend;
use crate::listen::{Listener, Stop, drain};
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
    let threads = match app.backend {
        Backend::Memory(_) => app.settings.resp_threads,
        // Who waits for a store elsewhere shares its connection, which lives on this runtime.
        Backend::Redis(_) => 0,
    };
    let resp = Resp::of(app);
    if threads == 0 {
        return run(listener, resp, stop).await;
    }
    let threads = Threads::start(threads, &resp, &stop);
    run_on(threads, listener, resp, stop).await
}

async fn run(listener: Listener, resp: Resp, stop: Stop) -> Stopped {
    run_on(Threads::default(), listener, resp, stop).await
}

/// Answers on those threads; what none of them takes, on this runtime.
async fn run_on(mut threads: Threads, listener: Listener, resp: Resp, stop: Stop) -> Stopped {
    let mut connections = JoinSet::new();
    let mut stopping = pin!(stop.wait());
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(&resp.0.app) => accepted,
        };
        let Err(accepted) = threads.hand(accepted) else { continue };
        let (resp, stop) = (resp.clone(), stop.wait());
        connections.spawn(async move {
            let peer = Some(accepted.peer.ip());
            if let Some((stream, _place)) = accepted.open().await {
                connection::run(stream, (resp, peer), stop).await;
            }
        });
    }
    drop(listener);
    match tokio::join!(threads.end(), drain(connections, resp.0.bounds.drain)) {
        (Stopped::InOrder, Stopped::InOrder) => Stopped::InOrder,
        _ => Stopped::CutOff,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tollgate::{Gate, Policy};

    use super::*;

    #[tokio::test]
    async fn connections_are_answered_though_threads_are_dead() {
        let resp = Resp::new(Gate::new(Policy::new()).unwrap());
        for living in [0, 1] {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let listener = Listener::new(socket, Transport::Resp, 10, NO_ROOM);
            let (stopper, stop) = Stop::new();
            let mut threads = Threads::start(living, &resp, &stop);
            threads.add_dead();
            let serving = tokio::spawn(run_on(threads, listener, resp.clone(), stop));
            for _ in 0..4 {
                let mut client = TcpStream::connect(address).await.unwrap();
                client.write_all(b"PING\r\nQUIT\r\n").await.unwrap();
                let mut answers = String::new();
                client.read_to_string(&mut answers).await.unwrap();
                assert_eq!(answers, "+PONG\r\n+OK\r\n", "{living} living");
            }
            stopper.stop();
            serving.await.unwrap();
        }
    }
}
