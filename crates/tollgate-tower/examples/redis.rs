//! An axum service whose limits a whole fleet shares, in Redis. While the server is away, each node
//! goes on with its part.
//!
//! `cargo run -p tollgate-tower --features axum,redis --example redis -- redis://127.0.0.1:6379
//! 127.0.0.1:3000` serves there.

use std::error::Error;
use std::net::SocketAddr;

use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tollgate::{Limit, OnStoreError, Policy, Rule};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_tower::{Answer, ClientIp, GateLayer};

/// Four requests an hour for each address and two exports, of which none without the store.
pub(crate) fn policy() -> Policy {
    Policy::new().rule(Rule::new("per-address").key(["ip"]).limit(Limit::per_hour(4))).rule(
        Rule::new("exports")
            .matches("route", "/export")
            .limit(Limit::per_hour(2))
            .on_store_error(OnStoreError::Deny),
    )
}

/// A node of a fleet of two.
pub(crate) fn app(redis: &str) -> Result<Router, Box<dyn Error>> {
    let gate = RedisGate::builder(RedisStore::open(redis)?).nodes(2).build(policy())?;
    let limits = GateLayer::builder(gate).client_ip(ClientIp::peer()).route().build()?;
    Ok(Router::new().route("/", get(home)).route("/export", get(|| async { "all" })).layer(limits))
}

async fn home(Extension(answer): Extension<Answer>) -> String {
    let degraded = answer.ruling().is_some_and(tollgate::Ruling::is_degraded);
    format!("{} left{}", answer.remaining(), if degraded { ", without the store" } else { "" })
}

/// Serves a node.
pub(crate) async fn serve(listener: TcpListener, redis: &str) -> Result<(), Box<dyn Error>> {
    let app = app(redis)?.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let redis = arguments.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    serve(TcpListener::bind(address).await?, &redis).await
}
