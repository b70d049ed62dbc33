//! What one rule says of a request.

use std::sync::Arc;
use std::time::Duration;

use super::compiled::ClientName;
use super::told::ChargeResult;
use crate::limit::Limit;
use crate::store::memory::RegisteredLimit;

/// What one rule says by itself.
#[derive(Clone, Debug)]
pub struct RuleDecision<'a> {
    pub(super) name: &'a str,
    pub(super) client_name: &'a ClientName,
    pub(super) named: Option<Arc<RegisteredLimit>>,
    pub(super) charge: ChargeResult,
    /// The longest delay of the rule's limits.
    pub(super) delay: Duration,
    pub(super) degraded: bool,
}

impl<'a> RuleDecision<'a> {
    /// The rule's name.
    pub fn rule(&self) -> &'a str {
        self.name
    }

    /// The name of the rule that clients see, if they see one.
    pub fn public_name(&self) -> Option<&'a str> {
        self.client_name.name()
    }

    /// The public name, or a number in its place, for fields that cannot do without a name.
    pub(crate) fn header_name(&self) -> &'a str {
        self.client_name.name_or_number()
    }

    /// The limit in force for this request; `None` where there is none and the key is blocked.
    pub fn limit_config(&self) -> Option<&Limit> {
        self.named.as_ref().map(|named| &named.limit)
    }

    /// Whether the rule only reports.
    pub fn is_shadow(&self) -> bool {
        self.charge.ruled.shadow
    }

    /// Whether these are figures of this node alone, or of none: the store was away.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether this node had borrowed the units: the figures are then its own view of the key.
    pub fn is_leased(&self) -> bool {
        self.charge.ruled.leased
    }

    /// For how long the key is blocked, if it is.
    pub fn blocked_for(&self) -> Option<Duration> {
        (!self.charge.ruled.blocked.is_zero()).then_some(self.charge.ruled.blocked)
    }

    /// Whether the rule by itself allows the request.
    pub fn is_allowed(&self) -> bool {
        self.charge.is_allowed()
    }

    /// The most that a new key admits at one instant.
    pub fn limit(&self) -> u64 {
        self.charge.decision.limit()
    }

    /// How many units could be taken at this very instant.
    pub fn remaining(&self) -> u64 {
        self.charge.remaining()
    }

    /// After how long the rule allows the same request; `None` where it never will.
    pub fn retry_after(&self) -> Option<Duration> {
        self.charge.retry_after()
    }

    /// After how long the key is as good as new.
    pub fn reset_after(&self) -> Duration {
        self.charge.reset_after()
    }

    /// After how long more units can be taken than now.
    pub fn next_after(&self) -> Duration {
        self.charge.next_after()
    }

    /// How long to wait before going ahead: the longest delay of the rule's limits.
    pub fn delay(&self) -> Duration {
        if self.is_allowed() { self.delay } else { Duration::ZERO }
    }
}
