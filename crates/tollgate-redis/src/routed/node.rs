//! A node of a Cluster: a server with a breaker of its own, so that one that hangs or is dead holds
//! up nobody else's calls.

use std::sync::Arc;

use redis::{Cmd, ConnectionInfo, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::ClusterTimeouts;
use crate::breaker::{Breaker, CallFailure};
use crate::error::StoreError;
use crate::link::Connector;
use crate::outage::Health;
use crate::server::{CallError, GuardedServer};

/// A node and the connection to it. Clones share it.
#[derive(Clone)]
pub(crate) struct ClusterNode {
    pub(crate) address: NodeAddress,
    server: GuardedServer,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAddress {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl ClusterNode {
    /// Connected to when it is first needed.
    pub(super) fn new(
        address: NodeAddress,
        info: ConnectionInfo,
        times: ClusterTimeouts,
    ) -> ClusterNode {
        let dialer = Connector::to_node(info, address.clone(), times.connect);
        ClusterNode { address, server: GuardedServer::new(dialer, times.call) }
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
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, CallError> {
        self.seen(self.server.ask(command)).await
    }

    /// The same for a key that is being moved there.
    pub(super) async fn ask_asking(&self, command: &Cmd) -> Result<Value, CallError> {
        self.seen(self.server.ask_asking(command)).await
    }

    async fn seen(
        &self,
        asking: impl Future<Output = Result<Value, CallError>>,
    ) -> Result<Value, CallError> {
        let breaker = self.server.breaker();
        if let Some(away) = breaker.outage() {
            breaker.count_failed_call();
            return Err(CallError::Told(away));
        }
        let mut waiting = NodeWait::new(breaker);
        let answer = asking.await;
        waiting.is_over = true;
        if let Err(CallError::Link(_, told) | CallError::Told(told)) = &answer
            && matches!(told, StoreError::Connection(_) | StoreError::Unavailable { .. })
        {
            breaker.count_failed_call();
        }
        answer
    }
}

/// Somebody who waits for a node. A call bounds the time of all it does, wherever; given up after
/// half of it or more was spent on one node, that node is late.
struct NodeWait<'a> {
    breaker: &'a Arc<Breaker>,
    began_with: Option<u64>,
    since: Instant,
    is_over: bool,
}

impl NodeWait<'_> {
    fn new(breaker: &Arc<Breaker>) -> NodeWait<'_> {
        let (began_with, since) = (breaker.number(), Instant::now());
        NodeWait { breaker, began_with, since, is_over: false }
    }
}

impl Drop for NodeWait<'_> {
    fn drop(&mut self) {
        let limit = self.breaker.timeout();
        // Outside of a runtime nobody could look for the node.
        if self.is_over || self.since.elapsed() < limit / 2 || Handle::try_current().is_err() {
            return;
        }
        self.breaker.count_failed_call();
        self.breaker.failed(self.began_with, CallFailure::Late, &StoreError::Timeout(limit));
    }
}

impl NodeAddress {
    /// As a redirection names it: `host:port`. Nothing before the colon is the host that was asked.
    pub(super) fn read(text: &str, asked: &NodeAddress) -> Option<NodeAddress> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']);
        let host = if host.is_empty() { asked.host.clone() } else { host.into() };
        Some(NodeAddress { host, port: port.parse().ok()? })
    }
}

impl std::fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl std::fmt::Debug for ClusterNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({})", self.address)
    }
}
