//! The arithmetic: pure functions over a small state.
//!
//! Every algorithm obeys one contract: **`decide` never changes state, `take` never refuses.**
//! A state of zeros (or an empty log) is a new key's, for all of them. All numbers are integers;
//! a moment is in nanoseconds and at most [`Timestamp::MAX`](crate::Timestamp::MAX). If `now` is
//! earlier than the newest moment of the state, that moment is used: a clock that moves back never
//! creates capacity. Waits are still measured from the caller's `now`, so that they are true.
//! A caller re-dates a state first if the clock moved back by more than the horizon.

mod bucket;
mod fixed_window;
mod redate;
mod rescale;
mod sliding_counter;
mod sliding_log;

pub(crate) use bucket::{
    Bucket, BucketCost, BucketStep, MOST_MICRO_PARTS, MicrosBucket, words as bucket_words,
};
pub(crate) use fixed_window::{FixedWindow, WindowBoundary};
pub(crate) use rescale::StateConversion;
pub(crate) use sliding_counter::{SlidingCounter, until_weight_is};
pub(crate) use sliding_log::{EventLog, SlidingLog};

use crate::decision::{Figures, PlainFigures};
use crate::limit::Plan;
use crate::time::Timestamp;

/// What most algorithms keep of a key: a moment and two numbers, their meaning the algorithm's own.
pub(crate) type StateWords = [u64; 3];

/// [`StateWords`] as a table keeps them where the limit's numbers are small enough.
pub(crate) type PackedState = [u64; 2];

/// A key's state, to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StateRef<'a> {
    Words(StateWords),
    Log(&'a EventLog),
}

/// A key's state, to change.
#[derive(Debug)]
pub(crate) enum StateMut<'a> {
    Words(&'a mut StateWords),
    Log(&'a mut EventLog),
}

/// A key's state, owned.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Words(StateWords),
    Log(EventLog),
}

/// What is known of units that are given back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TakenAt {
    Whenever,
    /// They were taken at this moment, or before.
    At(Timestamp),
    /// They are this turn of a queue.
    Turn(Timestamp),
}

impl Plan {
    /// Whether `cost` units may be taken at `now`, and the figures that go with the answer.
    #[inline]
    pub(crate) fn decide(&self, state: StateRef<'_>, now: u64, cost: u64) -> Figures {
        match self {
            Plan::Bucket(bucket) => Figures::Bucket(bucket.decide(state.words(), now, cost)),
            Plan::FixedWindow(window) => Figures::Plain(window.decide(state.words(), now, cost)),
            Plan::SlidingLog(log) => Figures::Plain(log.decide(state.log(), now, cost)),
            Plan::SlidingCounter(counter) => {
                Figures::Counter(counter.decide(state.words(), now, cost))
            }
        }
    }

    /// [`decide`](Self::decide) for a new key.
    pub(crate) fn decide_fresh(&self, now: u64, cost: u64) -> Figures {
        self.decide(self.fresh().as_ref(), now, cost)
    }

    /// The figures of a new key that a full store denies.
    pub(crate) fn full(&self, retry_after: u64, cost: u64) -> Figures {
        let (limit, allowed) = (self.capacity(), false);
        Figures::Plain(PlainFigures {
            allowed,
            limit,
            cost,
            remaining: 0,
            retry_after,
            reset_after: 0,
            next_after: retry_after,
            delay: 0,
        })
    }

    /// Takes `cost` units at `now`, into debt if they are not there.
    #[inline]
    pub(crate) fn take(&self, state: StateMut<'_>, now: u64, cost: u64) {
        match (self, state) {
            (Plan::Bucket(bucket), StateMut::Words(words)) => bucket.take(words, now, cost),
            (Plan::FixedWindow(window), StateMut::Words(words)) => window.take(words, now, cost),
            (Plan::SlidingLog(limit), StateMut::Log(log)) => limit.take(log, now, cost),
            (Plan::SlidingCounter(counter), StateMut::Words(words)) => {
                counter.take(words, now, cost);
            }
            (plan, state) => mismatch(plan, &state),
        }
    }

    /// Gives back `units`, the latest first, never above full.
    pub(crate) fn give_back(&self, state: StateMut<'_>, now: u64, taken: TakenAt, units: u64) {
        let taken_at = match taken {
            TakenAt::Whenever => u64::MAX,
            TakenAt::At(moment) | TakenAt::Turn(moment) => moment.as_nanos(),
        };
        match (self, state) {
            (Plan::Bucket(bucket), StateMut::Words(words)) => match taken {
                TakenAt::Turn(turn) => bucket.give_back_turn(words, now, turn.as_nanos(), units),
                _ => bucket.give_back(words, now, units),
            },
            (Plan::FixedWindow(window), StateMut::Words(words)) => {
                window.give_back(words, taken_at, units);
            }
            (Plan::SlidingLog(limit), StateMut::Log(log)) => {
                limit.give_back(log, now, taken_at, units);
            }
            (Plan::SlidingCounter(counter), StateMut::Words(words)) => {
                counter.give_back(words, now, taken_at, units);
            }
            (plan, state) => mismatch(plan, &state),
        }
    }

