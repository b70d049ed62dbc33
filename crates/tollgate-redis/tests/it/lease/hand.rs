//! One node: what it has in hand, what it says of it, and when it asks.

use std::time::Duration;

use tollgate::{
    BlockPolicy, Clock, Dialect, HeaderStyle, Limit, ManualClock, Policy, Rule, SyncMode,
};

use super::{Fleet, SECOND, ana, heat, leasable, leased, per_user};
use crate::common::{calls, connect, wait};
use tollgate_redis::RedisGate;
use tollgate_testkit::{RedisServer, eventually_async};

#[test]
fn a_key_is_asked_for_until_it_is_hot_and_then_paid_from_hand() {
    wait(async {
        let server = RedisServer::start();
        let policy = per_user(Limit::per_hour(1_000_000));
        let store = connect(&server.url()).await.with_test_clock(ManualClock::new());
        let gate = RedisGate::with_store(store, policy).unwrap();
        for _ in 0..3 {
            assert!(!gate.check(&ana()).await.is_leased(), "a cold key");
        }
        assert_eq!(gate.lease_counts().borrows, 0, "there is no lease of a cold key");
        heat(&gate, &ana()).await;
        let (before, counts) = (calls(&server), gate.lease_counts());
        for _ in 0..1000 {
            assert!(gate.check(&ana()).await.is_allowed());
        }
        let paid = gate.lease_counts().charges - counts.charges;
        let calls = calls(&server) - before;
        assert!(paid > 900 && calls < 100, "{paid} were paid from hand, with {calls} calls");
    });
}

#[test]
fn what_remains_goes_down_by_what_is_taken_from_one_lease_to_the_next() {
    wait(async {
        for limit in leasable(10_000) {
            let fleet = Fleet::new(&per_user(limit.clone()), 1).await;
            let mut taken = heat(fleet.node(), &ana()).await;
            for _ in 0..40 {
                // What follows comes in the background.
                eventually_async("the next lease", async || {
                    fleet.node().lease_counts().available >= 10
                })
                .await;
                for _ in 0..10 {
                    let ruling = fleet.node().try_check(&ana()).await.unwrap();
                    taken += 1;
                    assert_eq!(ruling.remaining(), 10_000 - taken, "{limit}: {ruling:?}");
                    assert_eq!((ruling.limit(), ruling.is_leased()), (10_000, true));
                    assert!(ruling.rules().all(|rule| rule.is_leased()));
                    let told = |dialect| {
                        let style = HeaderStyle::new().with_dialect(dialect);
                        let fields = style.for_ruling(&ruling, &Clock::system());
                        fields.get("ratelimit").unwrap_or_default().to_owned()
                    };
                    assert!(told(Dialect::Draft11).ends_with(";tollgate-leased"), "{limit}");
                    assert!(told(Dialect::Draft07).ends_with(", tollgate-leased"), "{limit}");
                }
            }
            assert!(fleet.node().lease_counts().borrows > 2, "{limit}: it took several leases");
        }
    });
}

#[test]
fn a_peek_agrees_with_the_check_that_follows_it_and_takes_nothing() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 1).await;
        heat(fleet.node(), &ana()).await;
        let (peeked, counts) = (fleet.node().peek(&ana()).await, fleet.node().lease_counts());
        let (again, after) = (fleet.node().peek(&ana()).await, fleet.node().lease_counts());
        assert_eq!((peeked.remaining(), counts), (again.remaining(), after));
        let checked = fleet.node().check(&ana()).await;
        assert!(peeked.is_leased() && checked.is_leased());
        assert_eq!(checked.remaining(), peeked.remaining() - 1);
        let status = fleet.node().status(&ana()).await;
        assert!(!status.is_leased() && status.remaining() < checked.remaining(), "{status:?}");
    });
}

