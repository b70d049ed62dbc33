//! Requests of rules that block or only report, refused again without asking, and never wrongly.

use std::time::Duration;

use crate::common::clock::OwnRuntime;
use crate::common::{asking, calls, connect, server, unique, wait};
use tollgate::{BlockPolicy, Limit, ManualClock, Override, Policy, Reason, Request, Rule, Ruling};
use tollgate_redis::RedisGate;
use tollgate_testkit::RedisServer;

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

fn ana() -> Request<'static> {
    Request::new().with("user", "ana").with("route", "/login")
}

/// Two logins an hour, or else none for three.
fn login() -> Rule {
    Rule::new("login").key(["user"]).limit(Limit::per_hour(2)).block(BlockPolicy::fixed(HOUR * 3))
}

fn trial() -> Rule {
    Rule::new("trial").key(["route"]).limit(Limit::per_hour(1)).shadow()
}

/// A node of a fleet on a clock of the test's own.
struct Node {
    gate: RedisGate,
    clock: ManualClock,
    namespace: String,
}

impl Node {
    async fn new(policy: Policy) -> Node {
        Node::of(ManualClock::new(), unique("deny cache"), policy).await
    }

    async fn of(clock: ManualClock, namespace: String, policy: Policy) -> Node {
        let store = connect(&server().url()).await.with_test_clock(clock.clone());
        let gate = RedisGate::builder(store).namespace(namespace.clone()).build(policy);
        Node { gate: gate.unwrap(), clock, namespace }
    }

    /// Another of the same fleet.
    async fn another(&self, policy: Policy) -> Node {
        Node::of(self.clock.clone(), self.namespace.clone(), policy).await
    }

    async fn check(&self) -> Ruling {
        self.gate.try_check(&ana()).await.unwrap()
    }

    /// The check is refused, and whether it was refused here.
    async fn refused_here(&self) -> bool {
        let before = self.denied_locally();
        assert!(!self.check().await.is_allowed());
        self.denied_locally() > before
    }

    fn denied_locally(&self) -> u64 {
        self.gate.store().health().cached_denials
    }

    /// Both logins, and one too many.
    async fn blocked(policy: Policy) -> Node {
        let node = Node::new(policy).await;
        for _ in 0..2 {
            assert!(node.check().await.is_allowed());
        }
        assert_eq!(node.check().await.reason(), Reason::Limits);
        assert!(node.refused_here().await);
        node
    }
}

/// A rule: whether it lets the request pass, what it has left, when again, and for how long it is blocked.
type Figures = (String, bool, u64, Option<Duration>, Option<Duration>);

fn figures(ruling: &Ruling) -> Vec<Figures> {
    let of_rule = |of: tollgate::RuleDecision<'_>| {
        (of.rule().to_owned(), of.is_allowed(), of.remaining(), of.retry_after(), of.blocked_for())
    };
    ruling.rules().map(of_rule).collect()
}

#[test]
fn a_flood_on_a_blocked_login_costs_the_server_less_than_a_hundredth() {
    // `TOLLGATE_FLOOD` for more.
    let flood: u64 = std::env::var("TOLLGATE_FLOOD").map_or(20_000, |text| text.parse().unwrap());
    let server = RedisServer::start();
    let policy = Policy::new().rule(login()).rule(trial().block(BlockPolicy::fixed(HOUR)));
    wait(async {
        let gate = RedisGate::with_store(connect(&server.url()).await, policy).unwrap();
        for _ in 0..2 {
            assert!(gate.try_check(&ana()).await.unwrap().is_allowed());
        }
        let before = calls(&server);
        for _ in 0..flood {
            let ruling = gate.try_check(&ana()).await.unwrap();
            assert!(!ruling.is_allowed());
            assert_eq!(ruling.rules().filter(|of| !of.is_allowed()).count(), 2);
        }
        let asked = calls(&server) - before;
        println!("{asked} calls for {flood} requests");
        assert!((1..flood / 100).contains(&asked), "{asked} of {flood}");
    });
}

#[test]
fn so_does_one_on_a_refused_key_beside_a_rule_in_shadow_and_on_what_is_reserved_or_taken() {
    let server = RedisServer::start();
    let plain = Rule::new("plain").key(["user"]).limit(Limit::per_hour(2));
    let policy = Policy::new().rule(plain).rule(trial());
    wait(async {
        let gate = RedisGate::with_store(connect(&server.url()).await, policy).unwrap();
        let hold = gate.reserve(&ana().cost(2)).await.unwrap();
        let before = calls(&server);
        for _ in 0..1000 {
            assert!(!gate.try_check(&ana()).await.unwrap().is_allowed());
            assert!(gate.reserve(&ana()).await.is_err());
            assert_eq!(gate.take_up_to(&ana().cost(5)).await.0, 0);
        }
        let asked = calls(&server) - before;
        assert!((1..30).contains(&asked), "{asked} of 3000");
        hold.settle(1).await.unwrap();
        assert!(gate.try_check(&ana()).await.unwrap().is_allowed(), "what came back is seen");
    });
}

