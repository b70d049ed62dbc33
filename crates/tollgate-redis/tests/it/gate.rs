//! A gate over Redis: for a fleet, at once from many connections, and while the server is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::clock::OwnRuntime;
use crate::common::fleet::{fleet, per_user};
use crate::common::{connect, golden, server, unique, wait};
use tollgate::{
    BlockPolicy, Client, Limit, ManualClock, OnStoreError, Override, OverrideRemoval, Policy,
    PolicyLocation, Reason, Request, Rule,
};
use tollgate_redis::{GateError, RedisGate, RedisStore, StoreError};
use tollgate_testkit::{Fault, FaultProxy, RedisServer, eventually_async};

fn ana() -> Request<'static> {
    Request::new().with("user", "ana").with("route", "/search")
}

#[test]
fn many_connections_over_several_rules_take_all_or_none() {
    let minute = Duration::from_secs(60);
    let policy = Policy::new()
        .rule(Rule::new("user").key(["user"]).limit(Limit::sliding_log(150, minute)))
        .rule(Rule::new("route").key(["route"]).limit(Limit::sliding_counter(300, minute)))
        .rule(Rule::new("all").limit(Limit::per_day(501)).limit(Limit::fixed_window(900, minute)))
        .rule(Rule::new("trial").key(["route"]).limit(Limit::per_day(100)).shadow());
    let (users, routes) = (["ana", "ben", "eve", "kim"], ["/a", "/b"]);
    wait(async move {
        let (gates, allowed) = (fleet(&policy, 8).await, Arc::new(AtomicU64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for (worker, gate) in gates.iter().cloned().enumerate() {
            let allowed = allowed.clone();
            tasks.spawn(async move {
                for number in 0..150 {
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
        assert_eq!(
            allowed.load(Ordering::Relaxed),
            501,
            "four users of 150 and two routes share 501"
        );
        let used = async |rule: &str| {
            let mut keys = gates[0].keys(rule).unwrap();
            let mut used = 0;
            while let Some(some) = keys.next().await.unwrap() {
                used += some.iter().map(|(_, status)| status.used()).sum::<u64>();
            }
            used
        };
        assert_eq!(used("user").await, 501);
        assert_eq!(used("route").await, 501);
        assert_eq!(used("all").await, 501);
        assert_eq!(used("trial").await, 200, "it only reports, and takes what it has");
    });
}

#[test]
fn a_block_for_is_in_force_on_every_node_at_once() {
    let rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(1));
    let policy = Policy::new().rule(rule.block(BlockPolicy::fixed(Duration::from_secs(7200))));
    wait(async {
        let gates = fleet(&policy, 2).await;
        assert!(gates[0].check(&ana()).await.is_allowed());
        assert_eq!(gates[0].check(&ana()).await.retry_after(), Some(Duration::from_secs(7200)));
        let there = gates[1].check(&ana()).await;
        assert_eq!((there.is_allowed(), there.reason()), (false, Reason::Blocked));
        let (rule, key, left) = gates[1].blocked().await.unwrap().remove(0);
        assert_eq!((rule.as_str(), key.to_string().as_str()), ("login", "ana"));
        assert_eq!(left, Duration::from_secs(7200));
        assert!(gates[1].unblock("login", &["ana"]).await.unwrap());
        eventually_async("the end of the block on another node", async || {
            gates[0].check(&ana()).await.reason() == Reason::Limits
        })
        .await;
    });
}

#[test]
fn under_a_rule_that_blocks_no_longer_only_blocks_by_hand_count() {
    let mut rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(1));
    let open = Policy::new().rule(rule.clone());
    rule.block = Some(BlockPolicy::fixed(Duration::from_secs(4 * 3600)));
    wait(async {
        let clock = ManualClock::new();
        let store = connect(&server().url()).await.with_test_clock(clock.clone());
        let gate = RedisGate::builder(store).namespace(unique("by hand"));
        let gate = gate.build(Policy::new().rule(rule)).unwrap();
        // One by hand has ended, and is still known to the fleet when one of the rule's own begins.
        assert!(gate.block("login", &["ana"], Duration::from_secs(1)).await.unwrap());
        clock.advance(Duration::from_secs(1));
        assert!(gate.check(&ana()).await.is_allowed());
        assert!(!gate.check(&ana()).await.is_allowed());
        clock.advance(Duration::from_secs(3600));
        assert_eq!(gate.check(&ana()).await.reason(), Reason::Blocked);
        assert_eq!(gate.blocked().await.unwrap().len(), 1);

        gate.replace(open).unwrap();
        assert!(gate.blocked().await.unwrap().is_empty());
        assert!(gate.check(&ana()).await.is_allowed(), "the rule's own counts no longer");
        clock.advance(Duration::from_secs(3600));
        assert!(gate.block("login", &["ana"], Duration::from_secs(60)).await.unwrap());
        assert_eq!(gate.check(&ana()).await.reason(), Reason::Blocked);
        assert_eq!(gate.blocked().await.unwrap().len(), 1);
        clock.advance(Duration::from_secs(60));
        assert!(gate.check(&ana()).await.is_allowed());
    });
}

#[test]
fn who_takes_as_much_as_there_is_is_not_blocked_for_it() {
    let trial = Rule::new("trial").limit(Limit::per_hour(6)).shadow();
    let policy = per_user(10).rule(trial.block(Duration::from_secs(60)));
    wait(async {
        let gate = fleet(&policy, 1).await.remove(0);
        assert!(gate.check(&ana().cost(3)).await.is_allowed());
        let (units, ruling) = gate.take_up_to(&ana().cost(5)).await;
        assert_eq!((units, ruling.is_degraded()), (5, false));
        let said = |ruling: &tollgate::Ruling| {
            let trial = ruling.rules().find(|of| of.rule() == "trial").unwrap();
            (trial.is_allowed(), trial.blocked_for())
        };
        assert_eq!(said(&ruling), (false, None), "the trial has three left and only reports");
        assert!(gate.check(&ana().cost(1)).await.is_allowed());
        let last = gate.check(&ana().cost(5)).await;
        assert_eq!(said(&last), (false, Some(Duration::from_secs(60))), "a check does block");
    });
}

#[test]
fn overrides_and_blocks_by_hand_reach_every_node_within_a_second() {
    let runtime = OwnRuntime::still();
    let gates = runtime.block_on(fleet(&per_user(100), 2));
    let (here, there) = (&gates[0], &gates[1]);
    runtime.block_on(async {
        assert_eq!(there.check(&ana()).await.limit(), 100);
        let change = Override::new("user", "ana").limits("per-user", Limit::per_hour(7));
        here.set_override(change).await.unwrap();
        assert_eq!(here.status(&ana()).await.limit(), 7, "at once where it was set");
        assert_eq!(there.status(&ana()).await.limit(), 100, "no time has passed");
    });
    let is_overridden = async || there.status(&ana()).await.limit() == 7;
    runtime.within_a_second("the override on another node", &gates, is_overridden);

    runtime.block_on(async {
        let other = fleet(&per_user(100), 1).await;
        assert_eq!(other[0].status(&ana()).await.limit(), 100, "another namespace has its own");
        here.block("per-user", &["ana"], Duration::from_secs(60)).await.unwrap();
        assert_eq!(here.check(&ana()).await.reason(), Reason::Blocked);
    });
    let is_blocked = async || there.peek(&ana()).await.reason() == Reason::Blocked;
    runtime.within_a_second("the block on another node", &gates, is_blocked);

    assert!(runtime.block_on(there.unblock("per-user", &["ana"])).unwrap());
    let is_allowed = async || here.check(&ana()).await.is_allowed();
    runtime.within_a_second("the end of the block on another node", &gates, is_allowed);

    let client = Client::from([("user".to_owned(), "ana".to_owned())]);
    let removed = runtime.block_on(there.remove_override(&client)).unwrap();
    assert_eq!(removed, OverrideRemoval::Removed);
    let is_like_others = async || here.status(&ana()).await.limit() == 100;
    runtime.within_a_second("the end of the override on another node", &gates, is_like_others);
}

#[test]
fn an_override_that_is_wrong_is_refused_and_nobody_gets_it() {
    wait(async {
        let gates = fleet(&per_user(100), 1).await;
        let unknown = Override::new("user", "ana").limits("nobody", Limit::per_hour(7));
        let refused = gates[0].set_override(unknown).await.unwrap_err();
        assert!(matches!(refused, GateError::Policy(_)), "{refused}");
        assert!(gates[0].overrides().is_empty());
    });
}

#[test]
fn limits_that_redis_cannot_keep_exact_are_refused_with_their_rule() {
    wait(async {
        let store = connect(&server().url()).await;
        let odd = Limit::token_bucket(5, Duration::from_nanos(10_000_001));
        let policy =
            Policy::new().rule(Rule::new("odd").limit(Limit::per_hour(1)).tier("pro", odd));
        let error = RedisGate::with_store(store, policy).unwrap_err();
        let places: Vec<&PolicyLocation> =
            error.problems.iter().map(|problem| &problem.place).collect();
        assert_eq!(places, [&PolicyLocation::Rule(0, "tiers")]);
        golden("limit_that_redis_cannot_keep.txt", &error.to_string());
    });
}

/// A gate whose server has gone, for a fleet of four.
async fn without_server(policy: Policy) -> RedisGate {
    let proxy = FaultProxy::to(server().port());
    let store = connect(&proxy.url()).await.with_test_clock(ManualClock::new());
    let gate = RedisGate::builder(store).namespace(unique("alone")).nodes(4).build(policy).unwrap();
    assert!(!gate.check(&ana()).await.is_degraded());
    proxy.set(Fault::Refuse);
    gate
}

#[test]
fn without_the_server_a_node_goes_on_with_its_part() {
    wait(async {
        let gate = without_server(per_user(100)).await;
        let first = gate.check(&ana()).await;
        assert!(first.is_degraded() && first.is_allowed());
        assert_eq!((first.limit(), first.remaining()), (25, 24));
        assert!(first.rules().all(|rule| rule.is_degraded()));
        for _ in 0..24 {
            assert!(gate.check(&ana()).await.is_allowed());
        }
        let denied = gate.check(&ana()).await;
        assert_eq!((denied.is_allowed(), denied.reason()), (false, Reason::Limits));
        gate.set_nodes(2).unwrap();
        assert_eq!(gate.peek(&ana()).await.limit(), 50);
        assert!(gate.refund(&ana()).await.is_err(), "nothing is given back that was not taken");
    });
}

#[test]
fn without_the_server_each_rule_does_what_it_says() {
    let rule = |name: &str, choice| {
        Rule::new(name)
            .matches("route", format!("/{name}"))
            .limit(Limit::per_hour(8))
            .on_store_error(choice)
    };
    let policy = Policy::new()
        .rule(Rule::new("local").key(["user"]).limit(Limit::per_hour(8)))
        .rule(rule("allow", OnStoreError::Allow))
        .rule(rule("deny", OnStoreError::Deny))
        .rule(rule("report", OnStoreError::Deny).shadow());
    wait(async {
        let gate = without_server(policy).await;
        let at = |route| Request::new().with("user", "ben").with("route", route);
        for _ in 0..3 {
            let denied = gate.check(&at("/deny")).await;
            assert_eq!((denied.is_allowed(), denied.reason()), (false, Reason::StoreUnavailable));
            assert_eq!((denied.decided_by_name(), denied.remaining()), (Some("deny"), 0));
            assert!(denied.retry_after() > Some(Duration::ZERO));
        }
        assert!(gate.check(&at("/report")).await.is_allowed(), "what only reports denies nobody");
        let allowed = gate.check(&at("/allow")).await;
        assert_eq!(
            (allowed.decided_by_name(), allowed.remaining()),
            (Some("local"), 0),
            "two of eight are ours"
        );
        assert!(!gate.check(&at("/allow")).await.is_allowed(), "the local rule still counts");
        for _ in 0..20 {
            let nobody = gate.check(&Request::new().with("route", "/allow")).await;
            assert_eq!((nobody.is_allowed(), nobody.reason()), (true, Reason::StoreUnavailable));
            assert_eq!((nobody.decided_by_name(), nobody.remaining()), (Some("allow"), u64::MAX));
        }
        let held = gate.reserve(&Request::new().with("route", "/allow")).await.unwrap();
        assert_eq!(held.ruling().decided_by_name(), Some("allow"));
        let none = gate.check(&Request::new().with("route", "/elsewhere")).await;
        assert_eq!((none.reason(), none.decided_by_name()), (Reason::NoRule, None));
        assert_eq!(gate.take_up_to(&at("/deny").cost(2)).await.0, 0);
        assert!(gate.reserve(&at("/deny")).await.is_err());
    });
}

#[test]
fn a_hold_of_a_node_by_itself_is_settled_there() {
    wait(async {
        let gate = without_server(per_user(100)).await;
        let hold = gate.reserve(&ana().cost(20)).await.unwrap();
        assert!(hold.ruling().is_degraded());
        let hold = gate.detach(7, hold, Duration::from_secs(60)).await.unwrap();
        hold.expect("it stays here").settle(5).await.unwrap();
        assert_eq!(gate.status(&ana()).await.remaining(), 20);
    });
}

#[test]
fn a_client_that_dies_leaves_no_state_without_a_ttl() {
    let rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(1));
    let rule = rule
        .block(BlockPolicy::fixed(Duration::from_secs(60)).escalating(2, Duration::from_secs(600)));
    wait(async {
        let server = RedisServer::start();
        let gate =
            RedisGate::with_store(connect(&server.url()).await, Policy::new().rule(rule)).unwrap();
        assert!(gate.check(&ana()).await.is_allowed());
        assert!(!gate.check(&ana()).await.is_allowed());
        gate.block("login", &["ben"], Duration::from_secs(60)).await.unwrap();
        let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut raw).unwrap();
        // The heartbeat comes when it likes.
        let others = keys.iter().filter(|key| !key.starts_with(b"tg:{}:nodes:")).count();
        assert_eq!(others, 4, "a state, two blocks and what the fleet shares");
        for key in keys {
            let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut raw).unwrap();
            let is_shared = key.starts_with(b"tg:{}:shared:");
            assert_eq!(left > 0, !is_shared, "{}", key.escape_ascii());
        }
    });
}

#[test]
fn something_else_under_a_block_is_an_outage_of_that_key_and_stays() {
    let rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(4));
    let policy = Policy::new().rule(rule.block(Duration::from_secs(60)));
    wait(async {
        let server = RedisServer::start();
        let gate = RedisGate::with_store(connect(&server.url()).await, policy).unwrap();
        gate.block("login", &["ana"], Duration::from_secs(60)).await.unwrap();
        let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*:login*").query(&mut raw).unwrap();
        let () = redis::cmd("SET").arg(&keys[0]).arg(b"\xff").query(&mut raw).unwrap();
        let error = gate.try_check(&ana()).await.unwrap_err();
        // The key names a client, and errors are logged.
        assert_eq!(error, StoreError::ForeignKey("a redis key of \"login\"".to_owned()));
        assert!(gate.check(&ana()).await.is_degraded());
        assert!(!gate.check(&Request::new().with("user", "ben")).await.is_degraded());
        let kept: Vec<u8> = redis::cmd("GET").arg(&keys[0]).query(&mut raw).unwrap();
        assert_eq!(kept, b"\xff");
    });
}

