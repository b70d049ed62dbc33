//! Listening, answering, and stopping in order.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::HeaderStyle;
use tollgate_tower::{ClientIp, PeerAddr};
use tower_service::Service;

use crate::app::{App, Settings};
use crate::backend::Backend;
use crate::bounds::{
    ACCEPT_PAUSE, DRAIN, HEAD_TIMEOUT, MAX_BUFFER, MAX_CONNECTIONS, MAX_HEAD, WRITE_TIMEOUT,
};
use crate::http::{self, ProxyHeaders};
use crate::metrics::add;
use crate::patience::Patience;

/// What a connection too many is told.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 114\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"too many connections, try again later\"}";

/// A server to be.
#[derive(Debug)]
pub struct ServerBuilder {
    backend: Backend,
    http: Option<SocketAddr>,
    max_connections: usize,
    settings: Settings,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    http: Option<TcpListener>,
    places: Arc<Semaphore>,
}

/// How a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// Every request in flight was answered.
    InOrder,
    /// Some took too long and were cut off.
    CutOff,
}

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

impl Server {
    /// A server over `backend`, which listens nowhere until told.
    pub fn builder(backend: Backend) -> ServerBuilder {
        let settings = Settings::default();
        ServerBuilder { backend, http: None, max_connections: MAX_CONNECTIONS, settings }
    }

    /// Where it listens for HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Answers until `stop` is ready; then accepts no more, and ends what is in flight within ten
    /// seconds.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Stopped {
        let Server { app, http, places } = self;
        let graceful = GracefulShutdown::new();
        let router = http::router(Arc::clone(&app));
        let accepting = async {
            let Some(listener) = http else {
                return std::future::pending().await;
            };
            loop {
                let Some((stream, peer)) = accept(&listener).await else { continue };
                match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => answer((&app, &router), (stream, peer), place, &graceful),
                    Err(_) => refuse(&app, &stream),
                }
            }
        };
        tokio::select! {
            () = stop => {}
            () = accepting => {}
        }
        app.stopping.store(true, Ordering::Relaxed);
        match tokio::time::timeout(DRAIN, graceful.shutdown()).await {
            Ok(()) => Stopped::InOrder,
            Err(_) => Stopped::CutOff,
        }
    }
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            // Either that client has gone, or the system has no room: others still have theirs.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Answers a connection's requests until either side has had enough.
fn answer(
    (app, router): (&Arc<App>, &Router),
    (stream, peer): (TcpStream, SocketAddr),
    place: OwnedSemaphorePermit,
    graceful: &GracefulShutdown,
) {
    // Answers are small and somebody waits for each.
    let _ = stream.set_nodelay(true);
    let router = router.clone();
    let service = service_fn(move |mut request: ::http::Request<Incoming>| {
        request.extensions_mut().insert(PeerAddr(peer));
        // A router is always ready.
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(Patience::new(stream, WRITE_TIMEOUT)), service);
    let connection = graceful.watch(connection);
    add(&app.metrics.connections);
    let place = Place { app: Arc::clone(app), _permit: place };
    tokio::spawn(async move {
        let _place = place;
        if let Err(error) = pin!(connection).await {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
    });
}

/// The place that a connection takes up, until it ends in whatever way.
struct Place {
    app: Arc<App>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Says that there is no room, as far as that takes no time.
fn refuse(app: &App, stream: &TcpStream) {
    add(&app.metrics.connections_refused);
    let _ = stream.try_write(NO_ROOM);
}

impl ServerBuilder {
    /// Listens for HTTP there; nowhere if `None`.
    #[must_use]
    pub fn http(mut self, address: Option<SocketAddr>) -> ServerBuilder {
        self.http = address;
        self
    }

    /// How many connections are open at once; 10,000 if not said.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> ServerBuilder {
        self.max_connections = connections.min(Semaphore::MAX_PERMITS);
        self
    }

    /// How clients are told of limits.
    #[must_use]
    pub fn header_style(mut self, style: HeaderStyle) -> ServerBuilder {
        self.settings.style = style;
        self
    }

    /// Whose address is the client's, of requests that a proxy asks about; if not said, that in
    /// `X-Forwarded-For` where the proxy is on this machine.
    #[must_use]
    pub fn client_ip(mut self, client_ip: ClientIp) -> ServerBuilder {
        self.settings.client_ip = client_ip;
        self
    }

    /// Which headers of a proxy say what its client asks for.
    #[must_use]
    pub fn proxy_headers(mut self, headers: ProxyHeaders) -> ServerBuilder {
        self.settings.proxy_headers = headers;
        self
    }

    /// Makes a header of what a proxy asks an attribute; a request without it lacks the attribute.
    #[must_use]
    pub fn header_attribute(
        mut self,
        attribute: impl Into<String>,
        header: ::http::HeaderName,
    ) -> ServerBuilder {
        self.settings.header_attributes.push((attribute.into(), header));
        self
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// Where an address cannot be listened on.
    pub async fn bind(self) -> Result<Server, BindError> {
        let http = match self.http {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let app = Arc::new(App::new(self.backend, self.settings));
        Ok(Server { app, http, places: Arc::new(Semaphore::new(self.max_connections)) })
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| BindError { address, source })
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}", self.address)
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
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
