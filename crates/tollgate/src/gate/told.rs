//! What became of the charges of a request, and what each of them says.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::compiled::CompiledRule;
use super::resolve::INLINE;
use crate::decision::Decision;
use crate::engine::RuleObservation;
use crate::store::memory::{ChargeOutcome, ChargeRecord, Memory, ObservedState, RegisteredLimit};
use crate::time::Timestamp;

/// What became of a request's charges. What they met is kept, and figures are worked out for those
/// who ask: most do not.
#[derive(Clone)]
pub(super) struct RuleCharges {
    /// Those of rules that deny first, then those of rules that only report; a rule's together.
    pub(super) ruled: SmallVec<[RuledCharge; INLINE]>,
    /// Of each, where another store has decided.
    decided: Option<Box<[Decision]>>,
}

/// A charge, and what it met.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuledCharge {
    /// The rule's number.
    pub(super) rule: u32,
    /// Which limit it was, as the store numbers them; 0 where there is none.
    pub(super) limit: u32,
    pub(super) shadow: bool,
    /// Whether the units were borrowed.
    pub(super) leased: bool,
    /// Whether it was taken.
    taken: bool,
    /// For how long the key is blocked; zero if it is not.
    pub(super) blocked: Duration,
    cost: u64,
    pub(super) now: Timestamp,
    observed: ObservedState,
}

/// A charge and its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChargeResult {
    pub(super) ruled: RuledCharge,
    pub(super) decision: Decision,
}

impl RuleCharges {
    #[inline(always)]
    pub(super) fn new() -> RuleCharges {
        RuleCharges { ruled: SmallVec::new(), decided: None }
    }

    /// Keeps charges that this store has decided.
    pub(super) fn set(&mut self, told: &[ChargeResult]) {
        self.ruled = told.iter().map(|charge| charge.ruled).collect();
        self.decided = None;
    }

    /// Keeps charges and what another store has decided of them.
    pub(super) fn set_decided(&mut self, told: &[ChargeResult]) {
        self.set(told);
        self.decided = Some(told.iter().map(|charge| charge.decision).collect());
    }

    /// Each charge and its decision.
    pub(super) fn told<'c>(
        &'c self,
        memory: &'c Memory,
    ) -> impl Iterator<Item = ChargeResult> + Clone {
        (0..self.ruled.len()).map(|at| self.told_of(at, memory).0)
    }

    /// A charge and its decision, and the limit that decided it.
    pub(super) fn told_of(
        &self,
        at: usize,
        memory: &Memory,
    ) -> (ChargeResult, Option<Arc<RegisteredLimit>>) {
        let (ruled, named) = (self.ruled[at], memory.limit(self.ruled[at].limit));
        let decision = match (&self.decided, &named) {
            (Some(decided), _) => decided[at],
            (None, Some(named)) => ruled.decision_of(named),
            (None, None) => Decision::UNLIMITED,
        };
        (ChargeResult { ruled, decision }, named)
    }

    /// `true` if the limit of a charge and its blocks allow the request.
    #[inline]
    pub(super) fn is_allowed(&self, at: usize, memory: &Memory) -> bool {
        let ruled = &self.ruled[at];
        ruled.blocked.is_zero() && (ruled.taken || self.told_of(at, memory).0.decision.is_allowed())
    }

    /// Those of rules that deny.
    pub(super) fn enforced(&self) -> &[RuledCharge] {
        let shadows = self.ruled.iter().position(|ruled| ruled.shadow);
        &self.ruled[..shadows.unwrap_or(self.ruled.len())]
    }
}

impl RuledCharge {
    /// To be decided.
    #[inline]
    pub(super) fn new(rule: u32, limit: u32, shadow: bool, blocked: Duration) -> RuledCharge {
        let now = Timestamp::from_nanos(0);
        let (leased, taken, cost, observed) = (false, false, 0, ObservedState::FRESH);
        RuledCharge { rule, limit, shadow, leased, taken, blocked, cost, now, observed }
    }

