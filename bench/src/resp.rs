//! The Redis protocol: `THROTTLE` on our port beside plain `INCR` on a redis-server, asked in turn by
//! the same client. It is our own, since redis-benchmark is what is measured by it: it makes each
//! command anew and takes each answer apart, and one of five numbers costs it more than the server.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tollgate::{Gate, Policy};
use tollgate_testkit::RedisServer;

use crate::measure::quantile;
use crate::serving::serve;

const CONNECTIONS: usize = 50;
const KEYS: u64 = 1_000_000;

/// Commands that are made beforehand and sent again and again.
const MADE: usize = 400_000;

/// A pipeline, how many commands a round sends, and what is to be reached beside INCR.
const ROWS: [(usize, usize, f64); 3] =
    [(1, 100_000, 1.0), (16, 1_000_000, 1.3), (64, 2_000_000, 2.0)];

/// Commands, and how many lines the answer to each has.
struct Script {
    text: Vec<u8>,
    ends: Vec<usize>,
    lines: usize,
}

/// How fast, and how long a pipeline took.
#[derive(Clone, Copy)]
struct Told {
    per_second: f64,
    p99_millis: f64,
}

impl Script {
    /// `command` on random ones of so many keys, with these words behind the key.
    fn new(command: &str, words: &[&str], lines: usize) -> Script {
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(MADE));
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..MADE {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = format!("key:{:012}", random % KEYS);
            let all = [command, &key].into_iter().chain(words.iter().copied());
            // Writing to a string does not fail.
            let _ = write!(text, "*{}\r\n", words.len() + 2);
            all.for_each(|word| drop(write!(text, "${}\r\n{word}\r\n", word.len())));
            ends.push(text.len());
        }
        Script { text: text.into_bytes(), ends, lines }
    }

    /// The bytes of `count` commands from one on.
    fn slice(&self, from: usize, count: usize) -> &[u8] {
        let begin = from.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin..self.ends[from + count - 1]]
    }
}

pub(crate) fn run(rounds: usize) {
    let redis = RedisServer::start();
    let gate = Gate::new(Policy::new()).expect("a policy of no rules is right");
    let served = serve(|server| server.resp_threads(1), gate);
    let port = served.resp.map_or(0, |address| address.port());
    let incr = Script::new("INCR", &[], 1);
    let throttle = Script::new("THROTTLE", &["1000", "1000", "60"], 6);
    println!("commands/s over {CONNECTIONS} connections, {KEYS} keys; medians of {rounds} rounds");
    println!(
        "{:>8}  {:>12} {:>9}  {:>12} {:>9}  {:>6}  goal",
        "pipeline", "INCR/s", "p99 ms", "THROTTLE/s", "p99 ms", "ratio"
    );
    for (pipeline, commands, goal) in ROWS {
        let (mut theirs, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let plain = ask(redis.port(), (pipeline, commands), &incr);
            let limited = ask(port, (pipeline, commands), &throttle);
            ratios.push(limited.per_second / plain.per_second);
            theirs.push(plain);
            ours.push(limited);
        }
        let rate = |all: &[Told]| median(all.iter().map(|told| told.per_second).collect());
        let p99 = |all: &[Told]| median(all.iter().map(|told| told.p99_millis).collect());
        let ratio = median(ratios);
        println!(
            "{pipeline:>8}  {:>12.0} {:>9.3}  {:>12.0} {:>9.3}  {ratio:>6.2}  {goal:.1} {}",
            rate(&theirs),
            p99(&theirs),
            rate(&ours),
            p99(&ours),
            if ratio >= goal { "reached" } else { "MISSED" }
        );
    }
}

fn median(values: Vec<f64>) -> f64 {
    quantile(&values, 0.5)
}

/// Asks on one thread, so that the server has the other core.
fn ask(port: u16, (pipeline, commands): (usize, usize), script: &Script) -> Told {
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let each = commands / CONNECTIONS / pipeline;
    let began = Instant::now();
    let waits = runtime.block_on(async {
        let mut waits = Vec::with_capacity(CONNECTIONS * each);
        let connections =
            (0..CONNECTIONS).map(|number| converse(port, number, (pipeline, each), script));
        for of_one in futures_util::future::join_all(connections).await {
            waits.extend(of_one);
        }
        waits
    });
    let took = began.elapsed().as_secs_f64();
    let waits: Vec<f64> = waits.iter().map(|wait| wait.as_secs_f64() * 1000.0).collect();
    let sent = CONNECTIONS * each * pipeline;
    Told { per_second: sent as f64 / took, p99_millis: quantile(&waits, 0.99) }
}

/// Sends pipelines one after the other over one connection; how long each took.
async fn converse(
    port: u16,
    number: usize,
    (pipeline, times): (usize, usize),
    script: &Script,
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
    stream.set_nodelay(true).expect("a socket takes it");
    let (mut waits, mut room) = (Vec::with_capacity(times), vec![0; 64 << 10]);
    let mut from = number * (MADE / CONNECTIONS);
    for _ in 0..times {
        if from + pipeline > MADE {
            from = 0;
        }
        let sent = Instant::now();
        stream.write_all(script.slice(from, pipeline)).await.expect("the server reads");
        let mut lines = pipeline * script.lines;
        while lines > 0 {
            let read = stream.read(&mut room).await.expect("the server answers");
            assert!(read > 0, "the server has hung up");
            assert_ne!(room[0], b'-', "{}", String::from_utf8_lossy(&room[..read]));
            lines -= memchr::memchr_iter(b'\n', &room[..read]).count();
        }
        waits.push(sent.elapsed());
        from += pipeline;
    }
    waits
}
