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

use self::map::SlotMap;
pub(crate) use self::map::{probe_key, ranges};
pub(crate) use self::node::{ClusterNode, NodeAddress};
pub(crate) use self::slot::slot;
use crate::bounds::REDIRECTIONS;
use crate::error::StoreError;
use crate::outage::{Health, Outage};
use crate::server::CallError;

/// Nodes, and who serves which slot.
pub(crate) struct ClusterClient {
    /// Asked first, and again when nobody else answers.
    seeds: Vec<ClusterNode>,
    /// A node's address is put into it.
    template: ConnectionInfo,
    times: ClusterTimeouts,
    /// Held only to copy or to replace it.
    map: RwLock<Arc<SlotMap>>,
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
struct ClusterTimeouts {
    call: Duration,
    connect: Duration,
}

/// What to do about an error.
enum Redirect {
    /// Another node serves the slot.
    Moved(NodeAddress),
    /// Another node has this key already.
    Ask(NodeAddress),
    /// Nothing was done, and somebody else may be the right one by now.
    Learn,
    /// It is told; who serves what may have changed.
    Suspect,
    None,
}

impl ClusterClient {
    /// Connects to nobody yet.
    pub(crate) fn new(
        seeds: &[ConnectionInfo],
        call: Duration,
        connect: Duration,
    ) -> Result<ClusterClient, StoreError> {
        let times = ClusterTimeouts { call, connect };
        let seed = |info: &ConnectionInfo| match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                let address = NodeAddress { host: host.as_str().into(), port: *port };
                Ok(ClusterNode::new(address, info.clone(), times))
            }
            _ => Err(StoreError::Url("must name hosts".to_owned())),
        };
        let first = seeds.first().ok_or_else(|| StoreError::Url("must name hosts".to_owned()))?;
        Ok(ClusterClient {
            seeds: seeds.iter().map(seed).collect::<Result<_, _>>()?,
            template: first.clone(),
            times,
            map: RwLock::new(Arc::new(SlotMap::unknown())),
            asking: tokio::sync::Mutex::new(None),
            is_watched: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            failed_calls: AtomicU64::new(0),
            past_outages: AtomicU64::new(0),
        })
    }

    /// The nodes that serve slots.
    pub(crate) fn nodes(&self) -> Vec<ClusterNode> {
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
            Err(StoreError::Timeout(limit))
        });
        match &done {
            // Who was told to ask one by one does so.
            Err(StoreError::SlotMigrating(_)) => {}
            Err(error) if error.is_outage() => {
                self.failed_calls.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        done
    }

    /// Sends a command to the node that its key belongs to, following redirections.
    pub(crate) async fn ask(self: &Arc<Self>, command: &Cmd) -> Result<Value, CallError> {
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
                Redirect::Moved(to) if left > 0 => {
                    (node, is_asking) = (self.learn_owner(slot, &to), false);
                    self.suspect();
                }
                Redirect::Ask(to) if left > 0 => (node, is_asking) = (self.node(&to), true),
                Redirect::Learn if left > 0 && Box::pin(self.learn()).await.is_ok() => {
                    let owner = self.owner(slot).await?;
                    if owner.address == node.address {
                        return Err(failed);
                    }
                    (node, is_asking) = (owner, false);
                }
                Redirect::None => return Err(failed),
                _ => {
                    self.suspect();
                    return Err(failed);
                }
            }
        }
        Err(CallError::Told(StoreError::Connection("redirected too often".to_owned())))
    }

    /// As it stands, without asking anybody.
    pub(crate) fn health(&self) -> Health {
        let map = self.map();
        let is_known = !map.nodes.is_empty();
        let nodes = if is_known { &map.nodes } else { &self.seeds };
        let all: Vec<Health> = nodes.iter().map(ClusterNode::health).collect();
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
            ever_connected: is_known,
            outage: outage.filter(|_| is_away),
            outages: outages + self.past_outages.load(Ordering::Relaxed),
            failed_calls,
            cached_denials: 0,
        }
    }

    /// Whether every slot is served by a node that there is a connection to.
    fn is_whole(&self) -> bool {
        let map = self.map();
        let is_there: Vec<bool> = map.nodes.iter().map(ClusterNode::is_connected).collect();
        map.owners().all(|owner| owner.is_some_and(|node| is_there.get(node) == Some(&true)))
    }

    async fn owner(self: &Arc<Self>, slot: Option<usize>) -> Result<ClusterNode, CallError> {
        if let Some(node) = self.map().owner(slot) {
            return Ok(node.clone());
        }
        let learnt = Box::pin(self.learn()).await;
        // Nodes may be on their way, in either case.
        self.suspect();
        learnt.map_err(CallError::Told)?;
        let nobody = || StoreError::Connection("no node serves the key's slot".to_owned());
        self.map().owner(slot).cloned().ok_or_else(|| CallError::Told(nobody()))
    }

    fn learn_owner(&self, slot: Option<usize>, address: &NodeAddress) -> ClusterNode {
        let node = self.node(address);
        if let Some(slot) = slot {
            let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
            if map.owner(Some(slot)).is_none_or(|owner| owner.address != *address) {
                *map = Arc::new(map.with(slot, &node));
            }
        }
        node
    }

    fn node(&self, address: &NodeAddress) -> ClusterNode {
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
    fn find(&self, address: &NodeAddress) -> Option<ClusterNode> {
        let is_seed = |seed: &&ClusterNode| seed.address == *address;
        self.map().node(address).or_else(|| self.seeds.iter().find(is_seed)).cloned()
    }

    fn make(&self, address: &NodeAddress) -> ClusterNode {
        ClusterNode::new(address.clone(), address.put_into(&self.template), self.times)
    }

    fn map(&self) -> Arc<SlotMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The outage that is the reason for the others: the longest one. While a node is away, all other nodes may
/// answer CLUSTERDOWN, and are not the reason.
fn reason(outages: impl Iterator<Item = Outage>) -> Option<Outage> {
    outages.max_by_key(|outage| (!outage.cause.is_cluster_down(), outage.duration))
}

fn cure(failed: &CallError, asked: &NodeAddress) -> Redirect {
    let CallError::Link(error, _) = failed else { return Redirect::Suspect };
    let redirection = || NodeAddress::read(error.redirect_node()?.0, asked);
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => {
            redirection().map_or(Redirect::Suspect, Redirect::Moved)
        }
        ErrorKind::Server(ServerErrorKind::Ask) => {
            redirection().map_or(Redirect::None, Redirect::Ask)
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly) => Redirect::Learn,
        ErrorKind::Server(
            ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::BusyLoading,
        )
        | ErrorKind::Io => Redirect::Suspect,
        _ => Redirect::None,
    }
}

