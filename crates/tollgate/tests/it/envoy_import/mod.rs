//! The import of the Envoy rate limit service's YAML: what it means, and what it refuses.

// Helpers of tests are not tests to clippy.
#![allow(clippy::unwrap_used)]

mod errors;
mod examples;
mod folder;
mod hostile;
mod matching;

use tollgate::{Condition, EnvoyDescriptor, KeyAttribute, Policy, Request, RuleLimits};

fn import(yaml: &str) -> Policy {
    let loaded = Policy::from_envoy("edge.yaml", yaml).unwrap_or_else(|error| panic!("{error}"));
    loaded.policy
}

/// What a policy does with a request, found out by asking every rule.
#[derive(Debug, PartialEq)]
struct Applies<'p> {
    rule: &'p str,
    numbers: &'p RuleLimits,
    shadow: bool,
    key: Vec<String>,
}

fn applying<'p>(policy: &'p Policy, domain: &str, entries: &[(&str, &str)]) -> Vec<Applies<'p>> {
    let descriptor = EnvoyDescriptor::new(domain, entries.iter().copied());
    let request = descriptor.request();
    let value = |part: &KeyAttribute| request.get(&part.attribute).map(str::to_owned);
    let matching = policy.rules.iter().filter(|rule| hold(&rule.matches, &request));
    matching
        .filter_map(|rule| {
            let key = rule.key.iter().map(value).collect::<Option<_>>()?;
            Some(Applies { rule: &rule.name, numbers: &rule.limits, shadow: rule.shadow, key })
        })
        .collect()
}

fn hold(conditions: &[(String, Condition)], request: &Request<'_>) -> bool {
    conditions.iter().all(|(attribute, condition)| condition.matches(request.get(attribute)))
}

/// The one rule that applies and its key, or nothing.
fn only(policy: &Policy, entries: &[(&str, &str)]) -> Option<(String, Vec<String>)> {
    let mut applying = applying(policy, "edge", entries);
    assert!(applying.len() <= 1, "{applying:?} all apply to {entries:?}");
    applying.pop().map(|applies| (applies.rule.to_owned(), applies.key))
}
