//! Conditions that no request can fulfil.

use super::implies::size;
use crate::policy::{Condition, Rule};

/// The most comparisons for one attribute: beyond, nothing is said.
const MOST: usize = 10_000;

/// Why no request can fulfil all of these, if that is certain.
pub(super) fn contradiction(conditions: &[(String, Condition)]) -> Option<String> {
    if conditions.len() > 100 {
        return None;
    }
    for (place, (attribute, condition)) in conditions.iter().enumerate() {
        let others = conditions[place + 1..].iter().filter(|(name, _)| name == attribute);
        let mut others = others.map(|(_, other)| other);
        if others.clone().any(|other| exclude(condition, other)) {
            return Some(format!("the conditions on {attribute:?} contradict each other"));
        }
        let values = match condition {
            Condition::AnyOf(values) if others.next().is_some() => values,
            _ => continue,
        };
        let all = || conditions.iter().filter(|(name, _)| name == attribute);
        let fits = |value: &String| all().all(|(_, condition)| condition.matches(Some(value)));
        if values.len() <= MOST / conditions.len() && !values.iter().any(fits) {
            return Some(format!("no value of {attribute:?} fulfils all conditions on it"));
        }
    }
    None
}

/// Why the rule's key is never there, if that is certain.
pub(super) fn lost_key(rule: &Rule) -> Option<String> {
    let is_absent = |attribute: &str| {
        rule.matches
            .iter()
            .any(|(name, condition)| name == attribute && *condition == Condition::Absent)
    };
    let part = rule.key.iter().find(|part| part.default.is_none() && is_absent(&part.attribute))?;
    Some(format!(
        "`match` wants {0:?} absent, and `key` counts by it; give it a default",
        part.attribute
    ))
}

/// Whether no value fulfils both.
fn exclude(a: &Condition, b: &Condition) -> bool {
    match (a, b) {
        (Condition::Absent, other) | (other, Condition::Absent) => !other.matches(None),
        (Condition::Equals(value), other) | (other, Condition::Equals(value)) => {
            !other.matches(Some(value))
        }
        (Condition::AnyOf(values), other) | (other, Condition::AnyOf(values)) => {
            values.len() <= MOST / size(other).max(1)
                && !values.iter().any(|value| other.matches(Some(value)))
        }
        (Condition::Prefix(a), Condition::Prefix(b)) => {
            let meet = |a: &String, b: &String| a.starts_with(b) || b.starts_with(a);
            a.len().saturating_mul(b.len()) <= MOST
                && !a.iter().any(|a| b.iter().any(|b| meet(a, b)))
        }
        (Condition::Cidr(a), Condition::Cidr(b)) => {
            a.len().saturating_mul(b.len()) <= MOST
                && !a.iter().any(|a| b.iter().any(|b| a.contains(b) || b.contains(a)))
        }
        _ => false,
    }
}
