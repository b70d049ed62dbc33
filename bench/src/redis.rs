//! Redis: our script beside the plain one that many people run, on the same server, in turn.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Connection, cmd};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tollgate_redis::{RedisLimiter, RedisStore};
use tollgate_testkit::RedisServer;

use crate::measure::{order, quantile};

const AT_ONCE: u64 = 64;
const KEYS: u64 = 10_000;
/// Calls of a slice: some hundredths of a second, so that what disturbs one disturbs its neighbours.
const CALLS: u64 = 64 * 20;

/// What many people run: floats, and no decision but yes or no.
const PLAIN: &str = "
local s = redis.call('HMGET', KEYS[1], 't', 'a')
local now, most = tonumber(ARGV[3]), tonumber(ARGV[1])
local tokens = math.min(most, (tonumber(s[1]) or most) + (now - (tonumber(s[2]) or now)) * ARGV[2])
local ok = tokens >= 1 and 1 or 0
redis.call('HSET', KEYS[1], 't', tokens - ok, 'a', now)
redis.call('PEXPIRE', KEYS[1], 60000)
return ok";

/// What is measured, in the order of the table.
const ROWS: [(&str, Work); 8] = [
    ("plain script", Work::Plain),
    ("token bucket", Work::Limit(0)),
    ("fixed window", Work::Limit(1)),
    ("sliding counter", Work::Limit(2)),
    ("sliding log", Work::Limit(3)),
    ("three limits in one call", Work::ThreeInOne),
    ("three limits in three calls", Work::ThreeCalls),
    ("token bucket, batches of 64", Work::Batch),
];
const LIMITS: [&str; 4] = [
    "1000000/min",
    "1000000/min fixed_window",
    "1000000/min sliding_counter",
    "1000000/min sliding_log",
];

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Plain,
    Limit(usize),
    ThreeInOne,
    ThreeCalls,
    Batch,
}

/// Everything a call needs.
struct Bench {
    server: RedisServer,
    store: RedisStore,
    limiters: Vec<RedisLimiter>,
    three: Vec<RedisLimiter>,
    plain: MultiplexedConnection,
    hash: String,
}

pub(crate) fn run(rounds: usize) {
    let runtime = Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let bench = Arc::new(Bench::new().await);
        bench.throughput(rounds).await;
        bench.bytes().await;
        bench.flood().await;
    });
}

impl Bench {
    async fn new() -> Bench {
        let server = RedisServer::start();
        let store = RedisStore::builder(server.url()).timeout(Duration::from_secs(5));
        let store = store.connect().await.expect("the server is there");
        let client = Client::open(server.url()).expect("the url is right");
        let plain = client.get_multiplexed_async_connection().await.expect("the server is there");
        let load = cmd("SCRIPT").arg("LOAD").arg(PLAIN).query_async(&mut plain.clone()).await;
        let limiter = |name: &str, text: &str| {
            store.limiter(name, text.parse().expect("a limit")).expect("a limit")
        };
        Bench {
            limiters: LIMITS.iter().map(|text| limiter(text, text)).collect(),
            three: ["a", "b", "c"].iter().map(|name| limiter(name, LIMITS[0])).collect(),
            hash: load.expect("the script is right"),
            server,
            store,
            plain,
        }
    }

    fn raw(&self) -> Connection {
        let client = Client::open(self.server.url()).expect("the url is right");
        client.get_connection().expect("the server is there")
    }

    async fn throughput(self: &Arc<Bench>, rounds: usize) {
        let mut rates = vec![Vec::new(); ROWS.len()];
        for round in 0..=rounds {
            for index in order(ROWS.len(), round) {
                let rate = self.slice(ROWS[index].1).await;
                // The first round makes the keys.
                if round > 0 {
                    rates[index].push(rate);
                }
            }
        }
        let ratio = |of: usize, to: usize| -> [f64; 3] {
            let ratios: Vec<f64> = rates[of].iter().zip(&rates[to]).map(|(a, b)| a / b).collect();
            [0.5, 0.1, 0.9].map(|share| quantile(&ratios, share))
        };
        println!(
            "decisions a second, 64 at once, {KEYS} keys, one connection; share of the plain script's"
        );
        for (index, (name, _)) in ROWS.iter().enumerate() {
            let [median, low, high] = ratio(index, 0);
            let rate = quantile(&rates[index], 0.5);
            println!("  {name:<28} {rate:>8.0}/s  {median:.2} ({low:.2} to {high:.2})");
        }
        let goal = |name: &str, [median, low, high]: [f64; 3], least: f64| {
            let reached = if median >= least { "reached" } else { "MISSED" };
            println!("  {name}: {median:.2} ({low:.2} to {high:.2}), must be {least}: {reached}");
        };
        println!("must reach");
        goal("token bucket / plain script", ratio(1, 0), 0.7);
        goal("three limits in one call / in three calls", ratio(5, 6), 1.8);
    }

    /// Decisions per second; a request with three limits is one decision.
    async fn slice(self: &Arc<Bench>, work: Work) -> f64 {
        let start = Instant::now();
        if work == Work::Batch {
            at_once(1, |_| self.clone().batches()).await;
        } else {
            at_once(AT_ONCE, |task| self.clone().calls(work, task)).await;
        }
        CALLS as f64 / start.elapsed().as_secs_f64()
    }

