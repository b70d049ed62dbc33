//! A cost of 0 over Redis: allowed in every state of a key, takes nothing and creates nothing.

use std::time::Duration;

use redis::cmd;
use tollgate::{
    BlockPolicy, Cost, Limit, ListEntry, ManualClock, OnStoreError, Policy, Reason, Request, Rule,
};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_testkit::{RedisServer, one_limit_of_each};

use crate::cluster::shared;
use crate::common::{asking, connect, store, unique, wait};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn ana() -> Request<'static> {
    Request::new().with("user", "ana")
}

fn hourly(count: u64) -> Limit {
    Limit::fixed_window(count, 60 * MINUTE).starting_at_first_request()
}

fn gate(store: RedisStore, policy: &Policy) -> RedisGate {
    RedisGate::builder(store).namespace(unique("ns")).build(policy.clone()).unwrap()
}

/// The keys of a server.
fn keys(server: &RedisServer) -> Vec<String> {
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    cmd("KEYS").arg("*").query(&mut raw).unwrap()
}

#[test]
fn cost_zero_is_allowed_in_every_state_and_takes_nothing() {
    let shared = store();
    wait(async {
        let store = shared.with_test_clock(ManualClock::new());
        for limit in one_limit_of_each() {
            let limiter = store.limiter(&unique("zero"), limit.clone()).unwrap();
            for used in [0, 10, 15] {
                let reservation = limiter.reserve("ana", 0).await.unwrap();
                assert_eq!(reservation.cost(), 0);
                let left = limiter.status("ana").await.unwrap();
                reservation.settle(used - left.used()).await.unwrap();
                let status = limiter.status("ana").await.unwrap();
                for decision in [
                    limiter.check_n("ana", 0).await.unwrap(),
                    limiter.peek_n("ana", 0).await.unwrap(),
                    limiter.take_up_to("ana", 0).await.unwrap().decision,
                ] {
                    assert!(decision.is_allowed(), "{limit}: {decision:?}");
                    assert_eq!(decision.remaining(), 10 - used.min(10), "{limit}");
                    assert_eq!(decision.delay(), Duration::ZERO, "{limit}");
                    assert_eq!(decision.reset_after(), status.reset_after(), "{limit}");
                }
            }
            assert!(!limiter.check("ana").await.unwrap().is_allowed());
            assert!(limiter.check_n("ana", 0).await.unwrap().is_allowed(), "with the deny cache");
        }
    });
}

#[test]
fn cost_zero_adds_nothing_to_other_charges() {
    let stores = [store(), shared::store()];
    wait(async {
        for store in stores {
            let store = store.with_test_clock(ManualClock::new());
            for limit in one_limit_of_each() {
                let zero = store.limiter(&unique("zero"), limit.clone()).unwrap();
                let other = store.limiter(&unique("other"), hourly(2)).unwrap();
                for costs in [[0, 1], [1, 0]] {
                    let charges = costs.map(|cost| zero.charge("ana").cost(cost));
                    assert!(store.check_all(&charges).await.unwrap().is_allowed(), "{limit}");
                }
                assert_eq!(zero.status("ana").await.unwrap().used(), 2, "{limit}");
                let both = [zero.charge("ben").cost(0), other.charge("ben").cost(2)];
                assert!(store.check_all(&both).await.unwrap().is_allowed(), "{limit}");
                let denied = store.check_all(&both).await.unwrap();
                let allowed: Vec<bool> = denied.iter().map(|(_, of)| of.is_allowed()).collect();
                assert_eq!(allowed, [true, false], "{limit}");
                let batch = [vec![zero.charge("ben").cost(0)], vec![other.charge("ben").cost(0)]];
                for decisions in store.check_many(&batch).await {
                    assert!(decisions.unwrap().is_allowed(), "{limit}");
                }
                assert!(zero.status("ben").await.unwrap().is_fresh(), "{limit}");
            }
        }
    });
}

#[test]
fn cost_zero_creates_no_key() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        for limit in one_limit_of_each() {
            let limiter = store.limiter(&unique("zero"), limit).unwrap();
            assert!(limiter.check_n("ana", 0).await.unwrap().is_allowed());
            drop(limiter.reserve("ana", 0).await.unwrap());
            let charges = [limiter.charge("ana").cost(0), limiter.charge("ben").cost(0)];
            assert!(store.check_all(&charges).await.unwrap().is_allowed());
        }
        assert_eq!(keys(&server), Vec::<String>::new());
        let tokens = Cost::Attribute { name: "tokens".to_owned(), multiplier: 2, default: 1 };
        let policy = Policy::new()
            .rule(
                Rule::new("user").key(["user"]).limit(hourly(5)).block(BlockPolicy::fixed(MINUTE)),
            )
            .rule(Rule::new("tokens").limit(hourly(9)).limit(Limit::per_day(9)).cost(tokens))
            .rule(Rule::new("trial").limit(Limit::sliding_log(5, SECOND)).shadow());
        let gate = gate(store, &policy);
        for request in [ana().cost(0), ana().with("tokens", "7").cost(0)] {
            assert!(gate.try_check(&request).await.unwrap().is_allowed());
            assert!(gate.peek(&request).await.is_allowed());
            assert_eq!(gate.take_up_to(&request).await.0, 0);
            gate.reserve(&request).await.expect("a cost of 0 is allowed").commit().await.unwrap();
        }
        let left: Vec<_> = keys(&server).into_iter().filter(|key| key.contains(":k")).collect();
        assert_eq!(left, Vec::<String>::new());
    });
}

