//! Overrides of a fleet: those of each node's policy, and those that are set at run time.

use std::time::Duration;

use tollgate::{
    Client, Limit, ManualClock, Override, OverrideRemoval, OverrideSource, Policy, Request, Rule,
};
use tollgate_redis::RedisGate;
use tollgate_testkit::eventually_async;

use crate::common::clock::OwnRuntime;
use crate::common::fleet::fleet;
use crate::common::{connect, server, unique, wait};

fn ana() -> Request<'static> {
    Request::new().with("user", "ana")
}

fn client() -> Client {
    Client::from([("user".to_owned(), "ana".to_owned())])
}

fn own(count: u64) -> Override {
    Override::new("user", "ana").limits("per-user", Limit::per_hour(count))
}

/// A policy whose override gives ana this limit.
fn with_entry(count: u64) -> Policy {
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_hour(100));
    Policy::new().rule(rule).override_client(own(count))
}

async fn limit(gate: &RedisGate) -> u64 {
    gate.status(&ana()).await.limit()
}

fn source(gate: &RedisGate) -> OverrideSource {
    gate.overrides()[0].source
}

#[test]
fn removing_an_override_of_the_policy_is_rejected_on_every_node() {
    wait(async {
        let [here, there] = fleet(&with_entry(20), 2).await.try_into().unwrap();
        for gate in [&here, &there] {
            let removal = gate.remove_override(&client()).await.unwrap();
            assert_eq!(removal, OverrideRemoval::InPolicy);
            assert_eq!((limit(gate).await, source(gate)), (20, OverrideSource::Policy));
        }
        here.replace(with_entry(40)).unwrap();
        assert_eq!(limit(&here).await, 40, "later changes of the policy count");
    });
}

#[test]
fn override_of_the_policy_applies_again_when_one_of_run_time_is_removed_anywhere() {
    let runtime = OwnRuntime::still();
    let gates = runtime.block_on(fleet(&with_entry(20), 2));
    let (here, there) = (&gates[0], &gates[1]);
    runtime.block_on(async {
        assert_eq!(limit(there).await, 20);
        here.set_override(own(30)).await.unwrap();
        assert_eq!((limit(here).await, source(here)), (30, OverrideSource::RunTime));
    });
    runtime.within_a_second("the override", &gates, async || limit(there).await == 30);
    let removal = runtime.block_on(there.remove_override(&client())).unwrap();
    assert_eq!(removal, OverrideRemoval::Removed);
    runtime.within_a_second("the policy's override", &gates, async || limit(here).await == 20);
    assert_eq!(source(here), OverrideSource::Policy);
}

#[test]
fn override_of_the_policy_applies_again_when_one_of_run_time_ends() {
    wait(async {
        let clock = ManualClock::new();
        let store = connect(&server().url()).await.with_test_clock(clock.clone());
        let gate = RedisGate::builder(store).namespace(unique("ends")).build(with_entry(20));
        let gate = gate.unwrap();
        let minute = Duration::from_secs(60);
        gate.set_override(own(30).until(clock.now().saturating_add(minute))).await.unwrap();
        assert_eq!(limit(&gate).await, 30);
        clock.advance(minute);
        assert_eq!((limit(&gate).await, source(&gate)), (20, OverrideSource::Policy));
    });
}

#[test]
fn changed_entry_of_the_policy_replaces_the_override_of_the_fleet_on_every_node() {
    let runtime = OwnRuntime::still();
    let gates = runtime.block_on(fleet(&with_entry(20), 2));
    let (here, there) = (&gates[0], &gates[1]);
    runtime.block_on(async {
        assert_eq!(limit(there).await, 20);
        here.set_override(own(30)).await.unwrap();
    });
    runtime.within_a_second("the override", &gates, async || limit(there).await == 30);

    // The other node reads the shared override while its own policy has not changed yet.
    here.replace(with_entry(50)).unwrap();
    runtime.block_on(async { assert_eq!(limit(here).await, 50, "at once where it changed") });
    // It asks at once rather than with its next poll: the test's clock lets each node poll once.
    let has_ended = async || there.probe().await.is_ok() && limit(there).await == 20;
    runtime.within_a_second("the end on the other node", &gates, has_ended);
    there.replace(with_entry(50)).unwrap();
    runtime.block_on(async { assert_eq!(limit(there).await, 50) });

    // Neither the shared state nor the earlier entry brings the override back.
    for gate in [here, there] {
        gate.replace(with_entry(20)).unwrap();
    }
    runtime.block_on(async {
        for gate in [here, there] {
            gate.probe().await.unwrap();
            assert_eq!(limit(gate).await, 20);
        }
    });
}

#[test]
fn node_with_a_changed_policy_ignores_the_override_that_replaced_the_earlier_entry() {
    wait(async {
        let [before, after] = fleet(&with_entry(20), 2).await.try_into().unwrap();
        after.replace(with_entry(50)).unwrap();
        before.set_override(own(30)).await.unwrap();
        after.probe().await.unwrap();
        assert_eq!((limit(&before).await, limit(&after).await), (30, 50));

        // An override that is set on a node with the new policy applies on a node once it has it.
        after.set_override(own(60)).await.unwrap();
        before.probe().await.unwrap();
        assert_eq!((limit(&before).await, limit(&after).await), (20, 60));
        before.replace(with_entry(50)).unwrap();
        assert_eq!(limit(&before).await, 60);
    });
}

#[test]
fn override_that_was_set_anew_survives_the_change_of_a_node_that_comes_late() {
    wait(async {
        let [first, late] = fleet(&with_entry(20), 2).await.try_into().unwrap();
        first.set_override(own(30)).await.unwrap();
        late.probe().await.unwrap();
        first.replace(with_entry(50)).unwrap();
        first.set_override(own(60)).await.unwrap();
        // It still knows the earlier override.
        late.replace(with_entry(50)).unwrap();
        eventually_async("the late node has the override", async || limit(&late).await == 60).await;
        assert_eq!(limit(&first).await, 60);
    });
}
