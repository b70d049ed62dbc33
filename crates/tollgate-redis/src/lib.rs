//! Redis and Valkey as the store of [Tollgate](tollgate): the same exact decisions for a whole fleet.
//!
//! ```no_run
//! use tollgate::Limit;
//! use tollgate_redis::RedisStore;
//!
//! # async fn example() -> Result<(), tollgate_redis::StoreError> {
//! let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
//! let per_user = store.limiter("per user", Limit::per_minute(100).burst(20))?;
//! let everybody = store.limiter("everybody", Limit::per_second(1000))?;
//!
//! let request = [per_user.charge("user-42"), everybody.charge("")];
//! if store.check_all(&request).await?.is_allowed() {
//!     // serve the request
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - A [`RedisStore`] is a connection to a server, to the nodes of a Cluster, or to the server that
//!   Sentinels name; its [`RedisLimiter`]s answer as
//!   [`tollgate::Limiter`] does, and share their keys with every process that asks.
//! - A [`RedisGate`] is a whole policy over such a store, and answers as [`tollgate::Gate`] does.
//! - One round trip decides a request with all its limits, all or nothing, by the server's clock;
//!   two where its keys lie in several slots of a Cluster.
//! - Decisions are exact to the microsecond: where memory says a wait in nanoseconds, this store
//!   says it rounded up to the next microsecond, and nothing else differs.
//! - Every key expires when it is worthless.
//! - A [`StoreError`] is for what went wrong; a denial is an answer.

mod across;
mod batch;
mod bounds;
mod breaker;
mod change;
mod charge;
mod clock_steps;
mod connection;
mod denied;
mod error;
mod eviction;
mod fetch;
mod gate;
mod histogram;
mod layout;
mod limiter;
mod link;
mod operate;
mod outage;
mod protocol;
mod query;
mod request;
mod rescale;
mod reservation;
mod routed;
mod script;
mod sentinel;
mod server;
mod store;
mod target;
mod terms;
mod tls;

pub use charge::{RedisCharge, RedisDecisions};
pub use error::StoreError;
pub use eviction::EvictionReport;
pub use gate::{
    DetachedReservation, FallbackCounts, GateError, LeaseStats, RedisGate, RedisGateBuilder,
    RedisGateReservation, RuleKeyScan,
};
pub use histogram::Histogram;
pub use limiter::RedisLimiter;
pub use operate::{KeyScan, ResetProgress};
pub use outage::{Health, Outage};
pub use reservation::{RedisReservation, RedisReserveError};
pub use store::{RedisStore, RedisStoreBuilder};

/// The examples of docs/redis.md, compiled by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/redis.md")]
struct Guide;
