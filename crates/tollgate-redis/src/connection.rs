//! The connection: to one server, or to the nodes of a Cluster; each call within its time.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, ServerErrorKind, Value, cmd};

use crate::error::StoreError;
use crate::histogram::Histogram;
use crate::link::{Connector, ServerInfo};
use crate::outage::Health;
use crate::routed::{ClusterClient, ClusterNode};
use crate::script;
use crate::server::{CallError, GuardedServer};
use crate::target::RedisTarget;

/// Where commands are sent to. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection(Arc<ConnectionInner>);

struct ConnectionInner {
    way: ConnectionKind,
    /// The longest a call may take.
    timeout: Duration,
    address: String,
    latency: Histogram,
}

enum ConnectionKind {
    One(GuardedServer),
    Cluster(Arc<ClusterClient>),
}

impl Connection {
    /// A connection that is made when it is first needed.
    pub(crate) fn new(
        url: &str,
        timeout: Duration,
        connect_timeout: Duration,
    ) -> Result<Connection, StoreError> {
        let target = RedisTarget::read(url)?;
        let address = target.address();
        let one = |dialer| ConnectionKind::One(GuardedServer::new(dialer, timeout));
        let way =
            match target {
                RedisTarget::Single(info) => one(Connector::to_server(*info, connect_timeout)),
                RedisTarget::Sentinel(sentinels) => {
                    one(Connector::by_sentinels(sentinels, connect_timeout))
                }
                RedisTarget::Cluster(seeds) => ConnectionKind::Cluster(Arc::new(
                    ClusterClient::new(&seeds, timeout, connect_timeout)?,
                )),
            };
        Ok(Connection(Arc::new(ConnectionInner {
            way,
            timeout,
            address,
            latency: Histogram::default(),
        })))
    }

    /// Makes it now.
    pub(crate) async fn join(&self) -> Result<(), StoreError> {
        match &self.0.way {
            ConnectionKind::One(server) => server.join().await,
            ConnectionKind::Cluster(routed) => routed.join().await,
        }
    }

    /// Sees whether calls would be answered. Not among the calls whose times are told.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        match &self.0.way {
            ConnectionKind::One(server) => server.probe().await,
            ConnectionKind::Cluster(routed) => routed.probe().await,
        }
    }

    /// Whether keys lie in slots.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.0.way, ConnectionKind::Cluster(_))
    }

    /// The longest a call may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Where it leads to, without user and password.
    pub(crate) fn address(&self) -> &str {
        &self.0.address
    }

    pub(crate) fn health(&self) -> Health {
        match &self.0.way {
            ConnectionKind::One(server) => server.health(),
            ConnectionKind::Cluster(routed) => routed.health(),
        }
    }

    /// The nodes that serve a Cluster's slots; none elsewhere.
    pub(crate) async fn nodes(&self) -> Result<Vec<ClusterNode>, StoreError> {
        let ConnectionKind::Cluster(routed) = &self.0.way else { return Ok(Vec::new()) };
        if routed.nodes().is_empty() {
            self.within(pin!(routed.learn())).await?;
        }
        Ok(routed.nodes())
    }

    /// Does the work of one call, all its round trips together no longer than a call may take, and
    /// nothing at all during an outage of the server. Each round trip leaves whole what it has done,
    /// so that the work may be left off between any two.
    ///
    /// The work stays where the caller has pinned it: handed on by value, every future it passes
    /// through would have room for it twice.
    pub(crate) async fn within<T>(
        &self,
        work: Pin<&mut impl Future<Output = Result<T, StoreError>>>,
    ) -> Result<T, StoreError> {
        let timed = async {
            let began = Instant::now();
            let done = work.await;
            self.0.latency.record(began.elapsed());
            done
        };
        match &self.0.way {
            ConnectionKind::One(server) => server.within(timed).await,
            ConnectionKind::Cluster(routed) => routed.within(timed).await,
        }
    }

    /// How long the calls took that were not given up.
    pub(crate) fn latency(&self) -> &Histogram {
        &self.0.latency
    }

    /// Sends a command and waits for the answer, no longer than a call may take.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.within(pin!(self.ask(command))).await
    }

    /// Sends a command to one node of a Cluster.
    pub(crate) async fn send_to(
        &self,
        node: &ClusterNode,
        command: &Cmd,
    ) -> Result<Value, StoreError> {
        self.within(pin!(async { node.ask(command).await.map_err(CallError::told) })).await
    }

    /// What the server, or one node of a Cluster, says of itself in one section of INFO.
    pub(crate) async fn info(
        &self,
        node: Option<&ClusterNode>,
        section: &str,
    ) -> Result<ServerInfo, StoreError> {
        let mut command = cmd("INFO");
        command.arg(section);
        let answer = match node {
            Some(node) => self.send_to(node, &command).await?,
            None => self.send(&command).await?,
        };
        Ok(ServerInfo::read(answer))
    }

    /// Sends a command and waits for the answer. The caller bounds the time.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.try_to_ask(command).await.map_err(CallError::told)
    }

    /// Runs the script. The caller bounds the time.
    pub(crate) async fn run(&self, keys: &[&[u8]], args: &[&[u8]]) -> Result<Value, StoreError> {
        self.run_text(&script::SINGLE, keys, args).await
    }

    /// Runs a script, by its hash if the server knows it. The caller bounds the time.
    pub(crate) async fn run_text(
        &self,
        script: &script::ScriptText,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let answer = self.try_to_ask(&command("EVALSHA", script.hash(), keys, args)).await;
        if matches!(&answer, Err(failed) if is_unknown_script(failed)) {
            // Sent whole, the server keeps it from then on; in a Cluster, the key's node.
            let whole = command("EVAL", script.source(), keys, args);
            return Box::pin(self.ask(&whole)).await;
        }
        answer.map_err(CallError::told)
    }

    async fn try_to_ask(&self, command: &Cmd) -> Result<Value, CallError> {
        match &self.0.way {
            ConnectionKind::One(server) => server.ask(command).await,
            // Boxed, so that the calls of a single server do not carry its size.
            ConnectionKind::Cluster(routed) => Box::pin(routed.ask(command)).await,
        }
    }
}

fn is_unknown_script(failed: &CallError) -> bool {
    let no_script = ErrorKind::Server(ServerErrorKind::NoScript);
    matches!(failed, CallError::Link(error, _) if error.kind() == no_script)
}

fn command(name: &str, script: &str, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 256);
    command.arg(name).arg(script).arg(keys.len());
    for bytes in keys.iter().chain(args) {
        command.arg(*bytes);
    }
    command
}
