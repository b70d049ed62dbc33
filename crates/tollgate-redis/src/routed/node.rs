//! A node of a Cluster: a server with a breaker of its own, so that one that hangs or is dead holds
//! up nobody else's calls.

use std::sync::Arc;

use redis::{Cmd, ConnectionInfo, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Times;
use crate::breaker::{Breaker, Failure};
use crate::error::StoreError;
use crate::link::Dialer;
use crate::outage::Health;
use crate::server::{Failed, Server};

/// A node and the connection to it. Clones share it.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) address: Address,
    server: Server,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl Node {
    /// Connected to when it is first needed.
    pub(super) fn new(address: Address, info: ConnectionInfo, times: Times) -> Node {
        let dialer = Dialer::to_node(info, address.clone(), times.connect);
        Node { address, server: Server::new(dialer, times.call) }
    }

    /// Connects now.
    pub(super) async fn join(&self) -> Result<(), StoreError> {
        self.server.join().await
    }

    /// Connects in the background.
    pub(super) fn prepare(&self) {
        self.server.breaker().prepare();
    }

    /// Waits for the connection that is being made, or for what keeps it from being made.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        self.server.breaker().link().await.map(drop)
    }

    /// Sees whether it would answer.
    pub(super) async fn probe(&self) -> Result<(), StoreError> {
        self.server.probe().await
    }

    pub(super) fn health(&self) -> Health {
        self.server.health()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.server.breaker().number().is_some()
    }

    /// Sends a command and waits for the answer; fails at once while the node is away. The caller
    /// bounds the time.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, Failed> {
        self.seen(self.server.ask(command)).await
    }

    /// The same for a key that is being moved there.
    pub(super) async fn ask_asking(&self, command: &Cmd) -> Result<Value, Failed> {
        self.seen(self.server.ask_asking(command)).await
    }

    async fn seen(
        &self,
        asking: impl Future<Output = Result<Value, Failed>>,
    ) -> Result<Value, Failed> {
        let breaker = self.server.breaker();
        if let Some(away) = breaker.outage() {
            breaker.count_failed_call();
            return Err(Failed::Told(away));
        }
        let mut waiting = Waiting::new(breaker);
        let answer = asking.await;
        waiting.is_over = true;
        if let Err(Failed::Link(_, told) | Failed::Told(told)) = &answer
            && matches!(told, StoreError::Unreachable(_) | StoreError::Away { .. })
        {
            breaker.count_failed_call();
        }
        answer
    }
}

/// Somebody who waits for a node. A call bounds the time of all it does, wherever; given up after
/// half of it or more was spent on one node, that node is late.
struct Waiting<'a> {
    breaker: &'a Arc<Breaker>,
    began_with: Option<u64>,
    since: Instant,
    is_over: bool,
}

impl Waiting<'_> {
    fn new(breaker: &Arc<Breaker>) -> Waiting<'_> {
        let (began_with, since) = (breaker.number(), Instant::now());
        Waiting { breaker, began_with, since, is_over: false }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let limit = self.breaker.timeout();
        // Outside of a runtime nobody could look for the node.
        if self.is_over || self.since.elapsed() < limit / 2 || Handle::try_current().is_err() {
            return;
        }
        self.breaker.count_failed_call();
        self.breaker.failed(self.began_with, Failure::Late, &StoreError::TimedOut(limit));
    }
}

impl Address {
    /// As a redirection names it: `host:port`. Nothing before the colon is the host that was asked.
    pub(super) fn read(text: &str, asked: &Address) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']);
        let host = if host.is_empty() { asked.host.clone() } else { host.into() };
        Some(Address { host, port: port.parse().ok()? })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({})", self.address)
    }
}
