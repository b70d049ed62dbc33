//! Listening, answering, and stopping in order.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinError, JoinSet};
use tollgate::HeaderStyle;
use tollgate_tower::ClientIp;

use crate::admin::{Admin, AdminListen};
use crate::app::{App, Settings};
use crate::attend;
use crate::backend::Backend;
use crate::bounds::{
    BACKLOG, Bounds, LAST_MOMENT, MAX_CONNECTIONS, MAX_HEALTH_CONNECTIONS, MAX_THREADS,
};
use crate::grpc;
use crate::http::{self, HostName, ProxyHeaders};
use crate::listen::{Listener, Stop};
use crate::metrics::Transport;
use crate::reload::{ReloadCounts, Reloader};
use crate::resp::{self, RespBounds};
use crate::snapshots::SnapshotCounts;
use crate::tls::{Acceptor, Tls, TlsError, TlsListener};

/// A server to be.
#[derive(Debug)]
pub struct ServerBuilder {
    backend: Backend,
    http: Option<SocketAddr>,
    resp: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
    max_connections: usize,
    tls: Option<Tls>,
    health: Option<SocketAddr>,
    settings: Settings,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    listeners: Vec<(Transport, Listener)>,
    tls: Option<Arc<Acceptor>>,
    /// Where operators are answered, if that is not where everybody is.
    operators: Option<Listener>,
    /// The listener for health checks alone.
    health: Option<Listener>,
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

/// Why a server cannot listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// An address that cannot be listened on.
    Address(SocketAddr, io::Error),
    /// Certificates that cannot be used.
    Tls(TlsError),
}

impl Server {
    /// A server over `backend`, which listens nowhere until told.
    pub fn builder(backend: impl Into<Backend>) -> ServerBuilder {
        let (backend, settings) = (backend.into(), Settings::default());
        let max_connections = MAX_CONNECTIONS;
        let (http, resp, grpc, health, tls) = (None, None, None, None, None);
        ServerBuilder { backend, http, resp, grpc, max_connections, tls, health, settings }
    }

    /// Where it listens for HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.address(Transport::Http)
    }

    /// Where it listens for the Redis protocol.
    pub fn resp_address(&self) -> Option<SocketAddr> {
        self.address(Transport::Resp)
    }

    /// Where it listens for gRPC.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.address(Transport::Grpc)
    }

    /// The address of the listener for health checks.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health.as_ref().and_then(Listener::address)
    }

    /// The number of connections that all listeners together hold open at most: each needs a file
    /// descriptor.
    pub fn max_open_connections(&self) -> usize {
        let listeners = self.listeners.iter().map(|(_, listener)| listener);
        let listeners = listeners.chain(&self.operators).chain(&self.health);
        listeners.map(Listener::max_connections).fold(0, usize::saturating_add)
    }

    /// For whoever changes the policy, to count what became of it.
    pub fn reload_counts(&self) -> ReloadCounts {
        ReloadCounts::new(Arc::clone(&self.app))
    }

    /// The counts of snapshots, which are in `/metrics` from now on.
    pub fn snapshot_counts(&self) -> SnapshotCounts {
        SnapshotCounts::new(Arc::clone(&self.app))
    }

    /// For whoever is told to read files again now.
    pub fn reloader(&self) -> Reloader {
        Reloader::new(Arc::clone(&self.app), self.tls.clone())
    }

    /// Where operators are answered.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        match &self.operators {
            Some(listener) => listener.address(),
            None if self.app.operators.is_with_everybody() => self.http_address(),
            None => None,
        }
    }

    fn address(&self, transport: Transport) -> Option<SocketAddr> {
        let listener = self.listeners.iter().find(|(of, _)| *of == transport);
        listener.and_then(|(_, listener)| listener.address())
    }

    /// Answers until `stop` is ready; then accepts no more, and ends what is in flight within a
    /// bound. Once it returns nothing is decided any more, so that what the store holds may be
    /// kept.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Stopped {
        let Server { app, listeners, operators, health, tls } = self;
        let (stopper, stopping) = Stop::new();
        let mut serving = JoinSet::new();
        for (transport, listener) in listeners {
            let (app, stop) = (Arc::clone(&app), stopping.clone());
            match transport {
                Transport::Http => serving.spawn(http::serve(listener, app, stop)),
                Transport::Resp => serving.spawn(resp::serve(listener, app, stop)),
                Transport::Grpc => serving.spawn(grpc::serve(listener, app, stop)),
            };
        }
        if let Some(listener) = operators {
            serving.spawn(http::serve_operators(listener, Arc::clone(&app), stopping.clone()));
        }
        if let Some(listener) = health {
            serving.spawn(http::serve_health(listener, Arc::clone(&app), stopping.clone()));
        }
        let certificates = async {
            match tls {
                Some(tls) => tls.follow(&app.metrics.tls_reloads).await,
                None => std::future::pending().await,
            }
        };
        let mut stopped = Stopped::InOrder;
        tokio::select! {
            () = stop => {}
            () = certificates => {}
            () = app.operators.follow_tokens() => {}
            () = attend::attend(&app.backend) => {}
            Some(ended) = serving.join_next() => stopped = stopped.and(ended),
        }
        app.stopping.store(true, Ordering::Relaxed);
        app.feed.close();
        stopper.stop();
        while let Some(ended) = serving.join_next().await {
            stopped = stopped.and(ended);
        }
        // Calls end with their connections, and changes are let end: whoever keeps the state keeps
        // all that was decided, and nothing is spent any more of what is given back.
        let stopped = stopped.and(Ok(app.tasks.end(LAST_MOMENT).await));
        app.holds.give_back().await;
        app.backend.leave().await;
        stopped
    }
}