    async fn calls(self: Arc<Bench>, work: Work, task: u64) {
        for number in 0..CALLS / AT_ONCE {
            self.call(work, (number * AT_ONCE + task) * 7919 % KEYS).await;
        }
    }

    async fn call(&self, work: Work, key: u64) {
        let allowed = match work {
            Work::Plain => {
                let mut call = Cmd::new();
                call.arg("EVALSHA").arg(&self.hash).arg(1).arg(format!("plain:{key}"));
                call.arg(1_000_000).arg("0.0000016").arg("1763258400123456");
                let allowed: i64 = call.query_async(&mut self.plain.clone()).await.expect(ANSWERS);
                allowed == 1
            }
            Work::Limit(which) => {
                self.limiters[which].check(key).await.expect(ANSWERS).is_allowed()
            }
            Work::ThreeInOne => {
                let charges: Vec<_> =
                    self.three.iter().map(|limiter| limiter.charge(key)).collect();
                self.store.check_all(&charges).await.expect(ANSWERS).is_allowed()
            }
            Work::ThreeCalls => {
                let mut allowed = true;
                for limiter in &self.three {
                    allowed &= limiter.check(key).await.expect(ANSWERS).is_allowed();
                }
                allowed
            }
            Work::Batch => true,
        };
        assert!(allowed, "the limits are large");
    }

    async fn batches(self: Arc<Bench>) {
        for first in (0..CALLS).step_by(64) {
            let keys = first..first + AT_ONCE;
            let charge = |key: u64| [self.limiters[0].charge(key * 7919 % KEYS)];
            let requests: Vec<_> = keys.map(charge).collect();
            for answer in self.store.check_many(&requests).await {
                assert!(answer.expect(ANSWERS).is_allowed());
            }
        }
    }

    async fn bytes(&self) {
        let mut raw = self.raw();
        let mut usage = || -> u64 {
            let key: Vec<u8> = cmd("RANDOMKEY").query(&mut raw).expect(ANSWERS);
            let bytes = cmd("MEMORY").arg("USAGE").arg(key).query(&mut raw).expect(ANSWERS);
            let () = cmd("FLUSHALL").query(&mut raw).expect(ANSWERS);
            bytes
        };
        let mut flush = self.raw();
        let () = cmd("FLUSHALL").query(&mut flush).expect(ANSWERS);
        println!("bytes of a key, by MEMORY USAGE");
        let plain = redis::Script::new(PLAIN);
        let mut call = plain.key("login:user-123456");
        let _: i64 = call.arg(100).arg("0.1").arg(1).invoke(&mut flush).expect(ANSWERS);
        println!("  {:<28} {:>8}", "plain script", usage());
        for (text, takes) in [
            ("100/min burst 20", 1),
            ("100/min fixed_window", 1),
            ("1000/day calendar Europe/Paris", 1),
            ("100/min sliding_counter", 1),
            ("10/min sliding_log", 10),
            ("100/min sliding_log", 100),
            ("10000/min sliding_log", 10_000),
        ] {
            let limiter = self.store.limiter("login", text.parse().expect("a limit"));
            let limiter = limiter.expect("a limit");
            for _ in 0..takes {
                let _ = limiter.check("user-123456").await.expect(ANSWERS);
            }
            println!("  {text:<28} {:>8} after {takes}", usage());
        }
    }

    /// Everybody asks for one key that is refused.
    async fn flood(self: &Arc<Bench>) {
        const FLOOD: u64 = 1_000_000;
        let limiter = self.store.limiter("flood", "1/hour".parse().expect("a limit"));
        let limiter = limiter.expect("a limit");
        let _ = limiter.check("ana").await.expect(ANSWERS);
        let () = cmd("CONFIG").arg("RESETSTAT").query(&mut self.raw()).expect(ANSWERS);
        let start = Instant::now();
        at_once(AT_ONCE, |_| {
            let limiter = limiter.clone();
            async move {
                for _ in 0..FLOOD / AT_ONCE {
                    assert!(!limiter.check("ana").await.expect(ANSWERS).is_allowed());
                }
            }
        })
        .await;
        let took = start.elapsed();
        let info: String = cmd("INFO").arg("commandstats").query(&mut self.raw()).expect(ANSWERS);
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let asked: u64 = line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0);
        let share = asked as f64 * 100.0 / FLOOD as f64;
        let reached = if share < 1.0 { "reached" } else { "MISSED" };
        println!("a flood on a refused key");
        println!(
            "  {FLOOD} requests in {took:.2?}: {asked} asked the server, {share:.4} %, must be below 1 %: {reached}"
        );
    }
}

/// Why nothing is done about an error.
pub(crate) const ANSWERS: &str = "the server answers";

/// Does so many things at once, and waits for all.
pub(crate) async fn at_once<F>(tasks: u64, work: impl Fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut all = JoinSet::new();
    (0..tasks).for_each(|task| {
        all.spawn(work(task));
    });
    while let Some(done) = all.join_next().await {
        done.expect("no call panics");
    }
}
