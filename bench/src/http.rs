//! HTTP: `POST /v1/check` beside a bare axum handler that answers 200 and throttlecrab-server, asked
//! by the same client.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tollgate::{Gate, Limit, Policy, Rule};

use crate::crab::Crab;
use crate::measure::{order, quantile};
use crate::serving::serve;

const CONNECTIONS: u64 = 50;

/// How long each is asked in a round: short, so that what disturbs one disturbs its neighbours.
const SLICE: Duration = Duration::from_millis(250);
const GOAL: f64 = 0.6;

/// Who is asked, at which path, and with which body for the connection of a number.
struct Asked {
    address: SocketAddr,
    path: &'static str,
    body: fn(u64) -> String,
}

pub(crate) fn run(rounds: usize) {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(1_000_000));
    let gate = Gate::new(Policy::new().rule(rule)).expect("the policy is right");
    let served = serve(|server| server, gate);
    let Some(ours) = served.http else { return };
    let crab = Crab::start();
    let check = |address| Asked { address, path: "/v1/check", body: attributes };
    let mut all = vec![check(bare()), check(ours)];
    let limit = |crab: &Crab| Asked { address: crab.http, path: "/throttle", body: numbers };
    all.extend(crab.as_ref().map(limit));
    let mut rates = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        for at in order(all.len(), round) {
            rates[at].push(ask(&all[at]));
        }
    }
    println!("requests/s over {CONNECTIONS} connections, medians of {rounds} rounds");
    for (name, rates) in
        ["bare axum handler", "POST /v1/check", "throttlecrab-server POST /throttle"]
            .iter()
            .zip(&rates)
    {
        println!("  {:>8.0}  {name}", quantile(rates, 0.5));
    }
    let names = [("a bare axum handler", GOAL), ("throttlecrab-server", 1.0)];
    for ((name, goal), theirs) in names.iter().zip(rates.iter().step_by(2)) {
        let ratios: Vec<_> = rates[1].iter().zip(theirs).map(|(ours, of)| ours / of).collect();
        let ratio = quantile(&ratios, 0.5);
        let reached = if ratio >= *goal { "reached" } else { "MISSED" };
        println!("  beside {name} {ratio:.2}, goal {goal}: {reached}");
    }
}

fn attributes(number: u64) -> String {
    format!("{{\"attributes\": {{\"user\": \"{number}\"}}}}")
}

fn numbers(number: u64) -> String {
    format!(
        "{{\"key\": \"{number}\", \"max_burst\": 1000000, \"count_per_period\": 1000000, \"period\": 60}}"
    )
}

/// A handler that answers 200 to whatever is posted.
fn bare() -> SocketAddr {
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime can be made");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let router = Router::new().route("/v1/check", post(|| async { "ok" }));
        let _ = runtime.block_on(async { axum::serve(listener, router).await });
    });
    address
}

/// Requests per second over a slice, by one thread.
fn ask(asked: &Asked) -> f64 {
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let began = Instant::now();
    let until = began + SLICE;
    let answered: u64 = runtime.block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..CONNECTIONS {
            let Asked { address, path, body } = *asked;
            clients.spawn(client(address, (path, body(number)), until));
        }
        clients.join_all().await.into_iter().sum()
    });
    answered as f64 / began.elapsed().as_secs_f64()
}

async fn client(address: SocketAddr, (path, body): (&str, String), until: Instant) -> u64 {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let _ = stream.set_nodelay(true);
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut answered = 0;
    let mut buffer = vec![0; 4096];
    while Instant::now() < until {
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut read = 0;
        while !is_whole(&buffer[..read]) {
            let more = stream.read(&mut buffer[read..]).await.expect("it answers");
            assert!(more > 0, "the server closed");
            read += more;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", buffer[..read].escape_ascii());
        answered += 1;
    }
    answered
}

/// Whether the head and as many bytes as it says are there. Nothing is copied: what the client does
/// with an answer is taken from the server's cores.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return false };
    let (head, body) = (&bytes[..end], &bytes[end + 4..]);
    let name = b"\r\ncontent-length: ";
    let at = memmem::find(head, name).expect("a head says how long its body is");
    let digits = head[at + name.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    body.len() >= length
}
