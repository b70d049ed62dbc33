//! Unavailable nodes: calls on their keys fail at once, all other calls succeed.

use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::yield_now;
use tokio::time::Instant;
use tollgate::Limit;
use tollgate_redis::{RedisLimiter, RedisStore, StoreError};
use tollgate_testkit::{
    DEADLINE, RedisCluster, RedisSentinel, RedisServer, command, eventually_async,
};

use super::shared::exclusive;
use crate::common::clock::{after_timeout, alone};
use crate::common::{builder, unique};

const KEYS: u64 = 60;

/// The shortest time between two reads of the slot map.
const LEARN_PAUSE: Duration = Duration::from_millis(100);

fn open(url: &str) -> (RedisStore, RedisLimiter) {
    let store = builder(url).open().unwrap();
    let limiter = store.limiter(&unique("outage"), Limit::per_day(100_000)).unwrap();
    (store, limiter)
}

async fn until_it_answers(limiter: &RedisLimiter, key: u64) {
    eventually_async("an answer", async || limiter.check(key).await).await;
}

/// Calls until the node is unavailable.
async fn until_it_is_away(limiter: &RedisLimiter, key: u64) -> StoreError {
    for _ in 0..20 {
        if let Err(StoreError::Unavailable { why, .. }) = limiter.check(key).await {
            return (*why).clone();
        }
    }
    panic!("it is asked again and again");
}

/// A store of a Cluster whose first node a test stops.
struct Calls {
    store: RedisStore,
    limiter: RedisLimiter,
    /// The keys of the first node.
    own: Vec<u64>,
    others: Vec<u64>,
    /// The address of the first node.
    address: String,
}

impl Calls {
    async fn new(cluster: &RedisCluster) -> Calls {
        for node in 0..cluster.nodes().len() {
            // Without it, a missing node would be an outage of every key.
            cluster.ask(node, "CONFIG SET cluster-require-full-coverage no");
        }
        let slot =
            |key: &u64| cluster.ask(0, &format!("CLUSTER KEYSLOT {key}")).parse::<u64>().unwrap();
        let (own, others): (Vec<u64>, Vec<u64>) =
            (0..KEYS).partition(|key| slot(key) * 3 / 16_384 == 0);
        assert!(own.len() > 5 && own.len() < 40);
        let (store, limiter) = open(&cluster.url());
        for key in 0..KEYS {
            until_it_answers(&limiter, key).await;
        }
        eventually_async("all nodes", async || store.health().connected).await;
        assert_eq!(store.health().outage, None);
        let address = format!("127.0.0.1:{}", cluster.nodes()[0].port());
        Calls { store, limiter, own, others, address }
    }

    async fn until_it_is_away(&self) {
        until_it_is_away(&self.limiter, self.own[0]).await;
    }

    async fn only_its_own_fail(&self) {
        for key in self.own.iter().cycle().take(500) {
            let answer = self.limiter.check(*key).now_or_never().expect("the call does not wait");
            let error = answer.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        }
        for key in &self.others {
            let decision = self.limiter.check(*key).await.unwrap();
            assert!(decision.is_allowed(), "another node's key {key}");
        }
        let health = self.store.health();
        assert!(!health.connected && health.failed_calls >= 500, "{health:?}");
        let outage = health.outage.unwrap();
        assert_eq!(outage.address, self.address);
        assert!(outage.failed_calls >= 500, "{outage:?}");
    }

    async fn is_found_again(&self, cluster: &RedisCluster) {
        until_it_answers(&self.limiter, self.own[0]).await;
        eventually_async("all nodes", async || self.store.health().connected).await;
        let health = self.store.health();
        assert!(health.outage.is_none() && health.outages == 1, "{health:?}");
        is_whole(cluster);
    }
}

/// Waits until every node knows that all are there.
fn is_whole(cluster: &RedisCluster) {
    cluster.wait_for(|cluster| {
        let nodes = 0..cluster.nodes().len();
        nodes.into_iter().all(|node| {
            let info = cluster.ask(node, "CLUSTER INFO");
            info.lines().any(|line| line == "cluster_slots_ok:16384")
        })
    });
}

#[test]
fn a_dead_node_costs_only_its_own_keys_and_nobody_waits_for_it() {
    let mut cluster = exclusive();
    alone(async {
        let calls = Calls::new(&cluster).await;
        cluster.kill(0);
        calls.until_it_is_away().await;
        calls.only_its_own_fail().await;
        cluster.restart(0);
        calls.is_found_again(&cluster).await;
    });
}

#[test]
fn a_node_out_of_memory_is_away_until_a_script_may_write() {
    let cluster = exclusive();
    alone(async {
        let calls = Calls::new(&cluster).await;
        cluster.ask(0, "CONFIG SET maxmemory 1");
        calls.until_it_is_away().await;
        calls.only_its_own_fail().await;
        cluster.ask(0, "CONFIG SET maxmemory 0");
        calls.is_found_again(&cluster).await;
    });
}

/// Sends a signal to a process.
fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().unwrap().success());
}

#[test]
fn a_node_that_hangs_is_away_after_three_calls() {
    let cluster = exclusive();
    let info = cluster.ask(0, "INFO server");
    let process = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
    alone(async {
        let calls = Calls::new(&cluster).await;
        signal("-STOP", process);
        for _ in 0..3 {
            let late = after_timeout(DEADLINE, calls.limiter.check(calls.own[0])).await;
            assert_eq!(late.unwrap_err(), StoreError::Timeout(DEADLINE));
        }
        calls.only_its_own_fail().await;
        signal("-CONT", process);
        calls.is_found_again(&cluster).await;
    });
}

/// The error of a call, and whether the call waited.
async fn error_of(limiter: &RedisLimiter, key: u64) -> (StoreError, bool) {
    // A task that never waits is made to wait by the runtime.
    yield_now().await;
    let mut call = pin!(limiter.check(key));
    match call.as_mut().now_or_never() {
        Some(answer) => (answer.unwrap_err(), false),
        None => (call.await.unwrap_err(), true),
    }
}

#[test]
fn a_cluster_that_is_absent_at_the_start_is_an_outage() {
    let mut cluster = exclusive();
    let nodes = cluster.nodes().len();
    alone(async {
        let (store, limiter) = open(&cluster.url());
        assert!(!store.health().connected && store.health().outage.is_none());
        (0..nodes).for_each(|node| cluster.kill(node));
        let why = until_it_is_away(&limiter, 1).await;
        assert!(matches!(why, StoreError::Connection(_)), "{why:?}");
        let (start, mut waited) = (Instant::now(), 0);
        for key in 0..200 {
            waited += u128::from(error_of(&limiter, key).await.1);
        }
        // No call waits except for the slot map, which is not read for each call.
        let most = 1 + start.elapsed().as_millis() / LEARN_PAUSE.as_millis();
        assert!(waited <= most, "{waited} of 200 calls waited, {most} at most");
        let health = store.health();
        assert!(health.outage.unwrap().failed_calls >= 200 && !health.connected);
        (0..nodes).for_each(|node| cluster.restart(node));
        for key in 0..KEYS {
            until_it_answers(&limiter, key).await;
        }
        eventually_async("all nodes", async || store.health().connected).await;
        assert_eq!(store.health().outage, None);
        is_whole(&cluster);
    });
}

#[test]
fn a_watched_server_that_is_absent_at_the_start_is_an_outage() {
    let mut server = RedisServer::start();
    let sentinel = RedisSentinel::start(server.port());
    let url = sentinel.url();
    server.kill();
    alone(async {
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