#[test]
fn gate_allows_cost_zero_unless_a_list_or_a_block_denies_it() {
    let stores = [(store().clone(), "cached"), (asking(&server_url()), "asking")];
    wait(async {
        for (store, lasts) in stores {
            let clock = ManualClock::new();
            let policy = Policy::new()
                .rule(
                    Rule::new("user")
                        .key(["user"])
                        .limit(hourly(1))
                        .block(BlockPolicy::fixed(MINUTE)),
                )
                .rule(Rule::new("all").limit(hourly(2)))
                .deny(ListEntry::new("banned").matches("user", "eve"));
            let gate = gate(store.with_test_clock(clock.clone()), &policy);
            let eve = Request::new().with("user", "eve").cost(0);
            assert_eq!(gate.try_check(&eve).await.unwrap().reason(), Reason::DenyList);
            assert!(gate.try_check(&ana()).await.unwrap().is_allowed());
            assert!(gate.try_check(&ana().cost(0)).await.unwrap().is_allowed(), "{lasts}");
            assert!(!gate.try_check(&ana()).await.unwrap().is_allowed());
            let blocked = gate.try_check(&ana().cost(0)).await.unwrap();
            assert_eq!((blocked.is_allowed(), blocked.reason()), (false, Reason::Blocked));
            clock.advance(MINUTE);
            let ruling = gate.try_check(&ana().cost(0)).await.unwrap();
            assert!(ruling.is_allowed(), "{lasts}: the block is over, and the limit is used up");
            assert!(ruling.rules().all(|of| of.blocked_for().is_none()), "it starts no other");
            let hold = gate.reserve(&ana().cost(0)).await.expect("a cost of 0 is allowed");
            hold.settle(1).await.unwrap();
            let left = gate.try_check(&Request::new().cost(0)).await.unwrap();
            assert_eq!(
                (left.decided_by_name(), left.remaining()),
                (Some("all"), 0),
                "one was settled"
            );
        }
    });
}

fn server_url() -> String {
    crate::common::server().url()
}

#[test]
fn gate_over_slots_allows_cost_zero_beside_charges() {
    let cluster = shared::store();
    wait(async {
        let store = cluster.with_test_clock(ManualClock::new());
        let tokens = Cost::Attribute { name: "tokens".to_owned(), multiplier: 1, default: 1 };
        let user = Rule::new("user").key(["user"]).limit(hourly(1)).cost(tokens);
        let policy = Policy::new()
            .rule(user.block(BlockPolicy::fixed(MINUTE)))
            .rule(Rule::new("all").limit(hourly(3)))
            .rule(Rule::new("trial").key(["user"]).limit(Limit::per_hour(9)).shadow());
        let gate = gate(store, &policy);
        assert!(gate.try_check(&ana()).await.unwrap().is_allowed());
        for _ in 0..2 {
            let ruling = gate.try_check(&ana().with("tokens", "0")).await.unwrap();
            assert!(ruling.is_allowed(), "{ruling:?}");
        }
        let ruling = gate.try_check(&ana().cost(0)).await.unwrap();
        assert!(ruling.is_allowed(), "{ruling:?}");
        let left: Vec<_> = ruling.rules().map(|of| (of.rule(), of.remaining())).collect();
        assert_eq!(left, [("user", 0), ("all", 0), ("trial", 6)]);
        let hold = gate.reserve(&ana().cost(0)).await.expect("a cost of 0 is allowed");
        hold.commit().await.unwrap();
    });
}

#[test]
fn cost_zero_is_denied_without_a_store_only_by_deny() {
    let policy = |choice| {
        let mut rule = Rule::new("user").key(["user"]).limit(hourly(1));
        rule.on_store_error = Some(choice);
        Policy::new().rule(rule)
    };
    wait(async {
        for (choice, allowed) in
            [(OnStoreError::Deny, false), (OnStoreError::Allow, true), (OnStoreError::Local, true)]
        {
            let gone = RedisStore::open("redis://127.0.0.1:1").unwrap();
            let ruling = gate(gone, &policy(choice)).check(&ana().cost(0)).await;
            assert_eq!((ruling.is_allowed(), ruling.is_degraded()), (allowed, true), "{choice:?}");
        }
    });
}
