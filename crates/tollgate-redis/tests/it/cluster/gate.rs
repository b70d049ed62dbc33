//! A gate over a Cluster: in one call where its rules lie together, and all or nothing where they do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{BlockPolicy, Cost, Limit, ManualClock, Policy, Request, Rule};
use tollgate_redis::RedisGate;
use tollgate_testkit::eventually_async;

use super::decisions::scripts_run;
use super::shared::{cluster, exclusive, store};
use crate::common::{connect, unique, wait};

const HOUR: Duration = Duration::from_secs(3600);

fn gate(policy: Policy, clock: &ManualClock, namespace: &str) -> RedisGate {
    let store = store().with_test_clock(clock.clone());
    RedisGate::builder(store).namespace(namespace).build(policy).unwrap()
}

async fn used(gate: &RedisGate, rule: &str) -> u64 {
    let (mut keys, mut used) = (gate.keys(rule).unwrap(), 0);
    while let Some(some) = keys.next().await.unwrap() {
        used += some.iter().map(|(_, status)| status.used()).sum::<u64>();
    }
    used
}

#[test]
fn rules_of_one_partition_are_decided_in_one_call() {
    let cluster = exclusive();
    let store = wait(connect(&cluster.url()));
    let mut policy = Policy::new()
        .rule(Rule::new("tenant").key(["tenant"]).limit(Limit::per_hour(1000)))
        .rule(
            Rule::new("user")
                .key(["user", "tenant"])
                .limit(Limit::per_hour(1000))
                .limit(Limit::per_day(5000))
                .block(BlockPolicy::fixed(HOUR)),
        )
        .rule(Rule::new("trial").key(["tenant", "route"]).limit(Limit::per_hour(9)).shadow());
    let request = Request::new().with("tenant", "acme").with("user", "ana").with("route", "/a");
    let calls = |policy: &Policy| {
        let gate = RedisGate::builder(store.clone()).namespace(unique("ns")).build(policy.clone());
        let gate = gate.unwrap();
        let check = || wait(gate.try_check(&request)).unwrap();
        assert!(check().is_allowed());
        let before = scripts_run(&cluster);
        let ruling = check();
        assert!(ruling.is_allowed() && !ruling.is_degraded());
        scripts_run(&cluster) - before
    };
    assert!(calls(&policy) > 1, "without a partition they lie apart");
    policy.partition = Some("tenant".to_owned());
    assert_eq!(calls(&policy), 1);
}

