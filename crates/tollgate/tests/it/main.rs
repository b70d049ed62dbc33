//! The behaviour of the library through its public API.
#![cfg(not(loom))]

mod charges;
mod charges_of_one_key;
mod clock;
mod contract;
mod cost_zero;
#[cfg(feature = "envoy")]
mod envoy_import;
mod field;
mod forget;
mod fuzz_keys;
mod fuzz_limit_text;
#[cfg(feature = "file")]
mod fuzz_policy_file;
mod fuzz_snapshot;
mod fuzz_traffic;
mod gate;
mod headers;
mod hostile;
mod keys;
#[cfg(feature = "tokio")]
mod late_waiters;
mod lease;
mod limit_decimals;
mod limit_text;
mod paths;
#[cfg(feature = "file")]
mod policy_file;
mod refunds;
mod refused;
mod reservations;
mod reservations_in_time;
mod reservations_replayed;
mod snapshot;
mod waiting;
#[cfg(all(feature = "watch", unix))]
mod watch;
