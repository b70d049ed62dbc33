//! The example with Redis: a fleet of two nodes on one real server, over sockets.

#[path = "../../examples/redis.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_testkit::RedisServer;

async fn start(redis: &RedisServer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = redis.url();
    tokio::spawn(async move {
        let served = example::serve(listener, &url).await.map_err(|error| error.to_string());
        served.unwrap();
    });
    address
}

async fn ask(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn nodes_share_a_limit_through_the_store() {
    let redis = RedisServer::start();
    let nodes = [start(&redis).await, start(&redis).await];
    for request in 0..4 {
        let answer = ask(nodes[request % 2], "/").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("ratelimit: \"per-address\";r="), "{answer}");
        assert!(answer.ends_with(&format!("{} left", 3 - request)), "{answer}");
    }
    for node in nodes {
        let answer = ask(node, "/").await;
        assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
        assert!(answer.contains("\r\nretry-after: "), "{answer}");
    }
}

#[tokio::test]
async fn without_the_server_each_rule_does_what_it_says() {
    let mut redis = RedisServer::start();
    let node = start(&redis).await;
    let answer = ask(node, "/export").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    redis.kill();
    for left in [1, 0] {
        let answer = ask(node, "/").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "its part is two of four: {answer}");
        assert!(answer.ends_with(&format!("{left} left, without the store")), "{answer}");
    }
    assert!(ask(node, "/").await.starts_with("HTTP/1.1 429"));
    let answer = ask(node, "/export").await;
    assert!(answer.starts_with("HTTP/1.1 429"), "it is not to pass without the store: {answer}");
    assert!(answer.contains("\r\nretry-after: "), "{answer}");
}
