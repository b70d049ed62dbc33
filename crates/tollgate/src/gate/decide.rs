//! Deciding a request: lists first, then blocks, then all limits at once, then those that only
//! report.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::ActivePolicy;
use super::attributes::RequestScratch;
use super::canonical::CanonicalTexts;
use super::compiled::ListMatch;
use super::hold::ScaledReservation;
use super::resolve::{AppliedRule, AppliedRules, INLINE, ResolvedRequest};
use super::ruling::{Reason, RequestError};
use super::told::{ChargeResult, RuleCharges, RuledCharge, observe_rule};
use crate::bounds::SHOWN_VALUE;
use crate::decision::Decision;
use crate::engine::{Evaluation, EvaluationMode, RuleObservation, evaluate};
use crate::key::WriteKey;
use crate::policy::Request;
use crate::reservation::{OpenReservation, ReservationId, ReservedCharge};
use crate::store::memory::{
    BlockTarget, ChargeMode, ChargeOutcome, ChargeRecord, KeyEntry, Memory, PendingCharge,
    RegisteredLimit, Transaction, charge_all,
};
use crate::time::Timestamp;

/// What a request comes to, but for its charges.
pub(super) enum GateAnswer {
    Listed(ListMatch),
    /// Boxed, since it is rare and large: what is returned is copied.
    Wrong(Box<RequestError>),
    /// Whether to go ahead, and why.
    Limits(bool, Reason),
}

/// The reservations of charges that were taken. Empty unless the request reserves.
type ReservationIds = SmallVec<[Option<ReservationId>; INLINE]>;

impl From<Evaluation> for GateAnswer {
    fn from(evaluation: Evaluation) -> GateAnswer {
        GateAnswer::Limits(evaluation.is_allowed, evaluation.reason)
    }
}

/// Charges to be decided.
type PendingRules<'p, 'a> = SmallVec<[PendingRule<'p, 'a>; INLINE]>;

/// A charge to be decided.
struct PendingRule<'p, 'a> {
    applied: &'p AppliedRule<'a>,
    named: &'p Arc<RegisteredLimit>,
    charge: PendingCharge<'p>,
}

impl<'p> PendingRule<'p, '_> {
    fn charge(&self) -> &PendingCharge<'p> {
        &self.charge
    }
}

/// A list that acts on whatever is added to it.
struct CallOnExtend<F>(F);

impl<T, F: FnMut(T)> Extend<T> for CallOnExtend<F> {
    #[inline(always)]
    fn extend<I: IntoIterator<Item = T>>(&mut self, all: I) {
        all.into_iter().for_each(&mut self.0);
    }
}

/// How requests are decided.
pub(super) struct GateDecision<'f> {
    pub(super) in_force: &'f ActivePolicy,
    pub(super) mode: EvaluationMode,
    /// Until when what is taken is claimed, if it is.
    pub(super) until: Option<Timestamp>,
}

