//! The middleware in services and behind sockets.
#![allow(clippy::unwrap_used, reason = "a failed helper fails its test")]

mod middleware;
mod sockets;
