//! Leases: the same policy strict and leased, on one server, in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{Client, cmd};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tollgate::{Limit, Policy, Request, Rule, SyncMode};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_testkit::RedisServer;

use crate::measure::{order, quantile};
use crate::redis::{ANSWERS, at_once};

const AT_ONCE: u64 = 64;
/// Decisions of a slice: some hundredths of a second, so that what disturbs one disturbs its neighbours.
const STRICT: u64 = 64 * 40;
const LEASED: u64 = 64 * 1000;
const HOT_KEYS: u64 = 8;

/// What a fleet may do a second in the skewed part, and how much of that is asked for, in percent.
const RATE: u64 = 4000;
const DEMANDS: [u64; 2] = [80, 150];
const NODES: usize = 4;
const TICK: Duration = Duration::from_millis(5);

/// One policy, strict and leased, over one server.
struct Bench {
    server: RedisServer,
    strict: RedisGate,
    leased: RedisGate,
}

pub(crate) fn run(rounds: usize) {
    let runtime = Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let bench = Bench::new().await;
        bench.hot(rounds).await;
        bench.cold(rounds).await;
        println!("skewed traffic: {NODES} nodes, 90 % on one, a limit of {RATE}/s");
        for demand in DEMANDS {
            for (name, sync) in [("strict", SyncMode::Strict), ("leased", SyncMode::Leased)] {
                bench.skewed(name, sync, demand).await;
            }
        }
    });
}

fn policy(limit: Limit, sync: SyncMode) -> Policy {
    let mut policy = Policy::new().rule(Rule::new("per-user").key(["user"]).limit(limit));
    policy.sync = sync;
    policy
}

impl Bench {
    async fn new() -> Bench {
        let server = RedisServer::start();
        let large = || Limit::per_minute(1_000_000_000);
        let strict = gate(&server, "strict", policy(large(), SyncMode::Strict)).await;
        let leased = gate(&server, "leased", policy(large(), SyncMode::Leased)).await;
        Bench { server, strict, leased }
    }

    async fn hot(&self, rounds: usize) {
        let (mut rates, mut calls) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for round in 0..=rounds {
            for index in order(2, round) {
                let (gate, decisions) =
                    if index == 0 { (&self.strict, STRICT) } else { (&self.leased, LEASED) };
                let before = self.calls();
                let rate = slice(gate, decisions, |number| number % HOT_KEYS).await;
                // The first round makes the keys hot.
                if round > 0 {
                    rates[index].push(rate);
                    calls[index].push((self.calls() - before) as f64 / decisions as f64);
                }
            }
        }
        println!("hot keys: {HOT_KEYS}, {AT_ONCE} at once, one connection");
        for (index, name) in ["strict", "leased"].iter().enumerate() {
            let (rate, calls) = (quantile(&rates[index], 0.5), quantile(&calls[index], 0.5));
            println!("  {name:<8} {rate:>9.0} decisions/s, {calls:.4} calls for each");
        }
        at_least("leased / strict", ratios(&rates[1], &rates[0]), 20.0);
        at_most("calls for each decision", [0.5, 0.1, 0.9].map(|at| quantile(&calls[1], at)), 0.02);
    }

    async fn cold(&self, rounds: usize) {
        let mut rates = [Vec::new(), Vec::new()];
        let next = AtomicU64::new(1_000_000);
        for round in 0..=rounds {
            // The same keys for both, none of which was asked for before.
            let first = next.fetch_add(STRICT, Ordering::Relaxed);
            for index in order(2, round) {
                let gate = if index == 0 { &self.strict } else { &self.leased };
                let rate = slice(gate, STRICT, |number| first + number).await;
                if round > 0 {
                    rates[index].push(rate);
                }
            }
        }
        println!("cold keys: each asked for once, {AT_ONCE} at once, one connection");
        for (index, name) in ["strict", "leased"].iter().enumerate() {
            println!("  {name:<8} {:>9.0} decisions/s", quantile(&rates[index], 0.5));
        }
        at_least("leased / strict", ratios(&rates[1], &rates[0]), 0.9);
    }

