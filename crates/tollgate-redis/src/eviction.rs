//! Whether the server evicts keys: a state that is evicted is a limit that starts anew.

use std::sync::{Mutex, PoisonError};

use crate::error::StoreError;
use crate::link::ServerInfo;
use crate::store::RedisStore;

/// The only policy under which no state is evicted.
const NO_EVICTION: &str = "noeviction";

/// What a server says of its evictions, in a Cluster all its nodes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvictionReport {
    /// The server's `maxmemory-policy`; in a Cluster that of a node that evicts, if there is one.
    pub policy: String,
    /// How many keys the server has evicted since it started.
    pub evicted_keys: u64,
}

impl EvictionReport {
    /// Whether the server evicts keys when its memory is full.
    pub fn may_evict(&self) -> bool {
        self.policy != NO_EVICTION
    }
}

/// The last report, and what the log already has.
#[derive(Default)]
pub(crate) struct EvictionMonitor(Mutex<Option<EvictionReport>>);

impl EvictionMonitor {
    /// The last report, if the server was ever asked.
    pub(crate) fn last(&self) -> Option<EvictionReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a report. Logs a policy that evicts when it is first seen, and evictions since the last
    /// report.
    fn note(&self, address: &str, report: EvictionReport) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.as_ref().is_none_or(|last| last.policy != report.policy);
        if report.may_evict() && is_new {
            tracing::warn!(
                address,
                policy = report.policy,
                "redis may evict states, and limits start anew then: set maxmemory-policy noeviction"
            );
        }
        if let Some(last) = &*last {
            // A server that was restarted counts from zero.
            let since = if report.evicted_keys < last.evicted_keys { 0 } else { last.evicted_keys };
            let evicted = report.evicted_keys - since;
            if evicted > 0 {
                tracing::warn!(
                    address,
                    evicted,
                    "redis has evicted keys, and their limits start anew"
                );
            }
        }
        *last = Some(report);
    }
}

impl RedisStore {
    /// What the server says of its evictions, as of the last time it was asked: when it was connected
    /// to with [`connect`](RedisStore::connect), and every minute for a gate. `None` before that, and
    /// from a server that does not say.
    pub fn evictions(&self) -> Option<EvictionReport> {
        self.eviction_state().last()
    }

    /// Asks the server whether it evicts keys: see [`evictions`](Self::evictions).
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn check_evictions(&self) -> Result<(), StoreError> {
        let connection = self.connection();
        let mut reports = Vec::new();
        let nodes = connection.nodes().await?;
        for number in 0..nodes.len().max(1) {
            let node = nodes.get(number);
            let memory = connection.info(node, "memory").await?;
            let stats = connection.info(node, "stats").await?;
            reports.extend(report(&memory, &stats));
        }
        let evicted_keys = reports.iter().map(|report| report.evicted_keys).sum();
        // A node that evicts, if there is one.
        let policy = reports.into_iter().max_by_key(EvictionReport::may_evict);
        if let Some(EvictionReport { policy, .. }) = policy {
            let report = EvictionReport { policy, evicted_keys };
            self.eviction_state().note(connection.address(), report);
        }
        Ok(())
    }
}

fn report(memory: &ServerInfo, stats: &ServerInfo) -> Option<EvictionReport> {
    let policy = memory.get("maxmemory_policy")?.to_owned();
    Some(EvictionReport { policy, evicted_keys: stats.get("evicted_keys")?.parse().ok()? })
}
