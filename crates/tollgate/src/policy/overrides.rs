//! Overrides: clients with a tier or numbers of their own, for ever or until a time.

use std::collections::BTreeMap;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::RuleLimits;
use super::bytes::write_details;
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
    pub limits: BTreeMap<String, RuleLimits>,
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
        Override { client, tier: None, limits: BTreeMap::new(), until: None }
    }

    /// Puts the client into `tier`.
    #[must_use]
    pub fn tier(mut self, tier: impl Into<String>) -> Override {
        self.tier = Some(tier.into());
        self
    }

    /// Gives the client numbers of its own under `rule`.
    #[must_use]
    pub fn limits(mut self, rule: impl Into<String>, numbers: impl Into<RuleLimits>) -> Override {
        self.limits.insert(rule.into(), numbers.into());
        self
    }

    /// Ends it at `moment`.
    #[must_use]
    pub fn until(mut self, moment: Timestamp) -> Override {
        self.until = Some(moment);
        self
    }
}

/// The origin of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideSource {
    /// The policy.
    Policy,
    /// A call while the gate ran.
    RunTime,
}

/// An override of a gate, with its origin.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ListedOverride {
    /// The override itself.
    pub details: Override,
    /// Its origin.
    pub source: OverrideSource,
}

/// The outcome of removing an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum OverrideRemoval {
    /// An override that was set at run time is removed. If the policy has one for the client, that
    /// one applies again.
    Removed,
    /// There was none.
    NotFound,
    /// Rejected: the override is the policy's. Change the policy, or set an override for the client,
    /// which takes precedence.
    InPolicy,
}

/// An override that was set at run time, with the policy's override that it takes precedence over.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct RunTimeOverride {
    pub change: Override,
    /// The policy's entry for the client when this was set; `None` if it is not known. Once the
    /// policy has another entry, that one applies instead.
    pub replaces: Option<EntryFingerprint>,
}

/// Overrides that were set at run time, by client.
#[doc(hidden)]
pub type RunTimeOverrides = BTreeMap<Client, RunTimeOverride>;

/// A fingerprint of the entry that a policy has for a client: the same in every process and version
/// that writes limits alike.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFingerprint(u64);

impl EntryFingerprint {
    /// Returns the fingerprint of an entry, or of its absence.
    pub fn of(entry: Option<&Override>) -> EntryFingerprint {
        let mut bytes = vec![u8::from(entry.is_some())];
        entry.iter().for_each(|entry| write_details(entry, &mut bytes));
        let mut hasher = SipHasher13::new();
        hasher.write(&bytes);
        EntryFingerprint(hasher.finish())
    }

    pub(super) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; 8]) -> EntryFingerprint {
        EntryFingerprint(u64::from_le_bytes(bytes))
    }
}

impl RunTimeOverride {
    /// Returns `true` if it takes precedence over `entry`.
    pub fn takes_precedence_over(&self, entry: EntryFingerprint) -> bool {
        self.replaces.is_none_or(|replaces| replaces == entry)
    }
}
