//! The nodes of a Cluster, and who serves which slot.
//!
//! Every node has a link and a breaker of its own. What may have been done is never sent twice: a
//! refund that is repeated would mint units. Only answers that say that nothing was done (a
//! redirection, a replica that may not write) are followed.

mod learn;
mod map;
mod node;
mod slot;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::{Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, ServerErrorKind, Value};
use tokio::time::{Instant, timeout};

use self::map::Map;
pub(crate) use self::map::{probe_key, ranges};
pub(crate) use self::node::{Address, Node};
pub(crate) use self::slot::slot;
use crate::bounds::REDIRECTIONS;
use crate::error::StoreError;
use crate::outage::{Health, Outage};
use crate::server::Failed;

/// Nodes, and who serves which slot.
pub(crate) struct Routed {
    /// Asked first, and again when nobody else answers.
    seeds: Vec<Node>,
    /// A node's address is put into it.
    template: ConnectionInfo,
    times: Times,
    /// Held only to copy or to replace it.
    map: RwLock<Arc<Map>>,
    /// What came of asking last. One asks, the others wait for what it learns.
    asking: tokio::sync::Mutex<Option<(Instant, Result<(), StoreError>)>>,
    /// Whether somebody learns in the background.
    is_watched: AtomicBool,
    /// Who is asked first next time: one that knows no better must not be asked for ever.
    turn: AtomicUsize,
    failed_calls: AtomicU64,
    /// Of nodes that serve nothing any more.
    past_outages: AtomicU64,
}

/// The longest a call, and a new connection, may take.
#[derive(Clone, Copy)]
struct Times {
    call: Duration,
    connect: Duration,
}

/// What to do about an error.
enum Cure {
    /// Another node serves the slot.
    Moved(Address),
    /// Another node has this key already.
    Ask(Address),
    /// Nothing was done, and somebody else may be the right one by now.
    Learn,
    /// It is told; who serves what may have changed.
    Suspect,
    None,
}

