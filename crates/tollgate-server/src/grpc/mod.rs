//! Envoy's rate limit service, version 3, over gRPC.
//!
//! A request has descriptors, each of which is decided as a request with the attributes of an
//! [`EnvoyDescriptor`](tollgate::EnvoyDescriptor): all of them or none.

mod answer;
mod ask;
mod codec;
mod decide;
mod domains;
mod sent;
mod serve;
mod service;

pub(crate) use domains::ActiveDomains;
pub(crate) use serve::{NO_ROOM, serve};

/// What is said over the wire: made out of `proto/` by the test `generated`.
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::too_many_lines
)]
pub(crate) mod proto {
    include!("generated/mod.rs");

    /// The same files, for those who ask what the server understands.
    pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
}

pub(crate) use proto::envoy::config::core::v3::HeaderValue;
pub(crate) use proto::envoy::extensions::common::ratelimit::v3::{
    RateLimitDescriptor, rate_limit_descriptor,
};
pub(crate) use proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_response,
};
