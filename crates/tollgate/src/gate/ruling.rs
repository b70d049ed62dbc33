//! What a gate answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use smallvec::SmallVec;

use super::ActivePolicy;
use super::compiled::{CompiledRule, ListMatch};
use super::decide::{GateAnswer, GateDecision};
use super::figures::RuleDecision;
use super::hold::ScaledReservation;
use super::resolve::INLINE;
use super::told::{ChargeResult, RuleCharges, RuledCharge, deciding};
use crate::decision::{CostError, Outcome};
use crate::engine::EvaluationMode;
use crate::limit::Algorithm;
use crate::policy::Request;
use crate::time::Timestamp;

/// The decision of a gate: one for the request, and each rule's own figures.
#[must_use = "a ruling that is not looked at limits nothing"]
pub struct Ruling {
    in_force: Guard<Arc<ActivePolicy>>,
    pub(super) allowed: bool,
    pub(super) reason: Reason,
    list: Option<ListMatch>,
    pub(super) charges: RuleCharges,
    wrong: Option<Box<RequestError>>,
    /// Whether it was made without the store that keeps the state.
    pub(super) degraded: bool,
    /// The number of a rule that lets everything pass while the store is away.
    pub(super) aside: Option<u32>,
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
    Blocked,
    /// The request itself is wrong: [`Ruling::error`] says why.
    InvalidRequest,
    /// The store is away: a rule denies without it, or those that apply let everything pass.
    StoreUnavailable,
}

/// Why a request can never be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Its cost can never be taken.
    Cost(CostError),
    /// The attribute that says its cost is not a whole number.
    CostNotANumber {
        /// The attribute.
        attribute: String,
        /// Its value, cut to a bounded length.
        value: String,
    },
}

impl Ruling {
    /// To be decided under a policy.
    #[inline]
    pub(super) fn open(in_force: Guard<Arc<ActivePolicy>>) -> Ruling {
        // The charges are made in place: they are large.
        Ruling {
            in_force,
            allowed: true,
            reason: Reason::NoRule,
            list: None,
            charges: RuleCharges::new(),
            wrong: None,
            degraded: false,
            aside: None,
        }
    }

    /// Decides `request`, where the ruling lies, which is large. Until then, claims what it took.
    #[inline(never)]
    pub(super) fn decide(
        &mut self,
        request: &Request<'_>,
        mode: EvaluationMode,
        until: Option<Timestamp>,
    ) -> Vec<ScaledReservation> {
        let mut claims = Vec::new();
        let deciding = GateDecision { in_force: &self.in_force, mode, until };
        let answer = deciding.decide(request, (&mut self.charges, &mut claims));
        self.answer(answer);
        claims
    }

    #[inline]
    pub(super) fn answer(&mut self, answer: GateAnswer) {
        (self.allowed, self.reason) = match answer {
            GateAnswer::Limits(allowed, reason) => (allowed, reason),
            GateAnswer::Listed(kind) => {
                self.list = Some(kind);
                match kind {
                    ListMatch::Deny(_) => (false, Reason::DenyList),
                    ListMatch::Allow(_) => (true, Reason::AllowList),
                }
            }
            GateAnswer::Wrong(error) => {
                self.wrong = Some(error);
                (false, Reason::InvalidRequest)
            }
        };
    }

    fn deciding(&self) -> Option<ChargeResult> {
        match self.charges.enforced() {
            [] => None,
            // Nearly always.
            [_] => self.told().next(),
            enforced => {
                // Each is worked out once.
                let enforced: SmallVec<[ChargeResult; INLINE]> =
                    self.told().take(enforced.len()).collect();
                deciding(enforced.iter().copied())
            }
        }
    }

    /// What became of each charge: worked out here, unless it already was.
    pub(super) fn told(&self) -> impl Iterator<Item = ChargeResult> + Clone {
        self.charges.told(&self.in_force.store.0)
    }

    pub(super) fn in_force(&self) -> &ActivePolicy {
        &self.in_force
    }

    /// The list that decided.
    pub(super) fn list(&self) -> Option<ListMatch> {
        self.list
    }

    /// The number of the rule that decided; of one alone nothing is worked out.
    pub(super) fn deciding_rule_index(&self) -> Option<usize> {
        let rule = match self.charges.enforced() {
            [only] => Some(only.rule),
            _ => self.deciding().map(|charge| charge.ruled.rule),
        };
        rule.map(|rule| rule as usize)
    }

    /// Whether to go ahead.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether it was made without the store that keeps the state, since that was away. Never so
    /// for a gate in memory.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether some of it was taken from units that this node had borrowed: the figures of such a rule
    /// are this node's view of it. Never so for a gate in memory.
    pub fn is_leased(&self) -> bool {
        self.charges.ruled.iter().any(|charge| charge.leased)
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
    pub fn decided_by_name(&self) -> Option<&str> {
        let policy = &self.in_force.compiled.policy;
        match self.list {
            Some(ListMatch::Allow(number)) => Some(&policy.allow[number].name),
            Some(ListMatch::Deny(number)) => Some(&policy.deny[number].name),
            _ => self.named_rule().map(|number| &*self.compiled(number).name),
        }
    }

    /// The public name of the rule or list that decided: the one that clients see. `None` also
    /// if it is hidden.
    pub fn public_rule(&self) -> Option<&str> {
        let policy = &self.in_force.compiled.policy;
        match self.list {
            Some(ListMatch::Allow(number)) => policy.allow[number].client_name(),
            Some(ListMatch::Deny(number)) => policy.deny[number].client_name(),
            _ => self.named_rule().and_then(|number| self.compiled(number).client_name.name()),
        }
    }

    /// The number of the rule that decided, also if it let everything pass without the store.
    fn named_rule(&self) -> Option<usize> {
        self.deciding_rule_index().or_else(|| self.aside.map(|rule| rule as usize))
    }

    fn compiled(&self, rule: usize) -> &CompiledRule {
        &self.in_force.compiled.rules[rule]
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
            _ => self.deciding().map_or(u64::MAX, |charge| charge.remaining()),
        }
    }

