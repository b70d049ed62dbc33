//! Several nodes on one store: together never more than the limit, and resets reach all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Limit, Override, Request};

use super::{Fleet, SECOND, ana, heat, leasable, per_user};
use crate::common::wait;
use tollgate_testkit::eventually_async;

#[test]
fn nodes_at_once_admit_exactly_the_limit_once_all_is_given_back() {
    wait(async {
        for limit in leasable(2000) {
            let fleet = Fleet::new(&per_user(limit.clone()), 4).await;
            let admitted = Arc::new(AtomicU64::new(0));
            let mut tasks = tokio::task::JoinSet::new();
            for (worker, gate) in (0..16_u64).zip(fleet.nodes.iter().cycle()) {
                let (gate, admitted) = (gate.clone(), admitted.clone());
                tasks.spawn(async move {
                    for number in 0..100_u64 {
                        let cost = 1 + (worker + number) % 3;
                        let ruling = gate.try_check(&ana().cost(cost)).await.unwrap();
                        if ruling.is_allowed() {
                            admitted.fetch_add(cost, Ordering::Relaxed);
                        }
                    }
                });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
            let so_far = admitted.load(Ordering::Relaxed);
            assert!(so_far <= 2000, "{limit}: {so_far}");
            let paid: u64 = fleet.nodes.iter().map(|node| node.lease_counts().charges).sum();
            assert!(paid > 20, "{limit}: {paid} were paid from hand");
            eventually_async("all units to be returned", async || {
                for node in &fleet.nodes {
                    node.return_leases().await;
                }
                fleet.node().status(&ana()).await.remaining() == 2000 - so_far
            })
            .await;
            let rest = fleet.node().take_up_to(&ana().cost(2000)).await.0;
            assert_eq!(so_far + rest, 2000, "{limit}: nothing is lost, and nothing minted");
        }
    });
}

#[test]
fn a_reset_revokes_what_other_nodes_have_in_hand() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 2).await;
        let [here, there] = &fleet.nodes[..] else { panic!("two nodes") };
        let ben = Request::new().with("user", "ben");
        heat(there, &ana()).await;
        heat(there, &ben).await;
        let both = there.lease_counts().available;
        assert!(here.reset("per-user", &["ana"]).await.unwrap());
        eventually_async("a node to drop its lease", async || {
            !there.peek(&ana()).await.is_leased()
        })
        .await;
        let left = there.lease_counts().available;
        assert!(0 < left && left < both, "{left} of {both}: only what was reset");
        assert!(there.peek(&ben).await.is_leased());
        assert_eq!(there.check(&ana()).await.remaining(), 9_999, "it is new");
        // By prefix, by rule and all at once.
        here.reset_prefix("per-user", "be", |_| ()).await.unwrap();
        eventually_async("a node to drop its lease", async || !there.peek(&ben).await.is_leased())
            .await;
        heat(there, &ben).await;
        here.reset_rule("per-user", |_| ()).await.unwrap();
        eventually_async("a node to drop its lease", async || !there.peek(&ben).await.is_leased())
            .await;
        heat(there, &ben).await;
        here.reset_all(|_| ()).await.unwrap();
        eventually_async("a node to drop its lease", async || !there.peek(&ben).await.is_leased())
            .await;
        assert_eq!(there.status(&ben).await.remaining(), 10_000);
    });
}

#[test]
fn a_reset_on_the_same_node_revokes_at_once() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 1).await;
        heat(fleet.node(), &ana()).await;
        assert!(fleet.node().reset("per-user", &["ana"]).await.unwrap());
        let ruling = fleet.node().check(&ana()).await;
        assert_eq!((ruling.is_leased(), ruling.remaining()), (false, 9_999));
    });
}

#[test]
fn nodes_know_how_many_they_are() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 3).await;
        for node in &fleet.nodes {
            assert!(node.check(&ana()).await.is_allowed());
        }
        eventually_async("the nodes to see each other", async || {
            fleet.nodes.iter().all(|node| node.seen_nodes() == 3)
        })
        .await;
        // One that is not heard of for two seconds is not there.
        fleet.clock.advance(3 * SECOND);
        let [first, .., last] = &fleet.nodes[..] else { panic!("three nodes") };
        eventually_async("the nodes to see each other again", async || {
            first.seen_nodes() == 3 && last.seen_nodes() == 3
        })
        .await;
    });
}

#[test]
fn an_override_at_run_time_ends_a_lease_of_other_numbers() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 2).await;
        let [here, there] = &fleet.nodes[..] else { panic!("two nodes") };
        heat(there, &ana()).await;
        let other = Override::new("user", "ana").limits("per-user", Limit::per_hour(500));
        here.set_override(other).await.unwrap();
        eventually_async("the override on another node", async || {
            there.peek(&ana()).await.limit() == 500
        })
        .await;
        assert!(!there.check(&ana()).await.is_leased());
        // A queue is legal there, and asked for each time.
        let queue = Limit::leaky_queue(1000, SECOND).burst(5000);
        here.set_override(Override::new("user", "ana").limits("per-user", queue)).await.unwrap();
        eventually_async("the second override on another node", async || {
            there.peek(&ana()).await.limit() == 5001
        })
        .await;
        for _ in 0..20 {
            assert!(!there.check(&ana()).await.is_leased());
        }
    });
}
