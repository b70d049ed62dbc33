//! The descriptors of an Envoy file as it means them.

use std::time::Duration;

use crate::policy::{Condition, Glob};

/// What a file says: the domain and its descriptors.
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) descriptors: Vec<Descriptor>,
}

/// One entry of a request's descriptor, the limit of descriptors that end in it, and the entries
/// that may follow.
pub(super) struct Descriptor {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: ValuePattern,
    pub(super) limit: Option<RateLimit>,
    /// The limit only reports.
    pub(super) shadow: bool,
    /// All values of the wildcard count together.
    pub(super) shared: bool,
    pub(super) children: Vec<Descriptor>,
}

pub(super) struct RateLimit {
    pub(super) line: usize,
    pub(super) name: Option<String>,
    pub(super) numbers: EnvoyQuota,
}

pub(super) enum EnvoyQuota {
    Unlimited,
    Per { count: u32, unit: Duration },
}

/// Which values of an entry a descriptor takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValuePattern {
    /// Any that no sibling takes.
    Any,
    /// This one.
    Exact(String),
    /// Those that look like this one and that no sibling before it takes.
    Wildcard(String),
}

impl ValuePattern {
    pub(super) fn new(value: Option<String>) -> ValuePattern {
        match value {
            Some(value) if value.contains('*') => ValuePattern::Wildcard(value),
            Some(value) if !value.is_empty() => ValuePattern::Exact(value),
            _ => ValuePattern::Any,
        }
    }

    /// What an attribute must fulfil to look like it.
    pub(super) fn condition(&self) -> Condition {
        match self {
            ValuePattern::Any => Condition::Present,
            ValuePattern::Exact(value) => Condition::Equals(value.clone()),
            ValuePattern::Wildcard(value) => match value.strip_suffix('*') {
                Some("") => Condition::Present,
                // A prefix takes a `?` as it is; a glob would take it for any character.
                Some(head) if !head.contains('*') => Condition::Prefix(vec![head.to_owned()]),
                _ => Condition::Glob(vec![Glob::new(value.as_str())]),
            },
        }
    }

    /// Whether [`condition`](Self::condition) means something else: a glob with a `?`.
    pub(super) fn is_inexpressible(&self) -> bool {
        match self.condition() {
            Condition::Glob(globs) => globs.iter().any(|glob| glob.as_str().contains('?')),
            _ => false,
        }
    }

    /// As the file writes it; nothing where it takes any value.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            ValuePattern::Any => None,
            ValuePattern::Exact(value) | ValuePattern::Wildcard(value) => Some(value),
        }
    }
}
