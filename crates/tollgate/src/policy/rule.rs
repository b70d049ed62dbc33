//! A rule: which requests a limit applies to, and what counts together.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::address::IP;
use super::path::PATH;
use super::{AddressPrefix, Condition, SyncMode, normalize_path};
use crate::limit::Limit;

/// Which requests a limit applies to (its conditions), and what counts together (its key).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rule {
    /// What decisions call it; state is kept under it. Printable ASCII without `"` and `\`.
    pub name: String,
    /// The name that clients see in place of `name`. An empty one hides the name: header fields
    /// that need one then have a number, such as `limit-1`.
    pub public_name: Option<String>,
    /// Attributes and what must hold for each; all must.
    pub matches: Vec<(String, Condition)>,
    /// The attributes whose values are counted together; none means one counter for everybody.
    pub key: Vec<KeyAttribute>,
    /// The limits, or none.
    pub limits: RuleLimits,
    /// Numbers instead of those, by tier.
    pub tiers: BTreeMap<String, RuleLimits>,
    /// How many units a request takes.
    pub cost: Cost,
    /// Whether it only counts and reports, and never denies.
    pub shadow: bool,
    /// For how long a key stays denied once it was.
    pub block: Option<BlockPolicy>,
    /// What to do when the store is away, if not what the policy says.
    pub on_store_error: Option<OnStoreError>,
    /// How nodes share what it counts, if not as the policy says.
    pub sync: Option<SyncMode>,
    /// How long after they were borrowed its units may be spent, if not as the policy says.
    pub lease_ttl: Option<Duration>,
    /// The largest part of its limit that a node borrows at once, in percent, if not as the policy
    /// says.
    pub lease_share: Option<u8>,
}

/// An attribute that is part of a rule's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    /// Its name.
    pub attribute: String,
    /// What a request without it counts as; without a default, the rule does not apply to it.
    pub default: Option<String>,
    /// The part of it that is counted, if it is an address; `ip` is one in any case.
    pub address: Option<AddressPrefix>,
}

/// How much is allowed: any number of limits, all of which must hold, or anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleLimits {
    /// Everything passes and nothing is counted.
    Unlimited,
    /// All of these.
    All(Vec<Limit>),
}

/// How many units a request takes of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cost {
    /// What the request says, one if it says nothing.
    Request,
    /// Always this many, whatever the request says.
    Units(u64),
    /// An attribute's value, which must be a whole number, times `multiplier`. A cost that the
    /// request itself says, or that is settled later, stands in for the value.
    Attribute {
        /// The attribute.
        name: String,
        /// What its value is multiplied by.
        multiplier: u64,
        /// The value where a request lacks the attribute.
        default: u64,
    },
}

/// For how long a key stays denied after a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPolicy {
    /// The first time.
    pub first: Duration,
    /// By how much each further time is longer; 1 is no longer.
    pub factor: u32,
    /// The longest. A key that has stayed clear of a block for this long starts again at `first`.
    pub max: Duration,
}

/// What a rule does when the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStoreError {
    /// Goes on with limits in memory, divided by the number of nodes.
    #[default]
    Local,
    /// Allows.
    Allow,
    /// Denies.
    Deny,
}

/// Who is on a list of those that always or never pass.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ListEntry {
    /// What decisions call it.
    pub name: String,
    /// The name that clients see in place of `name`; an empty one hides the name.
    pub public_name: Option<String>,
    /// Attributes and what must hold for each; all must.
    pub matches: Vec<(String, Condition)>,
}

impl Rule {
    /// A rule for every request, with one counter and no limit yet.
    pub fn new(name: impl Into<String>) -> Rule {
        Rule {
            name: name.into(),
            public_name: None,
            matches: Vec::new(),
            key: Vec::new(),
            limits: RuleLimits::All(Vec::new()),
            tiers: BTreeMap::new(),
            cost: Cost::Request,
            shadow: false,
            block: None,
            on_store_error: None,
            sync: None,
            lease_ttl: None,
            lease_share: None,
        }
    }

    /// Shows clients this name in place of the rule's own. An empty one hides the name.
    ///
    /// ```
    /// use tollgate::{Gate, HeaderStyle, Limit, Policy, Request, Rule};
    ///
    /// let rule = Rule::new("edge|path=/internal").public_name("").limit(Limit::per_minute(60));
    /// let gate = Gate::new(Policy::new().rule(rule))?;
    /// let ruling = gate.check(&Request::new());
    /// assert_eq!(ruling.decided_by_name(), Some("edge|path=/internal"));
    /// assert_eq!(ruling.public_rule(), None);
    /// let fields = HeaderStyle::new().for_ruling(&ruling, gate.store().clock());
    /// assert_eq!(fields.get("ratelimit"), Some("\"limit-1\";r=59;t=1"));
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    #[must_use]
    pub fn public_name(mut self, name: impl Into<String>) -> Rule {
        self.public_name = Some(name.into());
        self
    }

    /// Only for requests whose `attribute` fulfils `condition`; a text is the value it must have.
    #[must_use]
    pub fn matches(
        mut self,
        attribute: impl Into<String>,
        condition: impl Into<Condition>,
    ) -> Rule {
        self.matches.push((attribute.into(), condition.into()));
        self
    }

    /// Counts requests together whose `attributes` have the same values.
    #[must_use]
    pub fn key<A: Into<KeyAttribute>>(mut self, attributes: impl IntoIterator<Item = A>) -> Rule {
        self.key = attributes.into_iter().map(Into::into).collect();
        self
    }

