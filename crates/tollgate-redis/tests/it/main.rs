//! The Redis store and gate against real servers.
#![allow(clippy::unwrap_used, reason = "a failed helper fails its test")]

mod batch;
mod cluster;
mod common;
mod concurrency;
mod contract;
mod cost_zero;
mod deny_cache;
mod differential;
mod evictions;
mod faults;
mod gate;
mod gate_deny_cache;
mod gate_differential;
mod gate_outage_log;
mod gate_overrides;
mod gate_resets;
mod heartbeats;
mod killed_clients;
mod lease;
mod operations;
mod outage_log;
mod rejected;
mod reservations_in_time;
mod server;
mod tls;