#[test]
fn cost_zero_is_allowed_beside_a_lease_and_takes_nothing() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 1).await;
        heat(fleet.node(), &ana()).await;
        let left = fleet.node().status(&ana()).await.remaining();
        for ruling in [
            fleet.node().check(&ana().cost(0)).await,
            fleet.node().peek(&ana().cost(0)).await,
            fleet.node().check(&ana().cost(0)).await,
        ] {
            assert!(ruling.is_allowed(), "{ruling:?}");
            assert_eq!(ruling.remaining(), left);
        }
        assert!(fleet.node().check(&ana()).await.is_leased());
    });
}

#[test]
fn what_is_in_hand_is_spent_until_its_time_is_over_and_not_a_tick_longer() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 1).await;
        let node = fleet.node();
        heat(node, &ana()).await;
        // Touched on the way, so that it does not lie idle.
        for _ in 0..3 {
            fleet.clock.advance(SECOND * 3 / 10);
            assert!(node.check(&ana()).await.is_leased());
        }
        fleet.clock.advance(SECOND / 10 - Duration::from_micros(1));
        assert!(node.check(&ana()).await.is_leased());
        let borrows = node.lease_counts().borrows;
        fleet.clock.advance(Duration::from_micros(1));
        assert!(!node.check(&ana()).await.is_leased());
        assert_eq!(borrows, 1, "it was one lease");
    });
}

#[test]
fn a_lease_ends_with_its_window() {
    wait(async {
        let limit = Limit::fixed_window(10_000, 60 * SECOND);
        let fleet = Fleet::new(&per_user(limit), 1).await;
        fleet.clock.advance(60 * SECOND - SECOND / 10);
        let taken = heat(fleet.node(), &ana()).await;
        let ruling = fleet.node().check(&ana()).await;
        assert_eq!((ruling.is_leased(), ruling.remaining()), (true, 9_999 - taken));
        fleet.clock.advance(SECOND / 10);
        let ruling = fleet.node().check(&ana()).await;
        assert_eq!((ruling.is_leased(), ruling.remaining()), (false, 9_999));
    });
}

#[test]
fn what_is_left_comes_back_when_the_node_stops() {
    wait(async {
        for limit in leasable(10_000) {
            let fleet = Fleet::new(&per_user(limit.clone()), 2).await;
            let taken = heat(fleet.node(), &ana()).await;
            let status = async || fleet.nodes[1].status(&ana()).await.remaining();
            assert!(status().await < 10_000 - taken, "{limit}: what is in hand is charged");
            fleet.node().return_leases().await;
            assert_eq!(status().await, 10_000 - taken, "{limit}");
            assert_eq!(fleet.node().lease_counts().available, 0);
        }
    });
}

#[test]
fn what_lies_idle_comes_back_by_itself_and_so_does_what_a_dropped_gate_had() {
    wait(async {
        let mut fleet = Fleet::new(&per_user(Limit::fixed_window(10_000, 3600 * SECOND)), 2).await;
        let taken = heat(fleet.node(), &ana()).await;
        fleet.clock.advance(SECOND / 2);
        let other = fleet.nodes.pop().unwrap();
        eventually_async("idle units to be returned", async || {
            other.status(&ana()).await.remaining() == 10_000 - taken
        })
        .await;
        let more = heat(fleet.node(), &ana()).await;
        drop(fleet.nodes);
        eventually_async("units of a dropped gate to be returned", async || {
            other.status(&ana()).await.remaining() == 10_000 - taken - more
        })
        .await;
    });
}