impl Routed {
    /// Connects to nobody yet.
    pub(crate) fn new(
        seeds: &[ConnectionInfo],
        call: Duration,
        connect: Duration,
    ) -> Result<Routed, StoreError> {
        let times = Times { call, connect };
        let seed = |info: &ConnectionInfo| match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                let address = Address { host: host.as_str().into(), port: *port };
                Ok(Node::new(address, info.clone(), times))
            }
            _ => Err(StoreError::Url("must name hosts".to_owned())),
        };
        let first = seeds.first().ok_or_else(|| StoreError::Url("must name hosts".to_owned()))?;
        Ok(Routed {
            seeds: seeds.iter().map(seed).collect::<Result<_, _>>()?,
            template: first.clone(),
            times,
            map: RwLock::new(Arc::new(Map::unknown())),
            asking: tokio::sync::Mutex::new(None),
            is_watched: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            failed_calls: AtomicU64::new(0),
            past_outages: AtomicU64::new(0),
        })
    }

    /// The nodes that serve slots.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.map().nodes.clone()
    }

    /// Does the work of one call, all its round trips together no longer than a call may take.
    pub(crate) async fn within<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.times.call;
        let done = timeout(limit, work).await.unwrap_or_else(|_| {
            // A node that hangs may have been replaced.
            self.suspect();
            Err(StoreError::TimedOut(limit))
        });
        match &done {
            // Who was told to ask one by one does so.
            Err(StoreError::Moving(_)) => {}
            Err(error) if error.is_outage() => {
                self.failed_calls.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        done
    }

    /// Sends a command to the node that its key belongs to, following redirections.
    pub(crate) async fn ask(self: &Arc<Self>, command: &Cmd) -> Result<Value, Failed> {
        let slot = slot::of_command(command);
        let (mut node, mut is_asking) = (self.owner(slot).await?, false);
        for left in (0..REDIRECTIONS).rev() {
            // What is rare is boxed, so that every call does not carry its size.
            let answer = match is_asking {
                true => Box::pin(node.ask_asking(command)).await,
                false => node.ask(command).await,
            };
            let Err(failed) = answer else { return answer };
            match cure(&failed, &node.address) {
                Cure::Moved(to) if left > 0 => {
                    (node, is_asking) = (self.learn_owner(slot, &to), false);
                    self.suspect();
                }
                Cure::Ask(to) if left > 0 => (node, is_asking) = (self.node(&to), true),
                Cure::Learn if left > 0 && Box::pin(self.learn()).await.is_ok() => {
                    let owner = self.owner(slot).await?;
                    if owner.address == node.address {
                        return Err(failed);
                    }
                    (node, is_asking) = (owner, false);
                }
                Cure::None => return Err(failed),
                _ => {
                    self.suspect();
                    return Err(failed);
                }
            }
        }
        Err(Failed::Told(StoreError::Unreachable("redirected too often".to_owned())))
    }

    /// As it stands, without asking anybody.
    pub(crate) fn health(&self) -> Health {
        let map = self.map();
        let is_known = !map.nodes.is_empty();
        let nodes = if is_known { &map.nodes } else { &self.seeds };
        let all: Vec<Health> = nodes.iter().map(Node::health).collect();
        let failed_calls = self.failed_calls.load(Ordering::Relaxed);
        let outages = all.iter().map(|health| health.outages).sum::<u64>();
        let is_away = is_known || all.iter().all(|health| health.outage.is_some());
        let mut outage = reason(all.into_iter().filter_map(|health| health.outage));
        if !is_known && let Some(outage) = &mut outage {
            // There has never been an answer.
            outage.failed_calls = failed_calls;
        }
        Health {
            connected: self.is_whole(),
            reached: is_known,
            outage: outage.filter(|_| is_away),
            outages: outages + self.past_outages.load(Ordering::Relaxed),
            failed_calls,
            denied_locally: 0,
        }
    }

    /// Whether every slot is served by a node that there is a connection to.
    fn is_whole(&self) -> bool {
        let map = self.map();
        let is_there: Vec<bool> = map.nodes.iter().map(Node::is_connected).collect();
        map.owners().all(|owner| owner.is_some_and(|node| is_there.get(node) == Some(&true)))
    }

    async fn owner(self: &Arc<Self>, slot: Option<usize>) -> Result<Node, Failed> {
        if let Some(node) = self.map().owner(slot) {
            return Ok(node.clone());
        }
        let learnt = Box::pin(self.learn()).await;
        // Nodes may be on their way, in either case.
        self.suspect();
        learnt.map_err(Failed::Told)?;
        let nobody = || StoreError::Unreachable("no node serves the key's slot".to_owned());
        self.map().owner(slot).cloned().ok_or_else(|| Failed::Told(nobody()))
    }

    fn learn_owner(&self, slot: Option<usize>, address: &Address) -> Node {
        let node = self.node(address);
        if let Some(slot) = slot {
            let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
            if map.owner(Some(slot)).is_none_or(|owner| owner.address != *address) {
                *map = Arc::new(map.with(slot, &node));
            }
        }
        node
    }

    fn node(&self, address: &Address) -> Node {
        if let Some(node) = self.find(address) {
            return node;
        }
        let node = self.make(address);
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = map.node(address) {
            return node.clone();
        }
        // Kept, though it may serve nothing yet: every key that moves there asks for it.
        *map = Arc::new(map.and(&node));
        node
    }

    /// A node that is known already, so that there is one connection to each.
    fn find(&self, address: &Address) -> Option<Node> {
        let is_seed = |seed: &&Node| seed.address == *address;
        self.map().node(address).or_else(|| self.seeds.iter().find(is_seed)).cloned()
    }

    fn make(&self, address: &Address) -> Node {
        Node::new(address.clone(), address.put_into(&self.template), self.times)
    }

    fn map(&self) -> Arc<Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The outage that is the reason for the others: the longest one. While a node is away, all other nodes may
/// answer CLUSTERDOWN, and are not the reason.
fn reason(outages: impl Iterator<Item = Outage>) -> Option<Outage> {
    outages.max_by_key(|outage| (!outage.why.is_cluster_down(), outage.lasted))
}

fn cure(failed: &Failed, asked: &Address) -> Cure {
    let Failed::Link(error, _) = failed else { return Cure::Suspect };
    let redirection = || Address::read(error.redirect_node()?.0, asked);
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => {
            redirection().map_or(Cure::Suspect, Cure::Moved)
        }
        ErrorKind::Server(ServerErrorKind::Ask) => redirection().map_or(Cure::None, Cure::Ask),
        ErrorKind::Server(ServerErrorKind::ReadOnly) => Cure::Learn,
        ErrorKind::Server(
            ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::BusyLoading,
        )
        | ErrorKind::Io => Cure::Suspect,
        _ => Cure::None,
    }
}

impl std::fmt::Debug for Routed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use redis::RedisError;

    use super::*;
    use crate::error::Teller;

    /// An outage that has lasted some seconds.
    fn outage(address: &str, why: StoreError, seconds: u64) -> Outage {
        let lasted = Duration::from_secs(seconds);
        Outage { address: address.to_owned(), lasted, why, failed_calls: 0 }
    }

    #[test]
    fn node_that_is_away_is_the_reason_of_a_cluster_that_is_down() {
        let teller = Teller { secrets: Vec::new(), timeout: Duration::ZERO };
        let kind = ErrorKind::Server(ServerErrorKind::ClusterDown);
        let down =
            || teller.tell(&RedisError::from((kind, "the server's", "it is down".to_owned())));
        let gone = || StoreError::Unreachable("gone".to_owned());
        let found = |outages: Vec<Outage>| reason(outages.into_iter()).map(|outage| outage.address);
        let all = vec![outage("a", down(), 9), outage("b", gone(), 1), outage("c", gone(), 2)];
        assert_eq!(found(all).as_deref(), Some("c"));
        let all = vec![outage("a", down(), 1), outage("b", down(), 2)];
        assert_eq!(found(all).as_deref(), Some("b"));
        assert_eq!(found(Vec::new()), None);
    }
}
