//! Nodes that are away: their own keys' calls fail at once, everybody else's go on.

use std::time::{Duration, Instant};

use tollgate::Limit;
use tollgate_redis::{RedisLimiter, RedisStore, StoreError};
use tollgate_testkit::{RedisCluster, RedisSentinel, RedisServer, command};

use crate::common::{PATIENCE, wait};

const TIMEOUT: Duration = Duration::from_millis(300);

const KEYS: u64 = 60;

fn open(url: &str) -> (RedisStore, RedisLimiter) {
    let store = RedisStore::builder(url).timeout(TIMEOUT).open().unwrap();
    let limiter = store.limiter("a", Limit::per_day(100_000)).unwrap();
    (store, limiter)
}

/// Calls until there is an answer.
async fn until_it_answers(limiter: &RedisLimiter, key: u64) {
    let start = Instant::now();
    while let Err(error) = limiter.check(key).await {
        assert!(start.elapsed() < PATIENCE * 2, "it does not recover: {error:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Calls until it is away.
async fn until_it_is_away(limiter: &RedisLimiter, key: u64) -> StoreError {
    for _ in 0..20 {
        if let Err(StoreError::Away { why, .. }) = limiter.check(key).await {
            return (*why).clone();
        }
    }
    panic!("it is asked again and again");
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The numbers that node `node` of three serves as keys.
fn keys_of(cluster: &RedisCluster, node: usize) -> Vec<u64> {
    let slot =
        |key| -> usize { cluster.ask(2, &format!("CLUSTER KEYSLOT {key}")).parse().unwrap() };
    (0..KEYS).filter(|key| slot(*key) * 3 / 16_384 == node).collect()
}

async fn a_node_that_is_away(
    fails: impl FnOnce(&mut RedisCluster),
    mends: impl FnOnce(&mut RedisCluster),
) {
    let mut cluster = RedisCluster::start(3);
    for node in 0..3 {
        // Without it, a node that is missed would be everybody's outage.
        cluster.ask(node, "CONFIG SET cluster-require-full-coverage no");
    }
    let (store, limiter) = open(&cluster.url());
    let own = keys_of(&cluster, 0);
    assert!(own.len() > 5 && own.len() < 40);
    for key in 0..KEYS {
        until_it_answers(&limiter, key).await;
    }
    until("all are there", || store.health().connected).await;
    assert_eq!(store.health().outage, None);

    fails(&mut cluster);
    until_it_is_away(&limiter, own[0]).await;
    let start = Instant::now();
    for key in own.iter().cycle().take(500) {
        let error = limiter.check(*key).await.unwrap_err();
        assert!(matches!(error, StoreError::Away { .. }), "{error:?}");
    }
    assert!(start.elapsed() < TIMEOUT * 3, "500 calls took {:?}", start.elapsed());
    for key in (0..KEYS).filter(|key| !own.contains(key)) {
        assert!(limiter.check(key).await.unwrap().is_allowed(), "another node's key {key}");
    }
    let health = store.health();
    assert!(!health.connected && health.failed_calls >= 500, "{health:?}");
    let outage = health.outage.unwrap();
    assert_eq!(outage.address, format!("127.0.0.1:{}", cluster.nodes()[0].port()));
    assert!(outage.failed_calls >= 500, "{outage:?}");

    mends(&mut cluster);
    until_it_answers(&limiter, own[0]).await;
    until("it is found again", || store.health().connected).await;
    let health = store.health();
    assert!(health.outage.is_none() && health.outages == 1, "{health:?}");
}

#[test]
fn a_dead_node_costs_only_its_own_keys_and_nobody_waits_for_it() {
    wait(a_node_that_is_away(|cluster| cluster.kill(0), |cluster| cluster.restart(0)));
}

#[test]
fn a_node_out_of_memory_is_away_until_a_script_may_write() {
    let limit = |bytes: &'static str| {
        move |cluster: &mut RedisCluster| {
            cluster.ask(0, &format!("CONFIG SET maxmemory {bytes}"));
        }
    };
    wait(a_node_that_is_away(limit("1"), limit("0")));
}

#[test]
fn a_node_that_hangs_is_away_after_three_calls() {
    wait(a_node_that_is_away(|cluster| drop(cluster.ask(0, "CLIENT PAUSE 4000 ALL")), |_| {}));
}

#[test]
fn a_cluster_that_is_absent_at_the_start_is_an_outage() {
    let mut cluster = RedisCluster::start(3);
    wait(async {
        let (store, limiter) = open(&cluster.url());
        assert!(!store.health().connected && store.health().outage.is_none());
        (0..3).for_each(|node| cluster.kill(node));
        let why = until_it_is_away(&limiter, 1).await;
        assert!(matches!(why, StoreError::Unreachable(_)), "{why:?}");
        let start = Instant::now();
        for key in 0..200 {
            let _ = limiter.check(key).await.unwrap_err();
        }
        assert!(start.elapsed() < TIMEOUT * 3, "200 calls took {:?}", start.elapsed());
        let health = store.health();
        assert!(health.outage.unwrap().failed_calls >= 200 && !health.connected);
        (0..3).for_each(|node| cluster.restart(node));
        for key in 0..KEYS {
            until_it_answers(&limiter, key).await;
        }
        until("all are there", || store.health().connected).await;
        assert_eq!(store.health().outage, None);
    });
}

#[test]
fn a_watched_server_that_is_absent_at_the_start_is_an_outage() {
    let mut server = RedisServer::start();
    let sentinel = RedisSentinel::start(server.port());
    let url = sentinel.url();
    server.kill();
    wait(async {
        let (store, limiter) = open(&url);
        until_it_is_away(&limiter, 1).await;
        assert_eq!(
            store.health().outage.unwrap().address,
            format!("mymaster of 127.0.0.1:{}", sentinel.port())
        );
        server.restart();
        assert_eq!(command(server.port(), "PING"), "PONG");
        until_it_answers(&limiter, 1).await;
        assert!(store.health().connected && store.health().outage.is_none());
    });
}