#[test]
fn rules_in_several_slots_take_all_or_none_and_report_by_themselves() {
    let policy = Policy::new()
        .rule(Rule::new("user").key(["user"]).limit(Limit::sliding_log(150, HOUR)))
        .rule(Rule::new("route").key(["route"]).limit(Limit::sliding_counter(300, HOUR)))
        .rule(Rule::new("all").limit(Limit::per_day(251)).limit(Limit::fixed_window(900, HOUR)))
        .rule(Rule::new("trial").key(["user", "route"]).limit(Limit::per_day(20)).shadow());
    let (users, routes) = (["ana", "ben", "eve", "kim"], ["/a", "/b"]);
    let shared = store();
    wait(async {
        let (clock, namespace) = (ManualClock::new(), unique("slots"));
        let allowed = Arc::new(AtomicU64::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let store = connect(&cluster().url()).await.with_test_clock(clock.clone());
            let gate = RedisGate::builder(store).namespace(&*namespace).build(policy.clone());
            let (gate, allowed) = (gate.unwrap(), allowed.clone());
            tasks.spawn(async move {
                for number in 0..80 {
                    let user = users[(worker + number) % 4];
                    let request =
                        Request::new().with("user", user).with("route", routes[number % 2]);
                    let ruling = gate.try_check(&request).await.unwrap();
                    allowed.fetch_add(u64::from(ruling.is_allowed()), Ordering::Relaxed);
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let at_once = allowed.load(Ordering::Relaxed);
        assert!((1..=251).contains(&at_once), "{at_once}");
        let gate = RedisGate::builder(shared.with_test_clock(clock)).namespace(namespace);
        let gate = gate.build(policy).unwrap();
        for rule in ["user", "route", "all"] {
            assert_eq!(used(&gate, rule).await, at_once, "{rule}");
        }
        let trial = used(&gate, "trial").await;
        assert!(trial > 0 && trial <= at_once.min(8 * 20), "{trial} of {at_once}");
    });
}

#[test]
fn a_block_in_another_slot_keeps_everything_from_being_taken() {
    let policy = Policy::new()
        .rule(
            Rule::new("login")
                .key(["user"])
                .limit(Limit::per_hour(2))
                .block(BlockPolicy::fixed(HOUR * 3)),
        )
        .rule(Rule::new("all").limit(Limit::per_hour(100)));
    store();
    wait(async {
        let clock = ManualClock::new();
        let gate = gate(policy, &clock, &unique("block"));
        let ana = Request::new().with("user", "ana");
        for _ in 0..2 {
            assert!(gate.try_check(&ana).await.unwrap().is_allowed());
        }
        let denied = gate.try_check(&ana).await.unwrap();
        assert_eq!(denied.retry_after(), Some(HOUR * 3), "the denial blocks");
        clock.advance(HOUR * 2);
        let blocked = gate.try_check(&ana).await.unwrap();
        assert_eq!(blocked.retry_after(), Some(HOUR), "though the limit has room again");
        assert_eq!(used(&gate, "all").await, 0, "nothing was taken, and the rest has come back");
        assert_eq!(gate.blocked().await.unwrap().len(), 1);
        assert!(gate.try_check(&Request::new().with("user", "ben")).await.unwrap().is_allowed());
        assert!(gate.unblock("login", &["ana"]).await.unwrap());
        assert!(gate.try_check(&ana).await.unwrap().is_allowed());
    });
}

#[test]
fn a_flood_on_a_blocked_key_costs_the_nodes_less_than_a_hundredth() {
    let policy = Policy::new()
        .rule(
            Rule::new("login")
                .key(["user"])
                .limit(Limit::per_hour(2))
                .block(BlockPolicy::fixed(HOUR * 3)),
        )
        .rule(Rule::new("all").limit(Limit::per_hour(100)))
        .rule(Rule::new("trial").key(["route"]).limit(Limit::per_hour(1)).shadow());
    let cluster = exclusive();
    wait(async {
        let builder = RedisGate::builder(connect(&cluster.url()).await);
        let gate = builder.namespace(unique("flood")).build(policy).unwrap();
        let ana = Request::new().with("user", "ana").with("route", "/login");
        for _ in 0..2 {
            assert!(gate.try_check(&ana).await.unwrap().is_allowed());
        }
        let before = scripts_run(&cluster);
        for _ in 0..5000 {
            let ruling = gate.try_check(&ana).await.unwrap();
            let reports = ruling.rules().filter(|of| !of.is_allowed()).count();
            assert_eq!((ruling.is_allowed(), reports), (false, 2));
        }
        let asked = scripts_run(&cluster) - before;
        assert!((1..50).contains(&asked), "{asked} of 5000");
        assert!(gate.unblock("login", &["ana"]).await.unwrap());
        gate.refund(&ana).await.unwrap();
        assert!(gate.try_check(&ana).await.unwrap().is_allowed(), "nothing was kept of it");
    });
}

#[test]
fn a_hold_over_several_slots_is_settled_in_all_of_them() {
    let policy = Policy::new()
        .rule(Rule::new("user").key(["user"]).limit(Limit::per_day(10)))
        .rule(Rule::new("all").limit(Limit::per_day(100)))
        .rule(Rule::new("trial").key(["user", "route"]).limit(Limit::per_day(9)).shadow());
    store();
    wait(async {
        let gate = gate(policy, &ManualClock::new(), &unique("hold"));
        let request = Request::new().with("user", "ana").with("route", "/a");
        let hold = gate.reserve(&request.clone().cost(8)).await.unwrap();
        assert!(gate.reserve(&request.clone().cost(3)).await.is_err(), "eight of ten are held");
        assert_eq!(used(&gate, "all").await, 8, "the denial gave back");
        hold.settle(3).await.unwrap();
        for rule in ["user", "all", "trial"] {
            assert_eq!(used(&gate, rule).await, 3, "{rule}");
        }
        drop(gate.reserve(&request.cost(5)).await.unwrap());
        eventually_async("a hold that was dropped to be given back", async || {
            used(&gate, "all").await == 3 && used(&gate, "trial").await == 3
        })
        .await;
    });
}

#[test]
fn a_hold_over_several_slots_is_ended_by_another_node() {
    let rule = |name: &str| Rule::new(name).limit(Limit::per_day(100));
    let twice = Cost::Attribute { name: "bytes".to_owned(), multiplier: 2, default: 1 };
    let policy = Policy::new().rule(rule("user").key(["user"])).rule(rule("all"));
    let policy = policy.rule(rule("twice").key(["route"]).cost(twice));
    store();
    wait(async {
        let (clock, namespace) = (ManualClock::new(), unique("kept"));
        let [one, other] = [(); 2].map(|()| gate(policy.clone(), &clock, &namespace));
        let request = Request::new().with("user", "ana").with("route", "/a");
        let hold = one.reserve(&request.clone().cost(8)).await.unwrap();
        let id = u128::from(store().unique_number());
        assert!(one.detach(id, hold, Duration::from_secs(60)).await.unwrap().is_none());
        let kept = other.attach(id).await.unwrap().unwrap();
        assert!(one.attach(id).await.unwrap().is_none(), "nobody else gets it");
        assert_eq!(kept.cost(), 8);
        kept.settle(3).await.unwrap();
        for (rule, units) in [("user", 3), ("all", 3), ("twice", 6)] {
            assert_eq!(used(&one, rule).await, units, "{rule}");
        }
    });
}

#[test]
fn a_check_fits_a_small_stack_wherever_its_rules_lie() {
    let policy = Policy::new().rule(Rule::new("all").limit(Limit::per_hour(100)));
    let (store, request) = (store(), Request::new());
    let gate = gate(policy, &ManualClock::new(), &unique("size"));
    let limiter = store.limiter("size", Limit::per_hour(100)).unwrap();
    let charges = [limiter.charge("ana"), limiter.charge("ben")];
    let sizes = [
        size_of_val(&gate.try_check(&request)),
        size_of_val(&store.check_all(&charges)),
        size_of_val(&limiter.check("ana")),
    ];
    // A debug build's frame has room for every future that it waits for.
    assert!(sizes.iter().all(|size| *size < 4000), "{sizes:?} bytes");
}
