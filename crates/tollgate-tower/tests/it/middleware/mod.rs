//! The layer in front of services, with requests made by hand.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod answers;
mod express;
mod forwarding;
#[cfg(feature = "redis")]
mod remote;
mod settling;
mod shaping;
mod support;
mod tower_http_stacks;
