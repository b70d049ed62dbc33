//! Leases: what a node borrows is charged when it is borrowed, spent once, in time, and given back.

mod faults;
mod fleet;
mod hand;
mod processes;
mod returns;

use std::time::Duration;

use crate::common::{connect, server, unique};
use tollgate::{Limit, ManualClock, Policy, Request, Rule, SyncMode};
use tollgate_redis::RedisGate;
use tollgate_testkit::eventually_async;

const SECOND: Duration = Duration::from_secs(1);

fn ana() -> Request<'static> {
    Request::new().with("user", "ana")
}

fn leased(name: &str, limit: Limit) -> Rule {
    Rule::new(name).key(["user"]).limit(limit).sync(SyncMode::Leased)
}

fn per_user(limit: Limit) -> Policy {
    Policy::new().rule(leased("per-user", limit))
}

/// Limits of every kind that can be leased, of one capacity.
fn leasable(count: u64) -> Vec<Limit> {
    vec![
        Limit::per_hour(count),
        Limit::leaky_bucket(count, 3600 * SECOND),
        Limit::fixed_window(count, 3600 * SECOND),
        Limit::fixed_window(count, 3600 * SECOND).starting_at_first_request(),
        Limit::calendar(count, tollgate::CalendarUnit::Month).zone("Europe/Paris"),
        Limit::sliding_log(count, 3600 * SECOND),
        Limit::sliding_counter(count, 3600 * SECOND),
    ]
}

/// Nodes of one fleet on connections of their own, and the clock that all of them go by.
struct Fleet {
    clock: ManualClock,
    nodes: Vec<RedisGate>,
}

impl Fleet {
    async fn new(policy: &Policy, nodes: usize) -> Fleet {
        let (clock, namespace) = (ManualClock::new(), unique("leases"));
        let mut gates = Vec::new();
        for _ in 0..nodes {
            let store = connect(&server().url()).await.with_test_clock(clock.clone());
            let gate = RedisGate::builder(store).namespace(namespace.clone()).build(policy.clone());
            gates.push(gate.unwrap());
        }
        Fleet { clock, nodes: gates }
    }

    fn node(&self) -> &RedisGate {
        &self.nodes[0]
    }
}

/// Asks until the node pays from hand; how many units that took. Most requests cost a hundred, so that
/// there is much in hand.
async fn heat(gate: &RedisGate, request: &Request<'_>) -> u64 {
    let mut taken = 0;
    // The last of these makes it hot, so that none is on its way together with the borrow.
    for _ in 0..4 {
        let ruling = gate.try_check(&request.clone().cost(100)).await.unwrap();
        assert!(ruling.is_allowed(), "{ruling:?}");
        taken += 100;
    }
    eventually_async("a lease", async || gate.peek(request).await.is_leased()).await;
    let ruling = gate.try_check(request).await.unwrap();
    assert!(ruling.is_allowed() && ruling.is_leased(), "{ruling:?}");
    taken + 1
}
