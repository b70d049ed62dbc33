//! What operators ask: reset, status, lists of keys.

use tollgate::{Limit, MemoryStore, Policy, Request, Rule, RuleLimits};

use super::{Gate, HOUR, everybody, gate, hourly, left, passed, per_user, user};

fn composite() -> Rule {
    Rule::new("composite")
        .key(["tenant", "user"])
        .limit(hourly(1))
        .limit(Limit::sliding_log(1, HOUR))
}

fn of<'a>(tenant: &'a str, name: &'a str) -> Request<'a> {
    user(name).with("tenant", tenant)
}

#[test]
fn a_reset_makes_one_key_of_one_rule_new() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)).rule(composite()));
    let (ana, ben) = (of("acme", "ana"), of("acme", "ben"));
    assert_eq!((passed(&gate, &ana, 2), passed(&gate, &ben, 2)), (1, 1));
    assert!(gate.reset("composite", &["acme", "ana"]));
    assert_eq!(left(&gate, "composite", &ana), 1);
    assert_eq!((left(&gate, "per-user", &ana), left(&gate, "composite", &ben)), (0, 0));
    assert!(!gate.reset("composite", &["acme", "ana"]), "nothing is known of it any more");
}

#[test]
fn a_reset_of_what_is_not_there_says_so() {
    let (gate, _) = gate(Policy::new().rule(composite()));
    assert!(!gate.reset("no such rule", &[]));
    assert!(!gate.reset("composite", &["acme"]), "a value is missing");
    assert!(!gate.reset("composite", &["acme", "ana", "more"]));
    assert!(!gate.reset_rule("no such rule"));
    assert_eq!(gate.reset_request(&Request::new()), 0);
}

#[test]
fn a_reset_of_a_request_reaches_every_rule_that_applies() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)).rule(composite()).rule(everybody(9)));
    assert_eq!(passed(&gate, &of("acme", "ana"), 2), 1);
    assert_eq!(gate.reset_request(&of("acme", "ana")), 3);
    assert!(gate.store().is_empty());
}

#[test]
fn a_reset_of_a_rule_leaves_the_others() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)).rule(composite()));
    for name in ["ana", "ben"] {
        assert!(gate.check(&of("acme", name)).is_allowed());
    }
    assert!(gate.reset_rule("composite"));
    assert_eq!(gate.keys("composite").len(), 0);
    assert_eq!(left(&gate, "composite", &of("acme", "ana")), 1);
    assert_eq!(gate.keys("per-user").len(), 2);
    gate.reset_all();
    assert!(gate.store().is_empty());
}

#[test]
fn a_reset_finds_limits_that_only_an_earlier_policy_had() {
    let (gate, _) = gate(Policy::new().rule(composite()));
    assert!(gate.check(&of("acme", "ana")).is_allowed());
    let mut one = composite();
    one.limits = hourly(1).into();
    gate.replace(Policy::new().rule(one)).unwrap();
    assert!(gate.reset("composite", &["acme", "ana"]));
    gate.replace(Policy::new().rule(composite())).unwrap();
    assert!(gate.check(&of("acme", "ana")).is_allowed());
}

#[test]
fn composite_keys_are_told_apart_by_their_parts() {
    let (gate, _) = gate(Policy::new().rule(composite()));
    for (tenant, name) in [("a", "b:c"), ("a:b", "c"), ("a", "b"), ("ab", ""), ("", "ab")] {
        assert!(gate.check(&of(tenant, name)).is_allowed(), "{tenant} {name}");
        assert!(!gate.check(&of(tenant, name)).is_allowed());
    }
    assert_eq!(gate.keys("composite").len(), 5);
}

#[test]
fn the_keys_of_a_rule_are_listed_with_their_status() {
    let (gate, clock) = gate(Policy::new().rule(per_user(5)).rule(everybody(50)));
    for (name, cost) in [("ana", 2), ("ben", 5)] {
        assert!(gate.check(&user(name).cost(cost)).is_allowed());
    }
    let mut keys: Vec<(String, u64)> = gate
        .keys("per-user")
        .into_iter()
        .map(|(name, status)| (name.to_string(), status.used()))
        .collect();
    keys.sort();
    assert_eq!(keys, [("ana".to_owned(), 2), ("ben".to_owned(), 5)]);
    assert_eq!(gate.keys("everybody").len(), 1);
    assert!(gate.keys("no such rule").is_empty());
    clock.advance(HOUR);
    assert!(gate.keys("per-user").is_empty(), "as good as new");
}

#[test]
fn a_rule_that_limits_only_a_tier_lists_its_keys() {
    let mut rule = per_user(1).tier("free", hourly(2));
    rule.limits = RuleLimits::Unlimited;
    let (gate, _) = gate(Policy::new().rule(rule));
    assert!(gate.check(&user("ana").with("tier", "free")).is_allowed());
    assert!(gate.check(&user("ben")).is_allowed());
    assert_eq!(gate.keys("per-user").len(), 1);
}

#[test]
fn a_status_takes_nothing_and_is_on_one_unit() {
    let (gate, _) = gate(Policy::new().rule(per_user(5)));
    let status = gate.status(&user("ana").cost(99));
    assert_eq!((status.is_allowed(), status.remaining(), status.limit()), (true, 5, 5));
    assert!(gate.store().is_empty());
}

#[test]
fn a_gate_goes_on_where_another_over_the_store_or_its_snapshot_was() {
    let (gate, clock) = gate(Policy::new().rule(per_user(5)).rule(composite()));
    assert!(gate.check(&of("acme", "ana").cost(1)).is_allowed());
    let again = Gate::with_store(gate.store().clone(), Policy::new().rule(per_user(5))).unwrap();
    assert_eq!(left(&again, "per-user", &user("ana")), 4);
    let mut saved = Vec::new();
    gate.store().snapshot(&mut saved).unwrap();
    let builder = MemoryStore::builder().clock(clock).max_keys(10_000);
    let restored = builder.restore(saved.as_slice()).unwrap();
    let restored =
        Gate::with_store(restored, Policy::new().rule(per_user(5)).rule(composite())).unwrap();
    let ruling = restored.check(&of("acme", "ana"));
    assert_eq!((ruling.decided_by_name(), ruling.is_allowed()), (Some("composite"), false));
}
