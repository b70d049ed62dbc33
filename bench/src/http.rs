//! HTTP: `POST /v1/check` beside a bare axum handler that answers 200, asked by the same client.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tollgate::{Gate, Limit, Policy, Rule};

use crate::measure::quantile;
use crate::serving::serve;

const CONNECTIONS: u64 = 50;
const GOAL: f64 = 0.6;

pub(crate) fn run(rounds: usize) {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(1_000_000));
    let gate = Gate::new(Policy::new().rule(rule)).expect("the policy is right");
    let served = serve(|server| server, gate);
    let bare = bare();
    let Some(ours) = served.http else { return };
    let (mut theirs, mut of_ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (bare, check) = (ask(bare), ask(ours));
        ratios.push(check / bare);
        theirs.push(bare);
        of_ours.push(check);
    }
    let median = |values: Vec<f64>| quantile(&values, 0.5);
    let ratio = median(ratios);
    println!("requests/s over {CONNECTIONS} connections, medians of {rounds} rounds");
    println!("bare axum handler {:.0}, POST /v1/check {:.0}", median(theirs), median(of_ours));
    let reached = if ratio >= GOAL { "reached" } else { "MISSED" };
    println!("ratio {ratio:.2}, goal {GOAL}: {reached}");
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
fn ask(address: SocketAddr) -> f64 {
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let began = Instant::now();
    let until = began + Duration::from_millis(700);
    let answered: u64 = runtime.block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..CONNECTIONS {
            clients.spawn(client(address, number, until));
        }
        clients.join_all().await.into_iter().sum()
    });
    answered as f64 / began.elapsed().as_secs_f64()
}

async fn client(address: SocketAddr, number: u64, until: Instant) -> u64 {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let _ = stream.set_nodelay(true);
    let body = format!("{{\"attributes\": {{\"user\": \"{number}\"}}}}");
    let length = body.len();
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
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
        answered += 1;
    }
    answered
}

/// Whether the head and as many bytes as it says are there.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length = length.and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
    bytes.len() >= head + 4 + length
}
