//! A port that clients connect to: how many may at once, and when it is over.
//!
//! Every transport serves one of these with a function of its own, `async fn serve(listener, app,
//! stop) -> Stopped`, which `serve.rs` starts.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::bounds::{ACCEPT_PAUSE, Bound};
use crate::metrics::{Transport, add};
use crate::serve::Stopped;
use crate::stream::Stream;
use crate::tls::Acceptor;

/// A port of one transport, within its bound of connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    transport: Transport,
    places: Arc<Semaphore>,
    max_connections: usize,
    /// What a connection too many is told.
    no_room: &'static [u8],
    tls: Option<Arc<Acceptor>>,
}

/// A connection that has found a place.
#[derive(Debug)]
pub(crate) struct Accepted {
    stream: TcpStream,
    tls: Option<Arc<Acceptor>>,
    pub(crate) peer: SocketAddr,
    place: Place,
}

impl Accepted {
    /// The same connection, waited for by the runtime that calls.
    pub(crate) fn moved_here(mut self) -> io::Result<Accepted> {
        self.stream = TcpStream::from_std(self.stream.into_std()?)?;
        Ok(self)
    }

    /// Whether there is a first byte, within the time for it and before it is time to stop. To be
    /// waited for before anything is made for the connection: one that says nothing costs next to
    /// nothing.
    pub(crate) async fn speaks(&self, stop: &Stop) -> bool {
        // In a box, whose room is given back then.
        Box::pin(self.wait_for_first(stop)).await
    }

    async fn wait_for_first(&self, stop: &Stop) -> bool {
        let Place { app, transport, .. } = &self.place;
        let mut first = [0];
        tokio::select! {
            // Looked at and left there: that it may be read is told also where nothing is.
            peeked = self.stream.peek(&mut first) => peeked.is_ok_and(|bytes| bytes > 0),
            () = sleep(app.settings.bounds.first_byte) => {
                add(app.metrics.over(*transport, Bound::Waiting));
                false
            }
            () = stop.wait() => false,
        }
    }

    /// The connection's bytes, once both sides agree on TLS where that is spoken; `None` if they
    /// do not, within the time for it. To be called where others need not wait.
    pub(crate) async fn open(self) -> Option<(Stream, Place)> {
        let Accepted { stream, tls, peer, place } = self;
        let Some(acceptor) = tls else { return Some((Stream::Plain(stream), place)) };
        // In a box of its own, so that others need no room for it.
        match Box::pin(acceptor.accept(place.transport, stream)).await {
            Ok(stream) => Some((Stream::Tls(Box::new(stream)), place)),
            Err(error) => {
                add(&place.app.metrics.tls_failed);
                tracing::debug!(%peer, %error, "a client and the server do not agree on TLS");
                None
            }
        }
    }
}

/// The place that a connection takes up, until it ends in whatever way.
#[derive(Debug)]
pub(crate) struct Place {
    app: Arc<App>,
    transport: Transport,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    pub(crate) fn new(
        socket: TcpListener,
        transport: Transport,
        most: usize,
        no_room: &'static [u8],
    ) -> Listener {
        let max_connections = most.min(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(max_connections));
        Listener { socket, transport, places, max_connections, no_room, tls: None }
    }

    /// Speaks TLS, where there is an acceptor.
    pub(crate) fn with_tls(mut self, tls: Option<Arc<Acceptor>>) -> Listener {
        self.tls = tls;
        self
    }

    pub(crate) fn max_connections(&self) -> usize {
        self.max_connections
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// The next connection that there is a place for. Safe to drop: nobody is lost.
    pub(crate) async fn accept(&self, app: &Arc<App>) -> Accepted {
        loop {
            let (stream, peer) = match self.socket.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause(&error).await;
                    continue;
                }
            };
            let counts = app.metrics.connections(self.transport);
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(permit) => {
                    add(&counts.accepted);
                    // Answers are small, whole when they are written, and waited for.
                    let _ = stream.set_nodelay(true);
                    let (app, transport) = (Arc::clone(app), self.transport);
                    let place = Place { app, transport, _permit: permit };
                    return Accepted { stream, tls: self.tls.clone(), peer, place };
                }
                Err(_) => {
                    add(&counts.refused);
                    // Who does not listen is not waited for, nor for a handshake.
                    if self.tls.is_none() {
                        let _ = stream.try_write(self.no_room);
                    }
                }
            }
        }
    }
}

/// A client that left before it was accepted is no reason to wait, a machine without files is.
async fn pause(error: &io::Error) {
    let gone = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !gone.contains(&error.kind()) {
        tracing::warn!(%error, "cannot accept a connection");
        sleep(ACCEPT_PAUSE).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        add(&self.app.metrics.connections(self.transport).closed);
    }
}

/// Waits for connections to end, and cuts off what takes too long: when it returns, none of them
/// does anything any more.
pub(crate) async fn drain(mut connections: JoinSet<()>, within: Duration) -> Stopped {
    let all = async { while connections.join_next().await.is_some() {} };
    match timeout(within, all).await {
        Ok(()) => Stopped::InOrder,
        Err(_) => {
            connections.shutdown().await;
            Stopped::CutOff
        }
    }
}

/// Tells every listener and connection when it is time to stop. Clones wait for the same.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<()>);

/// What stops: dropped, it is time.
#[derive(Debug)]
pub(crate) struct Stopper(watch::Sender<()>);

impl Stop {
    pub(crate) fn new() -> (Stopper, Stop) {
        let (stopper, stop) = watch::channel(());
        (Stopper(stopper), Stop(stop))
    }

    /// Ready when it is time.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let (state, mut stop) = (self.0.clone(), self.0.clone());
        async move {
            let mut closed = pin!(async move { while stop.changed().await.is_ok() {} });
            // The sender wakes its receivers one after the other. A connection that is polled
            // before it is woken sees the end in the state: what it answers then is the last.
            poll_fn(|context| match state.has_changed() {
                Err(_) => Poll::Ready(()),
                Ok(_) => closed.as_mut().poll(context),
            })
            .await;
        }
    }
}

impl Stopper {
    pub(crate) fn stop(self) {
        drop(self.0);
    }
}