    /// With one more limit; all must hold.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Rule {
        match &mut self.limits {
            RuleLimits::All(limits) => limits.push(limit),
            RuleLimits::Unlimited => self.limits = limit.into(),
        }
        self
    }

    /// With other numbers for requests of `tier`.
    #[must_use]
    pub fn tier(mut self, tier: impl Into<String>, numbers: impl Into<RuleLimits>) -> Rule {
        self.tiers.insert(tier.into(), numbers.into());
        self
    }

    /// How many units a request takes; as many as it says if not said here.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Cost>) -> Rule {
        self.cost = cost.into();
        self
    }

    /// Counts and reports, and never denies.
    #[must_use]
    pub fn shadow(mut self) -> Rule {
        self.shadow = true;
        self
    }

    /// Keeps a key denied after a denial.
    #[must_use]
    pub fn block(mut self, block: impl Into<BlockPolicy>) -> Rule {
        self.block = Some(block.into());
        self
    }

    /// What to do when the store is away.
    #[must_use]
    pub fn on_store_error(mut self, choice: OnStoreError) -> Rule {
        self.on_store_error = Some(choice);
        self
    }

    /// How the nodes of a fleet share what it counts.
    #[must_use]
    pub fn sync(mut self, mode: SyncMode) -> Rule {
        self.sync = Some(mode);
        self
    }

    /// How long after they were borrowed its units may be spent.
    #[must_use]
    pub fn lease_ttl(mut self, ttl: Duration) -> Rule {
        self.lease_ttl = Some(ttl);
        self
    }

    /// The largest part of its limit that a node borrows at once, in percent.
    #[must_use]
    pub fn lease_share(mut self, percent: u8) -> Rule {
        self.lease_share = Some(percent);
        self
    }
}

impl ListEntry {
    /// A list that holds everybody.
    pub fn new(name: impl Into<String>) -> ListEntry {
        ListEntry { name: name.into(), public_name: None, matches: Vec::new() }
    }

    /// Shows clients this name in place of the list's own. An empty one hides the name.
    #[must_use]
    pub fn public_name(mut self, name: impl Into<String>) -> ListEntry {
        self.public_name = Some(name.into());
        self
    }

    /// The name that clients see, if they see one.
    pub(crate) fn client_name(&self) -> Option<&str> {
        let name = self.public_name.as_deref().unwrap_or(&self.name);
        Some(name).filter(|name| !name.is_empty())
    }

    /// Only requests whose `attribute` fulfils `condition`.
    #[must_use]
    pub fn matches(
        mut self,
        attribute: impl Into<String>,
        condition: impl Into<Condition>,
    ) -> ListEntry {
        self.matches.push((attribute.into(), condition.into()));
        self
    }
}

impl KeyAttribute {
    /// An attribute without which the rule counts the request as `default`.
    pub fn with_default(attribute: impl Into<String>, default: impl Into<String>) -> KeyAttribute {
        KeyAttribute { default: Some(default.into()), ..KeyAttribute::from(attribute) }
    }

    /// An attribute that is an address, of which a part is counted.
    pub fn address(attribute: impl Into<String>, prefix: AddressPrefix) -> KeyAttribute {
        KeyAttribute { address: Some(prefix), ..KeyAttribute::from(attribute) }
    }

    /// The form of a value in which a key counts it: the part of an address, the normal form of a
    /// path.
    pub fn counted<'v>(&self, value: &'v str) -> Cow<'v, str> {
        match self.address_prefix() {
            Some(prefix) => prefix.key(value),
            None if self.attribute == PATH => normalize_path(value),
            None => Cow::Borrowed(value),
        }
    }

    /// The part of it that is counted, if it is an address.
    pub fn address_prefix(&self) -> Option<AddressPrefix> {
        self.address.or_else(|| (self.attribute == IP).then(AddressPrefix::default))
    }
}

impl<S: Into<String>> From<S> for KeyAttribute {
    fn from(attribute: S) -> KeyAttribute {
        KeyAttribute { attribute: attribute.into(), default: None, address: None }
    }
}

impl RuleLimits {
    /// The limits; none where everything passes.
    pub fn limits(&self) -> &[Limit] {
        match self {
            RuleLimits::Unlimited => &[],
            RuleLimits::All(limits) => limits,
        }
    }
}

impl From<Limit> for RuleLimits {
    fn from(limit: Limit) -> RuleLimits {
        RuleLimits::All(vec![limit])
    }
}

impl From<Vec<Limit>> for RuleLimits {
    fn from(limits: Vec<Limit>) -> RuleLimits {
        RuleLimits::All(limits)
    }
}

impl From<u64> for Cost {
    fn from(units: u64) -> Cost {
        Cost::Units(units)
    }
}

impl BlockPolicy {
    /// The same length every time.
    pub const fn fixed(length: Duration) -> BlockPolicy {
        BlockPolicy { first: length, factor: 1, max: length }
    }

    /// `factor` times longer each time, up to `max`.
    #[must_use]
    pub const fn escalating(mut self, factor: u32, max: Duration) -> BlockPolicy {
        self.factor = factor;
        self.max = max;
        self
    }
}

impl From<Duration> for BlockPolicy {
    fn from(length: Duration) -> BlockPolicy {
        BlockPolicy::fixed(length)
    }
}
