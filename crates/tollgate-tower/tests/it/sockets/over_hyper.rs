//! The hyper example.

#[path = "../../../examples/hyper.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::Limit;

use super::answer::Answer;

async fn start(limit: Limit) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let served = example::serve(listener, limit).await.map_err(|error| error.to_string());
        served.unwrap();
    });
    address
}

async fn ask(address: SocketAddr) -> Answer {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    connection.write_all(request).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    Answer::parse(&answer)
}

/// Reads one response from a connection that stays open.
async fn read_one(connection: &mut TcpStream) -> Answer {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 1024];
        let length = connection.read(&mut bytes).await.unwrap();
        assert_ne!(length, 0, "the connection ends after {text:?}");
        text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        if text.contains("\r\n\r\n") {
            let answer = Answer::parse(&text);
            if answer.header("content-length") == Some(&answer.body.len().to_string()) {
                return answer;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_connections_share_one_limit() {
    let address = start(Limit::per_day(100)).await;
    let asked: Vec<_> = (0..300).map(|_| tokio::spawn(ask(address))).collect();
    let mut served = 0;
    for answer in asked {
        served += u32::from(answer.await.unwrap().code == 200);
    }
    assert_eq!(served, 100);
    let refused = ask(address).await;
    assert_eq!(refused.code, 429);
    // A hundred a day are one in 864 seconds.
    assert!((1..=864).contains(&refused.retry_after()), "{refused:?}");
}

#[tokio::test]
async fn requests_on_one_connection_are_counted_one_by_one() {
    let address = start(Limit::per_hour(2)).await;
    let mut connection = TcpStream::connect(address).await.unwrap();
    let mut codes = Vec::new();
    for _ in 0..3 {
        connection.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        codes.push(read_one(&mut connection).await.code);
    }
    assert_eq!(codes, [200, 200, 429]);
}
