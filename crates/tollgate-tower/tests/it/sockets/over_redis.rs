//! The example with Redis: a fleet of two nodes on one real server, over sockets.

#[path = "../../../examples/redis.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_redis::RedisStore;
use tollgate_testkit::{DEADLINE, RedisServer};

use super::answer::Answer;

async fn start(redis: &RedisServer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // A server that is slow for a moment is not away.
    let store = RedisStore::builder(redis.url()).timeout(DEADLINE).connect_timeout(DEADLINE);
    let store = store.open().unwrap();
    tokio::spawn(async move {
        let served = example::serve(listener, store).await.map_err(|error| error.to_string());
        served.unwrap();
    });
    address
}

async fn ask(address: SocketAddr, path: &str) -> Answer {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    Answer::parse(&answer)
}

#[tokio::test]
async fn nodes_share_a_limit_through_the_store() {
    // No other test uses the example's rules on this server.
    let redis = RedisServer::shared();
    let nodes = [start(redis).await, start(redis).await];
    for request in 0..4 {
        let answer = ask(nodes[request % 2], "/").await;
        assert_eq!(answer.code, 200);
        assert_eq!(answer.body, format!("{} left", 3 - request));
        let told = format!("\"per-address\";r={}", 3 - request);
        let of_ours = answer.header("ratelimit").and_then(|told| told.split(";t=").next());
        assert_eq!(of_ours, Some(told.as_str()));
    }
    for node in nodes {
        let answer = ask(node, "/").await;
        assert_eq!(answer.code, 429);
        // Four an hour are one in 900 seconds.
        assert!((1..=900).contains(&answer.retry_after()), "{answer:?}");
    }
}

#[tokio::test]
async fn without_the_server_each_rule_does_what_it_says() {
    let mut redis = RedisServer::start();
    let node = start(&redis).await;
    assert_eq!(ask(node, "/export").await.code, 200);
    redis.kill();
    for left in [1, 0] {
        let answer = ask(node, "/").await;
        assert_eq!(answer.code, 200, "its part is two of four");
        assert_eq!(answer.body, format!("{left} left, without the store"));
    }
    assert_eq!(ask(node, "/").await.code, 429);
    let answer = ask(node, "/export").await;
    assert_eq!(answer.code, 429, "it is not to pass without the store");
    assert!(answer.retry_after() >= 1);
}