impl std::fmt::Debug for ClusterClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use redis::RedisError;

    use super::*;
    use crate::error::ErrorMapper;

    /// An outage that has lasted some seconds.
    fn outage(address: &str, why: StoreError, seconds: u64) -> Outage {
        let lasted = Duration::from_secs(seconds);
        Outage { address: address.to_owned(), duration: lasted, cause: why, failed_calls: 0 }
    }

    #[test]
    fn node_that_is_away_is_the_reason_of_a_cluster_that_is_down() {
        let teller = ErrorMapper { secrets: Vec::new(), timeout: Duration::ZERO };
        let kind = ErrorKind::Server(ServerErrorKind::ClusterDown);
        let down =
            || teller.tell(&RedisError::from((kind, "the server's", "it is down".to_owned())));
        let gone = || StoreError::Connection("gone".to_owned());
        let found = |outages: Vec<Outage>| reason(outages.into_iter()).map(|outage| outage.address);
        let all = vec![outage("a", down(), 9), outage("b", gone(), 1), outage("c", gone(), 2)];
        assert_eq!(found(all).as_deref(), Some("c"));
        let all = vec![outage("a", down(), 1), outage("b", down(), 2)];
        assert_eq!(found(all).as_deref(), Some("b"));
        assert_eq!(found(Vec::new()), None);
    }
}
