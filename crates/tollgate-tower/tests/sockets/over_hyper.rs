//! The hyper example.

#[path = "../../examples/hyper.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::Limit;

async fn start(limit: Limit) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let served = example::serve(listener, limit).await.map_err(|error| error.to_string());
        served.unwrap();
    });
    address
}

async fn ask(address: SocketAddr) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    connection.write_all(request).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_connections_share_one_limit() {
    let address = start(Limit::per_day(100)).await;
    let asked: Vec<_> = (0..300).map(|_| tokio::spawn(ask(address))).collect();
    let mut served = 0;
    for answer in asked {
        served += u32::from(answer.await.unwrap().starts_with("HTTP/1.1 200"));
    }
    assert_eq!(served, 100);
    let refused = ask(address).await;
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    assert!(refused.contains("\r\nretry-after: "), "{refused}");
}

#[tokio::test]
async fn requests_on_one_connection_are_counted_one_by_one() {
    let address = start(Limit::per_hour(2)).await;
    let mut connection = TcpStream::connect(address).await.unwrap();
    let mut codes = Vec::new();
    for _ in 0..3 {
        connection.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        let length = connection.read(&mut answer).await.unwrap();
        codes.push(String::from_utf8_lossy(&answer[9..12.min(length)]).into_owned());
    }
    assert_eq!(codes, ["200", "200", "429"]);
}
