//! Taking as much as there is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate::{Cost, Policy, Reason, Request, Rule};

use super::{MINUTE, everybody, gate, hourly, left, per_user, user};

fn times(multiplier: u64) -> Cost {
    Cost::Attribute { name: "tokens".to_owned(), multiplier, default: 1 }
}

#[test]
fn the_rule_with_the_fewest_units_says_how_many() {
    let (gate, _) = gate(Policy::new().rule(per_user(10)).rule(everybody(6)));
    let (units, ruling) = gate.check_up_to(&user("ana").cost(100));
    assert_eq!(
        (units, ruling.is_allowed(), ruling.decided_by_name()),
        (6, true, Some("everybody"))
    );
    let (units, ruling) = gate.check_up_to(&user("ana").cost(100));
    assert_eq!((units, ruling.is_allowed()), (0, false));
    assert_eq!(left(&gate, "per-user", &user("ana")), 4);
}

#[test]
fn no_more_is_taken_than_was_asked_for() {
    let (gate, _) = gate(Policy::new().rule(per_user(10)));
    assert_eq!(gate.check_up_to(&user("ana").cost(3)).0, 3);
    assert_eq!(gate.check_up_to(&user("ana").cost(100)).0, 7);
}

#[test]
fn a_multiplied_cost_is_taken_in_whole_units_of_the_request() {
    let rule = Rule::new("tripled").key(["user"]).limit(hourly(10)).cost(times(3));
    let (gate, _) = gate(Policy::new().rule(rule).rule(per_user(100)));
    assert_eq!(gate.check_up_to(&user("ana").cost(9)).0, 3);
    assert_eq!(left(&gate, "tripled", &user("ana")), 1);
    let (units, ruling) = gate.check_up_to(&user("ana").cost(9));
    assert_eq!((units, ruling.is_allowed()), (0, false));
    assert_eq!(left(&gate, "tripled", &user("ana")), 1, "the one that is left stays");
}

#[test]
fn a_request_without_rules_takes_all_it_asks_for() {
    let (gate, _) = gate(Policy::new());
    assert_eq!(gate.check_up_to(&Request::new().cost(u64::MAX)).0, u64::MAX);
}

#[test]
fn a_unit_that_can_never_be_taken_is_an_error() {
    let (gate, _) = gate(Policy::new().rule(Rule::new("tokens").limit(hourly(10)).cost(times(11))));
    for cost in [1, 5] {
        let (units, ruling) = gate.check_up_to(&Request::new().cost(cost));
        assert_eq!((units, ruling.reason()), (0, Reason::InvalidRequest), "{cost}");
    }
    assert!(gate.store().is_empty());
}

#[test]
fn a_rule_with_a_cost_of_its_own_takes_it_once() {
    let (gate, _) = gate(Policy::new().rule(everybody(5).cost(3)).rule(per_user(10)));
    assert_eq!(gate.check_up_to(&user("ana").cost(8)).0, 8);
    assert_eq!(left(&gate, "everybody", &user("ana")), 2);
    let (units, ruling) = gate.check_up_to(&user("ana").cost(8));
    assert_eq!((units, ruling.decided_by_name()), (0, Some("everybody")));
}

#[test]
fn threads_take_exactly_what_there_is_and_each_unit_once() {
    let rule = Rule::new("doubled").limit(hourly(1001)).cost(times(2));
    let (gate, _) = gate(Policy::new().rule(rule).rule(per_user(400)));
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for name in ["ana", "ben", "eve", "kim"] {
            let (gate, taken) = (&gate, &taken);
            scope.spawn(move || {
                for most in (1..20).cycle().take(200) {
                    let (units, ruling) = gate.check_up_to(&user(name).cost(most));
                    assert_eq!(units > 0, ruling.is_allowed());
                    taken.fetch_add(units, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), 500);
    assert_eq!(left(&gate, "doubled", &user("ana")), 1);
}

#[test]
fn who_gives_back_while_others_take_loses_no_unit() {
    let (gate, _) = gate(Policy::new().rule(everybody(3)));
    thread::scope(|scope| {
        for name in ["ana", "ben", "eve", "kim"] {
            let gate = &gate;
            scope.spawn(move || {
                for _ in 0..3000 {
                    let (units, ruling) = gate.check_up_to(&user(name).cost(2));
                    assert_eq!(units > 0, ruling.is_allowed());
                    if units > 0 {
                        gate.refund(&user(name).cost(units));
                    }
                }
            });
        }
    });
    assert_eq!(left(&gate, "everybody", &user("ana")), 3);
}

#[test]
fn coming_too_late_for_some_of_the_units_blocks_nobody() {
    // Two who take five of seven at most: there are always two left for the other.
    let (gate, _) = gate(Policy::new().rule(per_user(5)).rule(everybody(7).block(MINUTE)));
    thread::scope(|scope| {
        for name in ["ana", "ben"] {
            let gate = &gate;
            scope.spawn(move || {
                for _ in 0..5000 {
                    let (units, ruling) = gate.check_up_to(&user(name).cost(9));
                    assert!(units >= 2, "{units}: {ruling:?}");
                    gate.refund(&user(name).cost(units));
                }
            });
        }
    });
    assert!(gate.blocked_keys().is_empty());
}

#[test]
fn taking_from_what_is_used_up_is_a_denial_like_any_other() {
    let (gate, _) = gate(Policy::new().rule(per_user(2).block(MINUTE)));
    assert_eq!(gate.check_up_to(&user("ana").cost(9)).0, 2);
    assert!(gate.blocked_keys().is_empty());
    assert_eq!(gate.check_up_to(&user("ana").cost(9)).0, 0);
    assert_eq!(gate.blocked_keys().len(), 1);
}
