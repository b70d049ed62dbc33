//! Observed states: the states of keys before a charge, from which decisions are computed later.

use super::RegisteredLimit;
use super::shard::ChargeContext;
use crate::algorithm::{StateRef, StateWords};
use crate::decision::{Decision, Figures, PlainFigures};
use crate::limit::Plan;
use crate::time::Timestamp;

/// The state of a key before a charge, under the limit of the charge. Small, so that a request keeps one
/// for each of its charges: most callers never ask for the figures.
///
/// A struct and not an enum with data: it is written field by field, and the copy of an enum would read
/// back in one piece what was just written in several, which stalls the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedState {
    kind: ObservedKind,
    numbers: StateWords,
    /// Of figures: the wait until more remains.
    next_after: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservedKind {
    /// A state. The figures of any cost follow from it.
    State,
    /// Figures of a cost that was allowed, of a log, which is too long to keep. The numbers are what
    /// remains, when to retry, and when the key is fresh.
    Allowed,
    /// Figures of a cost that was denied, by a log or because the store was full.
    Denied,
}

impl ObservedState {
    pub(crate) const FRESH: ObservedState =
        ObservedState { kind: ObservedKind::State, numbers: [0; 3], next_after: 0 };

    #[inline(always)]
    pub(super) fn of_words(numbers: StateWords) -> ObservedState {
        ObservedState { numbers, ..ObservedState::FRESH }
    }

    /// Observes `state` with a charge of `cost`.
    pub(super) fn of_state(
        state: StateRef<'_>,
        call: &ChargeContext<'_>,
        cost: u64,
    ) -> ObservedState {
        match state {
            StateRef::Words(words) => ObservedState::of_words(words),
            StateRef::Log(_) => {
                ObservedState::of_figures(&call.named.plan.decide(state, call.now, cost))
            }
        }
    }

    pub(super) fn of_figures(figures: &Figures) -> ObservedState {
        let kind = if figures.allowed() { ObservedKind::Allowed } else { ObservedKind::Denied };
        let numbers = [figures.remaining(), figures.retry_after(), figures.reset_after()];
        ObservedState { kind, numbers, next_after: figures.next_after() }
    }

    /// `true` if it has only the figures of a cost that was allowed.
    pub(super) fn is_allowed_only(&self) -> bool {
        self.kind == ObservedKind::Allowed
    }

    /// Returns the figures of a decision on `cost`.
    fn figures(&self, plan: &Plan, now: u64, cost: u64) -> Figures {
        if self.kind == ObservedKind::State {
            return plan.decide(StateRef::Words(self.numbers), now, cost);
        }
        let [remaining, retry_after, reset_after] = self.numbers;
        Figures::Plain(PlainFigures {
            allowed: self.kind == ObservedKind::Allowed,
            limit: plan.capacity(),
            cost,
            remaining,
            retry_after,
            reset_after,
            next_after: self.next_after,
            delay: 0,
        })
    }
}

/// A charge that was decided, and the state before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeRecord<'a> {
    pub(crate) named: &'a RegisteredLimit,
    pub(crate) cost: u64,
    pub(crate) now: Timestamp,
    pub(crate) observed: ObservedState,
}

/// The outcome of charging all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeOutcome {
    Taken,
    NotTaken,
}

impl ChargeRecord<'_> {
    /// Returns the decision of the charge's own limit. A charge that it allows, and another limit kept
    /// from being taken, has the figures of a cost of 0.
    pub(crate) fn decision(&self, outcome: ChargeOutcome) -> Decision {
        let decision = self.decision_on(self.cost);
        if self.cost > 0 && decision.is_allowed() && outcome == ChargeOutcome::NotTaken {
            let now = self.now.as_nanos();
            return Decision::allowed(self.observed.figures(&self.named.plan, now, 0));
        }
        decision
    }

    /// `true` if the charge's own limit allows it.
    pub(super) fn is_allowed(&self) -> bool {
        let (now, [at, owed, high]) = (self.now.as_nanos(), self.observed.numbers);
        if let (ObservedKind::State, Some(fast), 0) =
            (self.observed.kind, &self.named.fast_bucket, high)
        {
            // The same answer, for fewer instructions.
            let cost = fast.bucket.cost(self.cost);
            return cost.is_some_and(|cost| fast.bucket.step([at, owed], now, cost).allowed);
        }
        self.named.plan.can_fit(self.cost)
            && self.observed.figures(&self.named.plan, now, self.cost).allowed()
    }

    fn decision_on(&self, cost: u64) -> Decision {
        Decision::new(self.observed.figures(&self.named.plan, self.now.as_nanos(), cost), cost)
    }
}
