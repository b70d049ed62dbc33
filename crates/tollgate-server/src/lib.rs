//! Tollgate as a service: a policy that any program or proxy asks over the network.
//!
//! ```
//! use tollgate::{Gate, Limit, Policy, Rule};
//! use tollgate_server::{Backend, Server};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::new().rule(Rule::new("per-user").key(["user"]).limit(Limit::per_minute(100)));
//! let backend = Backend::Memory(Gate::new(policy)?);
//! let server = Server::builder(backend).http(Some("127.0.0.1:0".parse()?)).bind().await?;
//! println!("listening on {:?}", server.http_address());
//! server.run(async { /* until it is time to stop */ }).await;
//! # Ok(())
//! # }
//! ```
//!
//! - A [`Backend`] is what decides: a gate over the state that all transports share.
//! - A [`Server`] listens, answers, and stops in order.
//! - [`serve_resp`] answers clients of Redis over a [`Resp`], which is a gate.
//! - [`Admin`] says who may operate it: look at keys, lift blocks, change the policy.
//! - [`ProxyHeaders`] says which headers of a proxy are believed.

mod active_names;
mod admin;
mod app;
mod attend;
mod backend;
mod bounds;
mod client_limits;
mod denials;
mod exposition;
mod grpc;
mod http;
mod listen;
mod metrics;
mod openapi;
mod operate;
mod page;
mod patience;
mod policy_version;
mod reload;
mod requests_by_rule;
mod resp;
mod seldom;
mod serve;
mod snapshots;
mod stream;
mod tasks;
mod tls;
mod top;
mod watched;

/// Envoy's messages, for who asks this server: hidden and unstable.
#[doc(hidden)]
pub mod rls {
    pub use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::{
        RateLimitDescriptor, rate_limit_descriptor::Entry,
    };
    pub use crate::grpc::proto::envoy::service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
    };
}

pub use admin::{Admin, AdminListen, AdminRole, AdminTokenError, AdminTokens};
pub use backend::{Backend, Held};
pub use bounds::Bounds;
pub use http::{HostName, HostNameError, ProxyHeaders};
pub use operate::log_replaced_overrides;
pub use reload::{ReloadCounts, Reloader, log_rejected_files};
pub use resp::{Resp, RespBounds, RespCounts, RespSession, serve_resp};
pub use serve::{BindError, Server, ServerBuilder, Stopped};
pub use snapshots::{SnapshotCounts, WrittenSnapshot};
pub use tls::{Tls, TlsError, TlsListener};
