//! The connection: to one server, or to the nodes of a Cluster; each call within its time.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, ServerErrorKind, Value, cmd};

use crate::error::StoreError;
use crate::histogram::Histogram;
use crate::link::{Dialer, Facts};
use crate::outage::Health;
use crate::routed::{Node, Routed};
use crate::script;
use crate::server::{Failed, Server};
use crate::target::Target;

/// Where commands are sent to. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    way: Way,
    /// The longest a call may take.
    timeout: Duration,
    address: String,
    latency: Histogram,
}

enum Way {
    One(Server),
    Cluster(Arc<Routed>),
}

impl Connection {
    /// A connection that is made when it is first needed.
    pub(crate) fn new(
        url: &str,
        timeout: Duration,
        connect_timeout: Duration,
    ) -> Result<Connection, StoreError> {
        let target = Target::read(url)?;
        let address = target.address();
        let one = |dialer| Way::One(Server::new(dialer, timeout));
        let way = match target {
            Target::Single(info) => one(Dialer::to_server(*info, connect_timeout)),
            Target::Sentinel(sentinels) => one(Dialer::by_sentinels(sentinels, connect_timeout)),
            Target::Cluster(seeds) => {
                Way::Cluster(Arc::new(Routed::new(&seeds, timeout, connect_timeout)?))
            }
        };
        Ok(Connection(Arc::new(Shared { way, timeout, address, latency: Histogram::default() })))
    }

    /// Makes it now.
    pub(crate) async fn join(&self) -> Result<(), StoreError> {
        match &self.0.way {
            Way::One(server) => server.join().await,
            Way::Cluster(routed) => routed.join().await,
        }
    }

    /// Sees whether calls would be answered. Not among the calls whose times are told.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        match &self.0.way {
            Way::One(server) => server.probe().await,
            Way::Cluster(routed) => routed.probe().await,
        }
    }

    /// Whether keys lie in slots.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.0.way, Way::Cluster(_))
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
            Way::One(server) => server.health(),
            Way::Cluster(routed) => routed.health(),
        }
    }

    /// The nodes that serve a Cluster's slots; none elsewhere.
    pub(crate) async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let Way::Cluster(routed) = &self.0.way else { return Ok(Vec::new()) };
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
            Way::One(server) => server.within(timed).await,
            Way::Cluster(routed) => routed.within(timed).await,
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
    pub(crate) async fn send_to(&self, node: &Node, command: &Cmd) -> Result<Value, StoreError> {
        self.within(pin!(async { node.ask(command).await.map_err(Failed::told) })).await
    }

    /// What the server, or one node of a Cluster, says of itself in one section of INFO.
    pub(crate) async fn info(
        &self,
        node: Option<&Node>,
        section: &str,
    ) -> Result<Facts, StoreError> {
        let mut command = cmd("INFO");
        command.arg(section);
        let answer = match node {
            Some(node) => self.send_to(node, &command).await?,
            None => self.send(&command).await?,
        };
        Ok(Facts::read(answer))
    }

    /// Sends a command and waits for the answer. The caller bounds the time.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.try_to_ask(command).await.map_err(Failed::told)
    }

    /// Runs the script. The caller bounds the time.
    pub(crate) async fn run(&self, keys: &[&[u8]], args: &[&[u8]]) -> Result<Value, StoreError> {
        self.run_text(&script::SINGLE, keys, args).await
    }

    /// Runs a script, by its hash if the server knows it. The caller bounds the time.
    pub(crate) async fn run_text(
        &self,
        script: &script::Text,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let answer = self.try_to_ask(&command("EVALSHA", script.hash(), keys, args)).await;
        if matches!(&answer, Err(failed) if is_unknown_script(failed)) {
            // Sent whole, the server keeps it from then on; in a Cluster, the key's node.
            let whole = command("EVAL", script.source(), keys, args);
            return Box::pin(self.ask(&whole)).await;
        }
        answer.map_err(Failed::told)
    }

    async fn try_to_ask(&self, command: &Cmd) -> Result<Value, Failed> {
        match &self.0.way {
            Way::One(server) => server.ask(command).await,
            // Boxed, so that the calls of a single server do not carry its size.
            Way::Cluster(routed) => Box::pin(routed.ask(command)).await,
        }
    }
}

fn is_unknown_script(failed: &Failed) -> bool {
    let no_script = ErrorKind::Server(ServerErrorKind::NoScript);
    matches!(failed, Failed::Link(error, _) if error.kind() == no_script)
}

fn command(name: &str, script: &str, keys: &[&[u8]], args: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 256);
    command.arg(name).arg(script).arg(keys.len());
    for bytes in keys.iter().chain(args) {
        command.arg(*bytes);
    }
    command
}