impl Stopped {
    /// Both together.
    fn and(self, ended: Result<Stopped, JoinError>) -> Stopped {
        match ended {
            Ok(Stopped::InOrder) => self,
            Ok(Stopped::CutOff) => Stopped::CutOff,
            Err(error) => {
                tracing::error!(%error, "a listener failed");
                Stopped::CutOff
            }
        }
    }
}

impl ServerBuilder {
    /// Listens for HTTP there; nowhere if `None`.
    #[must_use]
    pub fn http(mut self, address: Option<SocketAddr>) -> ServerBuilder {
        self.http = address;
        self
    }

    /// Listens for the Redis protocol there; nowhere if `None`.
    #[must_use]
    pub fn resp(mut self, address: Option<SocketAddr>) -> ServerBuilder {
        self.resp = address;
        self
    }

    /// Listens for gRPC there, as Envoy's rate limit service; nowhere if `None`.
    #[must_use]
    pub fn grpc(mut self, address: Option<SocketAddr>) -> ServerBuilder {
        self.grpc = address;
        self
    }

    /// What a request may take, over any transport. Numbers past what the server can bear are cut.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> ServerBuilder {
        self.settings.bounds = bounds.sensible();
        self
    }

    /// What connections of the Redis protocol may take.
    #[must_use]
    pub fn resp_bounds(mut self, bounds: RespBounds) -> ServerBuilder {
        self.settings.resp_bounds = bounds;
        self
    }

    /// How long what is in flight has to end when the server stops, over any protocol; ten seconds
    /// if not said.
    #[must_use]
    pub fn drain(mut self, within: Duration) -> ServerBuilder {
        self.settings.drain = within;
        self.settings.resp_bounds.drain = within;
        self
    }

    /// What clients of the Redis protocol must say first; nothing if not said.
    #[must_use]
    pub fn resp_password(mut self, password: impl Into<Box<str>>) -> ServerBuilder {
        self.settings.resp_password = Some(password.into());
        self
    }

    /// How many threads of their own answer the Redis protocol; if not said none, and the runtime
    /// that the server runs on does. With state in memory a thread of its own answers more, since it
    /// wakes no other; over Redis this has no effect.
    #[must_use]
    pub fn resp_threads(mut self, threads: usize) -> ServerBuilder {
        self.settings.resp_threads = threads.min(MAX_THREADS);
        self
    }

    /// How many connections of HTTP, and how many of gRPC, are open at once; 10,000 if not said. Those of the Redis
    /// protocol are apart, so that neither can take the other's places: see [`RespBounds`].
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> ServerBuilder {
        self.max_connections = connections;
        self
    }

    /// Speaks TLS on every listener, or on those of [`Tls::only_on`].
    #[must_use]
    pub fn tls(mut self, tls: Option<Tls>) -> ServerBuilder {
        self.tls = tls;
        self
    }

    /// Answers `/healthz` and `/readyz`, and nothing else, at this address: without TLS, so that
    /// probes without a certificate can ask. Nowhere if `None`.
    #[must_use]
    pub fn health(mut self, address: Option<SocketAddr>) -> ServerBuilder {
        self.health = address;
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

    /// Answers requests over HTTP only if their `Host` is one of these names, an IP address or
    /// `localhost`. What proxies ask (`/v1/authorize`, `/v1/ext_authz`) and health checks are answered
    /// under any name. Without such names so is everything but the dashboard, and the admin API to
    /// callers without a token.
    #[must_use]
    pub fn allowed_hosts(mut self, names: impl IntoIterator<Item = HostName>) -> ServerBuilder {
        self.settings.allowed_hosts = names.into_iter().collect();
        self
    }

    /// Leaves the names of allow and deny lists out of `/metrics`: their decisions are counted
    /// together as `(lists)`.
    #[must_use]
    pub fn without_list_names(mut self) -> ServerBuilder {
        self.settings.names_lists = false;
        self
    }

    /// Who may operate it, and where.
    #[must_use]
    pub fn admin(mut self, admin: Admin) -> ServerBuilder {
        self.settings.admin = admin;
        self
    }

    /// Charges a descriptor of Envoy that says itself how much it takes (`hits_addend`) also where
    /// that is more than is left: for costs that are known only afterwards, which were used whether
    /// they fit or not. What is over is owed.
    #[must_use]
    pub fn postpaid_descriptors(mut self) -> ServerBuilder {
        self.settings.postpaid = true;
        self
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// Where an address cannot be listened on, or certificates cannot be used.
    pub async fn bind(self) -> Result<Server, BindError> {
        let resp_most = self.settings.resp_bounds.connections;
        // Another transport is a line here, an arm in `run` and a function that serves.
        let wanted = [
            (TlsListener::Http, self.http, self.max_connections, http::NO_ROOM),
            (TlsListener::Resp, self.resp, resp_most, resp::NO_ROOM),
            (TlsListener::Grpc, self.grpc, self.max_connections, grpc::NO_ROOM),
        ];
        let tls = self.tls.map(Acceptor::new).transpose().map_err(BindError::Tls)?;
        let tls = tls.map(Arc::new);
        let tls_of = |listener: TlsListener| {
            let acceptor: Option<Arc<Acceptor>> = tls.clone();
            acceptor.filter(|acceptor| acceptor.is_on(listener))
        };
        let mut listeners = Vec::new();
        for (name, address, most, no_room) in wanted {
            let transport = name.transport();
            let Some(address) = address else { continue };
            let socket = bind(address)?;
            let listener = Listener::new(socket, transport, most, no_room);
            listeners.push((transport, listener.with_tls(tls_of(name))));
        }
        let operators = match self.settings.admin.listen {
            AdminListen::At(address) => {
                let (socket, most) = (bind(address)?, self.max_connections);
                let listener = Listener::new(socket, Transport::Http, most, http::NO_ROOM);
                Some(listener.with_tls(tls_of(TlsListener::Admin)))
            }
            _ => None,
        };
        let health = match self.health {
            Some(address) => {
                let (socket, most) = (bind(address)?, MAX_HEALTH_CONNECTIONS);
                Some(Listener::new(socket, Transport::Http, most, http::NO_ROOM))
            }
            None => None,
        };
        let app = Arc::new(App::new(self.backend, self.settings));
        Ok(Server { app, listeners, operators, health, tls })
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    listen(address).map_err(|source| BindError::Address(address, source))
}

/// Listens with room for a burst of new connections: the default backlog of 128 makes the system
/// drop the connections of a busy proxy, which then lets requests pass undecided.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server can listen while old connections are in TIME_WAIT. On Windows the option
    // means something else: two servers could listen on one port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Address(address, _) => write!(f, "cannot listen on {address}"),
            BindError::Tls(_) => f.write_str("cannot use the certificates"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Address(_, error) => Some(error),
            BindError::Tls(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};
    use tollgate::{Gate, Policy};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_waits_for_what_goes_on_by_itself() {
        for (takes, stopped) in
            [(LAST_MOMENT / 2, Stopped::InOrder), (LAST_MOMENT * 2, Stopped::CutOff)]
        {
            let server = Server::builder(Gate::new(Policy::new()).unwrap());
            let server = server.bind().await.unwrap();
            let before = Instant::now();
            server.app.tasks.spawn(sleep(takes));
            assert_eq!(server.run(std::future::ready(())).await, stopped);
            assert_eq!(before.elapsed(), takes.min(LAST_MOMENT));
        }
    }
}
