//! Hostile input: the server keeps serving other clients.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate::Gate;
use tollgate_server::{Server, Stopped};
use tollgate_testkit::{DEADLINE, eventually};

use super::support::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Settings without any.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The kind of the frame that ends a connection.
const GOAWAY: u8 = 7;
/// The code of an end for want of room.
const ENHANCE_YOUR_CALM: u32 = 11;

/// A connection to the gRPC port after these bytes were sent.
fn begin(rls: &Rls, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(rls.server.grpc).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // A server that has refused may have closed already.
    let _ = stream.write_all(bytes);
    stream
}

/// Reads until the server closes the connection, or breaks it off.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the server closes in time");
    }
    answer
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, stream];
    frame.extend(payload);
    frame
}

#[test]
fn garbage_half_frames_and_other_protocols_harm_nobody() {
    let mut rls = Rls::start();
    let begun = [PREFACE, SETTINGS].concat();
    let noise: Vec<u8> =
        (0..100_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let cases: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"GET / HTTP/1.1\r\nhost: t\r\n\r\n".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        PREFACE[..10].to_vec(),
        PREFACE.to_vec(),
        begun.clone(),
        noise.clone(),
        [&begun, &noise[..]].concat(),
        // Headers that are no headers, data of no stream, a frame that says it is enormous.
        [&begun, &frame(1, 5, 1, &[0xff; 40])[..]].concat(),
        [&begun, &frame(0, 0, 3, b"data")[..]].concat(),
        [&begun, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1][..]].concat(),
        // A head that is never whole.
        [&begun, &frame(1, 0, 1, &[0x82, 0x86])[..]].concat(),
        // A flood of settings, pings and resets.
        [&begun, &frame(4, 0, 0, &[]).repeat(5000)[..]].concat(),
        [&begun, &frame(6, 0, 0, &[7; 8]).repeat(5000)[..]].concat(),
        [&begun, &frame(3, 0, 1, &[0, 0, 0, 8]).repeat(5000)[..]].concat(),
    ];
    let mut open = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        open.push(begin(&rls, case));
        assert_eq!(rls.ask([user(&format!("{number} open"))]).overall_code(), Code::Ok);
        let closed = begin(&rls, case);
        let _ = closed.shutdown(Shutdown::Write);
        rest(closed);
        assert_eq!(rls.ask([user(&format!("{number} closed"))]).overall_code(), Code::Ok);
    }
    drop(open);
    eventually("bad requests are counted", || rls.metric("tollgate_bad_requests_total") > 0);
    assert_eq!(rls.server.stopped(), Stopped::InOrder);
}

#[test]
fn headers_that_are_too_long_are_refused_and_the_connection_goes_on() {
    let rls = Rls::start();
    for (length, code) in [(100, None), (40_000, Some(tonic::Code::Unknown)), (100, None)] {
        let mut asked = tonic::Request::new(request([user("ana")]));
        asked.metadata_mut().insert("x-long", "x".repeat(length).parse().unwrap());
        let call = rls.client.unary::<_, RateLimitResponse>(SHOULD_RATE_LIMIT, asked);
        let refused = run(call).err().map(|status| status.code());
        assert_eq!(refused, code, "{length} bytes");
    }
}

#[test]
fn one_connection_too_many_is_told_and_others_go_on() {
    let rls = Rls::with(|server| server.max_connections(2));
    rls.ask([user("ana")]);
    let mut second = begin(&rls, &[PREFACE, SETTINGS].concat());
    second.read_exact(&mut [0; 9]).unwrap();
    let third = rest(begin(&rls, b""));
    // Settings without any, and then the frame that says that the connection ends.
    let (settings, goaway) = third.split_at(SETTINGS.len());
    assert_eq!((settings, goaway[3]), (SETTINGS, GOAWAY), "{third:?}");
    assert_eq!(goaway[13..17], ENHANCE_YOUR_CALM.to_be_bytes(), "{goaway:?}");
    assert_eq!(left(&rls.ask([user("ana")])), [1]);
    drop(second);
}

/// Starts a server on the runtime of the test, so that its timers have the clock of the test.
async fn start_here() -> SocketAddr {
    let gate = Gate::new(envoy_policy()).unwrap();
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = Server::builder(gate).grpc(free).bind().await.unwrap();
    let address = server.grpc_address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// A call whose message never comes. The clock of the server's timers is moved, not waited for.
#[tokio::test(start_paused = true)]
async fn a_message_that_never_comes_is_not_waited_for() {
    let mut client = tonic::client::Grpc::new(connect(start_here().await).await);
    client.ready().await.unwrap();
    let never = tokio_stream::pending::<RateLimitRequest>();
    let codec = tonic_prost::ProstCodec::<_, RateLimitResponse>::default();
    let path = SHOULD_RATE_LIMIT.parse().unwrap();
    let call = client.client_streaming(tonic::Request::new(never), path, codec);
    let before = tokio::time::Instant::now();
    let status = call.await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status:?}");
    assert_eq!(before.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_calls_is_closed() {
    let address = start_here().await;
    // For the first byte, for the preface and then for the end, and for the answer to a ping.
    let whole = [PREFACE, SETTINGS].concat();
    for (begun, seconds) in [(&b""[..], 10), (&PREFACE[..5], 70), (PREFACE, 50), (&whole, 50)] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let before = tokio::time::Instant::now();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(before.elapsed().as_secs(), seconds, "{begun:?}");
    }
}
