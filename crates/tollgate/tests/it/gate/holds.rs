//! Holds: units of several rules, taken until it is known how many were needed.

use std::time::Duration;

use tollgate::{Cost, Limit, Policy, Rule, Timestamp};
use tollgate_testkit::one_limit_of_each;

use super::{HOUR, MINUTE, SECOND, everybody, gate, hourly, left, per_user, user};

/// One unit of a request is one of `per-user`, three of `tripled`.
fn policy() -> Policy {
    let tripled = Rule::new("tripled").key(["user"]).limit(hourly(100)).cost(tokens(3));
    Policy::new().rule(per_user(50)).rule(tripled)
}

fn tokens(multiplier: u64) -> Cost {
    Cost::Attribute { name: "tokens".to_owned(), multiplier, default: 5 }
}

fn both(gate: &tollgate::Gate) -> [u64; 2] {
    ["per-user", "tripled"].map(|rule| left(gate, rule, &user("ana")))
}

#[test]
fn a_hold_takes_of_every_rule_by_its_multiplier() {
    let (gate, _) = gate(policy());
    let hold = gate.reserve(&user("ana").cost(10)).unwrap();
    assert_eq!((hold.cost(), hold.ruling().is_allowed()), (10, true));
    assert_eq!(both(&gate), [40, 70]);
    hold.commit();
    assert_eq!(both(&gate), [40, 70]);
}

#[test]
fn cancelling_or_dropping_gives_everything_back() {
    let (gate, _) = gate(policy());
    gate.reserve(&user("ana").cost(10)).unwrap().cancel();
    assert_eq!(both(&gate), [50, 100]);
    drop(gate.reserve(&user("ana").cost(10)).unwrap());
    assert_eq!(both(&gate), [50, 100]);
}

#[test]
fn settling_charges_what_was_used_instead() {
    let (gate, _) = gate(policy());
    gate.reserve(&user("ana").cost(10)).unwrap().settle(4);
    assert_eq!(both(&gate), [46, 88]);
    gate.reserve(&user("ana").cost(1)).unwrap().settle(6);
    assert_eq!(both(&gate), [40, 70]);
    gate.reserve(&user("ana").cost(1)).unwrap().settle(0);
    assert_eq!(both(&gate), [40, 70]);
}

#[test]
fn settling_leaves_a_shadow_rule_that_denied_uncharged() {
    let shadow = Rule::new("shadow").key(["user"]).limit(hourly(4)).shadow();
    let (gate, _) = gate(Policy::new().rule(per_user(50)).rule(shadow));
    assert!(gate.check(&user("ana").cost(3)).is_allowed());
    let hold = gate.reserve(&user("ana").cost(2)).unwrap();
    assert_eq!(hold.ruling().shadow_rules().filter(|rule| rule.is_allowed()).count(), 0);
    hold.settle(9);
    let used = |rule| gate.key_status(rule, &["ana"]).unwrap()[0].1.used();
    assert_eq!(["per-user", "shadow"].map(used), [12, 3]);
}

#[test]
fn settling_for_more_than_there_is_leaves_a_debt_and_never_wraps() {
    let (gate, _) = gate(policy());
    gate.reserve(&user("ana")).unwrap().settle(u64::MAX);
    assert_eq!(both(&gate), [0, 0]);
    assert!(!gate.check(&user("ana")).is_allowed());
    assert!(gate.check(&user("ben")).is_allowed());
}

#[test]
fn a_hold_that_is_denied_takes_nothing() {
    let (gate, _) = gate(policy().rule(everybody(5)));
    let ruling = gate.reserve(&user("ana").cost(6)).unwrap_err();
    assert!(ruling.error().is_some());
    gate.reserve(&user("ana").cost(5)).unwrap().commit();
    let ruling = gate.reserve(&user("ben")).unwrap_err();
    assert_eq!(ruling.decided_by_name(), Some("everybody"));
    assert_eq!(left(&gate, "per-user", &user("ben")), 50);
}

#[test]
fn a_hold_that_times_out_gives_back_of_every_rule() {
    let (gate, clock) = gate(policy());
    let hold = gate.reserve_for(&user("ana").cost(10), 5 * SECOND).unwrap();
    clock.advance(5 * SECOND - Duration::from_nanos(1));
    assert_eq!(both(&gate), [40, 70]);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(both(&gate), [50, 100]);
    hold.settle(2);
    assert_eq!(both(&gate), [48, 94], "what was used after all is charged anew");
    let hold = gate.reserve_for(&user("ana").cost(10), 5 * SECOND).unwrap();
    clock.advance(MINUTE);
    drop(hold);
    assert_eq!(both(&gate), [48, 94], "given back once");
}

