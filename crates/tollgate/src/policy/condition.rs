//! What must hold for an attribute of a request.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Glob;

/// What must hold for an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// It has this value.
    Is(String),
    /// It has one of these values.
    OneOf(Vec<String>),
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
}

impl Condition {
    /// Whether a request whose attribute has this value, if any, fulfils it.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let Some(value) = value else {
            return *self == Condition::Absent;
        };
        match self {
            Condition::Is(wanted) => value == wanted,
            Condition::OneOf(wanted) => wanted.iter().any(|wanted| value == wanted),
            Condition::Prefix(prefixes) => prefixes.iter().any(|prefix| value.starts_with(prefix)),
            Condition::Glob(globs) => globs.iter().any(|glob| glob.matches(value)),
            Condition::Cidr(networks) => {
                address(value).is_some_and(|ip| networks.iter().any(|net| net.contains(&ip)))
            }
            Condition::Present => true,
            Condition::Absent => false,
        }
    }
}

/// The address a value writes; an IPv4 address mapped into IPv6 is the IPv4 address.
pub(crate) fn address(value: &str) -> Option<IpAddr> {
    value.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

impl From<&str> for Condition {
    fn from(value: &str) -> Condition {
        Condition::Is(value.to_owned())
    }
}

impl From<String> for Condition {
    fn from(value: String) -> Condition {
        Condition::Is(value)
    }
}
