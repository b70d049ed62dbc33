//! Heartbeats: each node of a fleet says every 400 ms that it is there, and learns how many are.
//!
//! Leases are divided among the nodes of the last two seconds. In an outage each node goes on with its
//! part of the limits, and for that the nodes of the last minute count: a limit must not grow because a
//! node is late.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use redis::{Value, cmd};
use tollgate::PolicyError;

use super::RedisGate;
use super::fallback::FallbackLog;
use crate::bounds::{NODE_REMEMBERED, NODE_SEEN, SETTLED_BEATS, TOLD_FEWER};
use crate::error::StoreError;
use crate::request::RawReply;

/// What a gate knows of the other nodes.
pub(super) struct Heartbeats {
    /// The name of this node among the heartbeats.
    node: [u8; 8],
    /// The number of nodes that the operator has configured.
    configured: AtomicU64,
    /// The number of nodes that each have a part of the limits in an outage.
    sharing: AtomicU64,
    /// The number of nodes that were heard of in the last two seconds; 0 before the first answer.
    seen: AtomicU64,
    /// Whether this node has left the fleet.
    has_left: AtomicBool,
    log: Mutex<HeartbeatLog>,
    /// Heartbeats that the server rejected.
    rejected: FallbackLog,
}

/// The last answers, and what was logged of them.
#[derive(Default)]
struct HeartbeatLog {
    /// How many nodes were heard of in the last minute, by each of the last answers.
    recent: VecDeque<u64>,
    /// For how many answers in a row there were fewer than configured.
    fewer: u32,
    /// The last number that was logged.
    logged: Option<u64>,
}

impl HeartbeatLog {
    /// How many nodes there are, after an answer of `heard`. A single answer lowers nothing: after an
    /// outage the others need some time to be heard of again.
    fn settle(&mut self, heard: u64) -> u64 {
        self.recent.push_back(heard);
        if self.recent.len() > SETTLED_BEATS {
            self.recent.pop_front();
        }
        self.recent.iter().copied().max().unwrap_or(heard)
    }

    /// Whether it is to be logged that there are `nodes`, and not as many as configured.
    fn differs(&mut self, nodes: u64, configured: u64) -> bool {
        self.fewer = if nodes < configured { self.fewer.saturating_add(1) } else { 0 };
        // Nodes of a fleet start one after the other.
        let is_early = nodes < configured && self.fewer < TOLD_FEWER;
        if is_early || self.logged.unwrap_or(configured) == nodes {
            return false;
        }
        self.logged = Some(nodes);
        nodes != configured
    }
}

impl Heartbeats {
    pub(super) fn new(configured: u64, node: [u8; 8]) -> Heartbeats {
        Heartbeats {
            node,
            configured: AtomicU64::new(configured),
            sharing: AtomicU64::new(configured),
            seen: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
            log: Mutex::default(),
            rejected: FallbackLog::new(),
        }
    }

    /// How many nodes were heard of in the last two seconds; 0 before the first answer.
    pub(super) fn seen(&self) -> u64 {
        // Relaxed, as all of these: numbers by themselves.
        self.seen.load(Ordering::Relaxed)
    }
}

impl RedisGate {
    /// How many nodes share the limits, each with its part of them while the store is unavailable: the
    /// larger of the [configured](super::RedisGateBuilder::nodes) number and the number of nodes that sent a
    /// heartbeat in the last minute. A node that [leaves](Self::leave) no longer counts. During an outage
    /// the number stays as it was when the outage began.
    pub fn nodes(&self) -> u64 {
        self.0.heartbeats.sharing.load(Ordering::Relaxed)
    }

    /// Changes the configured number of nodes, for a fleet that grows and shrinks.
    ///
    /// # Errors
    /// Where a limit cannot be divided by so many; the number then stays.
    pub fn set_nodes(&self, nodes: u64) -> Result<(), PolicyError> {
        let _alone = self.replacing();
        let nodes = nodes.max(1);
        let heard = self.log().recent.iter().copied().max().unwrap_or(0);
        self.divide_by(nodes.max(heard))?;
        self.0.heartbeats.configured.store(nodes, Ordering::Relaxed);
        Ok(())
    }

    /// How many nodes were heard of in the last two seconds, this one included; 0 before the first
    /// answer.
    #[doc(hidden)]
    pub fn seen_nodes(&self) -> u64 {
        self.0.heartbeats.seen()
    }

    /// Gives each of `nodes` its part of the limits for the next outage. The caller has the lock.
    fn divide_by(&self, nodes: u64) -> Result<(), PolicyError> {
        if nodes != self.nodes() {
            self.0.local.replace(self.policy().fallback_share(nodes))?;
            self.0.heartbeats.sharing.store(nodes, Ordering::Relaxed);
            self.share_out();
        }
        Ok(())
    }

