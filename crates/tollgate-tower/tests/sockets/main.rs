//! The examples, driven over real sockets.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

#[cfg(feature = "axum")]
mod over_axum;
mod over_hyper;
#[cfg(feature = "tonic")]
mod over_tonic;