#[test]
fn what_is_taken_from_hand_is_put_back_where_another_rule_denies() {
    wait(async {
        let policy = per_user(Limit::per_hour(10_000))
            .rule(Rule::new("exports").matches("route", "/export").limit(Limit::per_hour(1)));
        let fleet = Fleet::new(&policy, 1).await;
        heat(fleet.node(), &ana()).await;
        let export = ana().with("route", "/export");
        let first = fleet.node().try_check(&export).await.unwrap();
        assert!(first.is_allowed() && first.is_leased());
        let counts = fleet.node().lease_counts();
        let denied = fleet.node().try_check(&export).await.unwrap();
        assert_eq!((denied.is_allowed(), denied.decided_by_name()), (false, Some("exports")));
        assert_eq!(fleet.node().lease_counts(), counts, "it is in hand again");
        let of = |ruling: &tollgate::Ruling| ruling.rules().next().unwrap().remaining();
        assert_eq!(of(&denied), of(&first), "as it stands, with nothing taken");
        let next = fleet.node().try_check(&ana()).await.unwrap();
        assert!(next.is_leased() && next.remaining() == of(&first) - 1);
    });
}

#[test]
fn a_rule_with_several_limits_is_paid_from_hand_whole_or_not_at_all() {
    wait(async {
        let rule = leased("both", Limit::per_hour(10_000)).limit(Limit::per_day(20_000));
        let fleet = Fleet::new(&Policy::new().rule(rule), 1).await;
        let node = fleet.node();
        let mut taken = 0;
        eventually_async("a request paid from hand", async || {
            taken += 100;
            node.try_check(&ana().cost(100)).await.unwrap().is_leased()
        })
        .await;
        for _ in 0..50 {
            assert!(node.try_check(&ana()).await.unwrap().is_allowed());
            taken += 1;
        }
        node.return_leases().await;
        eventually_async("all units to be returned", async || {
            node.return_leases().await;
            let stands = node.key_status("both", &["ana"]).await.unwrap().unwrap();
            stands.iter().all(|(_, status)| status.used() == taken)
        })
        .await;
    });
}

#[test]
fn what_cannot_be_leased_asks_each_time() {
    wait(async {
        let mut policy = Policy::new()
            .rule(Rule::new("queue").key(["user"]).limit(Limit::leaky_queue(10_000, SECOND)))
            .rule(Rule::new("logins").key(["user"]).limit(Limit::per_hour(10_000)))
            .rule(Rule::new("trial").key(["user"]).limit(Limit::per_hour(10_000)).shadow())
            .rule(
                // One of two is a queue: the other would lie idle.
                Rule::new("both")
                    .key(["user"])
                    .limit(Limit::per_hour(10_000))
                    .limit(Limit::leaky_queue(10_000, SECOND)),
            );
        policy.rules[1].block = Some(BlockPolicy::fixed(SECOND));
        policy.sync = SyncMode::Leased;
        let fleet = Fleet::new(&policy, 1).await;
        for _ in 0..50 {
            let ruling = fleet.node().try_check(&ana()).await.unwrap();
            assert!(ruling.is_allowed() && !ruling.is_leased());
        }
        assert_eq!(fleet.node().lease_counts().borrows, 0);
    });
}

#[test]
fn whoever_is_blocked_by_hand_is_not_let_in_from_hand() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 2).await;
        heat(fleet.node(), &ana()).await;
        assert!(fleet.nodes[1].block("per-user", &["ana"], 60 * SECOND).await.unwrap());
        eventually_async("the block on another node", async || {
            !fleet.node().check(&ana()).await.is_allowed()
        })
        .await;
    });
}

#[test]
fn other_numbers_end_a_lease() {
    wait(async {
        let fleet = Fleet::new(&per_user(Limit::per_hour(10_000)), 1).await;
        let node = fleet.node();
        heat(node, &ana()).await;
        node.replace(per_user(Limit::per_hour(20_000))).unwrap();
        let ruling = node.try_check(&ana()).await.unwrap();
        assert_eq!((ruling.is_leased(), ruling.limit()), (false, 20_000));
        heat(node, &ana()).await;
        let mut strict = per_user(Limit::per_hour(20_000));
        strict.rules[0].sync = None;
        node.replace(strict).unwrap();
        assert!(!node.try_check(&ana()).await.unwrap().is_leased());
    });
}
