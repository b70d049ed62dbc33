//! Envoy's rate limit service beside a bare tonic handler, over the same connections' worth of load.
//!
//! Client and servers share the machine. Each contender is a server of its own on loopback, asked
//! in turn by the same clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::task::JoinSet;
use tollgate::{Gate, Limit, Policy, Rule};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::measure::{order, quantile};

#[allow(dead_code, unreachable_pub, unused_qualifications, clippy::all, clippy::too_many_lines)]
mod proto {
    include!("../../crates/tollgate-server/src/grpc/generated/mod.rs");
}

use proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use proto::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

const CONNECTIONS: usize = 4;
const AT_ONCE: usize = 64;
const KEYS: u64 = 10_000;
const SLICE: Duration = Duration::from_millis(250);
const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Answers that a request may pass, and decides nothing.
struct Bare;

#[tonic::async_trait]
impl RateLimitService for Bare {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        std::hint::black_box(request.get_ref());
        Ok(Response::new(RateLimitResponse { overall_code: 1, ..RateLimitResponse::default() }))
    }
}

pub(crate) fn run(rounds: usize) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let contenders = [connect(bare().await).await, connect(tollgate().await).await];
        let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        // The first round warms up.
        for round in 0..=rounds {
            let mut of_round = [0.0; 2];
            for contender in order(2, round) {
                of_round[contender] = calls_per_second(&contenders[contender]).await;
            }
            if round > 0 {
                ratios.push(of_round[1] / of_round[0]);
                (0..2).for_each(|contender| rates[contender].push(of_round[contender]));
            }
        }
        let [bare, ours] = [quantile(&rates[0], 0.5), quantile(&rates[1], 0.5)];
        println!("gRPC, {CONNECTIONS} connections, {AT_ONCE} calls at once, medians of {rounds} rounds");
        println!("  bare tonic handler    {bare:>9.0} calls/s");
        println!("  rate limit service    {ours:>9.0} calls/s");
        let ratio = quantile(&ratios, 0.5);
        println!("  ratio                 {ratio:>9.2}  (goal: at least 0.70)");
        println!("  waits at half load, {rounds} rounds: medians, and the worst round (Envoy waits 20 ms)");
        let mut waits = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for contender in order(2, round) {
                waits[contender].push(waits_at(ours / 2.0, &contenders[contender]).await);
            }
        }
        for (name, rounds) in ["bare tonic handler", "rate limit service"].iter().zip(&waits) {
            let of = |share| rounds.iter().map(|round| quantile(round, share)).collect::<Vec<_>>();
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| quantile(&of(share), 0.5));
            let worst = quantile(&of(0.999), 1.0);
            println!("  {name}: p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms, worst {worst:.2} ms");
        }
    });
}

async fn bare() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = RateLimitServiceServer::new(Bare);
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}

async fn tollgate() -> SocketAddr {
    let limit = Limit::per_second(1_000_000_000);
    let policy = Policy::new().rule(Rule::new("per-user").key(["user"]).limit(limit));
    let gate = Gate::new(policy).expect("a policy");
    let server = tollgate_server::Server::builder(gate);
    let server = server.grpc(Some("127.0.0.1:0".parse().expect("an address")));
    let server = server.bind().await.expect("a port");
    let address = server.grpc_address().expect("bound");
    tokio::spawn(server.run(std::future::pending()));
    address
}

async fn connect(address: SocketAddr) -> Vec<Channel> {
    let mut channels = Vec::new();
    for _ in 0..CONNECTIONS {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let endpoint = endpoint.tcp_nodelay(true);
        channels.push(endpoint.connect().await.expect("it listens"));
    }
    channels
}

/// Asks whether a user may.
fn request(user: u64) -> RateLimitRequest {
    let entry = Entry { key: "user".to_owned(), value: user.to_string() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    RateLimitRequest { domain: "edge".to_owned(), descriptors: vec![descriptor], hits_addend: 1 }
}

/// A connection's first bytes and a call, for who wants no client around them: the preface, an empty
/// frame of settings, headers that are put in no table, and a message.
pub(crate) fn raw_call() -> Vec<u8> {
    let mut headers = b"\x83\x86\x01\x01t\x04".to_vec();
    let text = |headers: &mut Vec<u8>, text: &str| {
        headers.push(u8::try_from(text.len()).expect("no text is long"));
        headers.extend_from_slice(text.as_bytes());
    };
    text(&mut headers, PATH);
    headers.extend_from_slice(b"\x0f\x10");
    text(&mut headers, "application/grpc");
    headers.push(0);
    text(&mut headers, "te");
    text(&mut headers, "trailers");
    let message = request(1).encode_to_vec();
    let mut data = vec![0];
    data.extend_from_slice(&u32::try_from(message.len()).expect("it is short").to_be_bytes());
    data.extend_from_slice(&message);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Kinds 4, 1 and 0; the headers are whole, and the message is the last of its stream.
    for (kind, flags, stream, payload) in
        [(4, 0, 0, &[][..]), (1, 4, 1, &headers[..]), (0, 1, 1, &data[..])]
    {
        let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
        bytes.extend_from_slice(&length[1..]);
        bytes.extend_from_slice(&[kind, flags, 0, 0, 0, stream]);
        bytes.extend_from_slice(payload);
    }
    bytes
}

/// Asks for a user, who is another each time.
async fn call(channel: &Channel, number: u64) {
    let request = request(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS);
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.expect("a connection");
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let path = PathAndQuery::from_static(PATH);
    let answer = client.unary(Request::new(request), path, codec).await.expect("an answer");
    assert_eq!(answer.get_ref().overall_code, 1);
}

async fn calls_per_second(clients: &[Channel]) -> f64 {
    let calls = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let (channel, calls) = (clients[task % clients.len()].clone(), Arc::clone(&calls));
        tasks.spawn(async move {
            while began.elapsed() < SLICE {
                call(&channel, calls.fetch_add(1, Ordering::Relaxed)).await;
            }
        });
    }
    tasks.join_all().await;
    calls.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// Milliseconds from when each of so many calls a second was due until it was answered. A thread that
/// sleeps gives the start: timers of the runtime tick in milliseconds.
async fn waits_at(rate: f64, clients: &[Channel]) -> Vec<f64> {
    let every = Duration::from_secs_f64(1.0 / rate);
    let (runtime, clients) = (tokio::runtime::Handle::current(), clients.to_vec());
    let (told, mut waits) = tokio::sync::mpsc::unbounded_channel();
    let began = Instant::now() + Duration::from_millis(20);
    let start = move || {
        let due = (0_u32..).map(|number| began + every * number);
        for (number, due) in due.take_while(|due| *due < began + 2 * SLICE).enumerate() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let (channel, told) = (clients[number % clients.len()].clone(), told.clone());
            runtime.spawn(async move {
                call(&channel, number as u64).await;
                let _ = told.send(due.elapsed().as_secs_f64() * 1e3);
            });
        }
    };
    let starter = std::thread::spawn(start);
    let mut all = Vec::new();
    while let Some(wait) = waits.recv().await {
        all.push(wait);
    }
    starter.join().expect("it only sleeps and starts");
    all
}
