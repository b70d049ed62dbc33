//! What a charge met: enough to tell its figures later, and small.

use super::shard::Call;
use crate::algorithm::{StateRef, Words};
use crate::decision::{Decision, Figures, PlainFigures};
use crate::limit::Plan;

/// A struct and not an enum with data: it is written field by field, where the copy of an enum
/// would read back in one piece what was just written in several, and wait for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    kind: Kind,
    numbers: Words,
    /// Of figures: when more remains.
    next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A state, under the limit that asked: the figures of any cost follow from it.
    State,
    /// A log, which is too long to keep, or a store that was full. The numbers are the figures
    /// themselves: what remains, when to try again, when all is as new.
    Allowed,
    Denied,
}

impl Met {
    pub(crate) const OPEN: Met = Met { kind: Kind::State, numbers: [0; 3], next: 0 };

    #[inline(always)]
    pub(super) fn state(numbers: Words) -> Met {
        Met { kind: Kind::State, numbers, next: 0 }
    }

    pub(super) fn figures(figures: &Figures) -> Met {
        let kind = if figures.allowed() { Kind::Allowed } else { Kind::Denied };
        let numbers = [figures.remaining(), figures.retry_after(), figures.reset_after()];
        Met { kind, numbers, next: figures.next_after() }
    }

    /// Whether `cost` is allowed in `state`, which is what was met.
    pub(super) fn set(&mut self, call: &Call<'_>, state: StateRef<'_>, cost: u64) -> bool {
        let figures = call.named.plan.decide(state, call.now, cost);
        *self = match state {
            StateRef::Words(words) => Met::state(words),
            StateRef::Log(_) => Met::figures(&figures),
        };
        Decision::new(figures, cost).is_allowed()
    }

    /// Whether its figures are those of a cost that was allowed, and of no other.
    pub(super) fn needs_telling(&self) -> bool {
        self.kind == Kind::Allowed
    }

    /// The figures of a decision on `cost`.
    pub(super) fn told(&self, plan: &Plan, now: u64, cost: u64) -> Figures {
        if self.kind == Kind::State {
            return plan.decide(StateRef::Words(self.numbers), now, cost);
        }
        let [remaining, retry_after, reset_after] = self.numbers;
        let (allowed, limit) = (self.kind == Kind::Allowed, plan.capacity());
        let delay = 0;
        Figures::Plain(PlainFigures {
            allowed,
            limit,
            cost,
            remaining,
            retry_after,
            reset_after,
            next_after: self.next,
            delay,
        })
    }
}
