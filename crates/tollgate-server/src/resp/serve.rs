//! Accepts connections, within their bound, until told to stop.

use std::future::Future;
use std::io;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Resp, connection};
use crate::resp::bounds::ACCEPT_PAUSE;

/// Serves the Redis protocol on `listener` until `shutdown` is there: then accepts no more, lets
/// connections write what they are answering, and returns once they have or their time is up.
pub async fn serve_resp(
    listener: TcpListener,
    resp: Resp,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (stop, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if connections.len() < resp.0.bounds.connections => {
                let mut stopped = stopped.clone();
                let stop = async move { drop(stopped.changed().await) };
                let open = Open::new(resp.clone());
                connections.spawn(async move {
                    // Answers are whole when they are written: there is nothing to wait for.
                    let _ = stream.set_nodelay(true);
                    connection::run(stream, open.0.clone(), stop).await;
                });
            }
            Ok((stream, _)) => refuse(&stream, &resp),
            Err(error) => pause(&error).await,
        }
    }
    drop((listener, stop));
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(resp.0.bounds.drain, all).await.is_err() {
        connections.shutdown().await;
    }
}

/// A connection as the counters see it, however it ends.
struct Open(Resp);

impl Open {
    fn new(resp: Resp) -> Open {
        resp.0.counters.accepted.add();
        Open(resp)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.counters.closed.add();
    }
}

/// Tells one client too many; whoever does not listen is not waited for.
fn refuse(stream: &TcpStream, resp: &Resp) {
    resp.0.counters.refused.add();
    let _ = stream.try_write(b"-ERR max number of clients reached, try again later\r\n");
}

/// A client that left before it was accepted is no reason to wait, a machine without files is.
async fn pause(error: &io::Error) {
    let gone = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !gone.contains(&error.kind()) {
        sleep(ACCEPT_PAUSE).await;
    }
}
