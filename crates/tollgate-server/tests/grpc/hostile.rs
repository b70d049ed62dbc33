//! What no well-meant client sends: the server goes on serving others.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::Stopped;

use super::support::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Settings without any.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Sends bytes and reads until the server closes, or nothing more comes; what came.
async fn exchange(rls: &Rls, bytes: &[u8], shut: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(rls.address).await.unwrap();
    // A server that has refused may have closed already.
    let _ = stream.write_all(bytes).await;
    if shut {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let patience = if shut { PATIENCE } else { Duration::from_millis(200) };
    let _ = tokio::time::timeout(patience, reading).await;
    answer
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, stream];
    frame.extend(payload);
    frame
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_half_frames_and_other_protocols_harm_nobody() {
    let rls = Rls::start().await;
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
        // So many settings, pings and resets.
        [&begun, &frame(4, 0, 0, &[]).repeat(5000)[..]].concat(),
        [&begun, &frame(6, 0, 0, &[7; 8]).repeat(5000)[..]].concat(),
        [&begun, &frame(3, 0, 1, &[0, 0, 0, 8]).repeat(5000)[..]].concat(),
    ];
    for (number, case) in cases.iter().enumerate() {
        for shut in [false, true] {
            exchange(&rls, case, shut).await;
            assert_eq!(rls.ask([user(&format!("{number}{shut}"))]).await.overall_code(), Code::Ok);
        }
    }
    assert!(rls.metric("tollgate_bad_requests_total").await > 0);
    assert_eq!(rls.stopped().await, Stopped::InOrder);
}

#[tokio::test]
async fn headers_that_are_too_long_are_refused_and_the_connection_goes_on() {
    let rls = Rls::start().await;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let mut client = tonic::client::Grpc::new(connect(rls.address).await);
    for (length, passes) in [(100, true), (40_000, false), (100, true)] {
        client.ready().await.unwrap();
        let mut asked = tonic::Request::new(request([user("ana")]));
        asked.metadata_mut().insert("x-long", "x".repeat(length).parse().unwrap());
        let codec = tonic_prost::ProstCodec::<_, RateLimitResponse>::default();
        let call = client.unary(asked, path.parse().unwrap(), codec);
        let answered = tokio::time::timeout(PATIENCE, call).await.unwrap();
        assert_eq!(answered.is_ok(), passes, "{length}: {answered:?}");
    }
}

#[tokio::test]
async fn one_connection_too_many_is_told_and_others_go_on() {
    let rls = Rls::with(|server| server.max_connections(2)).await;
    rls.ask([user("ana")]).await;
    let mut second = TcpStream::connect(rls.address).await.unwrap();
    second.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    let mut first_frame = [0; 9];
    second.read_exact(&mut first_frame).await.unwrap();
    let told = exchange(&rls, b"", false).await;
    assert!(told.ends_with(b"too many connections, try again later"), "{told:?}");
    assert_eq!(left(&rls.ask([user("ana")]).await), [1]);
    drop(second);
}

/// A call whose message never comes. The clock of the server's timers is moved, not waited for.
#[tokio::test(start_paused = true)]
async fn a_message_that_never_comes_is_not_waited_for() {
    let rls = Rls::start().await;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let mut client = tonic::client::Grpc::new(connect(rls.address).await);
    client.ready().await.unwrap();
    let never = tokio_stream::pending::<RateLimitRequest>();
    let codec = tonic_prost::ProstCodec::<_, RateLimitResponse>::default();
    let call = client.client_streaming(tonic::Request::new(never), path.parse().unwrap(), codec);
    let status = tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status:?}");
    assert!(status.message().contains("longer than 10s"), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_calls_is_closed() {
    let rls = Rls::start().await;
    for begun in [&b""[..], &PREFACE[..5], PREFACE, &[PREFACE, SETTINGS].concat()] {
        let mut stream = TcpStream::connect(rls.address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut answer = Vec::new();
        let before = tokio::time::Instant::now();
        let closed =
            tokio::time::timeout(Duration::from_secs(600), stream.read_to_end(&mut answer));
        assert!(closed.await.is_ok(), "it is never closed: {begun:?}");
        // Who says nothing at all is waited for only a moment.
        let most = Duration::from_secs(if begun.is_empty() { 10 } else { 120 });
        assert!(before.elapsed() <= most, "{:?} after {begun:?}", before.elapsed());
    }
}
