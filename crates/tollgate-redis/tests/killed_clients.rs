//! A client that is killed at any moment leaves no key without a TTL.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails it")]

mod common;

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{connect, wait};
use redis::{Client, Commands};
use tokio::task::JoinSet;
use tollgate::Limit;
use tollgate_redis::RedisStore;
use tollgate_testkit::{RedisServer, one_limit_of_each};

const URL: &str = "TOLLGATE_TEST_URL";
const KILLS: u64 = 25;

#[test]
fn a_client_killed_at_any_moment_leaves_no_key_without_a_ttl() {
    let server = RedisServer::start();
    let this = std::env::current_exe().unwrap();
    let mut raw = Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut keys = || -> u64 { redis::cmd("DBSIZE").query(&mut raw).unwrap() };
    // On a slow machine, as often as it takes to have seen some work.
    for kill in 0..KILLS * 20 {
        if kill >= KILLS && keys() > 100 {
            break;
        }
        let mut child = Command::new(&this)
            .args(["hammers_until_it_is_killed", "--exact", "--ignored"])
            .env(URL, server.url())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Any moment, from before it has connected to the middle of its work.
        thread::sleep(Duration::from_micros(20_000 + kill * 79_190 % 160_000));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut raw = Client::open(server.url()).unwrap().get_connection().unwrap();
    let keys: Vec<Vec<u8>> = raw.scan().unwrap().map(Result::unwrap).collect();
    assert!(keys.len() > 100, "{} keys: they did work", keys.len());
    let mut raw = Client::open(server.url()).unwrap().get_connection().unwrap();
    for key in keys {
        let left: i64 = raw.pttl(&key).unwrap();
        // 0 is less than a millisecond, -2 a key that has gone since, -1 would be one that stays for ever.
        assert!(left >= 0 || left == -2, "{}: {left}", key.escape_ascii());
    }
}

#[test]
#[ignore = "the client that is killed"]
fn hammers_until_it_is_killed() {
    let Ok(url) = std::env::var(URL) else { return };
    wait(async {
        let store = connect(&url).await;
        let mut tasks = JoinSet::new();
        for task in 0..16 {
            tasks.spawn(hammer(store.clone(), task));
        }
        while tasks.join_next().await.is_some() {}
    });
}

/// Every operation on every kind of limit, numbers that change among them.
async fn hammer(store: RedisStore, task: u64) {
    for number in 0.. {
        let key = (number * 31 + task * 7 + u64::from(std::process::id()) * 13) % 500;
        for limit in one_limit_of_each() {
            let limit = if number % 3 == 0 { limit } else { Limit::per_hour(1000 + number % 7) };
            let limiter = store.limiter(&format!("{}", number % 5), limit).unwrap();
            let _ = limiter.check_n(key, 2).await;
            let _ = limiter.refund(key, 1).await;
            if let Ok(reserved) = limiter.reserve(key, 1).await
                && let Some(held) = reserved.held()
            {
                let _ = held.settle(number % 4).await;
            }
            if number % 11 == 0 {
                let _ = limiter.reset(key).await;
            }
            let _ = store.check_all(&[limiter.charge(key), limiter.charge(key + 1)]).await;
        }
    }
}
