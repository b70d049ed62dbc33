//! What a request costs: what it says, what an attribute says, or what the rule says.

use tollgate::{Cost, CostError, Policy, Reason, Request, RequestError, Rule};

use super::{figure, gate, hourly, per_user, user};

fn tokens(multiplier: u64) -> Rule {
    let cost = Cost::Attribute { name: "tokens".to_owned(), multiplier, default: 3 };
    Rule::new("tokens").limit(hourly(100)).cost(cost)
}

fn with(tokens: &str) -> Request<'_> {
    Request::new().with("tokens", tokens)
}

#[test]
fn a_cost_is_the_attribute_or_what_the_request_says_times_the_multiplier() {
    let (gate, _) = gate(Policy::new().rule(tokens(2)));
    assert_eq!(figure(&gate.check(&with("5")), "tokens"), 90);
    assert_eq!(figure(&gate.check(&with("5").cost(10)), "tokens"), 70, "what it says comes first");
    assert_eq!(figure(&gate.check(&with("abc").cost(5)), "tokens"), 60);
    assert_eq!(figure(&gate.check(&Request::new()), "tokens"), 54, "the default is multiplied too");
    assert_eq!(figure(&gate.check(&with("007")), "tokens"), 40);
}

#[test]
fn a_cost_of_the_rule_counts_whatever_the_request_says() {
    let (gate, _) = gate(Policy::new().rule(Rule::new("calls").limit(hourly(100)).cost(3)));
    assert_eq!(figure(&gate.check(&Request::new()), "calls"), 97);
    assert_eq!(figure(&gate.check(&Request::new().cost(50)), "calls"), 94);
    assert_eq!(figure(&gate.check(&Request::new().cost(0)), "calls"), 94, "unless it says 0");
}

#[test]
fn a_cost_that_is_no_whole_number_is_an_error_and_charges_nobody() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)).rule(tokens(1)));
    let digits = "9".repeat(30);
    for text in ["abc", "-1", "1e3", "", " 1", "1 ", "1.0", "0x10", "१", &digits] {
        let ruling = gate.check(&user("ana").with("tokens", text));
        assert_eq!(
            (ruling.is_allowed(), ruling.reason()),
            (false, Reason::InvalidRequest),
            "{text:?}"
        );
        let attribute = "tokens".to_owned();
        let wrong = RequestError::CostNotANumber { attribute, value: text.to_owned() };
        assert_eq!((ruling.error(), ruling.retry_after()), (Some(wrong), None));
        gate.refund(&user("ana").with("tokens", text));
    }
    assert!(gate.store().is_empty());
}

#[test]
fn a_long_value_is_cut_in_the_error() {
    let (gate, _) = gate(Policy::new().rule(tokens(1)));
    let long = "é".repeat(1 << 16);
    let error = gate.check(&with(&long)).error().unwrap().to_string();
    assert!(error.len() < 400, "{} bytes", error.len());
}

#[test]
fn a_product_too_large_to_tell_exceeds_the_capacity_and_never_wraps() {
    let (gate, _) = gate(Policy::new().rule(tokens(1 << 60)));
    let exceeds = CostError::ExceedsCapacity { cost: u64::MAX, limit: 100 };
    for request in [with("16"), with("18446744073709551615"), with("1").cost(16)] {
        let ruling = gate.check(&request);
        assert_eq!(ruling.error(), Some(RequestError::Cost(exceeds)), "{request:?}");
        assert_eq!((ruling.decided_by_name(), ruling.retry_after()), (Some("tokens"), None));
    }
    assert!(gate.store().is_empty());
}

#[test]
fn one_rule_that_can_never_be_is_an_error_of_the_whole() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)).rule(tokens(50)));
    assert!(gate.check(&user("ana").with("tokens", "1")).is_allowed());
    let ruling = gate.check(&user("ana").with("tokens", "3"));
    assert_eq!(
        (ruling.reason(), ruling.decided_by_name()),
        (Reason::InvalidRequest, Some("tokens"))
    );
    assert_eq!(ruling.rules().count(), 2, "the rule that denies for now has its figures");
}

#[test]
fn a_shadow_rule_with_a_wrong_cost_turns_nobody_away() {
    let (gate, _) = gate(Policy::new().rule(per_user(5)).rule(tokens(1).shadow()));
    for text in ["abc", "0", "101"] {
        assert!(gate.check(&user("ana").with("tokens", text)).is_allowed(), "{text}");
    }
}

#[test]
fn costs_that_cannot_be_are_refused_with_the_policy() {
    for cost in [
        Cost::Units(0),
        Cost::Attribute { name: String::new(), multiplier: 1, default: 1 },
        Cost::Attribute { name: "tokens".to_owned(), multiplier: 0, default: 1 },
        Cost::Attribute { name: "tokens".to_owned(), multiplier: 1, default: 0 },
    ] {
        assert!(Policy::new().rule(per_user(1).cost(cost)).validate().is_err());
    }
}