    /// Sends a heartbeat, unless this node has left, and logs one that the server rejects.
    pub(super) async fn beat(&self) {
        let heartbeats = &self.0.heartbeats;
        if heartbeats.has_left.load(Ordering::Relaxed) {
            return;
        }
        let reason = match self.send_heartbeat().await {
            Ok(heard) => return self.count_nodes(heard),
            Err(error) => error,
        };
        let is_rejected = !matches!(
            reason,
            StoreError::Unavailable { .. } | StoreError::Connection(_) | StoreError::Timeout(_)
        );
        if is_rejected && let Some(times) = heartbeats.rejected.to_tell() {
            tracing::warn!(
                address = self.0.store.connection().address(),
                %reason,
                times,
                nodes = self.nodes(),
                "redis rejects heartbeats: nodes that are not configured are not counted"
            );
        }
    }

    /// Sends a heartbeat. How many nodes sent one in the last minute.
    async fn send_heartbeat(&self) -> Result<u64, StoreError> {
        let (store, heartbeats) = (&self.0.store, &self.0.heartbeats);
        let told = store.told_time();
        let [seen, remembered] =
            [NODE_SEEN, NODE_REMEMBERED].map(|time| time.as_micros().to_string());
        let args: [&[u8]; 6] = [
            told.as_bytes(),
            b"beat",
            b"",
            &heartbeats.node,
            seen.as_bytes(),
            remembered.as_bytes(),
        ];
        let key = self.heartbeat_key();
        let keys = [key.as_slice()];
        let beat = pin!(store.connection().run(&keys, &args));
        let reply = RawReply::read(store.connection().within(beat).await?)?;
        heartbeats.seen.store(u64::try_from(reply.verdict).unwrap_or(0), Ordering::Relaxed);
        match reply.into_first() {
            Some(Value::Int(heard)) => Ok(u64::try_from(heard).unwrap_or(0)),
            _ => Err(StoreError::Script("its answer lacks a number of nodes".to_owned())),
        }
    }

    fn count_nodes(&self, heard: u64) {
        // The number stays as it was when the outage began, also if only one node of a Cluster is away.
        if self.health().outage.is_some() {
            return;
        }
        let _alone = self.replacing();
        let configured = self.0.heartbeats.configured.load(Ordering::Relaxed);
        let (heard, differs) = {
            let mut log = self.log();
            let heard = log.settle(heard);
            (heard, log.differs(heard, configured))
        };
        let divided = self.divide_by(heard.max(configured));
        if differs || divided.is_err() {
            tracing::warn!(
                heard,
                configured,
                sharing = self.nodes(),
                "the number of nodes differs from the configured one"
            );
        }
    }

    fn log(&self) -> std::sync::MutexGuard<'_, HeartbeatLog> {
        self.0.heartbeats.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the fleet, for the end of this process: gives back what was borrowed and not spent, and
    /// removes the heartbeat of this node, so that the others count one node less.
    ///
    /// # Errors
    /// Where the store has no answer: the node then counts for another minute.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.0.heartbeats.has_left.store(true, Ordering::Relaxed);
        self.return_leases().await;
        let mut command = cmd("ZREM");
        command.arg(self.heartbeat_key()).arg(&self.0.heartbeats.node);
        self.0.store.connection().send(&command).await.map(drop)
    }

    fn heartbeat_key(&self) -> Vec<u8> {
        format!("tg:{{}}:nodes:{}", self.0.namespace).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_nodes_rises_at_once_and_falls_after_some_answers() {
        let mut log = HeartbeatLog::default();
        assert_eq!(log.settle(1), 1);
        assert_eq!(log.settle(3), 3);
        for _ in 1..SETTLED_BEATS {
            assert_eq!(log.settle(1), 3);
        }
        assert_eq!(log.settle(1), 1);
    }

    #[test]
    fn number_that_differs_is_logged_once() {
        let mut log = HeartbeatLog::default();
        let more: Vec<bool> = [2, 3, 3, 3, 2, 2, 1].map(|nodes| log.differs(nodes, 1)).into();
        assert_eq!(more, [true, true, false, false, true, false, false]);
        let mut log = HeartbeatLog::default();
        let fewer = (0..2 * TOLD_FEWER).filter(|_| log.differs(2, 3)).count();
        assert_eq!(fewer, 1);
        assert!(!log.differs(3, 3) && !log.differs(2, 3), "one that starts again is early");
    }
}
