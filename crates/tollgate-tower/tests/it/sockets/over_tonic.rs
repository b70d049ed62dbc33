//! The tonic example.

#[path = "../../../examples/tonic.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tollgate::Limit;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

async fn start(limit: Limit) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let served = example::serve(listener, limit).await.map_err(|error| error.to_string());
        served.unwrap();
    });
    address
}

async fn check(address: SocketAddr) -> Result<(), tonic::Status> {
    let endpoint = Endpoint::new(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    client.check(HealthCheckRequest::default()).await.map(drop)
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_again() {
    let address = start(Limit::per_hour(2)).await;
    let begin = Instant::now();
    assert!(check(address).await.is_ok());
    assert!(check(address).await.is_ok());
    let status = check(address).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let wait = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    // Two an hour are one in 1800 seconds, of which those since the first call have passed.
    let whole = Duration::from_secs(1800);
    assert!(wait <= whole && wait + begin.elapsed() >= whole, "{wait:?}");
    let seconds = wait.as_nanos().div_ceil(1_000_000_000);
    let message = format!("too many requests, try again in {seconds} seconds");
    assert_eq!(status.message(), message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_share_one_limit() {
    let address = start(Limit::per_day(20)).await;
    let asked: Vec<_> = (0..60).map(|_| tokio::spawn(check(address))).collect();
    let mut served = 0;
    for answer in asked {
        served += u32::from(answer.await.unwrap().is_ok());
    }
    assert_eq!(served, 20);
}
