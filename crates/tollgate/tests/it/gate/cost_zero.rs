//! A cost of 0 under a policy: only a list, a block or `on_store_error = "deny"` denies it.

use tollgate::{BlockPolicy, Cost, Limit, ListEntry, OnStoreError, Policy, Reason, Request, Rule};

use super::{HOUR, MINUTE, SECOND, everybody, gate, hourly, left, passed, per_user, user};

#[test]
fn request_of_cost_zero_is_allowed_where_every_rule_is_used_up() {
    let queue = Limit::leaky_queue(1, HOUR).burst(1);
    let units = Rule::new("units").key(["user"]).limit(hourly(6)).cost(3);
    let policy = Policy::new().rule(per_user(2)).rule(units).rule(Rule::new("queue").limit(queue));
    let (gate, _) = gate(policy);
    assert_eq!(passed(&gate, &user("ana"), 5), 2);
    let used = gate.status(&user("ana"));
    for ruling in [gate.check(&user("ana").cost(0)), gate.peek(&user("ana").cost(0))] {
        assert!(ruling.is_allowed(), "{ruling:?}");
        assert_eq!((ruling.reason(), ruling.error()), (Reason::Limits, None));
        assert_eq!((ruling.remaining(), ruling.delay().as_nanos()), (0, 0));
        let figures = |ruling: &tollgate::Ruling| -> Vec<_> {
            ruling.rules().map(|of| (of.remaining(), of.reset_after())).collect()
        };
        assert_eq!(figures(&ruling), figures(&used));
        assert!(ruling.rules().all(|of| of.is_allowed() && of.delay().is_zero()));
    }
    assert_eq!(gate.check_up_to(&user("ana").cost(0)).0, 0);
}

#[test]
fn request_of_cost_zero_creates_no_state() {
    let tokens = Cost::Attribute { name: "tokens".to_owned(), multiplier: 2, default: 1 };
    let rule = Rule::new("tokens").key(["user"]).limit(hourly(9)).cost(tokens);
    let (gate, _) = gate(Policy::new().rule(per_user(5)).rule(rule).rule(everybody(5).shadow()));
    for request in [user("ana").cost(0), user("ana").with("tokens", "7").cost(0)] {
        assert!(gate.check(&request).is_allowed());
        assert!(gate.peek(&request).is_allowed());
        gate.reserve(&request).expect("a cost of 0 is allowed").commit();
        let (units, ruling) = gate.check_up_to(&request);
        assert_eq!((units, ruling.is_allowed()), (0, true));
    }
    assert!(gate.store().is_empty());
    assert!(gate.check(&Request::new().cost(0)).is_allowed(), "where no rule applies");
}

#[test]
fn attribute_of_zero_takes_nothing_of_its_rule_and_charges_the_others() {
    let tokens = Cost::Attribute { name: "tokens".to_owned(), multiplier: 1, default: 1 };
    let rule = Rule::new("tokens").key(["user"]).limit(hourly(3)).cost(tokens);
    let (gate, _) = gate(Policy::new().rule(rule.block(MINUTE)).rule(per_user(5)));
    let request = |tokens| user("ana").with("tokens", tokens);
    assert!(gate.check(&request("3")).is_allowed());
    assert!(gate.check(&request("0")).is_allowed(), "tokens are used up, and none is wanted");
    assert_eq!(left(&gate, "tokens", &user("ana")), 0);
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
    assert!(gate.blocked_keys().is_empty());
}

#[test]
fn cost_zero_is_denied_by_a_list_and_by_a_block_and_starts_none() {
    let rule = per_user(1).block(BlockPolicy::fixed(MINUTE).escalating(2, HOUR));
    let (gate, clock) =
        gate(Policy::new().rule(rule).deny(ListEntry::new("banned").matches("user", "eve")));
    assert_eq!(gate.check(&user("eve").cost(0)).reason(), Reason::DenyList);
    assert!(gate.check(&user("ana")).is_allowed());
    assert!(gate.check(&user("ana").cost(0)).is_allowed());
    assert!(gate.blocked_keys().is_empty(), "a cost of 0 starts no block");
    assert!(!gate.check(&user("ana")).is_allowed());
    clock.advance(SECOND);
    let blocked = gate.check(&user("ana").cost(0));
    assert_eq!((blocked.is_allowed(), blocked.reason()), (false, Reason::Blocked));
    assert_eq!(blocked.retry_after(), Some(MINUTE - SECOND));
    clock.advance(MINUTE - SECOND);
    assert!(gate.check(&user("ana").cost(0)).is_allowed(), "the block is over");
    let next = gate.check(&user("ana"));
    assert_eq!(
        next.rules().next().and_then(|of| of.blocked_for()),
        Some(2 * MINUTE),
        "escalated once"
    );
}

#[test]
fn hold_of_zero_settles_to_what_was_used() {
    let (gate, _) = gate(Policy::new().rule(per_user(50)).rule(everybody(9).cost(3)));
    let hold = gate.reserve(&user("ana").cost(0)).expect("a cost of 0 is allowed");
    assert_eq!((hold.cost(), left(&gate, "per-user", &user("ana"))), (0, 50));
    hold.settle(7);
    assert_eq!(left(&gate, "per-user", &user("ana")), 43);
    assert_eq!(left(&gate, "everybody", &user("ana")), 9, "a rule with a cost of its own keeps 0");
}

#[test]
fn cost_zero_is_denied_without_a_store_only_by_deny() {
    for (choice, allowed) in
        [(OnStoreError::Deny, false), (OnStoreError::Allow, true), (OnStoreError::Local, true)]
    {
        let mut policy = Policy::new().rule(per_user(1));
        policy.on_store_error = choice;
        let (gate, _) = gate(policy.fallback_share(1));
        assert_eq!(
            gate.check_without_store(&user("ana").cost(0)).is_allowed(),
            allowed,
            "{choice:?}"
        );
    }
}