impl GateDecision<'_> {
    /// Decides `request`: adds what becomes of its charges, and claims on what was taken.
    #[inline]
    pub(super) fn decide(
        &self,
        request: &Request<'_>,
        (charges, claims): (&mut RuleCharges, &mut Vec<ScaledReservation>),
    ) -> GateAnswer {
        let mut texts = CanonicalTexts::new();
        let mut room = RequestScratch::new();
        let resolved = ResolvedRequest::new(self.in_force, request, &mut texts, &mut room);
        if let Some(list) = resolved.list() {
            return GateAnswer::Listed(list);
        }
        let mut rules = AppliedRules::new();
        if let Err((attribute, value)) = resolved.add_rules(&mut rules) {
            let attribute = self.in_force.compiled.attributes.name(attribute).to_owned();
            let value = value.chars().take(SHOWN_VALUE).collect();
            return GateAnswer::Wrong(Box::new(RequestError::CostNotANumber { attribute, value }));
        }
        self.limits(&rules, (charges, claims))
    }

    fn memory(&self) -> &Memory {
        &self.in_force.store.0
    }

    #[inline]
    fn limits(
        &self,
        rules: &[AppliedRule<'_>],
        (charges, claims): (&mut RuleCharges, &mut Vec<ScaledReservation>),
    ) -> GateAnswer {
        let may_be_blocked = self.memory().blocks.may_hold_any();
        let is_blocked = |of: &AppliedRule<'_>| may_be_blocked && !self.blocked(of).is_zero();
        let is_apart = |of: &AppliedRule<'_>| of.rule.shadow || is_blocked(of);
        if self.mode == EvaluationMode::Peek || rules.iter().any(is_apart) {
            return self.limits_apart(rules, (charges, claims));
        }
        let mut pending = PendingRules::new();
        for applied in rules {
            // One by one: to make room for all of a rule's first takes longer than they do.
            self.charges_of(applied).for_each(|(named, charge)| {
                pending.push(PendingRule { applied, named, charge });
            });
        }
        let (ruled, mut of) = (&mut charges.ruled, pending.iter());
        let (outcome, tickets) = self.charge_all(
            &pending,
            &mut CallOnExtend(|record: ChargeRecord<'_>| {
                if let Some(PendingRule { applied, named, .. }) = of.next() {
                    let mut new =
                        RuledCharge::new(applied.number, named.number, false, Duration::ZERO);
                    new.record(&record);
                    ruled.push(new);
                }
            }),
        );
        charges.ruled.iter_mut().for_each(|ruled| ruled.charged(outcome));
        if outcome == ChargeOutcome::NotTaken {
            return self.denied(&pending, charges);
        }
        self.claim(&pending, &tickets, claims);
        GateAnswer::Limits(true, if pending.is_empty() { Reason::NoRule } else { Reason::Limits })
    }

    /// Tells of charges that are not taken, since at least one is denied.
    #[inline(never)]
    fn denied(&self, pending: &[PendingRule<'_, '_>], charges: &mut RuleCharges) -> GateAnswer {
        let decided = charges.ruled.iter().zip(pending);
        let mut told: SmallVec<[ChargeResult; INLINE]> = decided
            .map(|(ruled, charge)| ChargeResult {
                ruled: *ruled,
                decision: ruled.decision_of(charge.named),
            })
            .collect();
        let evaluation = self.evaluate(&told);
        self.start_blocks(pending, &mut told, evaluation);
        charges.set(&told);
        evaluation.into()
    }

    /// [`limits`](Self::limits) where some rules only report, some keys are blocked, or nothing is
    /// taken.
    #[inline(never)]
    fn limits_apart(
        &self,
        rules: &[AppliedRule<'_>],
        (charges, claims): (&mut RuleCharges, &mut Vec<ScaledReservation>),
    ) -> GateAnswer {
        let (mut pending, mut told) = (PendingRules::new(), SmallVec::new());
        // What only reports comes last, so that what decides is one slice.
        for shadow in [false, true] {
            for applied in rules.iter().filter(|applied| applied.rule.shadow == shadow) {
                self.pend(applied, &mut pending, &mut told);
            }
        }
        let enforced = pending.iter().take_while(|charge| !charge.applied.rule.shadow).count();
        let unlimited = told.len() - pending.len();
        let (enforcing, reporting) = pending.split_at(enforced);
        let (bars, of_limits) = told.split_at_mut(unlimited);
        let (decided, reported) = of_limits.split_at_mut(enforced);
        debug_assert!(bars.iter().all(|bar| bar.ruled.limit == 0));
        let mut enforced = bars.iter().chain(&*decided).filter(|charge| !charge.ruled.shadow);
        let was_blocked = enforced.any(|charge| !charge.ruled.blocked.is_zero());
        let take = self.mode != EvaluationMode::Peek && !was_blocked;
        let tickets = self.charge(enforcing, decided, take);
        self.claim(enforcing, &tickets, claims);
        let allowed = take && decided.iter().all(ChargeResult::is_allowed);
        for (group, reported) in groups(reporting, reported) {
            let blocked = reported.iter().any(|charge| !charge.ruled.blocked.is_zero());
            let tickets = self.charge(group, reported, allowed && !blocked);
            self.claim(group, &tickets, claims);
        }
        let evaluation = self.evaluate(&told);
        self.start_blocks(&pending, &mut told[unlimited..], evaluation);
        if unlimited > 0 {
            told.sort_by_key(|charge| (charge.ruled.shadow, charge.ruled.rule));
        }
        charges.set(&told);
        evaluation.into()
    }

    /// The charges of a rule, one for each of its limits.
    #[inline]
    fn charges_of<'p, 'a>(
        &'p self,
        applied: &'p AppliedRule<'a>,
    ) -> impl Iterator<Item = (&'p Arc<RegisteredLimit>, PendingCharge<'p>)> {
        applied.terms.iter().enumerate().map(|(position, named)| {
            let fingerprint = applied.fingerprint(position);
            let entry = KeyEntry { named, fingerprint, key: &applied.key };
            (named, PendingCharge::new(self.memory(), entry, applied.price.cost))
        })
    }

    /// Adds the charges of a rule, and where it has no limit only a block.
    fn pend<'p, 'a>(
        &'p self,
        applied: &'p AppliedRule<'a>,
        pending: &mut PendingRules<'p, 'a>,
        told: &mut SmallVec<[ChargeResult; INLINE]>,
    ) {
        let blocked = self.blocked(applied);
        let undecided = |limit| ChargeResult {
            ruled: RuledCharge::new(applied.number, limit, applied.rule.shadow, blocked),
            decision: Decision::UNLIMITED,
        };
        if applied.terms.is_empty() && !blocked.is_zero() {
            // In front, where no charge belongs to it.
            told.insert(0, undecided(0));
        }
        for (named, charge) in self.charges_of(applied) {
            pending.push(PendingRule { applied, named, charge });
            told.push(undecided(named.number));
        }
    }

    /// For how long the key of a rule is blocked.
    fn blocked(&self, applied: &AppliedRule<'_>) -> Duration {
        let (blocks, rule_blocks) = (&self.memory().blocks, applied.rule.block.is_some());
        if !blocks.may_hold(rule_blocks) {
            return Duration::ZERO;
        }
        blocks.remaining(applied.fingerprint(0), rule_blocks, self.memory().now())
    }

    /// Charges all or nothing. Returns the reservations of the charges, if the request reserves.
    #[inline]
    fn charge_all<'p>(
        &self,
        pending: &[PendingRule<'p, '_>],
        records: &mut impl Extend<ChargeRecord<'p>>,
    ) -> (ChargeOutcome, ReservationIds) {
        match self.until {
            Some(until) => GateDecision::run(pending, ChargeMode::Reserve(until), records),
            None => (charge_all(pending, PendingRule::charge, records), ReservationIds::new()),
        }
    }

    #[cold]
    fn run<'p>(
        pending: &[PendingRule<'p, '_>],
        mode: ChargeMode,
        records: &mut impl Extend<ChargeRecord<'p>>,
    ) -> (ChargeOutcome, ReservationIds) {
        let done = Transaction::run(pending.iter().map(|of| of.charge).collect(), mode);
        debug_assert_eq!(done.records.len(), pending.len(), "every rule counts keys of its own");
        records.extend(done.records);
        (done.outcome, done.reservations)
    }

    /// Decides charges together, and takes all or none of them if `take`. Returns their reservations.
    fn charge(
        &self,
        pending: &[PendingRule<'_, '_>],
        charges: &mut [ChargeResult],
        take: bool,
    ) -> ReservationIds {
        let mut of = charges.iter_mut();
        let mut record = CallOnExtend(|record: ChargeRecord<'_>| {
            of.next().into_iter().for_each(|told| told.ruled.record(&record));
        });
        let (outcome, tickets) = if take {
            self.charge_all(pending, &mut record)
        } else {
            GateDecision::run(pending, ChargeMode::Peek, &mut record)
        };
        for (told, charge) in charges.iter_mut().zip(pending) {
            told.ruled.charged(outcome);
            told.decision = told.ruled.decision_of(charge.named);
        }
        tickets
    }

    fn observe(&self, charges: &[ChargeResult]) -> RuleObservation {
        observe_rule(charges, &self.in_force.compiled.rules)
    }

    /// Evaluates charges that were decided, before blocks are started.
    fn evaluate(&self, charges: &[ChargeResult]) -> Evaluation {
        let groups = || charges.chunk_by(ChargeResult::is_same_rule);
        let evaluation = evaluate(self.mode, groups().map(|group| self.observe(group)));
        if cfg!(debug_assertions) {
            for group in groups() {
                let takes = evaluation.verdict(&self.observe(group)).takes;
                let mut of_limits = group.iter().filter(|told| told.ruled.limit != 0);
                assert!(of_limits.all(|told| told.ruled.is_taken() == takes), "{group:?}");
            }
        }
        evaluation
    }

    /// Blocks the keys of rules whose verdict says so. `charges` are those of `pending`.
    fn start_blocks(
        &self,
        pending: &[PendingRule<'_, '_>],
        charges: &mut [ChargeResult],
        evaluation: Evaluation,
    ) {
        for (group, charges) in groups(pending, charges) {
            let Some(PendingRule { applied, .. }) = group.first() else { continue };
            let Some(block) = &applied.rule.block else { continue };
            if !evaluation.verdict(&self.observe(charges)).starts_block {
                continue;
            }
            let (memory, key) = (self.memory(), &applied.key);
            let fingerprint = applied.fingerprint(0);
            let culprit = BlockTarget { fingerprint, rule: &applied.rule.name, key };
            let blocked = memory.blocks.punish(&culprit, block, memory.now());
            charges.iter_mut().for_each(|charge| charge.ruled.blocked = blocked);
        }
    }

    /// Claims the units that were taken with `tickets`, to be settled later.
    #[inline]
    fn claim(
        &self,
        pending: &[PendingRule<'_, '_>],
        tickets: &[Option<ReservationId>],
        claims: &mut Vec<ScaledReservation>,
    ) {
        claims.extend(pending.iter().zip(tickets).map(
            |(PendingRule { applied, named, charge }, ticket)| {
                let (fingerprint, cost) = (charge.entry.fingerprint, applied.price.cost);
                let held = ReservedCharge { named: Arc::clone(named), fingerprint, cost };
                let name = applied.key.name();
                let claim = OpenReservation::new(&self.in_force.store, name, held, *ticket);
                ScaledReservation { claim, per_unit: applied.price.per_unit }
            },
        ));
    }
}

/// The charges of each rule, with what became of them.
fn groups<'p, 'a, 'b, 'c>(
    pending: &'p [PendingRule<'a, 'b>],
    mut charges: &'c mut [ChargeResult],
) -> impl Iterator<Item = (&'p [PendingRule<'a, 'b>], &'c mut [ChargeResult])> {
    let of_rules = pending.chunk_by(|a, b| std::ptr::eq(a.applied, b.applied));
    of_rules.map(move |group| {
        let (of_rule, rest) = std::mem::take(&mut charges).split_at_mut(group.len());
        charges = rest;
        (group, of_rule)
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
