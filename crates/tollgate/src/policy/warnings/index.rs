//! Finding, among many sets of conditions, those that a rule might fulfil, without a look at all.

use std::collections::HashMap;

use crate::policy::{Condition, Rule};

/// How many sets are compared for one policy in all: thousands of rules that differ only in
/// patterns are not worth a second.
pub(super) const MOST: usize = 1_000_000;

/// The comparisons so far, of at most [`MOST`].
pub(super) struct ComparisonBudget {
    pub(super) looks: usize,
}

impl ComparisonBudget {
    pub(super) fn new() -> ComparisonBudget {
        ComparisonBudget { looks: 0 }
    }

    fn take(&mut self) -> bool {
        self.looks += 1;
        self.looks < MOST
    }
}

/// Sets of conditions, each under its first: by value where it is an exact one, else by attribute.
pub(super) struct RuleComparison<'p> {
    exact: HashMap<(&'p str, &'p str), Vec<usize>>,
    other: HashMap<&'p str, Vec<usize>>,
    always: Vec<usize>,
}

impl<'p> RuleComparison<'p> {
    pub(super) fn of(sets: impl Iterator<Item = &'p [(String, Condition)]>) -> RuleComparison<'p> {
        let mut index =
            RuleComparison { exact: HashMap::new(), other: HashMap::new(), always: Vec::new() };
        for (number, conditions) in sets.enumerate() {
            let exact = conditions.iter().find_map(|(attribute, condition)| match condition {
                Condition::Equals(value) => Some((attribute.as_str(), value.as_str())),
                _ => None,
            });
            let place = match (exact, conditions.first()) {
                (Some(exact), _) => index.exact.entry(exact).or_default(),
                (None, Some((attribute, _))) => index.other.entry(attribute).or_default(),
                (None, None) => &mut index.always,
            };
            place.push(number);
        }
        index
    }

    /// The first set that a rule might fulfil, by its exact values and attributes, and that `is_it`.
    pub(super) fn find(
        &self,
        rule: &Rule,
        budget: &mut ComparisonBudget,
        is_it: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let exact = rule.matches.iter().filter_map(|(attribute, condition)| match condition {
            Condition::Equals(value) => self.exact.get(&(attribute.as_str(), value.as_str())),
            _ => None,
        });
        let named = rule.matches.iter().map(|(attribute, _)| attribute);
        let named = named.chain(rule.key.iter().map(|part| &part.attribute));
        let other = named.filter_map(|attribute| self.other.get(attribute.as_str()));
        let candidates = exact.chain(other).chain([&self.always]).flatten().copied();
        // Not even the candidates are walked through when nothing more is compared.
        candidates.take_while(|_| budget.take()).find(|set| is_it(*set))
    }
}
