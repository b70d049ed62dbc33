//! Reference models, written from the specification and not from the implementation.
//!
//! A model says whether a cost fits at a moment, whether the key is fresh at a moment, and how
//! taking changes it. Every figure of a decision is then found by trying: what remains is the
//! largest cost that fits, a wait ends at the first moment at which it is over.
//!
//! A model also says how many units count at a moment, as a fraction. A changed limit and a clock
//! that moved back follow from that.

mod buckets;
mod calendar;
mod events;
mod search;

use num_bigint::BigInt;
use num_rational::BigRational;
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

    /// The units that count at `at`. A bucket counts in fractions.
    fn used(&self, at: u128) -> BigRational;

    /// Takes `cost` units at `at`, whether they fit or not.
    fn take(&mut self, at: u128, cost: u64);

    /// Gives back `units`, the latest first.
    fn give_back(&mut self, at: u128, units: u64);

    /// When a request made at `at` goes ahead, where that is not at once.
    fn turn(&self, _at: u128) -> Option<u128> {
        None
    }

    /// The newest moment that the key has seen, where that is not the last take at `seen`.
    fn newest(&self, seen: u128) -> u128 {
        seen
    }

    /// The same key under `to`, which has the algorithm and the horizon of this model's limit and
    /// `ratio` times its capacity.
    fn scaled(&self, at: u128, ratio: &BigRational, to: &Limit) -> Box<dyn Model> {
        started(to, at, &(self.used(at) * ratio))
    }

    /// The same key under the same limit, as if what counts at `from` were taken at `to`.
    fn moved(&self, from: u128, to: u128, limit: &Limit) -> Box<dyn Model> {
        started(limit, to, &self.used(from))
    }
}

/// A fresh key.
fn fresh(limit: &Limit) -> Box<dyn Model> {
    match limit.algorithm() {
        Algorithm::TokenBucket => Box::new(Tokens::new(limit)),
        Algorithm::LeakyMeter => Box::new(Meter::new(limit)),
        Algorithm::LeakyQueue => Box::new(Queue::new(limit)),
        Algorithm::FixedWindow => Box::new(Fixed::new(limit)),
        Algorithm::SlidingLog => Box::new(Log::new(limit)),
        Algorithm::SlidingCounter => Box::new(Counter::new(limit)),
        other => unimplemented!("no model of {other:?} yet"),
    }
}

/// A key that took `used` units at `at` and nothing before. The units are rounded up once: to a
/// part of a bucket's unit, or to a unit of anything else.
fn started(limit: &Limit, at: u128, used: &BigRational) -> Box<dyn Model> {
    match limit.algorithm() {
        Algorithm::TokenBucket => Box::new(Tokens::with_used(limit, at, used)),
        Algorithm::LeakyMeter => Box::new(Meter::with_used(limit, at, used)),
        Algorithm::LeakyQueue => Box::new(Queue::with_used(limit, at, used)),
        _ => {
            let units = used.ceil().to_integer();
            let mut model = fresh(limit);
            if units > BigInt::from(0) {
                model.take(at, units.try_into().unwrap_or(u64::MAX));
            }
            model
        }
    }
}

fn is_zero(units: &BigRational) -> bool {
    *units == BigRational::from_integer(0.into())
}

/// The longest time from used up to fresh, in nanoseconds.
fn horizon(limit: &Limit) -> BigRational {
    let period = BigRational::from_integer(limit.period().as_nanos().into());
    match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyMeter | Algorithm::LeakyQueue => {
            period * BigInt::from(limit.capacity()) / BigInt::from(limit.count())
        }
        Algorithm::SlidingCounter => period * BigInt::from(2),
        _ => period,
    }
}

/// Whether a conversion from `old` to `new` is the same now and later: only the counts differ.
fn only_counts_differ(old: &Limit, new: &Limit) -> bool {
    let kind = |limit: &Limit| match limit.algorithm() {
        // They admit the same requests.
        Algorithm::LeakyMeter => Algorithm::TokenBucket,
        other => other,
    };
    let zone = |limit: &Limit| limit.zone_name().unwrap_or("UTC").to_owned();
    kind(old) == kind(new)
        && old.align() == new.align()
        && zone(old) == zone(new)
        && horizon(old) == horizon(new)
}

/// A key, as the specification has it.
#[derive(Debug)]
pub struct KeyModel {
    /// The limit that the state was made under.
    limit: Limit,
    model: Box<dyn Model>,
    /// The latest moment at which something was taken: time never goes back behind it by no more
    /// than the horizon.
    seen: u128,
}

impl KeyModel {
    /// A new key.
    pub fn new(limit: &Limit) -> KeyModel {
        KeyModel { limit: limit.clone(), model: fresh(limit), seen: 0 }
    }

    /// Takes `cost` units at `now` if they fit.
    pub fn check_n(&mut self, now: u64, cost: u64) -> Answer {
        let limit = self.limit.clone();
        self.check_under(&limit, now, cost)
    }

    /// Takes `cost` units at `now` if they fit `limit`.
    pub fn check_under(&mut self, limit: &Limit, now: u64, cost: u64) -> Answer {
        let Some(mut view) = self.view(limit, now.into()) else {
            return self.check_here(now, cost);
        };
        let answer = view.check_here(now, cost);
        let is_stored_by_denial =
            self.is_stepped(now.into()) || !only_counts_differ(&self.limit, limit);
        // A cost of 0, and one that is an error, change nothing.
        let is_decided = cost > 0 && !matches!(answer.outcome, Outcome::Invalid(_));
        if is_decided && (answer.is_allowed() || is_stored_by_denial) {
            *self = view;
        }
        answer
    }