#[test]
fn a_hold_of_units_from_an_attribute_is_settled_by_the_same_multiplier() {
    let rule = Rule::new("tokens").key(["user"]).limit(hourly(100)).cost(tokens(2));
    let (gate, _) = gate(Policy::new().rule(rule));
    let hold = gate.reserve(&user("ana").with("tokens", "30")).unwrap();
    assert_eq!(left(&gate, "tokens", &user("ana")), 40);
    hold.settle(6);
    assert_eq!(left(&gate, "tokens", &user("ana")), 88);
    gate.reserve(&user("ana").with("tokens", "30")).unwrap().commit();
    assert_eq!(left(&gate, "tokens", &user("ana")), 28);
    gate.refund(&user("ana").with("tokens", "30"));
    assert_eq!(left(&gate, "tokens", &user("ana")), 88);
}

#[test]
fn a_rule_with_a_cost_of_its_own_keeps_it_whatever_is_settled() {
    let rule = Rule::new("calls").key(["user"]).limit(hourly(100)).cost(3);
    let (gate, _) = gate(policy().rule(rule));
    gate.reserve(&user("ana").cost(10)).unwrap().settle(4);
    assert_eq!(left(&gate, "calls", &user("ana")), 97);
    gate.reserve(&user("ana").cost(10)).unwrap().cancel();
    assert_eq!(left(&gate, "calls", &user("ana")), 97);
}

#[test]
fn a_shadow_rule_is_held_as_well_if_it_allows() {
    let shadow = Rule::new("trial").key(["user"]).limit(hourly(4)).shadow();
    let (gate, _) = gate(policy().rule(shadow));
    gate.reserve(&user("ana").cost(3)).unwrap().settle(1);
    assert_eq!(left(&gate, "trial", &user("ana")), 3);
    gate.reserve(&user("ana").cost(4)).unwrap().settle(1);
    assert_eq!(
        left(&gate, "trial", &user("ana")),
        3,
        "what it did not allow it does not give back"
    );
}

#[test]
fn a_hold_survives_a_change_of_policy() {
    let (gate, _) = gate(policy());
    let hold = gate.reserve(&user("ana").cost(10)).unwrap();
    gate.replace(Policy::new().rule(per_user(500))).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 400);
    drop(hold);
    assert!(left(&gate, "per-user", &user("ana")) >= 400);
    gate.replace(policy()).unwrap();
    assert_eq!(both(&gate), [50, 100]);
}

#[test]
fn a_clock_that_is_behind_what_a_key_has_seen_gives_back_all_the_same() {
    for limit in one_limit_of_each() {
        let name = limit.to_string();
        let (gate, clock) = gate(Policy::new().rule(Rule::new("all").limit(limit)));
        let start = clock.now().saturating_add(MINUTE);
        clock.set(start);
        assert!(gate.check(&user("ana")).is_allowed());
        clock.set(Timestamp::from_nanos(start.as_nanos() - 1));
        drop(gate.reserve(&user("ana").cost(9)).unwrap());
        assert_eq!(left(&gate, "all", &user("ana")), 9, "{name}");
    }
}

#[test]
fn a_refund_gives_back_what_a_check_of_the_request_took() {
    let (gate, _) = gate(policy());
    assert!(gate.check(&user("ana").cost(10)).is_allowed());
    gate.refund(&user("ana").cost(4));
    assert_eq!(both(&gate), [44, 82]);
    gate.refund(&user("ana").cost(u64::MAX));
    assert_eq!(both(&gate), [50, 100], "never above full");
    gate.refund(&user("never seen"));
    assert_eq!(gate.store().len(), 2);
}

#[test]
fn a_refund_reaches_every_limit_of_a_rule() {
    let rule = Rule::new("two").limit(hourly(10)).limit(Limit::sliding_log(5, HOUR));
    let (gate, _) = gate(Policy::new().rule(rule));
    assert!(gate.check(&user("ana").cost(5)).is_allowed());
    gate.refund(&user("ana").cost(5));
    assert!(gate.check(&user("ana").cost(5)).is_allowed());
}
