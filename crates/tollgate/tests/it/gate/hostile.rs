//! Requests and policies that nobody sends by mistake.

use tollgate::{Condition, Glob, KeyAttribute, Limit, Override, Policy, Request, Rule, Ruling};

use super::{gate, gate_at, hourly, passed, per_user, user};

#[test]
fn a_request_of_ten_thousand_attributes_is_decided() {
    let names: Vec<String> = (0..10_000).map(|number| format!("attribute-{number}")).collect();
    let mut request: Request<'_> = names.iter().map(|name| (name.as_str(), "x")).collect();
    request.set("user", "ana");
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    assert_eq!(passed(&gate, &request, 3), 1);
    assert_eq!(request.attributes().len(), 10_001);
}

#[test]
fn long_values_are_told_apart_by_all_of_them() {
    let rule = Rule::new("composite").key(["user", "route"]).limit(hourly(1));
    let (gate, _) = gate(Policy::new().rule(per_user(1)).rule(rule));
    let long = "x".repeat(1 << 16);
    let other = format!("{}y", &long[1..]);
    for name in [&long, &other] {
        assert_eq!(passed(&gate, &user(name).with("route", &long), 2), 1);
    }
    let kept: usize = gate.keys("per-user").iter().map(|(name, _)| name.to_string().len()).sum();
    assert!(kept < 2 * 300, "{kept} bytes of the names are kept");
}

#[test]
fn values_of_any_characters_are_keys_of_their_own() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    for value in ["", "\0", "\u{1f}2", "\n", "\u{202e}", "é", "e\u{301}", " "] {
        assert_eq!(passed(&gate, &user(value), 2), 1, "{value:?}");
        drop(format!("{:?}", gate.check(&user(value))));
    }
}

#[test]
fn attributes_of_any_name_are_looked_up() {
    let names = ["\0", "\u{1f}", "a\nb", " ", "é"];
    for name in names {
        let rule = Rule::new("odd")
            .matches(name, "x")
            .key([KeyAttribute::with_default(name, "")])
            .limit(hourly(1));
        let (gate, _) = gate(Policy::new().rule(rule));
        assert_eq!(passed(&gate, &Request::new().with(name, "x"), 2), 1);
        assert_eq!(passed(&gate, &Request::new().with("", "x"), 2), 2, "no rule applies");
    }
}

#[test]
fn a_rule_named_like_anothers_second_limit_shares_nothing_with_it() {
    let two = Rule::new("a").limit(hourly(9)).limit(hourly(5));
    let error = Policy::new().rule(two).rule(Rule::new("a\u{1f}2").limit(hourly(1))).validate();
    assert!(error.is_err(), "control characters are refused in names");
}

#[test]
fn a_glob_of_many_stars_ends_in_time() {
    let glob = Glob::new("*a".repeat(50) + "b");
    let rule = Rule::new("stars").matches("user", Condition::Glob(vec![glob])).limit(hourly(1));
    let (gate, _) = gate(Policy::new().rule(rule));
    assert!(gate.check(&user(&"a".repeat(10_000))).decided_by_name().is_none());
}

#[test]
fn fifty_rules_with_eight_limits_each_apply_at_once() {
    let clock = tollgate::ManualClock::new();
    let mut policy = Policy::new();
    for number in 0..50 {
        let limits: Vec<Limit> = (0..8).map(|more| hourly(3 + more)).collect();
        let mut rule = Rule::new(format!("rule-{number}")).key(["user"]);
        rule.limits = limits.into();
        policy = policy.rule(rule);
    }
    let gate = gate_at(&clock, policy);
    assert_eq!(passed(&gate, &user("ana"), 9), 3);
    assert_eq!(gate.check(&user("ana")).rules().count(), 50);
    assert_eq!(gate.store().len(), 400);
}

#[test]
fn more_charges_than_the_store_holds_keys_never_let_too_much_through() {
    let store = tollgate::MemoryStore::builder().max_keys(2).build().unwrap();
    let limits: Vec<Limit> = (0..4).map(|more| hourly(3 + more)).collect();
    let mut rule = Rule::new("wide").key(["user"]);
    rule.limits = limits.into();
    let gate = tollgate::Gate::with_store(store, Policy::new().rule(rule)).unwrap();
    for _ in 0..20 {
        drop(gate.check(&user("ana")));
    }
    assert!(gate.store().len() <= 2);
}

#[test]
fn an_override_whose_values_run_together_is_another_client() {
    let client = |a: &str, b: &str| {
        let pairs = [("a".to_owned(), a.to_owned()), ("b".to_owned(), b.to_owned())];
        Override::of(pairs.into()).limits("all", hourly(7))
    };
    let rule = Rule::new("all").key(["a", "b"]).limit(hourly(1));
    let (gate, _) = gate(Policy::new().rule(rule).override_client(client("x", "yz")));
    let limit = |a, b| gate.peek(&Request::new().with("a", a).with("b", b)).limit();
    assert_eq!(
        [limit("x", "yz"), limit("xy", "z"), limit("xyz", ""), limit("yz", "x")],
        [7, 1, 1, 1]
    );
}

#[test]
fn rulings_and_gates_go_from_thread_to_thread() {
    fn check<T: Send + Sync>() {}
    check::<Ruling>();
    check::<tollgate::Gate>();
    check::<tollgate::GateReservation>();
}
