//! Tiers replace numbers, and numbers that change keep what was consumed in proportion.

use tollgate::{Limit, Policy, Reason, Rule, RuleLimits};

use super::{HOUR, gate, hourly, left, passed, per_user, user};

#[test]
fn the_tier_of_a_request_comes_from_its_attribute() {
    let (gate, _) = gate(Policy::new().rule(per_user(1).tier("pro", hourly(3))));
    assert_eq!(passed(&gate, &user("ana"), 5), 1);
    assert_eq!(passed(&gate, &user("ben").with("tier", "pro"), 5), 3);
    assert_eq!(passed(&gate, &user("eve").with("tier", "no such tier"), 5), 1);
}

#[test]
fn another_attribute_may_carry_the_tier() {
    let rule = per_user(1).tier("pro", hourly(3));
    let mut policy = Policy::new().rule(rule);
    policy.tier_from = "plan".to_owned();
    let (gate, _) = gate(policy);
    assert_eq!(passed(&gate, &user("ana").with("plan", "pro"), 5), 3);
    assert_eq!(passed(&gate, &user("ben").with("tier", "pro"), 5), 1);
}

#[test]
fn a_request_that_says_no_tier_has_the_default_one() {
    let rule = per_user(1).tier("free", hourly(2)).tier("pro", hourly(4));
    let mut policy = Policy::new().rule(rule);
    policy.default_tier = Some("free".to_owned());
    let (gate, _) = gate(policy);
    assert_eq!(passed(&gate, &user("ana"), 9), 2);
    assert_eq!(passed(&gate, &user("ben").with("tier", "pro"), 9), 4);
    assert_eq!(passed(&gate, &user("eve").with("tier", ""), 9), 1, "an empty tier is one");
}

#[test]
fn the_tiers_of_a_rule_come_before_those_of_the_policy() {
    let rule = per_user(1).tier("pro", hourly(2));
    let policy = Policy::new().rule(rule).rule(Rule::new("other").key(["user"]).limit(hourly(9)));
    let policy = policy.tier("pro", "per-user", hourly(5)).tier("pro", "other", hourly(3));
    let (gate, _) = gate(policy);
    let request = user("ana").with("tier", "pro");
    assert_eq!(left(&gate, "per-user", &request), 2);
    assert_eq!(left(&gate, "other", &request), 3);
}

#[test]
fn an_unlimited_tier_passes_and_counts_nothing() {
    let (gate, _) = gate(Policy::new().rule(per_user(1).tier("internal", RuleLimits::Unlimited)));
    let request = user("ana").with("tier", "internal");
    assert_eq!(passed(&gate, &request, 100), 100);
    assert_eq!(gate.check(&request).reason(), Reason::NoRule);
    assert!(gate.check(&request.clone().cost(u64::MAX)).is_allowed());
    assert!(gate.store().is_empty());
    assert!(gate.check(&user("ana")).is_allowed());
}

#[test]
fn a_tier_may_have_more_limits_than_the_rule_or_fewer() {
    let several = vec![hourly(5), hourly(3)];
    let (gate, _) = gate(Policy::new().rule(per_user(4).tier("pro", several)));
    assert_eq!(passed(&gate, &user("ana").with("tier", "pro"), 9), 3);
    assert_eq!(passed(&gate, &user("ben"), 9), 4);
}

#[test]
fn a_changed_limit_keeps_the_share_that_was_consumed() {
    let of = |limit: Limit| Policy::new().rule(Rule::new("per-user").key(["user"]).limit(limit));
    let pairs = [
        (Limit::per_hour(10), Limit::per_hour(100)),
        (Limit::leaky_bucket(10, HOUR), Limit::leaky_bucket(100, HOUR)),
        (Limit::fixed_window(10, HOUR), Limit::fixed_window(100, HOUR)),
        (hourly(10), hourly(100)),
        (Limit::sliding_log(10, HOUR), Limit::sliding_log(100, HOUR)),
        (Limit::sliding_counter(10, HOUR), Limit::sliding_counter(100, HOUR)),
        (hourly(10), Limit::sliding_log(100, HOUR)),
        (Limit::sliding_log(10, HOUR), Limit::per_hour(100)),
    ];
    for (small, large) in pairs {
        let (gate, _) = gate(of(small.clone()));
        assert!(gate.check(&user("ana").cost(7)).is_allowed());
        gate.replace(of(large.clone())).unwrap();
        assert_eq!(left(&gate, "per-user", &user("ana")), 30, "{small} to {large}");
        gate.replace(of(small.clone())).unwrap();
        assert_eq!(left(&gate, "per-user", &user("ana")), 3, "{large} back to {small}");
        assert_eq!(left(&gate, "per-user", &user("ben")), 10);
    }
}

#[test]
fn a_key_that_changes_its_tier_keeps_its_share() {
    let (gate, _) = gate(Policy::new().rule(per_user(10).tier("pro", hourly(1000))));
    assert!(gate.check(&user("ana").cost(5)).is_allowed());
    assert_eq!(left(&gate, "per-user", &user("ana").with("tier", "pro")), 500);
}

#[test]
fn a_rule_that_goes_and_comes_back_finds_its_state() {
    let (gate, _) = gate(Policy::new().rule(per_user(10)));
    assert!(gate.check(&user("ana").cost(4)).is_allowed());
    gate.replace(Policy::new().rule(Rule::new("other").limit(hourly(1)))).unwrap();
    assert!(gate.check(&user("ana")).is_allowed());
    gate.replace(Policy::new().rule(per_user(10))).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 6);
}

#[test]
fn a_policy_that_is_wrong_leaves_the_one_in_force() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    let error = gate.replace(Policy::new().rule(per_user(0)).rule(per_user(1))).unwrap_err();
    assert_eq!(error.problems.len(), 2, "{error}");
    assert_eq!(gate.policy().rules[0].limits, hourly(1).into());
    assert_eq!(passed(&gate, &user("ana"), 3), 1);
}
