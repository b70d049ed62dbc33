//! Tollgate as a tower layer: limits in front of an axum, hyper or tonic service.
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # fn app() -> Result<axum::Router, Box<dyn std::error::Error>> {
//! use axum::{Router, routing::get};
//! use tollgate::{Limit, Limiter};
//! use tollgate_tower::{ClientIp, GateLayer};
//!
//! let limiter = Limiter::new(Limit::per_minute(100).burst(20))?;
//! let layer = GateLayer::builder(limiter).client_ip(ClientIp::peer()).build()?;
//! let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
//! // axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())
//! # Ok(app)
//! # }
//! ```
//!
//! - A [`GateLayer`] is one type over a [`Gate`](tollgate::Gate), a [`Limiter`](tollgate::Limiter) or,
//!   with the feature `redis`, a `RedisGate`, whose limits a whole fleet shares.
//! - A [`Source`] says where an attribute of a request comes from, and [`IfMissing`] what happens
//!   where it is not there.
//! - [`ClientIp`] is the client's address behind proxies that are trusted, and no others.
//! - [`RequestCost`] is what a request takes, and [`Settle`] what it is charged in the end.
//! - An [`Answer`] is in the request's extensions; a [`Refusal`] is what the client gets.

mod answer;
mod attribute;
mod body;
mod bounds;
mod builder;
mod client_ip;
mod cost;
mod door;
mod error;
mod express;
mod fields;
mod future;
mod head;
mod layer;
mod refuse;
#[cfg(feature = "redis")]
mod remote;
mod service;
mod settings;
mod settle;
mod tab;
mod value;
mod wait;

pub use answer::Answer;
pub use attribute::{IfMissing, Source};
pub use body::GateBody;
pub use builder::GateLayerBuilder;
pub use client_ip::{ClientIp, PeerAddr};
pub use cost::{IfUnsaid, RequestCost};
pub use door::Door;
pub use error::LayerError;
pub use future::GateFuture;
pub use head::Head;
pub use layer::GateLayer;
pub use refuse::{Refusal, Why};
pub use service::GateService;
pub use settle::{AnswerHead, Bill, Settle, Usage};

#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../../docs/middleware.md")]
struct Guide;
