//! Charges of waiters at the instant at which their units came, which may lie in the past.
//!
//! A timer wakes a waiter late. A charge at that later moment would lose what the limit has refilled
//! in between, so the waiter is charged for the first instant at which the limit allows it.

use super::{KeyEntry, Memory, RegisteredLimit};
use crate::algorithm::{StateMut, StateRef, TakenAt, WindowBoundary};
use crate::decision::Decision;
use crate::key::KeyId;
use crate::limit::Plan;
use crate::time::Timestamp;

/// A charge at the first instant of a span at which the limit allows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueCharge {
    pub(crate) cost: u64,
    /// The earliest instant to charge for.
    pub(crate) from: Timestamp,
    pub(crate) now: Timestamp,
    /// The latest instant to go ahead at. A leaky queue goes ahead later than it is charged.
    pub(crate) deadline: Timestamp,
}

/// The outcome of a [`DueCharge`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum DueOutcome {
    /// The units were taken for the instant `due`, which is not later than now.
    Taken { due: Timestamp, decision: Decision },
    /// Nothing was taken. If nothing else arrives, the units come at `due`, and the waiter may go
    /// ahead at `turn`.
    Later { due: Timestamp, turn: Timestamp },
}

impl Memory {
    /// Charges a waiter for the first instant from `charge.from` to `charge.now` at which the limit
    /// allows it.
    ///
    /// The instant is never earlier than what the state has seen: a state only moves forward.
    pub(crate) fn charge_due(&self, entry: &KeyEntry<'_>, charge: DueCharge) -> DueOutcome {
        let DueCharge { cost, from, now, deadline } = charge;
        let KeyEntry { named, fingerprint, .. } = *entry;
        let mut shard = self.lock(fingerprint);
        self.tend(&mut shard, fingerprint.id, now.as_nanos());
        let Ok(index) = shard.table.find(fingerprint.id) else {
            let decision = self.charge_new(shard, entry, &self.call(named, now), cost);
            return outcome_of_new(decision, now);
        };
        // A state under other numbers is converted at the moment of the call, not before.
        let earliest = if shard.table.limit(index) == named.number {
            earliest(&named.plan, shard.state(index, named), (from, now))
        } else {
            now
        };
        let figures_at = |at| shard.decide(index, &self.call(named, at), cost);
        let first = figures_at(earliest);
        let due = match first.allowed() {
            true => earliest,
            false => earliest.after_nanos(first.retry_after()),
        };
        let turn = due.after_nanos(figures_at(due).delay());
        if due > now || turn > deadline {
            return DueOutcome::Later { due, turn };
        }
        let decision = shard.charge(index, &self.call(named, due), cost);
        match decision.is_allowed() {
            true => DueOutcome::Taken { due, decision },
            // Only at the last moment that can be represented, where waiting brings nothing.
            false => DueOutcome::Later { due: Timestamp::MAX, turn: Timestamp::MAX },
        }
    }

    /// Gives back units that [`charge_due`](Self::charge_due) took for the instant `due`, to go
    /// ahead at `turn`: what time has not refilled since, or a leaky queue's last turn.
    pub(crate) fn return_due(
        &self,
        (named, fingerprint): (&RegisteredLimit, KeyId),
        (due, turn): (Timestamp, Timestamp),
        units: u64,
    ) {
        let call = self.call(named, self.now());
        {
            let mut shard = self.lock(fingerprint);
            self.tend(&mut shard, fingerprint.id, call.now);
            if let Ok(index) = shard.table.find(fingerprint.id) {
                shard.change(index, &call, |plan, state| match (plan, state) {
                    (Plan::Bucket(bucket), StateMut::Words(words)) if !bucket.is_queue() => {
                        bucket.give_back_since(words, call.now, due.as_nanos(), units);
                    }
                    (Plan::Bucket(_), state) => {
                        plan.give_back(state, call.now, TakenAt::Turn(turn), units);
                    }
                    (_, state) => plan.give_back(state, call.now, TakenAt::At(due), units),
                });
            }
        }
        self.waiting.nudge(fingerprint);
    }
}

/// Returns the first instant of a span that is not earlier than what the state has seen.
fn earliest(plan: &Plan, state: StateRef<'_>, (from, now): (Timestamp, Timestamp)) -> Timestamp {
    let Plan::FixedWindow(window) = plan else {
        return from.max(Timestamp::from_nanos(plan.seen(state))).min(now);
    };
    let [end, used, _] = state.words();
    if used == 0 || end <= from.as_nanos() {
        return from;
    }
    if let WindowBoundary::First { window } = window.start {
        return from.max(Timestamp::from_nanos(end.saturating_sub(window))).min(now);
    }
    // From a window before the stored one only the next may be the stored one: older is too rare
    // to search the calendar for.
    let next = Timestamp::from_nanos(window.start.end_after(from.as_nanos()));
    if next.as_nanos() == end {
        from
    } else if next <= now && window.start.end_after(next.as_nanos()) == end {
        next
    } else {
        now
    }
}

/// The outcome of a charge of a new key, which a full store may have denied.
fn outcome_of_new(decision: Decision, now: Timestamp) -> DueOutcome {
    if decision.is_allowed() {
        return DueOutcome::Taken { due: now, decision };
    }
    let wait = decision.retry_after().unwrap_or_default();
    let due = now.saturating_add(wait).max(now.after_nanos(1));
    DueOutcome::Later { due, turn: due }
}