    /// `true` if it was taken.
    pub(super) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Of units that were borrowed before.
    pub(super) fn leased(self) -> RuledCharge {
        RuledCharge { leased: true, ..self }
    }

    /// Keeps the state that was observed.
    #[inline(always)]
    pub(super) fn record(&mut self, record: &ChargeRecord<'_>) {
        (self.cost, self.now, self.observed) = (record.cost, record.now, record.observed);
    }

    /// Keeps the outcome of charging it and the others.
    #[inline(always)]
    pub(super) fn charged(&mut self, outcome: ChargeOutcome) {
        self.taken = outcome == ChargeOutcome::Taken;
    }

    /// What its limit says of it, which is `named`.
    pub(super) fn decision_of(&self, named: &RegisteredLimit) -> Decision {
        let outcome = if self.taken { ChargeOutcome::Taken } else { ChargeOutcome::NotTaken };
        let RuledCharge { cost, now, observed, .. } = *self;
        ChargeRecord { named, cost, now, observed }.decision(outcome)
    }
}

/// Returns what was observed of a rule, of which these are the charges.
pub(super) fn observe_rule(charges: &[ChargeResult], rules: &[CompiledRule]) -> RuleObservation {
    let of_limits = charges.iter().filter(|charge| charge.ruled.limit != 0);
    RuleObservation {
        is_shadow: charges[0].ruled.shadow,
        is_blocked: charges.iter().any(|charge| !charge.ruled.blocked.is_zero()),
        has_block_for: rules[charges[0].ruled.rule as usize].block.is_some(),
        limits: of_limits.map(|charge| &charge.decision).collect(),
    }
}

impl ChargeResult {
    pub(super) fn is_same_rule(&self, other: &ChargeResult) -> bool {
        self.ruled.rule == other.ruled.rule
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.ruled.blocked.is_zero() && self.decision.is_allowed()
    }

    pub(super) fn remaining(&self) -> u64 {
        if self.ruled.blocked.is_zero() { self.decision.remaining() } else { 0 }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        Some(self.decision.retry_after()?.max(self.ruled.blocked))
    }

    /// Whether this limit decides before another limit of the same rule that has the same wait,
    /// which is mostly that of a block: its own wait is longer, or a smaller share of it is left.
    fn decides_before(&self, other: &ChargeResult) -> bool {
        let order = self.decision.retry_after().cmp(&other.decision.retry_after());
        let left = |of: &ChargeResult| [of.decision.remaining(), of.decision.limit()];
        self.ruled.rule == other.ruled.rule
            && order.then_with(|| cmp_shares(left(other), left(self))).is_gt()
    }

    pub(super) fn reset_after(&self) -> Duration {
        self.decision.reset_after().max(self.ruled.blocked)
    }

    pub(super) fn next_after(&self) -> Duration {
        self.decision.next_unit_after().max(self.ruled.blocked)
    }
}

/// The order of two limits by the share that remains of them: each is what remains, and the limit.
fn cmp_shares(a: [u64; 2], b: [u64; 2]) -> Ordering {
    let product = |remaining: u64, limit: u64| u128::from(remaining) * u128::from(limit);
    product(a[0], b[1]).cmp(&product(b[0], a[1]))
}

/// The charge that decides: one that can never be, the longest wait, the smallest share left.
pub(super) fn deciding(
    charges: impl Iterator<Item = ChargeResult> + Clone,
) -> Option<ChargeResult> {
    let never = charges.clone().find(|charge| charge.retry_after().is_none());
    let denied = || charges.clone().filter(|charge| !charge.is_allowed());
    // Of equal waits of several rules, the first rule of the policy decides.
    let slowest = || {
        denied().reduce(|slowest, charge| match charge.retry_after().cmp(&slowest.retry_after()) {
            Ordering::Greater => charge,
            Ordering::Equal if charge.decides_before(&slowest) => charge,
            _ => slowest,
        })
    };
    let left = |of: &ChargeResult| [of.remaining(), of.decision.limit()];
    let scarcest = || charges.clone().min_by(|a, b| cmp_shares(left(a), left(b)));
    never.or_else(slowest).or_else(scarcest)
}
