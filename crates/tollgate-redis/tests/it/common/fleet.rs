//! Gates of one fleet.

use tollgate::{Limit, ManualClock, Policy, Rule};
use tollgate_redis::RedisGate;

use super::{connect, server, unique};

pub(crate) fn per_user(count: u64) -> Policy {
    Policy::new().rule(Rule::new("per-user").key(["user"]).limit(Limit::per_hour(count)))
}

/// Gates of one fleet on connections of their own, on a clock that stands still.
pub(crate) async fn fleet(policy: &Policy, nodes: usize) -> Vec<RedisGate> {
    let (clock, namespace) = (ManualClock::new(), unique("fleet"));
    let mut gates = Vec::new();
    for _ in 0..nodes {
        let store = connect(&server().url()).await.with_test_clock(clock.clone());
        let gate = RedisGate::builder(store).namespace(namespace.clone()).build(policy.clone());
        gates.push(gate.unwrap());
    }
    gates
}
