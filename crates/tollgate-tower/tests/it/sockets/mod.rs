//! The examples, driven over real sockets.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod answer;
#[cfg(feature = "axum")]
mod over_axum;
mod over_hyper;
#[cfg(all(feature = "axum", feature = "redis"))]
mod over_redis;
#[cfg(feature = "tonic")]
mod over_tonic;