    /// Four nodes, one of which is asked for nine tenths of so many percent of the limit.
    async fn skewed(&self, name: &str, sync: SyncMode, demand: u64) {
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let limit = Limit::per_second(RATE).burst(RATE / 10);
            let namespace = format!("skewed {name} {demand}");
            nodes.push(gate(&self.server, &namespace, policy(limit, sync)).await);
        }
        // Until they know of each other, and what was saved up is spent.
        play(&nodes, demand, Duration::from_secs(2)).await;
        let (before, span) = (self.calls(), Duration::from_secs(4));
        let (asked, admitted) = play(&nodes, demand, span).await;
        let calls = (self.calls() - before) as f64 / asked as f64;
        let could = (RATE as f64 * span.as_secs_f64()).min(asked as f64);
        println!("  {name:<8} asked for {demand:>3} % of it, {calls:.3} calls for each decision");
        at_least("part of what could pass that does", [admitted as f64 / could; 3], 0.95);
    }

    /// How many scripts the server has run.
    fn calls(&self) -> u64 {
        let client = Client::open(self.server.url()).expect("the url is right");
        let mut raw = client.get_connection().expect(ANSWERS);
        let info: String = cmd("INFO").arg("commandstats").query(&mut raw).expect(ANSWERS);
        let calls = |line: &str| -> Option<u64> {
            let (name, rest) = line.split_once(":calls=")?;
            matches!(name, "cmdstat_eval" | "cmdstat_evalsha").then_some(())?;
            rest.split(',').next()?.parse().ok()
        };
        info.lines().filter_map(calls).sum()
    }
}

async fn gate(server: &RedisServer, namespace: &str, policy: Policy) -> RedisGate {
    let store = RedisStore::builder(server.url()).timeout(Duration::from_secs(5));
    let store = store.connect().await.expect("the server is there");
    RedisGate::builder(store).namespace(namespace).build(policy).expect("the policy is right")
}

/// Decisions a second.
async fn slice(gate: &RedisGate, decisions: u64, key: impl Fn(u64) -> u64) -> f64 {
    let keys: Arc<Vec<String>> =
        Arc::new((0..decisions).map(|number| key(number).to_string()).collect());
    let start = Instant::now();
    at_once(AT_ONCE, |task| {
        let (gate, keys) = (gate.clone(), keys.clone());
        async move {
            for number in 0..decisions / AT_ONCE {
                let user = &keys[usize::try_from(number * AT_ONCE + task).expect("few")];
                let ruling = gate.check(&Request::new().with("user", user)).await;
                assert!(ruling.is_allowed() && !ruling.is_degraded());
            }
        }
    })
    .await;
    decisions as f64 / start.elapsed().as_secs_f64()
}

/// Asks the nodes at an even pace for so many percent of the limit; how often, and how many were
/// admitted.
async fn play(nodes: &[RedisGate], demand: u64, span: Duration) -> (u64, u64) {
    let (asked, admitted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut playing = JoinSet::new();
    for (number, gate) in nodes.iter().cloned().enumerate() {
        let percent = if number == 0 { 90 } else { 10 / (NODES as u64 - 1) };
        let rate = RATE * demand * percent / 10_000;
        let (asked, admitted) = (asked.clone(), admitted.clone());
        playing.spawn(async move {
            let (began, mut sent) = (Instant::now(), 0);
            let mut waiting = JoinSet::new();
            while began.elapsed() < span {
                let due =
                    rate * u64::try_from(began.elapsed().as_micros()).expect("short") / 1_000_000;
                for _ in sent..due {
                    let (gate, admitted) = (gate.clone(), admitted.clone());
                    waiting.spawn(async move {
                        let ruling = gate.check(&Request::new().with("user", "ana")).await;
                        admitted.fetch_add(u64::from(ruling.is_allowed()), Ordering::Relaxed);
                    });
                }
                asked.fetch_add(due - sent, Ordering::Relaxed);
                sent = due;
                while waiting.try_join_next().is_some() {}
                tokio::time::sleep(TICK).await;
            }
            while waiting.join_next().await.is_some() {}
        });
    }
    while let Some(done) = playing.join_next().await {
        done.expect("no check panics");
    }
    (asked.load(Ordering::Relaxed), admitted.load(Ordering::Relaxed))
}

fn ratios(of: &[f64], to: &[f64]) -> [f64; 3] {
    let ratios: Vec<f64> = of.iter().zip(to).map(|(a, b)| a / b).collect();
    [0.5, 0.1, 0.9].map(|share| quantile(&ratios, share))
}

fn at_least(what: &str, [median, low, high]: [f64; 3], least: f64) {
    let reached = if median >= least { "reached" } else { "MISSED" };
    println!("  {what}: {median:.2} ({low:.2} to {high:.2}), must be at least {least}: {reached}");
}

fn at_most(what: &str, [median, low, high]: [f64; 3], most: f64) {
    let reached = if median <= most { "reached" } else { "MISSED" };
    println!("  {what}: {median:.4} ({low:.4} to {high:.4}), must be at most {most}: {reached}");
}
