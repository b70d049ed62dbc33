//! What is told of the store's health.

use std::time::Duration;

use crate::error::StoreError;

/// How a [`RedisStore`](crate::RedisStore) fares: for metrics, and for a readiness check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether there is a connection. There is none before the first call, during an outage, and
    /// for a moment after a connection has broken. In a Cluster, whether every slot is served by a
    /// node that there is a connection to.
    pub connected: bool,
    /// Whether there has ever been a connection; in a Cluster, whether it was ever learnt who serves
    /// what. Before, it is not known whether the store is there: see [`RedisStore::probe`](crate::RedisStore::probe).
    pub ever_connected: bool,
    /// The outage that goes on, if there is one: calls fail at once until it has ended. In a Cluster
    /// it is a node's, and the calls on that node's keys fail; where several are away, this is the one
    /// that has been for the longest time.
    pub outage: Option<Outage>,
    /// How many outages there have been, the one that goes on included.
    pub outages: u64,
    /// How many calls got no answer because of the store, those during outages included.
    pub failed_calls: u64,
    /// How many requests were refused without asking the server: their keys had just been refused.
    pub cached_denials: u64,
}

/// A time in which the store is not asked, but for one probe every now and then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// Which server is away: its host and port, or what the Sentinels call it.
    pub address: String,
    /// How long it has lasted.
    pub duration: Duration,
    /// What the last try came to.
    pub cause: StoreError,
    /// How many calls it has cost.
    pub failed_calls: u64,
}
