//! What must hold for an attribute of a request.

use ipnet::IpNet;

use super::Glob;
use super::address::{canonical_address, parse_address};

/// What must hold for an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// It has this value.
    Equals(String),
    /// It has one of these values.
    AnyOf(Vec<String>),
    /// It begins with one of these.
    Prefix(Vec<String>),
    /// It looks like one of these.
    Glob(Vec<Glob>),
    /// It is an IP address in one of these networks.
    Cidr(Vec<IpNet>),
    /// It is there, whatever its value.
    Present,
    /// It is not there.
    Absent,
    /// The other does not hold, be it that the attribute is not there.
    Not(Box<Condition>),
}

impl Condition {
    /// Whether a request whose attribute has this value, if any, fulfils it.
    pub fn matches(&self, value: Option<&str>) -> bool {
        if let Condition::Not(other) = self {
            return !other.matches(value);
        }
        let Some(value) = value else {
            return *self == Condition::Absent;
        };
        match self {
            Condition::Equals(wanted) => value == wanted,
            Condition::AnyOf(wanted) => wanted.iter().any(|wanted| value == wanted),
            Condition::Prefix(prefixes) => prefixes.iter().any(|prefix| value.starts_with(prefix)),
            Condition::Glob(globs) => globs.iter().any(|glob| glob.matches(value)),
            Condition::Cidr(networks) => {
                parse_address(value).is_some_and(|ip| networks.iter().any(|net| net.contains(&ip)))
            }
            Condition::Present => true,
            Condition::Absent | Condition::Not(_) => false,
        }
    }

    /// The same condition on an address in its one spelling.
    pub(crate) fn canonical_address(&self) -> Condition {
        let canonical = |text: &String| canonical_address(text).into_owned();
        match self {
            Condition::Equals(text) => Condition::Equals(canonical(text)),
            Condition::AnyOf(texts) => Condition::AnyOf(texts.iter().map(canonical).collect()),
            Condition::Not(other) => Condition::Not(Box::new(other.canonical_address())),
            other => other.clone(),
        }
    }

    /// Whether it is a list with nothing in it, or the negation of one.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Condition::AnyOf(values) | Condition::Prefix(values) => values.is_empty(),
            Condition::Glob(globs) => globs.is_empty(),
            Condition::Cidr(networks) => networks.is_empty(),
            Condition::Equals(_) | Condition::Present | Condition::Absent => false,
            Condition::Not(other) => other.is_empty(),
        }
    }
}

/// `!condition` is the negation.
impl std::ops::Not for Condition {
    type Output = Condition;

    fn not(self) -> Condition {
        match self {
            Condition::Not(other) => *other,
            Condition::Present => Condition::Absent,
            Condition::Absent => Condition::Present,
            other => Condition::Not(Box::new(other)),
        }
    }
}

impl From<&str> for Condition {
    fn from(value: &str) -> Condition {
        Condition::Equals(value.to_owned())
    }
}

impl From<String> for Condition {
    fn from(value: String) -> Condition {
        Condition::Equals(value)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_negation_holds_where_the_condition_does_not_and_also_where_nothing_is_there() {
        let not_admin = !Condition::from("admin");
        assert!(not_admin.matches(Some("guest")));
        assert!(not_admin.matches(None));
        assert!(!not_admin.matches(Some("admin")));
    }

    #[test]
    fn negating_twice_gives_the_condition_back() {
        for condition in [Condition::from("admin"), Condition::Present, Condition::Absent] {
            assert_eq!(!!condition.clone(), condition);
        }
    }
}
