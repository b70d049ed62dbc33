//! A tonic server under one limit for each address: who asks too often gets `RESOURCE_EXHAUSTED`
//! with a `RetryInfo` that says when to come again.
//!
//! `cargo run -p tollgate-tower --features tonic --example tonic` shows what it does, and with
//! `-- 127.0.0.1:50051` it serves there. The service is gRPC's own health check, so that no
//! protobuf compiler is needed.

use std::error::Error;

use tokio::net::TcpListener;
use tollgate::{Limit, Limiter};
use tollgate_tower::{ClientIp, GateLayer};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

/// Serves the health service under `limit`.
pub(crate) async fn serve(listener: TcpListener, limit: Limit) -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder(limit).name("per-address").build()?;
    let layer = GateLayer::builder(limiter).client_ip(ClientIp::peer()).grpc().build()?;
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::from(listener);
    Ok(Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limit = Limit::per_minute(60).burst(3);
    if let Some(address) = std::env::args().nth(1) {
        return serve(TcpListener::bind(address).await?, limit).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        if let Err(error) = serve(listener, limit).await {
            eprintln!("{error}");
        }
    });
    let channel = tonic::transport::Endpoint::new(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    for number in 1..=4 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(answer) => println!("call {number}: {:?}", answer.into_inner()),
            Err(status) => {
                let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
                println!("call {number}: {}, try again in {wait:?}", status.code());
            }
        }
    }
    Ok(())
}
