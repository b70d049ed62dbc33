//! Whether some conditions hold whenever others do. Only where that is certain.

use crate::policy::{Condition, Rule};

/// The most comparisons for one condition: long lists are taken to differ.
const MOST: usize = 10_000;

/// Whether `conditions` hold for every request that `rule` applies to.
pub(super) fn implies(rule: &Rule, conditions: &[(String, Condition)]) -> bool {
    conditions.iter().all(|(attribute, wanted)| {
        // Without the attribute and without a default, the rule does not apply.
        let is_needed = *wanted == Condition::Present
            && rule.key.iter().any(|part| part.attribute == *attribute && part.default.is_none());
        let mut own = rule.matches.iter().filter(|(name, _)| name == attribute);
        is_needed || own.any(|(_, own)| implies_condition(wanted, own))
    })
}

/// Whether `wanted` holds whenever `own` does.
fn implies_condition(wanted: &Condition, own: &Condition) -> bool {
    if size(wanted).saturating_mul(size(own)) > MOST {
        return false;
    }
    match (own, wanted) {
        (Condition::Absent, wanted) => wanted.matches(None),
        // It may be that the attribute is not there.
        (Condition::Not(_), _) => own == wanted,
        (_, Condition::Present) => true,
        (Condition::Equals(value), wanted) => wanted.matches(Some(value)),
        (Condition::AnyOf(values), wanted) => {
            values.iter().all(|value| wanted.matches(Some(value)))
        }
        (Condition::Prefix(own), Condition::Prefix(wanted)) => {
            own.iter().all(|own| wanted.iter().any(|wanted| own.starts_with(wanted)))
        }
        (Condition::Glob(own), Condition::Prefix(wanted)) => own
            .iter()
            .all(|own| wanted.iter().any(|wanted| own.literal_prefix().starts_with(wanted))),
        (Condition::Cidr(own), Condition::Cidr(wanted)) => {
            own.iter().all(|own| wanted.iter().any(|wanted| wanted.contains(own)))
        }
        (own, wanted) => own == wanted,
    }
}

/// How many values, beginnings, patterns or networks a condition compares with.
pub(super) fn size(condition: &Condition) -> usize {
    match condition {
        Condition::AnyOf(texts) | Condition::Prefix(texts) => texts.len(),
        Condition::Glob(globs) => globs.len(),
        Condition::Cidr(networks) => networks.len(),
        Condition::Equals(_) | Condition::Present | Condition::Absent => 1,
        Condition::Not(other) => size(other),
    }
}
