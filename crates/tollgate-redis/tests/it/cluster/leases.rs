//! Leases from a Cluster: each key's from the node that serves it.

use tollgate::{Limit, ManualClock, Policy, Request, Rule, SyncMode};
use tollgate_redis::RedisGate;
use tollgate_testkit::eventually_async;

use super::shared::store;
use crate::common::{unique, wait};

#[test]
fn keys_in_several_slots_are_leased_and_given_back() {
    let mut policy =
        Policy::new().rule(Rule::new("user").key(["user"]).limit(Limit::per_hour(10_000))).rule(
            Rule::new("tenant")
                .key(["tenant"])
                .limit(Limit::sliding_counter(10_000, std::time::Duration::from_secs(3600))),
        );
    policy.sync = SyncMode::Leased;
    let store = store().with_test_clock(ManualClock::new());
    let gate = RedisGate::builder(store).namespace(unique("leases")).build(policy).unwrap();
    let request = Request::new().with("tenant", "acme").with("user", "ana");
    wait(async {
        let mut taken = 0;
        eventually_async("a request paid from hand", async || {
            taken += 50;
            let ruling = gate.try_check(&request.clone().cost(50)).await.unwrap();
            assert!(ruling.is_allowed());
            ruling.rules().all(|rule| rule.is_leased())
        })
        .await;
        eventually_async("the node to see itself", async || gate.seen_nodes() == 1).await;
        eventually_async("all units to be returned", async || {
            gate.return_leases().await;
            let ruling = gate.status(&request).await;
            ruling.rules().all(|rule| rule.remaining() == 10_000 - taken)
        })
        .await;
    });
}
