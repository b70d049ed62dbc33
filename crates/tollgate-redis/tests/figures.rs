//! The figures of docs/redis.md; `cargo test --release -p tollgate-redis --test figures -- --ignored
//! --nocapture` prints them.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod common;

use std::time::Instant;

use common::{connect, wait};
use redis::{Client, Cmd, cmd};
use tokio::task::JoinSet;
use tollgate::Limit;
use tollgate_redis::RedisStore;
use tollgate_testkit::RedisServer;

const AT_ONCE: u64 = 64;
const CALLS: u64 = 60_000;

/// What many people run: floats, and no decision but yes or no.
const PLAIN: &str = "
local s = redis.call('HMGET', KEYS[1], 't', 'a')
local now, most = tonumber(ARGV[3]), tonumber(ARGV[1])
local tokens = math.min(most, (tonumber(s[1]) or most) + (now - (tonumber(s[2]) or now)) * ARGV[2])
local ok = tokens >= 1 and 1 or 0
redis.call('HSET', KEYS[1], 't', tokens - ok, 'a', now)
redis.call('PEXPIRE', KEYS[1], 60000)
return ok";

/// Calls per second of `call`, 64 at once, and microseconds of the server per script.
async fn measure<F>(server: &RedisServer, what: &str, call: impl Fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut raw = Client::open(server.url()).unwrap().get_connection().unwrap();
    let () = cmd("CONFIG").arg("RESETSTAT").query(&mut raw).unwrap();
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for number in 0..CALLS {
        if number >= AT_ONCE {
            tasks.join_next().await.unwrap().unwrap();
        }
        tasks.spawn(call(number));
    }
    while tasks.join_next().await.is_some() {}
    let per_second = u128::from(CALLS) * 1_000_000 / start.elapsed().as_micros();
    let info: String = cmd("INFO").arg("commandstats").query(&mut raw).unwrap();
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha")).unwrap_or_default();
    let usec = line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next());
    println!("{what:<28} {per_second:>7}/s  {:>6} us of the server", usec.unwrap_or("?"));
}

#[test]
#[ignore = "a measurement"]
fn calls_per_second() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        let client = Client::open(server.url()).unwrap();
        let plain = client.get_multiplexed_async_connection().await.unwrap();
        let hash: String =
            cmd("SCRIPT").arg("LOAD").arg(PLAIN).query_async(&mut plain.clone()).await.unwrap();
        for _ in 0..2 {
            measure(&server, "plain script", |number| {
                let mut call = Cmd::new();
                call.arg("EVALSHA").arg(&hash).arg(1).arg(format!("plain:{}", number % 10_000));
                call.arg(100).arg("0.0000016").arg("1763258400123456");
                let mut plain = plain.clone();
                async move {
                    let _: i64 = call.query_async(&mut plain).await.unwrap();
                }
            })
            .await;
            for text in [
                "100/min burst 100",
                "100/min fixed_window",
                "100/min sliding_counter",
                "100/min sliding_log",
            ] {
                let limiter = store.limiter(text, text.parse().unwrap()).unwrap();
                measure(&server, text, |number| {
                    let limiter = limiter.clone();
                    async move {
                        let _ = limiter.check(number % 10_000).await.unwrap();
                    }
                })
                .await;
            }
            several(&server, &store).await;
        }
    });
}

/// Three limits in one call and in three.
async fn several(server: &RedisServer, store: &RedisStore) {
    let limiters = ["a", "b", "c"].map(|name| store.limiter(name, Limit::per_minute(100)).unwrap());
    let one = |number: u64| {
        let (store, limiters) = (store.clone(), limiters.clone());
        async move {
            let charges: Vec<_> =
                limiters.iter().map(|limiter| limiter.charge(number % 10_000)).collect();
            let _ = store.check_all(&charges).await.unwrap();
        }
    };
    let three = |number: u64| {
        let limiters = limiters.clone();
        async move {
            for limiter in &limiters {
                let _ = limiter.check(number % 10_000).await.unwrap();
            }
        }
    };
    measure(server, "three limits in one call", one).await;
    measure(server, "three limits in three calls", three).await;
}

#[test]
#[ignore = "a measurement"]
fn bytes_per_key() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        let mut raw = Client::open(server.url()).unwrap().get_connection().unwrap();
        let usage = |raw: &mut redis::Connection| -> u64 {
            let key: Vec<u8> = cmd("RANDOMKEY").query(raw).unwrap();
            let bytes = cmd("MEMORY").arg("USAGE").arg(key).query(raw).unwrap();
            let () = cmd("FLUSHALL").query(raw).unwrap();
            bytes
        };
        let plain = redis::Script::new(PLAIN);
        let _: i64 =
            plain.key("login:user-123456").arg(100).arg("0.1").arg(1).invoke(&mut raw).unwrap();
        println!("{:<28} {} bytes", "plain script", usage(&mut raw));
        for (text, takes) in [
            ("100/min burst 20", 1),
            ("100/min fixed_window", 1),
            ("1000/day calendar Europe/Paris", 1),
            ("100/min sliding_counter", 1),
            ("10/min sliding_log", 10),
            ("100/min sliding_log", 100),
            ("10000/min sliding_log", 10_000),
        ] {
            let limiter = store.limiter("login", text.parse().unwrap()).unwrap();
            for _ in 0..takes {
                let _ = limiter.check("user-123456").await.unwrap();
            }
            println!("{text:<28} {} bytes after {takes}", usage(&mut raw));
        }
    });
}