#[test]
fn a_list_needs_no_server() {
    let policy = per_user(1).deny(tollgate::ListEntry::new("foes").matches("user", "eve"));
    wait(async {
        let gate = without_server(policy).await;
        let ruling = gate.check(&Request::new().with("user", "eve")).await;
        assert_eq!((ruling.reason(), ruling.is_degraded()), (Reason::DenyList, false));
    });
}

#[test]
fn a_gate_can_be_used_from_any_task() {
    fn is_send<T: Send>(of: T) -> T {
        of
    }
    wait(async {
        let gate = fleet(&per_user(5), 1).await.remove(0);
        let task = is_send(async move { gate.check(&ana()).await.is_allowed() });
        assert!(tokio::spawn(task).await.unwrap());
        let _ = is_send::<Option<RedisStore>>(None);
    });
}

#[test]
fn blocks_that_a_node_has_seen_hold_while_the_store_is_unavailable() {
    let block = BlockPolicy::fixed(Duration::from_secs(3600));
    let login = Rule::new("login").key(["user"]).limit(Limit::per_hour(2)).block(block);
    let open = Rule::new("open").key(["route"]).limit(Limit::per_hour(100));
    let uncounted = Rule::new("uncounted").key(["host"]).limit(Limit::per_hour(100));
    let uncounted = uncounted.on_store_error(OnStoreError::Allow);
    let policy = Policy::new().rule(login).rule(open).rule(uncounted);
    let of = |user: &'static str| Request::new().with("user", user);
    let mut server = RedisServer::start();
    wait(async {
        let clock = ManualClock::new();
        let store = connect(&server.url()).await.with_test_clock(clock.clone());
        let gate = RedisGate::with_store(store, policy).unwrap();
        for user in ["ana", "ben"] {
            for _ in 0..3 {
                let _ = gate.check(&of(user)).await;
            }
        }
        gate.block("open", &["/admin"], Duration::from_secs(3600)).await.unwrap();
        gate.block("uncounted", &["evil"], Duration::from_secs(3600)).await.unwrap();
        // The block of one key is lifted before the outage.
        assert!(gate.unblock("login", &["ben"]).await.unwrap());
        gate.reset("login", &["ben"]).await.unwrap();
        assert!(gate.check(&of("ben")).await.is_allowed());
        server.kill();
        for (request, is_blocked) in [
            (of("ana"), true),
            (of("ben"), false),
            (of("cem"), false),
            (Request::new().with("route", "/admin"), true),
            (Request::new().with("route", "/"), false),
            (Request::new().with("host", "evil"), true),
            (Request::new().with("host", "good"), false),
        ] {
            let ruling = gate.check(&request).await;
            let is_denied = ruling.reason() == Reason::Blocked;
            assert!(ruling.is_degraded() && is_denied == is_blocked, "{request:?}: {ruling:?}");
        }
        clock.advance(Duration::from_secs(3600));
        assert!(gate.check(&of("ana")).await.is_allowed(), "the block has ended");
    });
}

