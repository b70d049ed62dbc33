//! Deciding in place of a store that is away, each rule as it says: by limits in memory, or not at
//! all. The policy of such a gate is [`Policy::fallback_share`](crate::Policy::fallback_share).

use std::time::Duration;

use super::attributes::RequestScratch;
use super::canonical::CanonicalTexts;
use super::resolve::{AppliedRule, ResolvedRequest};
use super::told::{ChargeResult, RuledCharge};
use super::{ActivePolicy, Gate, GateReservation, Reason, Ruling};
use crate::decision::Decision;
use crate::engine::EvaluationMode;
use crate::policy::{OnStoreError, Request};

#[doc(hidden)]
impl Gate {
    /// What `check` says while the store is away.
    pub fn check_without_store(&self, request: &Request<'_>) -> Ruling {
        self.decide_without_store(request, EvaluationMode::Charge)
    }

    /// What `peek` says while the store is away.
    pub fn peek_without_store(&self, request: &Request<'_>) -> Ruling {
        self.decide_without_store(request, EvaluationMode::Peek)
    }

    fn decide_without_store(&self, request: &Request<'_>, mode: EvaluationMode) -> Ruling {
        let mut ruling = Ruling::open(self.0.in_force.load());
        let away = away(ruling.in_force(), request);
        ruling.decide(request, if away.denies() { EvaluationMode::Peek } else { mode }, None);
        ruling.degrade(away);
        ruling
    }

    /// What `check_up_to` says while the store is away.
    pub fn take_up_to_without_store(&self, request: &Request<'_>) -> (u64, Ruling) {
        let looked = self.peek_without_store(&request.clone().cost(1));
        let away = away(&self.0.in_force.load(), request);
        if away.denies() {
            return (0, looked);
        }
        let (units, mut ruling) = self.check_up_to(request);
        ruling.degrade(StoreFailure { denied: Vec::new(), ..away });
        (units, ruling)
    }

    /// What `reserve_for` says while the store is away.
    ///
    /// # Errors
    /// The ruling, where it is not allowed.
    #[allow(clippy::result_large_err, reason = "both ways hold a ruling, and none is boxed")]
    pub fn reserve_without_store(
        &self,
        request: &Request<'_>,
        timeout: Duration,
    ) -> Result<GateReservation, Ruling> {
        let mut ruling = Ruling::open(self.0.in_force.load());
        let away = away(ruling.in_force(), request);
        let until = self.0.store.0.now().saturating_add(timeout);
        let (mode, until) = if away.denies() {
            (EvaluationMode::Peek, None)
        } else {
            (EvaluationMode::Charge, Some(until))
        };
        let claims = ruling.decide(request, mode, until);
        ruling.degrade(away);
        if ruling.is_allowed() {
            Ok(GateReservation { ruling, cost: request.units(), claims })
        } else {
            Err(ruling)
        }
    }
}

/// What the rules say that do not count without their store.
#[derive(Default)]
struct StoreFailure {
    /// The charges of those that deny.
    denied: Vec<ChargeResult>,
    /// The first that lets everything pass.
    allows: Option<u32>,
}

impl StoreFailure {
    fn denies(&self) -> bool {
        self.denied.iter().any(|charge| !charge.ruled.shadow)
    }
}

impl Ruling {
    /// Marks it as made without the store.
    fn degrade(&mut self, away: StoreFailure) {
        self.degraded = true;
        if self.allowed && away.denies() {
            (self.allowed, self.reason) = (false, Reason::StoreUnavailable);
        } else if self.reason == Reason::NoRule && away.allows.is_some() {
            (self.aside, self.reason) = (away.allows, Reason::StoreUnavailable);
        }
        let mut told: Vec<ChargeResult> = self.told().chain(away.denied).collect();
        told.sort_by_key(|charge| (charge.ruled.shadow, charge.ruled.rule));
        self.charges.set_decided(&told);
    }
}

fn away(in_force: &ActivePolicy, request: &Request<'_>) -> StoreFailure {
    let mut texts = CanonicalTexts::new();
    let mut room = RequestScratch::new();
    let resolved = ResolvedRequest::new(in_force, request, &mut texts, &mut room);
    if resolved.list().is_some() {
        return StoreFailure::default();
    }
    let policy = &in_force.compiled.policy;
    let rules = resolved.rules().unwrap_or_default();
    let does = |number: u32| {
        let of_rule = policy.rules[number as usize].on_store_error;
        of_rule.unwrap_or(policy.on_store_error)
    };
    let allows = |applied: &&AppliedRule<'_>| {
        !applied.rule.shadow && does(applied.number) == OnStoreError::Allow
    };
    let denying = rules.iter().filter(|applied| does(applied.number) == OnStoreError::Deny);
    let denied = denying.map(|applied| ChargeResult {
        ruled: RuledCharge::new(applied.number, 0, applied.rule.shadow, Duration::ZERO),
        decision: Decision::AWAY,
    });
    let allows = rules.iter().find(allows).map(|applied| applied.number);
    StoreFailure { denied: denied.collect(), allows }
}
