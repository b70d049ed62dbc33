//! A policy: which limits apply to which requests. Plain data, checked as a whole when a
//! [`Gate`](crate::Gate) is built from it.

mod address;
mod bytes;
mod check;
mod condition;
#[cfg(feature = "envoy")]
mod envoy;
#[cfg(feature = "file")]
mod file;
mod glob;
mod lease;
mod overrides;
mod path;
mod request;
mod rule;
mod share;
#[cfg(feature = "file")]
mod warnings;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bounds::{DEFAULT_LEASE_SHARE, DEFAULT_LEASE_TTL};
pub use address::AddressPrefix;
pub(crate) use address::{AddressAttributes, CanonicalAddress, canonical_address, parse_address};
pub use bytes::{OverrideRecord, read_override, write_client, write_override};
pub(crate) use check::check;
pub use check::{PolicyError, PolicyLocation, PolicyProblem};
pub use condition::Condition;
#[cfg(feature = "envoy")]
pub use envoy::{EnvoyDescriptor, EnvoyFolder, FolderLoaded, RejectedFile};
#[cfg(any(feature = "envoy", feature = "watch"))]
pub(crate) use file::read;
#[cfg(feature = "file")]
pub use file::{Diagnostic, LoadedPolicy, PolicyFileError};
pub use glob::Glob;
pub use lease::{LeaseSettings, SyncMode};
pub use overrides::{
    Client, EntryFingerprint, ListedOverride, Override, OverrideRemoval, OverrideSource,
    RunTimeOverride, RunTimeOverrides,
};
pub(crate) use path::PATH;
pub use path::{normalize_path, normalize_path_within, uri_path};
pub use request::Request;
pub use rule::{BlockPolicy, Cost, KeyAttribute, ListEntry, OnStoreError, Rule, RuleLimits};

/// Which limits apply to which requests: rules, tiers, overrides, and lists that come before them.
///
/// ```
/// use tollgate::{Gate, Limit, Policy, Request, Rule};
///
/// let policy = Policy::new().rule(
///     Rule::new("search-per-user")
///         .matches("route", "/search")
///         .key(["user"])
///         .limit(Limit::per_minute(100).burst(20))
///         .tier("pro", Limit::per_minute(10_000)),
/// );
/// let gate = Gate::new(policy)?;
/// let ruling = gate.check(&Request::new().with("route", "/search").with("user", "42"));
/// assert!(ruling.is_allowed());
/// assert_eq!(ruling.decided_by_name(), Some("search-per-user"));
/// assert_eq!(ruling.remaining(), 19);
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// The rules. Their order changes no decision.
    pub rules: Vec<Rule>,
    /// Who passes whatever the limits say; beats `deny`.
    pub allow: Vec<ListEntry>,
    /// Who never passes; beats the limits.
    pub deny: Vec<ListEntry>,
    /// Numbers that replace those of the named rules, by tier. A rule's own `tiers` come first.
    pub tiers: BTreeMap<String, BTreeMap<String, RuleLimits>>,
    /// The attribute that says a request's tier; `tier` if not said.
    pub tier_from: String,
    /// The tier of requests that say none.
    pub default_tier: Option<String>,
    /// Clients with a tier or numbers of their own.
    pub overrides: Vec<Override>,
    /// What rules do that do not say it themselves, when the store is away.
    pub on_store_error: OnStoreError,
    /// How nodes share what rules count that do not say it themselves.
    pub sync: SyncMode,
    /// How long after they were borrowed units of a leased rule may be spent; a second if not said.
    pub lease_ttl: Duration,
    /// The largest part of a limit that a node borrows at once, in percent; 100 if not said.
    pub lease_share: u8,
    /// The attribute whose value says where in a Cluster the state of a rule lies that has it in its
    /// key: rules of one request that share it are decided in one call. It changes no decision.
    pub partition: Option<String>,
}

impl Policy {
    /// A policy without rules, which allows everything.
    pub fn new() -> Policy {
        Policy {
            rules: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            tiers: BTreeMap::new(),
            tier_from: "tier".to_owned(),
            default_tier: None,
            overrides: Vec::new(),
            on_store_error: OnStoreError::Local,
            sync: SyncMode::Strict,
            lease_ttl: DEFAULT_LEASE_TTL,
            lease_share: DEFAULT_LEASE_SHARE,
            partition: None,
        }
    }

    /// With one more rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Policy {
        self.rules.push(rule);
        self
    }

    /// With one more list of who passes whatever the limits say.
    #[must_use]
    pub fn allow(mut self, listing: ListEntry) -> Policy {
        self.allow.push(listing);
        self
    }

    /// With one more list of who never passes.
    #[must_use]
    pub fn deny(mut self, listing: ListEntry) -> Policy {
        self.deny.push(listing);
        self
    }

    /// With the numbers of `rule` replaced for requests of `tier`.
    #[must_use]
    pub fn tier(mut self, tier: &str, rule: &str, numbers: impl Into<RuleLimits>) -> Policy {
        self.tiers.entry(tier.to_owned()).or_default().insert(rule.to_owned(), numbers.into());
        self
    }

    /// With one more client that has a tier or numbers of its own.
    #[must_use]
    pub fn override_client(mut self, client: Override) -> Policy {
        self.overrides.push(client);
        self
    }

    /// Everything that is wrong with it, or nothing.
    ///
    /// # Errors
    /// Where names are missing, doubled or unknown, or numbers are impossible: all of it at once.
    pub fn validate(&self) -> Result<(), PolicyError> {
        check(self)
    }

    /// Everything that is wrong with an override of this policy.
    pub(crate) fn check_override(&self, change: &Override) -> Result<(), PolicyError> {
        check::check_override(self, change)
    }

    /// The numbers of `rule` for requests of `tier`.
    pub(crate) fn numbers<'a>(&'a self, rule: &'a Rule, tier: Option<&str>) -> &'a RuleLimits {
        let own = tier.and_then(|tier| rule.tiers.get(tier));
        let shared = || tier.and_then(|tier| self.tiers.get(tier)?.get(&rule.name));
        own.or_else(shared).unwrap_or(&rule.limits)
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::new()
    }
}
