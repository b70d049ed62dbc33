//! The layer in front of services, with requests made by hand.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod answers;
mod forwarding;
mod settling;
mod shaping;
mod support;