#[test]
fn what_is_told_here_is_what_the_server_would_tell() {
    let policy = Policy::new()
        .rule(login())
        .rule(Rule::new("all").limit(Limit::per_minute(600)))
        .rule(trial().block(BlockPolicy::fixed(SECOND * 600)));
    wait(async {
        let node = Node::blocked(policy).await;
        for step in 0..200 {
            node.clock.advance(Duration::from_micros(7_654_321));
            // Another node's check is not refused here, and makes this one ask nothing.
            assert!(!node.check().await.is_allowed());
            node.clock.advance(Duration::from_micros(54_321));
            let before = node.denied_locally();
            let here = node.check().await;
            assert_eq!(node.denied_locally(), before + 1, "step {step}");
            let there = node.gate.peek(&ana()).await;
            assert_eq!(figures(&here), figures(&there), "step {step}");
            assert_eq!(here.reason(), Reason::Blocked);
            assert_eq!(here.retry_after(), there.retry_after());
            assert_eq!(
                (here.decided_by_name(), here.reset_after()),
                (there.decided_by_name(), there.reset_after())
            );
        }
    });
}

#[test]
fn an_unblock_by_another_node_is_seen_within_a_second() {
    let policy = Policy::new().rule(login());
    let runtime = OwnRuntime::still();
    // The clock of the gates is paused, so nothing expires: the fleet shares the change.
    let here = runtime.block_on(Node::blocked(policy.clone()));
    let there = runtime.block_on(here.another(policy));
    let gates = [here.gate.clone(), there.gate.clone()];
    assert!(runtime.block_on(there.gate.unblock("login", &["ana"])).unwrap());
    let is_denied = async || here.check().await.reason() == Reason::Limits;
    runtime.within_a_second("the end of the block", &gates, is_denied);

    // The denial has blocked once more; a reset makes the key new.
    assert!(runtime.block_on(here.refused_here()));
    assert!(runtime.block_on(there.gate.reset("login", &["ana"])).unwrap());
    let is_allowed = async || here.check().await.is_allowed();
    runtime.within_a_second("the reset", &gates, is_allowed);
}

#[test]
fn a_rule_that_another_node_resets_is_new_within_a_second() {
    let policy = Policy::new().rule(login());
    let runtime = OwnRuntime::still();
    let here = runtime.block_on(Node::blocked(policy.clone()));
    let there = runtime.block_on(here.another(policy));
    let gates = [here.gate.clone(), there.gate.clone()];
    assert_eq!(runtime.block_on(there.gate.reset_rule("login", |_| ())).unwrap().reset, 2);
    let is_allowed = async || here.check().await.is_allowed();
    runtime.within_a_second("the reset", &gates, is_allowed);
}

#[test]
fn what_this_node_lifts_gives_back_or_changes_is_seen_at_once() {
    let policy = || Policy::new().rule(login()).rule(trial());
    wait(async {
        let node = Node::blocked(policy()).await;
        assert!(node.gate.unblock("login", &["ana"]).await.unwrap());
        node.gate.refund(&ana()).await.unwrap();
        assert!(node.check().await.is_allowed());

        let node = Node::blocked(policy()).await;
        assert!(node.gate.reset("login", &["ana"]).await.unwrap());
        assert!(node.check().await.is_allowed());

        let node = Node::blocked(policy()).await;
        assert!(node.gate.reset_rule("login", |_| ()).await.unwrap().reset > 0);
        assert!(node.check().await.is_allowed());

        let node = Node::blocked(policy()).await;
        let more = Override::new("user", "ana").limits("login", Limit::per_hour(200));
        node.gate.set_override(more).await.unwrap();
        let ruling = node.check().await;
        assert_eq!(
            (ruling.reason(), ruling.limit()),
            (Reason::Blocked, 200),
            "it is still blocked"
        );
    });
}

#[test]
fn a_policy_that_blocks_no_longer_refuses_nobody_for_a_block() {
    wait(async {
        let node = Node::blocked(Policy::new().rule(login())).await;
        node.clock.advance(HOUR);
        assert_eq!(node.check().await.reason(), Reason::Blocked);
        let mut open = login();
        open.block = None;
        node.gate.replace(Policy::new().rule(open.clone()).rule(trial())).unwrap();
        assert!(node.check().await.is_allowed());
        // One that is set by hand counts also under such a rule, until it is lifted.
        assert!(node.gate.block("login", &["ana"], HOUR).await.unwrap());
        assert_eq!(node.check().await.reason(), Reason::Blocked);
        assert!(node.refused_here().await);
        assert!(node.gate.unblock("login", &["ana"]).await.unwrap());
        assert!(node.check().await.is_allowed());
    });
}

