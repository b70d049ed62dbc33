//! Whether Redis can keep all limits of a policy exact.

use tollgate::port::ScriptPlan;
use tollgate::{Override, Policy, PolicyError, PolicyLocation, PolicyProblem, RuleLimits};

use crate::terms::ScriptLimitCodec;

/// Every limit that Redis cannot keep exact, with the rule it belongs to.
pub(super) fn check(policy: &Policy) -> Result<(), PolicyError> {
    let mut problems = Vec::new();
    for (number, rule) in policy.rules.iter().enumerate() {
        let limits = PolicyLocation::Rule(number, "limit");
        problems.extend(wrong(&rule.name, &rule.limits, &limits));
        for (tier, numbers) in &rule.tiers {
            let rule = format!("{}, tier {tier:?}", rule.name);
            problems.extend(wrong(&rule, numbers, &PolicyLocation::Rule(number, "tiers")));
        }
    }
    for (tier, rules) in &policy.tiers {
        for (rule, numbers) in rules {
            problems.extend(wrong(
                rule,
                numbers,
                &PolicyLocation::Tier(tier.clone(), rule.clone()),
            ));
        }
    }
    for (number, change) in policy.overrides.iter().enumerate() {
        problems.extend(wrong_override(number, change));
    }
    if problems.is_empty() { Ok(()) } else { Err(PolicyError { problems }) }
}

/// Every limit of an override that Redis cannot keep exact.
pub(super) fn check_override(change: &Override) -> Result<(), PolicyError> {
    let problems: Vec<PolicyProblem> = wrong_override(0, change).collect();
    if problems.is_empty() { Ok(()) } else { Err(PolicyError { problems }) }
}

fn wrong_override(number: usize, change: &Override) -> impl Iterator<Item = PolicyProblem> {
    let place = PolicyLocation::Override(number, "limits");
    change.limits.iter().flat_map(move |(rule, numbers)| wrong(rule, numbers, &place))
}

fn wrong(rule: &str, numbers: &RuleLimits, place: &PolicyLocation) -> Vec<PolicyProblem> {
    let refused = numbers.limits().iter().filter_map(|limit| {
        let error = match ScriptPlan::new(limit) {
            Err(error) => error.to_string(),
            Ok(_) => ScriptLimitCodec::new(limit.clone()).err()?.to_string(),
        };
        let message = format!("rule {rule:?}: {limit} cannot be kept in redis: {error}");
        Some(PolicyProblem { place: place.clone(), message })
    });
    refused.collect()
}
