//! An axum service whose limits a whole fleet shares, in Redis. While the server is away, each node
//! goes on with its part.
//!
//! `cargo run -p tollgate-tower --features axum,redis --example redis` shows what it does, with a Redis
//! on its usual port or without one; with `-- redis://127.0.0.1:6379 127.0.0.1:3000` it serves there.

use std::error::Error;
use std::net::SocketAddr;

use axum::routing::get;
use axum::{Extension, Router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
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
pub(crate) fn app(store: RedisStore) -> Result<Router, Box<dyn Error>> {
    let gate = RedisGate::builder(store).nodes(2).build(policy())?;
    let limits = GateLayer::builder(gate).client_ip(ClientIp::peer()).route().build()?;
    Ok(Router::new().route("/", get(home)).route("/export", get(|| async { "all" })).layer(limits))
}

async fn home(Extension(answer): Extension<Answer>) -> String {
    let degraded = answer.ruling().is_some_and(tollgate::Ruling::is_degraded);
    format!("{} left{}", answer.remaining(), if degraded { ", without the store" } else { "" })
}

/// Serves a node.
pub(crate) async fn serve(listener: TcpListener, store: RedisStore) -> Result<(), Box<dyn Error>> {
    let app = app(store)?.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let redis = arguments.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let store = RedisStore::open(&redis)?;
    if let Some(address) = arguments.next() {
        return serve(TcpListener::bind(address).await?, store).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        if let Err(error) = serve(listener, store).await {
            eprintln!("{error}");
        }
    });
    for path in ["/", "/", "/export", "/", "/"] {
        println!("GET {path}\n{}\n", ask(address, path).await?);
    }
    Ok(())
}

/// Sends a request by hand, and says what comes back.
async fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer)
}