#[test]
fn a_block_by_hand_is_refused_here_and_ends_with_its_time() {
    let policy = Policy::new().rule(Rule::new("open").key(["user"]).limit(Limit::per_hour(100)));
    wait(async {
        let node = Node::new(policy).await;
        assert!(node.gate.block("open", &["ana"], Duration::from_millis(700)).await.unwrap());
        assert!(!node.refused_here().await, "the first asks");
        assert!(node.refused_here().await);
        node.clock.advance(Duration::from_micros(699_999));
        assert!(node.refused_here().await);
        node.clock.advance(Duration::from_micros(1));
        assert!(node.check().await.is_allowed());
    });
}

#[test]
fn a_reset_of_what_was_earned_leaves_a_block_by_hand() {
    let rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(1));
    let policy = Policy::new().rule(rule.block(BlockPolicy::fixed(4 * SECOND)));
    wait(async {
        let node = Node::new(policy).await;
        let forgive = async || node.gate.reset_earned("login", &["ana"]).await.unwrap();
        assert!(node.check().await.is_allowed());
        assert!(!node.check().await.is_allowed());
        assert!(forgive().await, "the block and what was taken");
        assert!(node.check().await.is_allowed());
        assert!(node.gate.block("login", &["ana"], 9 * SECOND).await.unwrap());
        assert!(forgive().await, "what was taken");
        assert!(!forgive().await, "there is nothing else to reset");
        assert_eq!(node.check().await.reason(), Reason::Blocked);
        node.clock.advance(9 * SECOND);
        assert!(node.check().await.is_allowed(), "it ends with its time");
    });
}

#[test]
fn when_a_block_ends_the_next_denial_blocks_for_longer() {
    let block = BlockPolicy::fixed(Duration::from_millis(100)).escalating(3, SECOND);
    let rule = Rule::new("login").key(["user"]).limit(Limit::per_hour(1)).block(block);
    wait(async {
        let node = Node::new(Policy::new().rule(rule)).await;
        assert!(node.check().await.is_allowed());
        for millis in [100, 300, 900, 1000] {
            let denied = node.check().await;
            let blocked = figures(&denied)[0].4;
            assert_eq!(blocked, Some(Duration::from_millis(millis)));
            assert_eq!(denied.reason(), Reason::Limits);
            node.clock.advance(Duration::from_millis(millis) - Duration::from_micros(1));
            assert_eq!(node.check().await.reason(), Reason::Blocked);
            node.clock.advance(Duration::from_micros(1));
        }
    });
}

#[test]
fn a_rule_in_shadow_goes_on_blocking_while_another_refuses() {
    let plain = Rule::new("plain").key(["user"]).limit(Limit::per_hour(1));
    let block = BlockPolicy::fixed(Duration::from_millis(100)).escalating(2, HOUR);
    let policy = Policy::new().rule(plain).rule(trial().block(block));
    wait(async {
        let node = Node::new(policy).await;
        assert!(node.check().await.is_allowed());
        for millis in [100, 200, 400] {
            let denied = node.check().await;
            assert_eq!(figures(&denied)[1].4, Some(Duration::from_millis(millis)), "it asks");
            assert!(node.refused_here().await, "now both are known");
            node.clock.advance(Duration::from_millis(millis));
        }
    });
}

#[test]
fn a_rule_that_has_been_used_since_is_asked_whether_it_blocks() {
    let plain = Rule::new("plain").key(["user"]).limit(Limit::per_hour(1));
    let ip =
        Rule::new("ip").key(["route"]).limit(Limit::per_hour(3)).block(BlockPolicy::fixed(HOUR));
    wait(async {
        let node = Node::new(Policy::new().rule(plain).rule(ip)).await;
        assert!(node.check().await.is_allowed());
        assert!(!node.refused_here().await);
        assert!(node.refused_here().await, "the address has two left");
        for user in ["ben", "eve"] {
            let other = Request::new().with("user", user).with("route", "/login");
            assert!(node.gate.try_check(&other).await.unwrap().is_allowed());
        }
        let denied = node.check().await;
        assert_eq!(figures(&denied)[1].4, Some(HOUR), "it has none left, and blocks");
    });
}

#[test]
fn a_refusal_is_believed_for_a_second_only() {
    wait(async {
        let node = Node::blocked(Policy::new().rule(login())).await;
        node.clock.advance(Duration::from_millis(999));
        assert!(node.refused_here().await);
        node.clock.advance(Duration::from_millis(1));
        assert!(!node.refused_here().await);
    });
}

#[test]
fn switched_off_every_check_asks() {
    let server = RedisServer::start();
    wait(async {
        let store = asking(&server.url());
        let gate = RedisGate::with_store(store, Policy::new().rule(login()).rule(trial())).unwrap();
        for _ in 0..50 {
            let _ = gate.try_check(&ana()).await.unwrap();
        }
        assert!(calls(&server) >= 50);
        assert_eq!(gate.store().health().cached_denials, 0);
    });
}
