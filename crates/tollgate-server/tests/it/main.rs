//! The server through its listeners.
#![allow(clippy::unwrap_used, reason = "a failed helper fails its test")]

mod admin;
mod agree;
mod authorize;
mod bounds;
mod end;
mod exposed;
mod fuzz_resp;
mod generated;
mod grpc;
mod hostile;
mod hosts;
mod http;
mod own_limits;
mod public_names;
mod redis_store;
mod requests_by_rule;
mod resp;
mod support;
mod tls;