#[test]
fn operators_find_an_address_by_the_prefix_of_the_key() {
    let policy = Policy::new().rule(Rule::new("per-ip").key(["ip"]).limit(Limit::per_day(9)));
    let of = |ip: &'static str| Request::new().with("ip", ip);
    wait(async move {
        let [gate] = fleet(&policy, 1).await.try_into().unwrap();
        assert!(gate.try_check(&of("2001:db8::1")).await.unwrap().is_allowed());
        for spelling in ["2001:db8::2", "[2001:DB8::3]:80", "2001:db8::/64"] {
            let status = gate.key_status("per-ip", &[spelling]).await.unwrap().unwrap();
            assert_eq!(status[0].1.remaining(), 8, "{spelling}");
        }
        let minute = Duration::from_secs(60);
        assert!(gate.block("per-ip", &["2001:db8::2"], minute).await.unwrap());
        assert!(gate.blocked_for("per-ip", &["2001:db8::4"]).await.unwrap().is_some());
        assert_eq!(gate.try_check(&of("2001:db8::3")).await.unwrap().reason(), Reason::Blocked);
        assert!(gate.unblock("per-ip", &["2001:db8::5"]).await.unwrap());
        assert!(gate.reset("per-ip", &["2001:db8::6"]).await.unwrap());
        assert_eq!(gate.try_check(&of("2001:db8::7")).await.unwrap().remaining(), 8);
        let change = Override::new("ip", "2001:db8::8").limits("per-ip", Limit::per_day(100));
        gate.set_override(change.clone()).await.unwrap();
        assert!(gate.try_check(&of("2001:db8::9")).await.unwrap().remaining() > 80);
        let client = Client::from([("ip".to_owned(), "2001:DB8::A".to_owned())]);
        assert_eq!(gate.remove_override(&client).await.unwrap(), OverrideRemoval::Removed);
        assert!(gate.try_check(&of("2001:db8::9")).await.unwrap().remaining() < 9);
    });
}
