//! The Redis protocol: `THROTTLE` on our port beside plain `INCR` on a redis-server and `THROTTLE` on
//! a throttlecrab-server, asked in turn by the same client. It is our own, since redis-benchmark is
//! what is measured by it: it makes each command anew and takes each answer apart, and one of five
//! numbers costs it more than the server.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tollgate::{Gate, Policy};
use tollgate_testkit::RedisServer;

use crate::crab::Crab;
use crate::measure::{order, quantile};
use crate::serving::serve;

const CONNECTIONS: usize = 50;
const KEYS: u64 = 1_000_000;

/// Commands that are made beforehand and sent again and again.
const MADE: usize = 400_000;

/// How long each is asked in a round: short, so that what disturbs one disturbs its neighbours.
const SLICE: Duration = Duration::from_millis(250);

/// Of a thousand an hour, what was taken is back after 3.6 s: keys are known when they come again,
/// as those of INCR are. Of a thousand a minute it is back after 60 ms: keys come as new ones.
const KNOWN: [&str; 3] = ["1000", "1000", "3600"];
const NEW: [&str; 3] = ["1000", "1000", "60"];

/// A pipeline, what is to be reached beside INCR, and the numbers of the limit.
const ROWS: [(usize, Option<f64>, [&str; 3]); 4] =
    [(1, Some(1.0), KNOWN), (16, Some(1.3), KNOWN), (64, Some(2.0), KNOWN), (64, None, NEW)];

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
            all.for_each(|word| {
                let _ = write!(text, "${}\r\n{word}\r\n", word.len());
            });
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

pub(crate) fn run(rounds: usize, threads: usize) {
    let redis = RedisServer::start();
    let gate = Gate::new(Policy::new()).expect("a policy of no rules is right");
    let served = serve(|server| server.resp_threads(threads), gate);
    let ours = served.resp.map_or(0, |address| address.port());
    let crab = Crab::start();
    let incr = Script::new("INCR", &[], 1);
    println!("commands/s over {CONNECTIONS} connections, {KEYS} keys; medians of {rounds} rounds");
    println!("p99 in ms, of a pipeline; threads of ours that answer: {threads}");
    println!(
        "{:>8} {:>4}  {:>9} {:>7}  {:>9} {:>7}  {:>9} {:>7}  {:>6} {:>6}  goal",
        "pipeline", "keys", "INCR", "p99", "THROTTLE", "p99", "crab", "p99", "/INCR", "/crab"
    );
    for (pipeline, goal, numbers) in ROWS {
        let throttle = Script::new("THROTTLE", &numbers, 6);
        let mut all = vec![(redis.port(), &incr), (ours, &throttle)];
        all.extend(crab.as_ref().map(|crab| (crab.resp.port(), &throttle)));
        // Once with all commands, so that all keys are there, and then in turn.
        for (port, script) in &all {
            let _ = ask(*port, 64, script);
        }
        let mut told = vec![Vec::new(); all.len()];
        for round in 0..rounds {
            for at in order(all.len(), round) {
                told[at].push(ask(all[at].0, pipeline, all[at].1));
            }
        }
        let keys = if numbers == NEW { "new" } else { "" };
        print!("{pipeline:>8} {keys:>4}");
        print(&told, goal);
    }
}

/// The rest of a row: what INCR, ours and perhaps throttlecrab-server came to.
fn print(told: &[Vec<Told>], goal: Option<f64>) {
    for of_one in told {
        let [rate, p99] = [|of: &Told| of.per_second, |of: &Told| of.p99_millis]
            .map(|figure| quantile(&of_one.iter().map(figure).collect::<Vec<_>>(), 0.5));
        print!("  {rate:>9.0} {p99:>7.2}");
    }
    let beside_incr = ratio(&told[1], &told[0]);
    match told.get(2) {
        Some(crab) => print!("  {beside_incr:>6.2} {:>6.1}", ratio(&told[1], crab)),
        None => print!("  {:>9} {:>7}  {beside_incr:>6.2} {:>6}", "-", "-", "-"),
    }
    match goal {
        Some(goal) if beside_incr >= goal => println!("  {goal:.1} reached"),
        Some(goal) => println!("  {goal:.1} MISSED"),
        None => println!(),
    }
}

/// How much faster the first is, round by round.
fn ratio(ours: &[Told], theirs: &[Told]) -> f64 {
    let rounds = ours.iter().zip(theirs);
    let ratios: Vec<_> = rounds.map(|(ours, theirs)| ours.per_second / theirs.per_second).collect();
    quantile(&ratios, 0.5)
}

/// Asks on one thread, so that the server has the other core.
fn ask(port: u16, pipeline: usize, script: &Script) -> Told {
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let began = Instant::now();
    let until = began + SLICE;
    let waits: Vec<f64> = runtime.block_on(async {
        let connections =
            (0..CONNECTIONS).map(|number| converse(port, (number, pipeline, until), script));
        futures_util::future::join_all(connections).await.concat()
    });
    let took = began.elapsed().as_secs_f64();
    let sent = waits.len() * pipeline;
    Told { per_second: sent as f64 / took, p99_millis: quantile(&waits, 0.99) }
}

/// Sends pipelines one after the other over one connection; how many milliseconds each took.
async fn converse(
    port: u16,
    (number, pipeline, until): (usize, usize, Instant),
    script: &Script,
) -> Vec<f64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
    stream.set_nodelay(true).expect("a socket takes it");
    let (mut waits, mut room) = (Vec::new(), vec![0; 16 << 10]);
    let mut from = number * (MADE / CONNECTIONS);
    let mut sent = Instant::now();
    while sent < until {
        if from + pipeline > MADE {
            from = 0;
        }
        stream.write_all(script.slice(from, pipeline)).await.expect("the server reads");
        let mut lines = pipeline * script.lines;
        while lines > 0 {
            let read = stream.read(&mut room).await.expect("the server answers");
            assert!(read > 0, "the server has hung up");
            assert_ne!(room[0], b'-', "{}", String::from_utf8_lossy(&room[..read]));
            lines -= memchr::memchr_iter(b'\n', &room[..read]).count();
        }
        let answered = Instant::now();
        waits.push((answered - sent).as_secs_f64() * 1e3);
        sent = answered;
        from += pipeline;
    }
    waits
}