    /// After how long the same request is allowed if nothing else arrives: zero where it was
    /// allowed, `None` where it never will be.
    pub fn retry_after(&self) -> Option<Duration> {
        if self.allowed {
            return Some(Duration::ZERO);
        }
        self.deciding().and_then(|charge| charge.retry_after())
    }

    /// After how long the deciding rule's key is as good as new.
    pub fn reset_after(&self) -> Duration {
        self.deciding().map_or(Duration::ZERO, |charge| charge.reset_after())
    }

    /// How long to wait before going ahead: the longest of the rules that shape.
    pub fn delay(&self) -> Duration {
        if !self.allowed {
            return Duration::ZERO;
        }
        let memory = &self.in_force.store.0;
        // Nearly never any, and then nothing is worked out.
        let shapes = |ruled: &RuledCharge| {
            let named = memory.limit(ruled.limit);
            named.is_some_and(|named| named.limit.algorithm() == Algorithm::LeakyQueue)
        };
        let enforced = self.charges.enforced().iter().enumerate();
        let shaping = enforced.filter(|(_, ruled)| shapes(ruled));
        let delays = shaping.map(|(at, _)| self.charges.told_of(at, memory).0.decision.delay());
        delays.max().unwrap_or_default()
    }

    /// The figures of the rule that decided, for those who tell several of them: each of the
    /// questions above works them out anew. `None` where no rule did.
    ///
    /// ```
    /// use tollgate::{Gate, Limit, Policy, Request, Rule};
    ///
    /// let policy = Policy::new()
    ///     .rule(Rule::new("per-minute").limit(Limit::per_minute(60)))
    ///     .rule(Rule::new("per-hour").limit(Limit::per_hour(10)));
    /// let gate = Gate::new(policy)?;
    /// let ruling = gate.check(&Request::new());
    /// let decided = ruling.deciding_rule().expect("two rules apply");
    /// assert_eq!((decided.rule(), decided.limit(), decided.remaining()), ("per-hour", 10, 9));
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn deciding_rule(&self) -> Option<RuleDecision<'_>> {
        if self.list.is_some() {
            return None;
        }
        let rule = self.deciding_rule_index()?;
        let first = self.charges.ruled.iter().position(|charge| charge.rule as usize == rule)?;
        self.figures_from(first).map(|(figures, _)| figures)
    }

    /// Each rule's own figures, in the order of the policy, those that only report last. A rule
    /// with several limits appears once, with the figures of the one that decides it.
    pub fn rules(&self) -> impl Iterator<Item = RuleDecision<'_>> {
        self.rules_from(0)
    }

    /// Those of [`rules`](Self::rules) that only report.
    pub fn shadow_rules(&self) -> impl Iterator<Item = RuleDecision<'_>> {
        self.rules_from(self.charges.enforced().len())
    }

    fn rules_from(&self, mut at: usize) -> impl Iterator<Item = RuleDecision<'_>> {
        std::iter::from_fn(move || {
            let (figures, charges) = self.figures_from(at)?;
            at += charges;
            Some(figures)
        })
    }

    /// The figures of the rule whose first charge is there, and how many charges it has.
    fn figures_from(&self, at: usize) -> Option<(RuleDecision<'_>, usize)> {
        let memory = &self.in_force.store.0;
        let of_rule = self.charges.ruled.get(at..)?.chunk_by(|a, b| a.rule == b.rule).next()?;
        let (charge, named, delay) = match of_rule {
            [_] => {
                let (charge, named) = self.charges.told_of(at, memory);
                (charge, named, charge.decision.delay())
            }
            several => {
                let places = at..at + several.len();
                let told: SmallVec<[ChargeResult; INLINE]> =
                    places.map(|at| self.charges.told_of(at, memory).0).collect();
                let charge = deciding(told.iter().copied())?;
                let delay = told.iter().map(|charge| charge.decision.delay()).max();
                (charge, memory.limit(charge.ruled.limit), delay.unwrap_or_default())
            }
        };
        let (rule, degraded) = (self.compiled(charge.ruled.rule as usize), self.degraded);
        let (name, client_name) = (&*rule.name, &rule.client_name);
        Some((RuleDecision { name, client_name, named, charge, delay, degraded }, of_rule.len()))
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
            .field("rule", &self.decided_by_name())
            .field("charges", &self.told().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Cost(error) => error.fmt(f),
            RequestError::CostNotANumber { attribute, value } => write!(
                f,
                "the cost comes from {attribute:?}, which is {value:?}: must be a whole number"
            ),
        }
    }
}

impl std::error::Error for RequestError {}
