//! A client that is killed at any moment leaves no key without a TTL.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{calls, connect, wait};
use redis::{Client, Commands, Connection};
use tokio::task::JoinSet;
use tollgate::Limit;
use tollgate_redis::RedisStore;
use tollgate_testkit::{RedisServer, eventually, one_limit_of_each};

const URL: &str = "TOLLGATE_TEST_URL";
/// The number of kills in the normal run.
const KILLS: u64 = 6;

/// The number of kills at random moments.
const RANDOM_KILLS: u64 = 200;

fn raw(server: &RedisServer) -> Connection {
    Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// Starts a client that works until it is killed.
fn start(server: &RedisServer) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["killed_clients::hammers_until_it_is_killed", "--exact", "--ignored"])
        .env(URL, server.url())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn every_key_expires(server: &RedisServer) {
    let keys: Vec<Vec<u8>> = raw(server).scan().unwrap().map(Result::unwrap).collect();
    assert!(keys.len() > 100, "{} keys: they did work", keys.len());
    let mut raw = raw(server);
    for key in keys {
        let left: i64 = raw.pttl(&key).unwrap();
        // 0 is less than a millisecond, -2 a key that has gone since, -1 would be one that stays for ever.
        assert!(left >= 0 || left == -2, "{}: {left}", key.escape_ascii());
    }
}

#[test]
fn a_client_killed_at_any_moment_leaves_no_key_without_a_ttl() {
    let server = RedisServer::start();
    for kill in 1..=KILLS {
        let before = calls(&server);
        let mut child = start(&server);
        // In the middle of its work, after more of it each time.
        eventually("work", || calls(&server) > before + 431 * kill);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    every_key_expires(&server);
}

#[test]
#[ignore = "long: kills hundreds of clients at random moments"]
fn long_a_client_killed_at_a_random_moment_leaves_no_key_without_a_ttl() {
    let server = RedisServer::start();
    for kill in 0..RANDOM_KILLS {
        let mut child = start(&server);
        // Any moment, from before it has connected to the middle of its work.
        thread::sleep(Duration::from_micros(20_000 + kill * 79_190 % 500_000));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    every_key_expires(&server);
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
            if let Ok(held) = limiter.reserve(key, 1).await {
                let _ = held.settle(number % 4).await;
            }
            if number % 11 == 0 {
                let _ = limiter.reset(key).await;
            }
            let _ = store.check_all(&[limiter.charge(key), limiter.charge(key + 1)]).await;
        }
    }
}