    /// What is owed at `now`, in parts: of what is no bucket all there can be, as it keeps what was
    /// taken and when.
    pub(crate) fn owed(&self, state: StateRef<'_>, now: u64) -> u128 {
        match self {
            Plan::Bucket(bucket) => bucket.owed(state.words(), now),
            _ => u128::MAX,
        }
    }

    /// The moment from which the state is as good as a new key's, if nothing else arrives.
    pub(crate) fn fresh_at(&self, state: StateRef<'_>) -> u64 {
        match self {
            Plan::Bucket(bucket) => bucket.fresh_at(state.words()),
            Plan::FixedWindow(_) => FixedWindow::fresh_at(state.words()),
            Plan::SlidingLog(log) => log.fresh_at(state.log()),
            Plan::SlidingCounter(counter) => counter.fresh_at(state.words()),
        }
    }

    /// A moment at which the last take counts as made: `give_back` finds it by that.
    pub(crate) fn seen(&self, state: StateRef<'_>) -> u64 {
        match self {
            Plan::Bucket(_) | Plan::SlidingCounter(_) => state.words()[0],
            Plan::FixedWindow(_) => state.words()[0].saturating_sub(1),
            Plan::SlidingLog(_) => state.log().seen(),
        }
    }

    /// Whether a fresh key admits `cost` units at once. A larger cost is an error.
    pub(crate) fn can_fit(&self, cost: u64) -> bool {
        cost <= self.capacity()
    }

    /// The most that a new key admits at one instant.
    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Plan::Bucket(bucket) => bucket.capacity(),
            Plan::FixedWindow(window) => window.count,
            Plan::SlidingLog(log) => log.count,
            Plan::SlidingCounter(counter) => counter.count,
        }
    }

    /// A new key's state.
    pub(crate) fn fresh(&self) -> State {
        match self {
            Plan::SlidingLog(_) => State::Log(EventLog::default()),
            _ => State::Words([0; 3]),
        }
    }

    /// Whether a key's state fits into [`PackedState`]: true but for logs and for enormous numbers.
    pub(crate) fn packs(&self) -> bool {
        match self {
            Plan::Bucket(bucket) => bucket.packs(),
            Plan::FixedWindow(_) => true,
            Plan::SlidingLog(_) => false,
            Plan::SlidingCounter(counter) => counter.packs(),
        }
    }

    /// The state in two words; a debt that does not fit is cut to the largest that does.
    #[inline]
    pub(crate) fn pack(&self, [at, low, high]: StateWords) -> PackedState {
        match self {
            Plan::SlidingCounter(_) => {
                let [low, high] = [low, high].map(|count| count.min(u64::from(u32::MAX)));
                [at, low | high << 32]
            }
            _ if high > 0 => [at, u64::MAX],
            _ => [at, low],
        }
    }

    /// The inverse of [`pack`](Self::pack).
    #[inline]
    pub(crate) fn unpack(&self, [at, numbers]: PackedState) -> StateWords {
        match self {
            Plan::SlidingCounter(_) => [at, numbers & u64::from(u32::MAX), numbers >> 32],
            _ => [at, numbers, 0],
        }
    }
}

/// Stores pair a state with the plan it was made for; a slip there is caught by every debug build.
#[cold]
fn mismatch(plan: &Plan, state: &StateMut<'_>) {
    debug_assert!(false, "the state {state:?} does not belong to {plan:?}");
}

impl StateRef<'_> {
    #[inline]
    pub(crate) fn words(&self) -> StateWords {
        match self {
            StateRef::Words(words) => *words,
            StateRef::Log(_) => [0; 3],
        }
    }

    fn log(&self) -> &EventLog {
        static EMPTY: EventLog = EventLog::new();
        match self {
            StateRef::Words(_) => &EMPTY,
            StateRef::Log(log) => log,
        }
    }
}

impl State {
    pub(crate) fn as_ref(&self) -> StateRef<'_> {
        match self {
            State::Words(words) => StateRef::Words(*words),
            State::Log(log) => StateRef::Log(log),
        }
    }

    pub(crate) fn as_mut(&mut self) -> StateMut<'_> {
        match self {
            State::Words(words) => StateMut::Words(words),
            State::Log(log) => StateMut::Log(log),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            State::Words(_) => 0,
            State::Log(log) => log.heap_bytes(),
        }
    }
}
