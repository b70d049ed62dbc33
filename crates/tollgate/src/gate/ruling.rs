//! What a gate answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use smallvec::SmallVec;

use super::InForce;
use super::compiled::Kind;
use super::decide::{Answer, Deciding, Mode};
use super::hold::Scaled;
use super::resolve::INLINE;
use crate::decision::{CostError, Decision, Outcome};
use crate::limit::Limit;
use crate::policy::Request;
use crate::store::memory::Named;
use crate::time::Timestamp;

/// The decision of a gate: one for the request, and each rule's own figures.
#[must_use = "a ruling that is not looked at limits nothing"]
pub struct Ruling {
    in_force: Guard<Arc<InForce>>,
    allowed: bool,
    reason: Reason,
    list: Option<Kind>,
    /// Those of rules that deny first, then those of rules that only report; a rule's together.
    charges: Charges,
    wrong: Option<Box<RequestError>>,
}

pub(super) type Charges = SmallVec<[Ruled; INLINE]>;

/// What became of a charge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    /// The rule's number.
    pub(super) rule: u32,
    /// Which limit it was, as the store numbers them; 0 where there is none.
    pub(super) limit: u32,
    pub(super) shadow: bool,
    /// For how long the key is blocked; zero if it is not.
    pub(super) blocked: Duration,
    pub(super) decision: Decision,
}

/// What a ruling rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No rule applies, or those that do have no limit for this client.
    NoRule,
    /// The limits.
    Limits,
    /// A list of those who pass.
    AllowList,
    /// A list of those who never do.
    DenyList,
    /// A block after an earlier denial, or one set by hand.
    Block,
    /// The request itself is wrong: [`Ruling::error`] says why.
    Error,
}

/// Why a request can never be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Its cost can never be taken.
    Cost(CostError),
    /// The attribute that says its cost is not a whole number.
    NotANumber {
        /// The attribute.
        attribute: String,
        /// Its value, cut to a bounded length.
        value: String,
    },
}

impl Ruled {
    pub(super) fn is_allowed(&self) -> bool {
        self.blocked.is_zero() && self.decision.is_allowed()
    }

    /// Whether the limit itself says no, for now.
    pub(super) fn is_denied(&self) -> bool {
        self.decision.outcome() == Outcome::Denied
    }

    pub(super) fn remaining(&self) -> u64 {
        if self.blocked.is_zero() { self.decision.remaining() } else { 0 }
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(self.decision.retry_after()?.max(self.blocked))
    }

    fn reset_after(&self) -> Duration {
        self.decision.reset_after().max(self.blocked)
    }
}

/// The charge that decides: one that can never be, the longest wait, the smallest share left.
fn deciding<'a>(charges: impl Iterator<Item = &'a Ruled> + Clone) -> Option<&'a Ruled> {
    let never = charges.clone().find(|charge| charge.retry_after().is_none());
    let denied = || charges.clone().filter(|charge| !charge.is_allowed());
    // The first of equal waits, as the policy has the rules.
    let slowest =
        || {
            denied().reduce(|slowest, charge| {
                if charge.retry_after() > slowest.retry_after() { charge } else { slowest }
            })
        };
    let scarcest = || {
        charges.clone().min_by(|a, b| {
            let left = u128::from(a.remaining()) * u128::from(b.decision.limit());
            left.cmp(&(u128::from(b.remaining()) * u128::from(a.decision.limit())))
        })
    };
    never.or_else(slowest).or_else(scarcest)
}

impl Ruling {
    /// To be decided under a policy.
    #[inline]
    pub(super) fn open(in_force: Guard<Arc<InForce>>) -> Ruling {
        let (charges, reason) = (Charges::new(), Reason::NoRule);
        Ruling { in_force, allowed: true, reason, list: None, charges, wrong: None }
    }

    /// Decides `request`, where it lies: it is large. Until then, claims what it took.
    #[inline]
    pub(super) fn decide(
        &mut self,
        request: &Request<'_>,
        mode: Mode,
        until: Option<Timestamp>,
    ) -> Vec<Scaled> {
        let mut claims = Vec::new();
        let deciding = Deciding { in_force: &self.in_force, mode, until };
        let answer = deciding.decide(request, (&mut self.charges, &mut claims));
        (self.allowed, self.reason) = answer.in_short(&self.charges);
        match answer {
            Answer::Listed(kind) => self.list = Some(kind),
            Answer::Wrong(error) => self.wrong = Some(Box::new(error)),
            Answer::Limits { .. } => {}
        }
        claims
    }

    fn deciding(&self) -> Option<&Ruled> {
        deciding(self.charges.iter().filter(|charge| !charge.shadow))
    }

    pub(super) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    pub(super) fn charges(&self) -> &[Ruled] {
        &self.charges
    }

    /// Whether to go ahead.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// What it rests on.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// What is wrong with the request, where something is.
    pub fn error(&self) -> Option<RequestError> {
        if let Some(wrong) = &self.wrong {
            return Some((**wrong).clone());
        }
        match self.deciding()?.decision.outcome() {
            Outcome::Invalid(error) => Some(RequestError::Cost(error)),
            _ => None,
        }
    }

