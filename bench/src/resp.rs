//! The Redis protocol: `THROTTLE` on our port beside plain `INCR` on a redis-server, asked by the
//! same client, redis-benchmark, in turn.

use std::net::SocketAddr;
use std::process::Command;

use tollgate::{Gate, Policy};
use tollgate_testkit::RedisServer;

use crate::measure::quantile;
use crate::serving::serve;

const CONNECTIONS: &str = "50";
const KEYS: &str = "1000000";

/// A pipeline, how many commands a round sends, and what is to be reached beside INCR.
const ROWS: [(usize, u64, f64); 3] = [(1, 60_000, 1.0), (16, 600_000, 1.3), (64, 1_200_000, 2.0)];

/// What redis-benchmark tells.
#[derive(Clone, Copy)]
struct Told {
    per_second: f64,
    p99_millis: f64,
}

pub(crate) fn run(rounds: usize) {
    let redis = RedisServer::start();
    let gate = Gate::new(Policy::new()).expect("a policy of no rules is right");
    let served = serve(|server| server.resp_threads(1), gate);
    println!("commands/s over {CONNECTIONS} connections, {KEYS} keys; medians of {rounds} rounds");
    println!(
        "{:>8}  {:>12} {:>9}  {:>12} {:>9}  {:>6}  goal",
        "pipeline", "INCR/s", "p99 ms", "THROTTLE/s", "p99 ms", "ratio"
    );
    for (pipeline, commands, goal) in ROWS {
        let (mut theirs, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let incr = ask(redis.port(), (pipeline, commands), &["INCR", "key:__rand_int__"]);
            let limit = ["THROTTLE", "key:__rand_int__", "1000", "1000", "60"];
            let throttle = ask(port(served.resp), (pipeline, commands), &limit);
            ratios.push(throttle.per_second / incr.per_second);
            theirs.push(incr);
            ours.push(throttle);
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

fn port(address: Option<SocketAddr>) -> u16 {
    address.map_or(0, |address| address.port())
}

fn median(values: Vec<f64>) -> f64 {
    quantile(&values, 0.5)
}

fn ask(port: u16, (pipeline, commands): (usize, u64), command: &[&str]) -> Told {
    let output = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-c", CONNECTIONS, "-r", KEYS, "--csv"])
        .args(["-P", &pipeline.to_string(), "-n", &commands.to_string()])
        .args(command)
        .output()
        .expect("redis-benchmark is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().last().unwrap_or_default();
    let number = |column: usize| {
        let words: Vec<_> = line.rsplitn(8, ',').collect();
        // From the end: the command's name may hold commas.
        let word = words.get(7 - column).map(|word| word.trim_matches('"'));
        word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no numbers in {text}"))
    };
    Told { per_second: number(1), p99_millis: number(6) }
}
