//! How many nodes share the limits while the store is unavailable: each server counts the heartbeats.

use std::time::Duration;

use crate::common::clock::alone;
use crate::common::fleet::per_user;
use crate::common::log::Log;
use crate::common::{connect, documented_acl, documented_url, unique, wait};
use tollgate::{ManualClock, Request};
use tollgate_redis::RedisGate;
use tollgate_testkit::{RedisServer, command, eventually_async};

fn ana() -> Request<'static> {
    Request::new().with("user", "ana")
}

/// Gates of one fleet on a server of their own, by a clock that the test moves.
async fn gates(server: &RedisServer, clock: &ManualClock, count: usize) -> Vec<RedisGate> {
    let namespace = unique("heartbeats");
    let mut gates = Vec::new();
    for _ in 0..count {
        let store = connect(&server.url()).await.with_test_clock(clock.clone());
        let gate = RedisGate::builder(store).namespace(namespace.clone()).build(per_user(90));
        let gate = gate.unwrap();
        gate.probe().await.unwrap();
        gates.push(gate);
    }
    gates
}

async fn until_they_are(gates: &[RedisGate], number: u64) {
    let what = format!("{number} nodes");
    eventually_async(&what, async || gates.iter().all(|gate| gate.nodes() == number)).await;
}

/// How many of 100 requests each gate admits without its store.
async fn admitted_without_store(gates: &[RedisGate]) -> Vec<u32> {
    let mut admitted = Vec::new();
    for gate in gates {
        let mut of_gate = 0;
        for _ in 0..100 {
            let ruling = gate.check(&ana()).await;
            assert!(ruling.is_degraded());
            of_gate += u32::from(ruling.is_allowed());
        }
        admitted.push(of_gate);
    }
    admitted
}

#[test]
fn three_nodes_admit_one_limit_in_an_outage_without_configuration() {
    let mut server = RedisServer::start();
    wait(async {
        let clock = ManualClock::new();
        let gates = gates(&server, &clock, 3).await;
        until_they_are(&gates, 3).await;
        server.kill();
        assert_eq!(admitted_without_store(&gates).await, [30, 30, 30]);
        // Heartbeats are too old, and none come: the number stays.
        clock.advance(Duration::from_secs(120));
        assert!(gates.iter().all(|gate| gate.nodes() == 3));
    });
}

#[test]
fn node_that_leaves_no_longer_counts_and_one_that_dies_counts_for_a_minute() {
    let server = RedisServer::start();
    wait(async {
        let clock = ManualClock::new();
        let mut gates = gates(&server, &clock, 3).await;
        until_they_are(&gates, 3).await;
        gates.pop().unwrap().leave().await.unwrap();
        until_they_are(&gates, 2).await;
        drop(gates.pop());
        clock.advance(Duration::from_secs(58));
        eventually_async("a heartbeat", async || gates[0].seen_nodes() == 1).await;
        assert_eq!(gates[0].nodes(), 2);
        clock.advance(Duration::from_secs(4));
        until_they_are(&gates, 1).await;
    });
}

#[test]
fn larger_of_the_configured_and_the_counted_number_counts() {
    let mut server = RedisServer::start();
    wait(async {
        let clock = ManualClock::new();
        let gates = gates(&server, &clock, 2).await;
        until_they_are(&gates, 2).await;
        gates[0].set_nodes(3).unwrap();
        assert_eq!(gates[0].nodes(), 3);
        gates[1].set_nodes(1).unwrap();
        assert_eq!(gates[1].nodes(), 2);
        gates[0].set_nodes(1_000_000).unwrap();
        server.kill();
        assert_eq!(admitted_without_store(&gates).await, [1, 45], "at least one unit");
    });
}

#[test]
fn number_that_differs_from_the_configured_one_is_logged() {
    let log = Log::of_this_thread();
    let server = RedisServer::start();
    alone(async {
        let gates = gates(&server, &ManualClock::new(), 2).await;
        until_they_are(&gates, 2).await;
    });
    let lines = log.lines();
    let differs = lines.iter().filter(|line| line.message.contains("differs"));
    let differs: Vec<_> = differs.collect();
    assert_eq!(differs.len(), 2, "one line for each gate: {lines:?}");
    assert_eq!((differs[0].number("heard"), differs[0].number("configured")), (2, 1));
}

#[test]
fn heartbeat_that_is_rejected_is_logged_and_decisions_go_on() {
    let log = Log::of_this_thread();
    let server = RedisServer::start();
    command(server.port(), &format!("{} -zadd", documented_acl()));
    alone(async {
        let store = connect(&documented_url(&server)).await;
        let gate = RedisGate::with_store(store, per_user(10)).unwrap();
        gate.probe().await.unwrap();
        let rejected = || log.lines().iter().filter(|of| of.message.contains("rejects")).count();
        eventually_async("a line", async || rejected() == 1).await;
        assert!(!gate.check(&ana()).await.is_degraded());
        assert_eq!((gate.health().outages, gate.nodes()), (0, 1));
    });
}
