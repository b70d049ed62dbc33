//! Overrides: clients with a tier or numbers of their own, for ever or until a time.

use std::collections::BTreeMap;

use super::Numbers;
use crate::time::Timestamp;

/// Who is meant: the attributes that a request must have, with these values.
pub type Client = BTreeMap<String, String>;

/// What is different for one client. Of several that fit a request, the one that names the most
/// attributes counts, and of as many the one whose attributes come first in the alphabet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Override {
    /// Who is meant; at least one attribute.
    pub client: Client,
    /// The client's tier, whatever the request says.
    pub tier: Option<String>,
    /// The client's numbers for the named rules, whatever its tier.
    pub numbers: BTreeMap<String, Numbers>,
    /// When it ends.
    pub until: Option<Timestamp>,
}

impl Override {
    /// An override for requests whose `attribute` is `value`, which changes nothing yet.
    pub fn new(attribute: impl Into<String>, value: impl Into<String>) -> Override {
        Override::of(Client::from([(attribute.into(), value.into())]))
    }

    /// An override for requests that have all these attributes, which changes nothing yet.
    pub fn of(client: Client) -> Override {
        Override { client, tier: None, numbers: BTreeMap::new(), until: None }
    }

    /// Puts the client into `tier`.
    #[must_use]
    pub fn tier(mut self, tier: impl Into<String>) -> Override {
        self.tier = Some(tier.into());
        self
    }

    /// Gives the client numbers of its own under `rule`.
    #[must_use]
    pub fn numbers(mut self, rule: impl Into<String>, numbers: impl Into<Numbers>) -> Override {
        self.numbers.insert(rule.into(), numbers.into());
        self
    }

    /// Ends it at `moment`.
    #[must_use]
    pub fn until(mut self, moment: Timestamp) -> Override {
        self.until = Some(moment);
        self
    }
}
