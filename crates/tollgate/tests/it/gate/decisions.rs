//! What a gate decides is what its rules say one by one, all or nothing.

use proptest::prelude::*;
use tollgate::{Limit, ManualClock, Policy, Reason, Request, Rule};
use tollgate_testkit::cases;

use super::model::{Answered, GateModel, answered};
use super::policies::{Act, Step, policies, steps};
use super::{SECOND, everybody, gate, gate_at, hourly, passed, per_user, user};

/// Plays `step` on a gate: what it answered, if anything.
fn play(gate: &tollgate::Gate, step: &Step) -> Option<Answered> {
    let request = step.request();
    match step.act {
        Act::Check => return Some(answered(&gate.check(&request))),
        Act::Peek => return Some(answered(&gate.peek(&request))),
        Act::Refund => gate.refund(&request),
        Act::Reset => drop(gate.reset_request(&request)),
    }
    None
}

fn play_model(model: &mut GateModel, step: &Step) -> Option<Answered> {
    let asked = step.asked();
    match step.act {
        Act::Check => return Some(model.check(&asked)),
        Act::Peek => return Some(model.peek(&asked)),
        Act::Refund => model.refund(&asked),
        Act::Reset => model.reset(&asked),
    }
    None
}

/// What the order of the rules may change: which of equals is named, and the order of the list.
fn in_any_order(mut answered: Answered) -> Answered {
    answered.rules.sort_by(|a, b| a.rule.cmp(&b.rule));
    let Some(decided) = &mut answered.decided else { return answered };
    decided.rule.clear();
    if decided.allowed {
        // Two with the same share left may have other figures.
        let share = decided.remaining.checked_div(decided.limit.max(1));
        (decided.remaining, decided.limit) = (share.unwrap_or(0), 0);
        (decided.reset_after, decided.delay) = Default::default();
    } else {
        (decided.remaining, decided.limit) = (0, 0);
        decided.reset_after = Default::default();
        decided.retry_after = if answered.is_error { None } else { decided.retry_after };
    }
    answered
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn every_figure_is_what_the_models_of_the_limits_say(policy in policies(), steps in steps()) {
        let clock = ManualClock::new();
        let gate = gate_at(&clock, policy.clone());
        let mut model = GateModel::new(policy, clock.clone());
        for (number, step) in steps.iter().enumerate() {
            clock.advance(step.idle);
            let (said, expected) = (play(&gate, step), play_model(&mut model, step));
            prop_assert_eq!(said, expected, "step {}: {:?}", number, step);
        }
    }

    #[test]
    fn the_order_of_the_rules_changes_no_decision(
        policy in policies(), steps in steps(), turn in 0..6_usize
    ) {
        let mut turned = policy.clone();
        turned.rules.reverse();
        let places = turned.rules.len();
        turned.rules.rotate_left(turn % places);
        let clock = ManualClock::new();
        let gates = [policy, turned].map(|policy| gate_at(&clock, policy));
        for step in &steps {
            clock.advance(step.idle);
            let [said, turned] = gates.each_ref().map(|gate| play(gate, step).map(in_any_order));
            prop_assert_eq!(said, turned, "{:?}", step);
        }
    }

    #[test]
    fn a_peek_says_what_the_check_that_follows_decides(policy in policies(), steps in steps()) {
        let (gate, clock) = gate(policy);
        for step in &steps {
            clock.advance(step.idle);
            let request = step.request();
            let before = gate.store().len();
            let (peeked, again) = (answered(&gate.peek(&request)), answered(&gate.peek(&request)));
            prop_assert_eq!(gate.store().len(), before);
            prop_assert_eq!(&peeked, &again);
            let checked = gate.check(&request);
            prop_assert_eq!(peeked.allowed, checked.is_allowed());
            prop_assert_eq!(peeked.is_error, checked.error().is_some());
        }
    }
}

#[test]
fn a_request_no_rule_applies_to_is_allowed_and_says_so() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    let ruling = gate.check(&Request::new().with("tenant", "acme"));
    assert!(ruling.is_allowed());
    assert_eq!((ruling.reason(), ruling.decided_by_name()), (Reason::NoRule, None));
    assert_eq!((ruling.limit(), ruling.remaining()), (u64::MAX, u64::MAX));
    assert_eq!(ruling.rules().count(), 0);
}

#[test]
fn a_rule_that_denies_leaves_the_others_uncharged() {
    let (gate, _) = gate(Policy::new().rule(per_user(5)).rule(everybody(2)));
    assert_eq!(passed(&gate, &user("ana"), 5), 2);
    let ruling = gate.check(&user("ana"));
    assert_eq!(ruling.decided_by_name(), Some("everybody"));
    assert_eq!(super::figure(&ruling, "per-user"), 3);
}

#[test]
fn a_shadow_rule_counts_what_passes_and_never_denies() {
    let rule = Rule::new("trial").limit(hourly(2)).shadow();
    let (gate, _) = gate(Policy::new().rule(per_user(3)).rule(rule));
    assert_eq!(passed(&gate, &user("ana"), 5), 3);
    let ruling = gate.check(&user("ben"));
    assert!(ruling.is_allowed());
    assert_eq!(ruling.decided_by_name(), Some("per-user"), "what only reports does not decide");
    let trial = ruling.rules().find(|figures| figures.rule() == "trial").unwrap();
    assert!(trial.is_shadow() && !trial.is_allowed());
    assert!(trial.retry_after() > Some(std::time::Duration::ZERO));
}

#[test]
fn state_is_kept_by_rule_and_key_never_by_key_alone() {
    let second = Rule::new("second").key(["user"]).limit(hourly(1)).matches("route", "/a");
    let (gate, _) = gate(Policy::new().rule(per_user(1)).rule(second));
    assert!(gate.check(&user("ana")).is_allowed());
    assert_eq!(super::left(&gate, "second", &user("ana").with("route", "/a")), 1);
}

#[test]
fn delay_of_a_rule_is_the_longest_of_its_limits() {
    let queue = || Limit::leaky_queue(1, SECOND).burst(100);
    for limits in [[queue(), hourly(10)], [hourly(10), queue()]] {
        let [first, second] = limits;
        let (gate, _) = gate(Policy::new().rule(Rule::new("both").limit(first).limit(second)));
        for turn in 0..5 {
            let ruling = gate.check(&Request::new());
            let rule = ruling.rules().next().expect("a rule applies");
            assert_eq!(rule.limit(), 10, "the smaller share decides");
            assert_eq!((rule.delay(), ruling.delay()), (turn * SECOND, turn * SECOND));
            assert_eq!(ruling.deciding_rule().map(|of| of.delay()), Some(turn * SECOND));
        }
    }
}