    /// Denies a request of several charges at `now`, of which this is one. That stores a conversion
    /// unless only counts differ.
    pub fn deny_under(&mut self, limit: &Limit, now: u64) {
        if self.is_stepped(now.into()) || !only_counts_differ(&self.limit, limit) {
            self.bring_to(limit, now.into());
        }
    }

    /// What `check_n` would decide, with the figures of the key as it stands.
    pub fn peek_n(&self, now: u64, cost: u64) -> Answer {
        self.peek_under(&self.limit, now, cost)
    }

    /// What `check_under` would decide, with the figures of the key as it stands.
    pub fn peek_under(&self, limit: &Limit, now: u64, cost: u64) -> Answer {
        match self.view(limit, now.into()) {
            Some(view) => view.peek_here(now, cost),
            None => self.peek_here(now, cost),
        }
    }

    /// Takes `cost` units at `now` whether they fit or not.
    pub fn charge(&mut self, now: u64, cost: u64) {
        self.bring_to(&self.limit.clone(), now.into());
        self.take(now, cost);
    }

    /// Gives back `units` at `now`.
    pub fn refund(&mut self, now: u64, units: u64) {
        self.refund_under(&self.limit.clone(), now, units);
    }

    /// Gives back `units` of `limit` at `now`.
    pub fn refund_under(&mut self, limit: &Limit, now: u64, units: u64) {
        if units > 0 {
            self.bring_to(limit, now.into());
            self.model.give_back(self.seen.max(now.into()), units);
        }
    }

    fn bring_to(&mut self, limit: &Limit, now: u128) {
        if let Some(view) = self.view(limit, now) {
            *self = view;
        }
    }

    /// The key as `limit` sees it at `now`, if that is not as it is.
    fn view(&self, limit: &Limit, now: u128) -> Option<KeyModel> {
        let redated = self.redated(now);
        let before = redated.as_ref().unwrap_or(self);
        if before.limit == *limit {
            return redated;
        }
        let converted = before.converted(limit, now);
        Some(converted.redated(now).unwrap_or(converted))
    }

    /// The key under another limit, as if it had consumed the same share of that.
    fn converted(&self, to: &Limit, now: u128) -> KeyModel {
        let ratio = BigRational::new(to.capacity().into(), self.limit.capacity().into());
        if only_counts_differ(&self.limit, to) {
            let model = self.model.scaled(now.max(self.seen), &ratio, to);
            return KeyModel { limit: to.clone(), model, seen: self.seen };
        }
        let at = now.max(self.model.newest(self.seen));
        let used = self.model.used(at);
        if is_zero(&used) {
            return KeyModel::new(to);
        }
        KeyModel { limit: to.clone(), model: started(to, at, &(used * ratio)), seen: at }
    }

    /// Whether `now` is behind the newest moment by more than the horizon.
    fn is_stepped(&self, now: u128) -> bool {
        let newest = self.model.newest(self.seen);
        let behind = BigRational::from_integer(newest.saturating_sub(now).into());
        behind > horizon(&self.limit) && !is_zero(&self.model.used(self.seen))
    }

    /// The key as if it had taken now what it took then, if the clock moved back so far.
    fn redated(&self, now: u128) -> Option<KeyModel> {
        if !self.is_stepped(now) {
            return None;
        }
        let model = self.model.moved(self.seen, now, &self.limit);
        Some(KeyModel { limit: self.limit.clone(), model, seen: now })
    }

    fn check_here(&mut self, now: u64, cost: u64) -> Answer {
        let before = self.peek_here(now, cost);
        if cost == 0 || !before.is_allowed() {
            return before;
        }
        self.take(now, cost);
        Answer {
            remaining: self.remaining(now.into()),
            reset_after: nanos(self.reset_after(now.into())),
            ..before
        }
    }

    fn peek_here(&self, now: u64, cost: u64) -> Answer {
        let now = u128::from(now);
        let at = now.max(self.seen);
        let capacity = self.limit.capacity();
        let outcome = match cost {
            0 => Outcome::Allowed,
            _ if cost > capacity => {
                Outcome::Invalid(CostError::ExceedsCapacity { cost, limit: capacity })
            }
            _ if self.model.fits(at, cost) => Outcome::Allowed,
            _ => Outcome::Denied,
        };
        let turn = self.model.turn(at).filter(|_| outcome == Outcome::Allowed && cost > 0);
        Answer {
            outcome,
            limit: capacity,
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

    fn take(&mut self, now: u64, cost: u64) {
        self.seen = self.seen.max(now.into());
        self.model.take(self.seen, cost);
    }

    fn remaining(&self, now: u128) -> u64 {
        let at = now.max(self.seen);
        largest(self.limit.capacity(), |cost| self.model.fits(at, cost))
    }

    fn reset_after(&self, now: u128) -> u128 {
        self.wait(now, |at| self.model.is_new(at))
    }

    /// How long from `now` until `over` holds, which it then does for good.
    fn wait(&self, now: u128, over: impl Fn(u128) -> bool) -> u128 {
        first_moment(now, |at| over(at.max(self.seen))) - now
    }
}
