//! Which values a descriptor takes beside its siblings.

use std::collections::HashMap;

use super::tree::{Descriptor, ValuePattern};
use crate::policy::{Condition, Glob};

/// The descriptors of one level by their keys: only those of the same key stand in each other's
/// way.
pub(super) struct Siblings<'d>(HashMap<&'d str, SiblingGroup<'d>>);

#[derive(Default)]
struct SiblingGroup<'d> {
    exact: Vec<&'d str>,
    /// In the order of the file, which is the order in which they are tried.
    wildcards: Vec<&'d Descriptor>,
}

impl<'d> Siblings<'d> {
    pub(super) fn new(descriptors: &'d [Descriptor]) -> Siblings<'d> {
        let mut groups: HashMap<&str, SiblingGroup<'_>> = HashMap::new();
        for descriptor in descriptors {
            let group = groups.entry(&descriptor.key).or_default();
            match &descriptor.value {
                ValuePattern::Exact(value) => group.exact.push(value),
                ValuePattern::Wildcard(_) => group.wildcards.push(descriptor),
                ValuePattern::Any => {}
            }
        }
        Siblings(groups)
    }

    /// What an entry must fulfil for `descriptor`, which is one of them, to take it.
    ///
    /// # Errors
    /// The line of the sibling that takes all of its values.
    pub(super) fn conditions(&self, descriptor: &Descriptor) -> Result<Vec<Condition>, usize> {
        let own = descriptor.value.condition();
        let Some(group) = self.0.get(descriptor.key.as_str()) else {
            return Ok(vec![own]);
        };
        let earlier = match &descriptor.value {
            ValuePattern::Exact(_) => return Ok(vec![own]),
            ValuePattern::Wildcard(_) => group.wildcards_before(descriptor),
            ValuePattern::Any => &group.wildcards[..],
        };
        let mut taken = ClaimedValues::default();
        for sibling in earlier {
            if !taken.add(sibling.value.condition()) {
                return Err(sibling.line);
            }
        }
        // To exclude what a pattern does not take anyway does no harm. Asking a prefix is cheap;
        // a glob may take long, and there may be many.
        let is_taken = |value: &&&str| match &own {
            Condition::Glob(_) => true,
            _ => own.matches(Some(value)),
        };
        let exact = group.exact.iter().filter(is_taken);
        taken.values.extend(exact.map(|value| (*value).to_owned()));
        let mut conditions = vec![own];
        conditions.extend(taken.conditions());
        Ok(conditions)
    }
}

impl<'d> SiblingGroup<'d> {
    fn wildcards_before(&self, descriptor: &Descriptor) -> &[&'d Descriptor] {
        let is_it = |other: &&Descriptor| std::ptr::eq(*other, descriptor);
        let position = self.wildcards.iter().position(is_it);
        &self.wildcards[..position.unwrap_or(0)]
    }
}

/// What siblings take, by kind.
#[derive(Default)]
struct ClaimedValues {
    values: Vec<String>,
    prefixes: Vec<String>,
    globs: Vec<Glob>,
}

impl ClaimedValues {
    /// Whether anything is left.
    fn add(&mut self, condition: Condition) -> bool {
        match condition {
            Condition::Prefix(prefixes) => self.prefixes.extend(prefixes),
            Condition::Glob(globs) => self.globs.extend(globs),
            _ => return false,
        }
        true
    }

    fn conditions(self) -> impl Iterator<Item = Condition> {
        let lists = [
            Condition::AnyOf(self.values),
            Condition::Prefix(self.prefixes),
            Condition::Glob(self.globs),
        ];
        lists.into_iter().filter(|list| !list.is_empty()).map(|list| !list)
    }
}
