//! How it is learnt who serves what: from any node that answers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use futures_util::future::{BoxFuture, FutureExt, join_all, select_ok};
use redis::cmd;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::map::{SlotMap, ranges};
use super::node::ClusterNode;
use super::{ClusterClient, ClusterTimeouts};
use crate::bounds::{ASKED_AT_ONCE, LAST_PROBE, REFRESH_PAUSE};
use crate::error::StoreError;
use crate::server::CallError;

impl ClusterClient {
    /// Connects to all nodes, for somebody who wants to know at once. Those that are away are found
    /// later; those that cannot be used are an error.
    pub(crate) async fn join(self: &Arc<Self>) -> Result<(), StoreError> {
        let ClusterTimeouts { connect, .. } = self.times;
        let first = async {
            let mut last = None;
            for some in self.seeds.chunks(ASKED_AT_ONCE) {
                match select_ok(some.iter().map(|seed| seed.join().boxed())).await {
                    Ok(_) => return self.learn().await,
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(nobody))
        };
        timeout(connect, first).await.unwrap_or(Err(StoreError::Timeout(connect)))?;
        let nodes = self.nodes();
        let mut first_error = None;
        for outcome in join_all(nodes.iter().map(ClusterNode::ready)).await {
            match outcome.map_err(reason) {
                Err(error @ StoreError::Incompatible(_)) => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
                Ok(()) => {}
            }
        }
        match first_error {
            Some(error) if !nodes.iter().any(ClusterNode::is_connected) => Err(error),
            _ => Ok(()),
        }
    }

    /// Sees whether calls would be answered, by every node that serves anything; those that are away
    /// are looked after anyway.
    pub(crate) async fn probe(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.nodes().is_empty() {
            self.learn().await?;
        }
        let nodes = self.nodes();
        let probed = join_all(nodes.iter().map(ClusterNode::probe)).await;
        let probed = probed.into_iter().collect::<Result<(), StoreError>>();
        if probed.is_err() {
            self.suspect();
        }
        probed
    }

    /// Who serves what may have changed: finds out in the background, not all the time, and goes on
    /// until every slot is served by a node that is there.
    pub(crate) fn suspect(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            runtime.spawn(TopologyWatcher(Arc::downgrade(self)).watch());
        }
    }

    /// Learns who serves what, unless that has just been tried.
    pub(crate) async fn learn(&self) -> Result<(), StoreError> {
        let mut last = self.asking.lock().await;
        if let Some((when, outcome)) = &*last
            && when.elapsed() < REFRESH_PAUSE
        {
            return outcome.clone();
        }
        let outcome = self.learn_from_any().await.map(|map| self.replace(map));
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }

    fn replace(&self, map: SlotMap) {
        // So that the first call on each finds it, and it is known early which are away.
        map.nodes.iter().for_each(ClusterNode::prepare);
        let map = Arc::new(map);
        let new = map.clone();
        let old =
            std::mem::replace(&mut *self.map.write().unwrap_or_else(PoisonError::into_inner), map);
        let gone = old.nodes.iter().filter(|node| new.node(&node.address).is_none());
        let outages: u64 = gone.map(|node| node.health().outages).sum();
        self.past_outages.fetch_add(outages, Ordering::Relaxed);
    }

    async fn learn_from_any(&self) -> Result<SlotMap, StoreError> {
        let mut all = self.nodes();
        for seed in &self.seeds {
            if all.iter().all(|node| node.address != seed.address) {
                all.push(seed.clone());
            }
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % all.len().max(1);
        all.rotate_left(turn);
        // Those that are there first: the others are disturbed only where none of them answers.
        let (there, others): (Vec<ClusterNode>, Vec<ClusterNode>) =
            all.into_iter().partition(ClusterNode::is_connected);
        let mut last = nobody();
        for some in there.chunks(ASKED_AT_ONCE).chain(others.chunks(ASKED_AT_ONCE)) {
            match select_ok(some.iter().map(|node| self.learn_from(node))).await {
                Ok((map, _)) => return Ok(map),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn learn_from<'a>(
        &'a self,
        node: &'a ClusterNode,
    ) -> BoxFuture<'a, Result<SlotMap, StoreError>> {
        async move {
            let mut question = cmd("CLUSTER");
            question.arg("SLOTS");
            let patience = self.times.connect;
            let answer = timeout(patience, node.ask(&question)).await;
            let answer = answer.map_err(|_| StoreError::Timeout(patience))?;
            let found = ranges(answer.map_err(CallError::told)?, &node.address);
            if found.is_empty() {
                return Err(StoreError::Incompatible(format!("{} serves no slots", node.address)));
            }
            SlotMap::new(&found, |address| self.find(address).unwrap_or_else(|| self.make(address)))
        }
        .boxed()
    }
}

/// The task that learns in the background. There is one at a time; it ends with its store.
struct TopologyWatcher(Weak<ClusterClient>);

impl TopologyWatcher {
    async fn watch(self) {
        let mut pause = REFRESH_PAUSE;
        loop {
            let Some(routed) = self.0.upgrade() else { return };
            // Should it fail, it is tried again.
            let _ = routed.learn().await;
            drop(routed);
            sleep(pause).await;
            if self.0.upgrade().is_none_or(|routed| routed.is_whole()) {
                return;
            }
            pause = (pause * 2).min(LAST_PROBE);
        }
    }
}

impl Drop for TopologyWatcher {
    /// Also when its runtime goes: the next call then starts another.
    fn drop(&mut self) {
        if let Some(routed) = self.0.upgrade() {
            routed.is_watched.store(false, Ordering::Relaxed);
        }
    }
}

fn nobody() -> StoreError {
    StoreError::Connection("there is nobody to ask".to_owned())
}

/// Why a node is away.
fn reason(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { why, .. } => (*why).clone(),
        other => other,
    }
}
