//! Real Clusters, replicas and Sentinels: the same decisions wherever the keys lie and whoever
//! serves them.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

#[path = "../common/mod.rs"]
mod common;

mod batches;
mod decisions;
mod failover;
mod gate;
mod leases;
mod moving;
mod operators;
mod outage;
mod refused;
mod shared;
mod together;
