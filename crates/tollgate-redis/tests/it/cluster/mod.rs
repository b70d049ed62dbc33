//! Real Clusters, replicas and Sentinels: the same decisions wherever the keys lie and whoever
//! serves them.

mod batches;
mod decisions;
mod failover;
mod gate;
mod leases;
mod moving;
mod operators;
mod outage;
mod refused;
pub(crate) mod shared;
mod together;
