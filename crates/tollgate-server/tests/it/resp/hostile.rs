//! Clients that mean harm, and those beside them that must not notice.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::RespBounds;
use tollgate_testkit::{DEADLINE, eventually_async};

use super::support::RespServer;
use crate::support::Texts;

const SHORT: Duration = Duration::from_millis(200);

async fn connect(server: &RespServer) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

/// Everything until the server closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("it closes").unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn is_served(stream: &mut TcpStream) {
    stream.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 7];
    timeout(DEADLINE, stream.read_exact(&mut answer)).await.expect("it answers").unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_told_and_closed_and_others_are_served() {
    let server = RespServer::start(patient(), None).await;
    let mut good = connect(&server).await;
    is_served(&mut good).await;
    let long = [b"a".repeat(9_000), b"\r\n".to_vec()].concat();
    let mut texts = Texts::default();
    for bytes in [
        b"*1\r\n$999999999\r\n".as_slice(),
        b"*1000000\r\n",
        b"*2\r\n*2\r\n*2\r\n",
        b"*1\r\n\xff\xff",
        b"POST /v1/check HTTP/1.1\r\nHost: x\r\n\r\n",
        &long,
    ] {
        let mut bad = connect(&server).await;
        bad.write_all(bytes).await.unwrap();
        let answer = rest(&mut bad).await;
        assert!(answer.starts_with("-ERR ") && answer.lines().count() == 1, "{answer}");
        texts.add(&String::from_utf8_lossy(bytes), &answer);
        is_served(&mut good).await;
    }
    assert_eq!(server.resp.counts().protocol_errors, 6);
    texts.assert_golden("resp", "garbage");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_garbage_does_not_lose_the_word_that_says_why() {
    let server = RespServer::start(patient(), None).await;
    let mut bad = connect(&server).await;
    // The server may close while this is still being written.
    let _ = bad.write_all(&b"*1\r\n?".repeat(10_000)).await;
    let answer = rest(&mut bad).await;
    assert!(answer.starts_with("-ERR ") && answer.lines().count() == 1, "{answer}");
    assert_eq!(server.resp.counts().protocol_errors, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_command_times_out_and_others_are_served() {
    let bounds = RespBounds { rest_of_command: SHORT, ..patient() };
    let server = RespServer::start(bounds, None).await;
    let mut good = connect(&server).await;
    is_served(&mut good).await;
    let mut slow = connect(&server).await;
    slow.write_all(b"*2\r\n$4\r\nEC").await.unwrap();
    assert_eq!(rest(&mut slow).await, "");
    is_served(&mut good).await;
    assert_eq!(server.resp.counts().timed_out, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connection_times_out_and_others_are_served() {
    let server = RespServer::start(RespBounds { first_byte: SHORT, ..patient() }, None).await;
    assert_eq!(rest(&mut connect(&server).await).await, "");
    assert_eq!(server.resp.counts().timed_out, 1);
    // On a slow machine a connection of the test itself may be silent for too long.
    eventually_async("another connection is served", async || {
        let mut next = connect(&server).await;
        let _ = next.write_all(b"PING\r\n").await;
        let mut answer = [0; 7];
        next.read_exact(&mut answer).await.is_ok_and(|_| &answer == b"+PONG\r\n")
    })
    .await;
    server.stop().await;
}

/// Bounds of time that are never reached.
fn patient() -> RespBounds {
    let hour = Duration::from_secs(3600);
    let bounds = RespBounds { first_byte: hour, rest_of_command: hour, ..RespBounds::default() };
    RespBounds { idle: hour, unread: hour, ..bounds }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_is_closed_and_others_are_served() {
    let bounds = RespBounds { unread: SHORT, ..patient() };
    let server = RespServer::start(bounds, None).await;
    let mut good = connect(&server).await;
    is_served(&mut good).await;
    let mut deaf = connect(&server).await;
    let message = [b"ECHO ".as_slice(), &b"x".repeat(8_000), b"\r\n"].concat();
    let flood = async { while deaf.write_all(&message).await.is_ok() {} };
    timeout(DEADLINE, flood).await.expect("the server closes");
    is_served(&mut good).await;
    assert_eq!(server.resp.counts().timed_out, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_too_many_is_told_so_and_a_place_is_free_again() {
    let bounds = RespBounds { connections: 2, ..patient() };
    let server = RespServer::start(bounds, None).await;
    let (mut first, mut second) = (connect(&server).await, connect(&server).await);
    is_served(&mut first).await;
    is_served(&mut second).await;
    let mut third = connect(&server).await;
    assert_eq!(rest(&mut third).await, "-ERR max number of clients reached, try again later\r\n");
    assert_eq!(server.resp.counts().refused, 1);
    drop(first);
    eventually_async("one connection is open", async || server.resp.counts().open == 1).await;
    eventually_async("another connection is served", async || {
        let mut next = connect(&server).await;
        next.write_all(b"PING\r\n").await.unwrap();
        let mut answer = [0; 5];
        next.read_exact(&mut answer).await.is_ok() && &answer == b"+PONG"
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_closed_and_vanished_clients_leave_nothing_behind() {
    let server = RespServer::start(patient(), None).await;
    let mut half = connect(&server).await;
    half.write_all(&b"THROTTLE k 1 1 60\r\n".repeat(1_000)).await.unwrap();
    half.write_all(b"*2\r\n$4\r\nEC").await.unwrap();
    half.shutdown().await.unwrap();
    assert_eq!(rest(&mut half).await.matches("*5\r\n").count(), 1_000);
    for _ in 0..100 {
        let mut gone = connect(&server).await;
        gone.write_all(b"PING\r\n*1\r\n").await.unwrap();
    }
    eventually_async("all connections are closed", async || {
        let counts = server.resp.counts();
        (counts.open, counts.accepted) == (0, 101)
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_closes_its_connections_and_accepts_no_more() {
    let server = RespServer::start(patient(), None).await;
    let mut idle = connect(&server).await;
    is_served(&mut idle).await;
    let address = server.address;
    timeout(DEADLINE, server.stop()).await.expect("it stops");
    assert_eq!(rest(&mut idle).await, "");
    assert!(TcpStream::connect(address).await.is_err());
}
