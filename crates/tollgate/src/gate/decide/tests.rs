//! A check does what [`evaluate`] says of a peek at the same moment.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_testkit::cases;

use super::*;
use crate::gate::{Gate, Ruling};
use crate::limit::Limit;
use crate::policy::{BlockPolicy, Policy, Rule, RuleLimits};
use crate::store::memory::MemoryStore;
use crate::time::ManualClock;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Action {
    Check { user: u8, cost: u64 },
    TakeUpTo { user: u8, cost: u64 },
    Reserve { user: u8, cost: u64 },
    Block { rule: usize, user: u8 },
    Reset { user: u8 },
    Advance(u64),
}

fn limit() -> impl Strategy<Value = Limit> {
    let counts = (1..8_u64, 1..20_u32);
    (0..5_u8, counts).prop_map(|(kind, (count, seconds))| match kind {
        0 => Limit::leaky_queue(count, SECOND * seconds),
        1 => Limit::fixed_window(count, SECOND * seconds),
        2 => Limit::sliding_log(count, SECOND * seconds),
        3 => Limit::sliding_counter(count, SECOND * seconds),
        _ => Limit::token_bucket(count, SECOND * seconds),
    })
}

fn rule(number: usize) -> impl Strategy<Value = Rule> {
    let limits = prop::collection::vec(limit(), 0..3);
    let block = prop::option::of(1..9_u32);
    (limits, block, any::<bool>(), any::<bool>()).prop_map(move |(limits, block, shadow, user)| {
        let mut rule = Rule::new(number.to_string());
        rule.limits =
            if limits.is_empty() { RuleLimits::Unlimited } else { RuleLimits::All(limits) };
        rule = if user { rule.key(["user"]) } else { rule };
        rule = if shadow { rule.shadow() } else { rule };
        if let Some(seconds) = block {
            rule = rule.block(BlockPolicy::fixed(SECOND * seconds).escalating(2, SECOND * 60));
        }
        rule
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    let rules = (1..=5_usize).prop_flat_map(|count| (0..count).map(rule).collect::<Vec<_>>());
    rules.prop_map(|rules| rules.into_iter().fold(Policy::new(), Policy::rule))
}

fn action() -> impl Strategy<Value = Action> {
    let cost = || prop_oneof![9 => 1..3_u64, 1 => Just(0), 2 => 6..10_u64];
    prop_oneof![
        12 => (0..3_u8, cost()).prop_map(|(user, cost)| Action::Check { user, cost }),
        2 => (0..3_u8, cost()).prop_map(|(user, cost)| Action::TakeUpTo { user, cost }),
        2 => (0..3_u8, cost()).prop_map(|(user, cost)| Action::Reserve { user, cost }),
        1 => (0..5_usize, 0..3_u8).prop_map(|(rule, user)| Action::Block { rule, user }),
        1 => (0..3_u8).prop_map(|user| Action::Reset { user }),
        5 => (0..4_000_000_000_u64).prop_map(Action::Advance),
    ]
}

/// What [`evaluate`] says of a peek.
struct Expected {
    evaluation: Evaluation,
    rules: Vec<RuleObservation>,
}

fn evaluate_peek(gate: &Gate, request: &Request<'_>) -> Expected {
    let peek = gate.peek(request);
    let told: Vec<ChargeResult> = peek.told().collect();
    let observe = |group: &[ChargeResult]| observe_rule(group, &peek.in_force().compiled.rules);
    let rules: Vec<_> = told.chunk_by(ChargeResult::is_same_rule).map(observe).collect();
    Expected { evaluation: evaluate(EvaluationMode::Charge, rules.iter().copied()), rules }
}

/// Checks that `ruling` is what `expected` says.
fn assert_follows(ruling: &Ruling, expected: &Expected) -> Result<(), TestCaseError> {
    prop_assert_eq!(ruling.is_allowed(), expected.evaluation.is_allowed);
    prop_assert_eq!(ruling.reason(), expected.evaluation.reason);
    let told: Vec<ChargeResult> = ruling.told().collect();
    let groups: Vec<_> = told.chunk_by(ChargeResult::is_same_rule).collect();
    prop_assert_eq!(groups.len(), expected.rules.len());
    for (group, rule) in groups.into_iter().zip(&expected.rules) {
        let verdict = expected.evaluation.verdict(rule);
        let mut of_limits = group.iter().filter(|told| told.ruled.limit != 0);
        prop_assert!(of_limits.all(|told| told.ruled.is_taken() == verdict.takes));
        let is_blocked = group.iter().any(|told| !told.ruled.blocked.is_zero());
        prop_assert!(is_blocked || !verdict.starts_block);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn check_does_what_evaluate_says_of_a_peek(
        policy in policy(),
        actions in prop::collection::vec(action(), 1..60),
    ) {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build().expect("it is valid");
        let gate = Gate::with_store(store, policy.clone()).expect("the policy is valid");
        for action in actions {
            match action {
                Action::Check { user, cost } => {
                    let user = user.to_string();
                    let request = Request::new().with("user", &user).cost(cost);
                    let expected = evaluate_peek(&gate, &request);
                    assert_follows(&gate.check(&request), &expected)?;
                }
                Action::TakeUpTo { user, cost } => {
                    let user = user.to_string();
                    let request = Request::new().with("user", &user).cost(cost);
                    let _ = gate.check_up_to(&request);
                }
                Action::Reserve { user, cost } => {
                    let user = user.to_string();
                    let request = Request::new().with("user", &user).cost(cost);
                    let expected = evaluate_peek(&gate, &request);
                    match gate.reserve(&request) {
                        Ok(held) => assert_follows(held.ruling(), &expected)?,
                        Err(ruling) => assert_follows(&ruling, &expected)?,
                    }
                }
                Action::Block { rule, user } => {
                    let user = user.to_string();
                    let name = (rule % policy.rules.len()).to_string();
                    let _ = gate.block(&name, &[&user], SECOND);
                    let _ = gate.block(&name, &[], SECOND);
                }
                Action::Reset { user } => {
                    let user = user.to_string();
                    let _ = gate.reset_request(&Request::new().with("user", &user));
                }
                Action::Advance(nanos) => clock.advance(Duration::from_nanos(nanos)),
            }
        }
    }
}