    /// The name of the rule or list that decided.
    pub fn rule(&self) -> Option<&str> {
        let policy = &self.in_force.compiled.policy;
        match self.list {
            Some(Kind::Allow(number)) => Some(&policy.allow[number].name),
            Some(Kind::Deny(number)) => Some(&policy.deny[number].name),
            _ => self.deciding().map(|charge| self.name(charge)),
        }
    }

    fn name(&self, charge: &Ruled) -> &str {
        &self.in_force.compiled.rules[charge.rule as usize].name
    }

    /// The most that a new key admits at one instant; `u64::MAX` where nothing limits.
    pub fn limit(&self) -> u64 {
        match self.reason {
            Reason::DenyList => 0,
            _ => self.deciding().map_or(u64::MAX, |charge| charge.decision.limit()),
        }
    }

    /// How many units could be taken at this very instant; `u64::MAX` where nothing limits.
    pub fn remaining(&self) -> u64 {
        match self.reason {
            Reason::DenyList => 0,
            _ => self.deciding().map_or(u64::MAX, Ruled::remaining),
        }
    }

    /// After how long the same request is allowed if nothing else arrives: zero where it was
    /// allowed, `None` where it never will be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.deciding() {
            Some(charge) if !self.allowed => charge.retry_after(),
            _ => self.allowed.then_some(Duration::ZERO),
        }
    }

    /// After how long the deciding rule's key is as good as new.
    pub fn reset_after(&self) -> Duration {
        self.deciding().map_or(Duration::ZERO, Ruled::reset_after)
    }

    /// How long to wait before going ahead: the longest of the rules that shape.
    pub fn delay(&self) -> Duration {
        let enforced = self.charges.iter().filter(|charge| !charge.shadow && self.allowed);
        enforced.map(|charge| charge.decision.delay()).max().unwrap_or_default()
    }

    /// Each rule's own figures, in the order of the policy, those that only report last. A rule
    /// with several limits appears once, with the figures of the one that decides it.
    pub fn rules(&self) -> impl Iterator<Item = RuleFigures<'_>> {
        let of_rules = self.charges.chunk_by(|a, b| a.rule == b.rule);
        of_rules.filter_map(|charges| {
            let charge = *deciding(charges.iter())?;
            let named = self.in_force.store.0.limit(charge.limit);
            Some(RuleFigures { name: self.name(&charge), named, charge })
        })
    }
}

impl Answer {
    /// Whether to go ahead, and why.
    fn in_short(&self, charges: &[Ruled]) -> (bool, Reason) {
        let was_blocked = match self {
            Answer::Listed(Kind::Deny(_)) => return (false, Reason::DenyList),
            Answer::Listed(_) => return (true, Reason::AllowList),
            Answer::Wrong(_) => return (false, Reason::Error),
            Answer::Limits { was_blocked } => *was_blocked,
        };
        let (mut allowed, mut reason) = (true, Reason::NoRule);
        for charge in charges.iter().filter(|charge| !charge.shadow) {
            allowed &= charge.is_allowed();
            if charge.decision.is_invalid() {
                return (false, Reason::Error);
            }
            reason = Reason::Limits;
        }
        (allowed, if was_blocked { Reason::Block } else { reason })
    }
}

impl Clone for Ruling {
    fn clone(&self) -> Ruling {
        Ruling {
            in_force: Guard::from_inner(Arc::clone(&self.in_force)),
            charges: self.charges.clone(),
            wrong: self.wrong.clone(),
            ..*self
        }
    }
}

impl fmt::Debug for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ruling")
            .field("allowed", &self.allowed)
            .field("reason", &self.reason)
            .field("rule", &self.rule())
            .field("charges", &self.charges)
            .finish_non_exhaustive()
    }
}

/// What one rule says by itself.
#[derive(Clone, Debug)]
pub struct RuleFigures<'a> {
    name: &'a str,
    named: Option<Arc<Named>>,
    charge: Ruled,
}

impl<'a> RuleFigures<'a> {
    /// The rule's name.
    pub fn rule(&self) -> &'a str {
        self.name
    }

    /// The limit in force for this request; `None` where there is none and the key is blocked.
    pub fn numbers(&self) -> Option<&Limit> {
        self.named.as_ref().map(|named| &named.limit)
    }

    /// Whether the rule only reports.
    pub fn is_shadow(&self) -> bool {
        self.charge.shadow
    }

    /// For how long the key is blocked, if it is.
    pub fn blocked(&self) -> Option<Duration> {
        (!self.charge.blocked.is_zero()).then_some(self.charge.blocked)
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

    /// How long to wait before going ahead.
    pub fn delay(&self) -> Duration {
        if self.is_allowed() { self.charge.decision.delay() } else { Duration::ZERO }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Cost(error) => error.fmt(f),
            RequestError::NotANumber { attribute, value } => write!(
                f,
                "the cost comes from {attribute:?}, which is {value:?}: must be a whole number of at least 1"
            ),
        }
    }
}

impl std::error::Error for RequestError {}
