//! Reference models, written from the specification and not from the implementation.
//!
//! A model says three things: whether a cost fits at a moment, whether the key is as good as new
//! at a moment, and how taking changes it. Every figure of a decision is then found by trying:
//! what remains is the largest cost that fits, a wait ends at the first moment at which it is over.

mod buckets;
mod calendar;
mod events;
mod search;

use tollgate::{Algorithm, CostError, Limit, Outcome};

use crate::answer::{Answer, nanos};
use buckets::{Meter, Queue, Tokens};
use events::{Counter, Fixed, Log};
use search::{first_moment, largest};

/// What a key has done so far, as one algorithm sees it. Moments are in nanoseconds.
trait Model: std::fmt::Debug + Send {
    /// Whether `cost` more units are allowed at `at`.
    fn fits(&self, at: u128, cost: u64) -> bool;

    /// Whether nothing of the past counts any more at `at`.
    fn is_new(&self, at: u128) -> bool;

    /// Takes `cost` units at `at`, whether they fit or not.
    fn take(&mut self, at: u128, cost: u64);

    /// Gives back `units`, the latest first.
    fn give_back(&mut self, at: u128, units: u64);

    /// When a request made at `at` goes ahead, where that is not at once.
    fn turn(&self, _at: u128) -> Option<u128> {
        None
    }
}

/// A key under a limit, as the specification has it.
#[derive(Debug)]
pub struct KeyModel {
    capacity: u64,
    model: Box<dyn Model>,
    /// The latest moment at which something was taken: time never goes back behind it.
    seen: u128,
}

impl KeyModel {
    /// A new key.
    pub fn new(limit: &Limit) -> KeyModel {
        let model: Box<dyn Model> = match limit.algorithm() {
            Algorithm::TokenBucket => Box::new(Tokens::new(limit)),
            Algorithm::LeakyMeter => Box::new(Meter::new(limit)),
            Algorithm::LeakyQueue => Box::new(Queue::new(limit)),
            Algorithm::FixedWindow => Box::new(Fixed::new(limit)),
            Algorithm::SlidingLog => Box::new(Log::new(limit)),
            Algorithm::SlidingCounter => Box::new(Counter::new(limit)),
            other => unimplemented!("no model of {other:?} yet"),
        };
        KeyModel { capacity: limit.capacity(), model, seen: 0 }
    }

    /// Takes `cost` units at `now` if they fit.
    pub fn check_n(&mut self, now: u64, cost: u64) -> Answer {
        let before = self.peek_n(now, cost);
        if cost == 0 || !before.is_allowed() {
            return before;
        }
        self.charge(now, cost);
        Answer {
            remaining: self.remaining(now.into()),
            reset_after: nanos(self.reset_after(now.into())),
            ..before
        }
    }

    /// What `check_n` would decide, with the figures of the key as it stands.
    pub fn peek_n(&self, now: u64, cost: u64) -> Answer {
        let now = u128::from(now);
        let at = now.max(self.seen);
        let outcome = match cost {
            0 => Outcome::Allowed,
            _ if cost > self.capacity => {
                Outcome::Invalid(CostError::ExceedsCapacity { cost, limit: self.capacity })
            }
            _ if self.model.fits(at, cost) => Outcome::Allowed,
            _ => Outcome::Denied,
        };
        let turn = self.model.turn(at).filter(|_| outcome == Outcome::Allowed && cost > 0);
        Answer {
            outcome,
            limit: self.capacity,
            remaining: self.remaining(now),
            retry_after: match outcome {
                Outcome::Allowed => Some(nanos(0)),
                Outcome::Denied => Some(nanos(self.wait(now, |at| self.model.fits(at, cost)))),
                Outcome::Invalid(_) => None,
            },
            reset_after: nanos(self.reset_after(now)),
            delay: nanos(turn.unwrap_or(now) - now),
        }
    }

    /// Takes `cost` units at `now` whether they fit or not.
    pub fn charge(&mut self, now: u64, cost: u64) {
        self.seen = self.seen.max(now.into());
        self.model.take(self.seen, cost);
    }

    /// Gives back `units` at `now`.
    pub fn refund(&mut self, now: u64, units: u64) {
        self.model.give_back(self.seen.max(now.into()), units);
    }

    fn remaining(&self, now: u128) -> u64 {
        let at = now.max(self.seen);
        largest(self.capacity, |cost| self.model.fits(at, cost))
    }

    fn reset_after(&self, now: u128) -> u128 {
        self.wait(now, |at| self.model.is_new(at))
    }

    /// How long from `now` until `over` holds, which it then does for good.
    fn wait(&self, now: u128, over: impl Fn(u128) -> bool) -> u128 {
        first_moment(now, |at| over(at.max(self.seen))) - now
    }
}
