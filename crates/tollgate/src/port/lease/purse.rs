//! What a node has in hand of one key.

use std::time::Duration;

use smallvec::SmallVec;

use super::{LeaseRefund, LeaseTerms};
use crate::algorithm::{self, TakenAt};
use crate::decision::Decision;
use crate::limit::Plan;
use crate::port::{ScriptState, TICK, nanos};
use crate::time::Timestamp;

/// What is given out, and what follows it when it runs dry.
const MOST_BATCHES: usize = 2;

/// What has not been touched for this part of a lease's time is given back before its end.
const IDLE_PART: u32 = 2;

/// A borrow as the store answered it: `units` were charged.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The moment *before* the borrow was sent, by this node's clock.
    pub sent: Timestamp,
    /// When the store charged it, by the store's clock.
    pub at: u64,
    /// The state it met, without the units.
    pub met: ScriptState,
    /// How many units.
    pub units: u64,
}

/// Units that were given out of what is in hand.
#[derive(Clone, Copy, Debug)]
#[must_use = "it has the decision"]
pub struct Payment {
    /// The decision, with the figures as this node knows them: the state that the borrow met, with
    /// what this node has spent since. Others' charges are not in it.
    pub decision: Decision,
    batch: u64,
    cost: u64,
}

impl Payment {
    /// Which of the purse's batches it came out of, as [`Wallet::borrowed`] counts them.
    pub fn batch(&self) -> u64 {
        self.batch
    }
}

/// What is to be given back at once.
pub type LeaseRefunds = SmallVec<[LeaseRefund; MOST_BATCHES + 1]>;

/// Units in hand: at most two batches, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Wallet {
    batches: Vec<LeasedBatch>,
    /// How many there have been.
    numbered: u64,
}

#[derive(Clone, Debug)]
struct LeasedBatch {
    number: u64,
    /// Not spent yet.
    left: u64,
    /// How many it was.
    units: u64,
    /// From this moment of this node's clock on nothing of it is spent.
    deadline: Timestamp,
    /// When the answer came, and when something was last spent.
    arrived: Timestamp,
    touched: Timestamp,
    /// What the store's clock showed when it was charged, in nanoseconds.
    at: u64,
    /// The moment it counts as charged at: later, where the store's clock was behind the state.
    charged_at: u64,
    /// When the fixed window or the counter's window that it was charged in ends.
    window_ends: Option<u64>,
    /// The state that was met, with what was spent, charged when it was borrowed.
    state: algorithm::State,
}

impl Wallet {
    /// Puts a batch in, if there is room for it and its time has not passed. Answers what is to be
    /// given back: batches that have ended, or this one.
    pub fn add(&mut self, terms: &LeaseTerms, grant: Grant, now: Timestamp) -> LeaseRefunds {
        let mut returns = self.ended(terms, now);
        // What is spent makes room: a request that puts back later loses its units.
        self.batches.retain(|batch| batch.left > 0);
        self.numbered += 1;
        let batch = LeasedBatch::new(terms, grant, (self.numbered, now));
        if self.batches.len() >= MOST_BATCHES || now >= batch.deadline {
            returns.extend(batch.give_back(terms, now));
        } else {
            self.batches.push(batch);
        }
        returns
    }

    /// Takes `cost` units out of the oldest batch that has them all and has not ended.
    #[inline]
    pub fn spend(&mut self, terms: &LeaseTerms, cost: u64, now: Timestamp) -> Option<Payment> {
        let fits =
            |batch: &&mut LeasedBatch| cost > 0 && batch.left >= cost && now < batch.deadline;
        let batch = self.batches.iter_mut().find(fits)?;
        Some(batch.spend(&terms.limit.0, cost, now))
    }

    /// What [`spend`](Self::spend) would decide, had it to be left in hand for another limit's sake.
    pub fn look(&self, terms: &LeaseTerms, cost: u64, now: Timestamp) -> Option<Decision> {
        let fits = |batch: &&LeasedBatch| cost > 0 && batch.left >= cost && now < batch.deadline;
        let batch = self.batches.iter().find(fits)?;
        let figures = terms.limit.0.decide(batch.state.as_ref(), batch.seen(now), 0);
        Some(Decision::allowed(figures))
    }

    /// Puts back what was spent for a request that did not go ahead after all; lost if its batch
    /// has ended meanwhile, for then it may have been given back.
    pub fn put_back(&mut self, terms: &LeaseTerms, spent: &Payment, now: Timestamp) {
        let is_its = |batch: &&mut LeasedBatch| batch.number == spent.batch && now < batch.deadline;
        if let Some(batch) = self.batches.iter_mut().find(is_its) {
            let taken = TakenAt::At(Timestamp::from_nanos(batch.charged_at));
            let state = batch.state.as_mut();
            terms.limit.0.give_back(state, batch.charged_at, taken, spent.cost);
            batch.left += spent.cost;
        }
    }

    /// Takes out the batches that have ended or that nobody has touched for long, to be given back.
    pub fn ended(&mut self, terms: &LeaseTerms, now: Timestamp) -> LeaseRefunds {
        let idle = terms.ttl / IDLE_PART;
        let untouched =
            self.batches.iter().all(|batch| now.saturating_since(batch.touched) >= idle);
        self.take_out(terms, now, |batch| untouched || now >= batch.deadline)
    }

    /// Takes out all of it, to be given back: the node stops, or the limit has other numbers.
    pub fn empty(&mut self, terms: &LeaseTerms, now: Timestamp) -> LeaseRefunds {
        self.take_out(terms, now, |_| true)
    }

    /// Forgets all of it, for a key that was reset: what was charged is not charged any more.
    pub fn forget(&mut self) {
        self.batches.clear();
    }

    /// How many batches there have been: the number of the last.
    pub fn borrowed(&self) -> u64 {
        self.numbered
    }

    /// Whether nothing is in hand, and nothing to be given back.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// When [`ended`](Self::ended) is to be asked next, at the latest; `None` where nothing is in hand.
    pub fn ends(&self, terms: &LeaseTerms) -> Option<Timestamp> {
        let touched = self.batches.iter().map(|batch| batch.touched).max()?;
        let first = self.batches.iter().map(|batch| batch.deadline).min()?;
        Some(first.min(touched.saturating_add(terms.ttl / IDLE_PART)))
    }

    /// How many units could be spent now.
    pub fn left(&self, now: Timestamp) -> u64 {
        self.live(now).fold(0, |sum, batch| sum.saturating_add(batch.left))
    }

    /// Whether it is time to borrow: there is nothing in hand, or but one batch, half of it spent.
    #[inline]
    pub fn wants_renewal(&self, now: Timestamp) -> bool {
        let mut live = self.live(now);
        match (live.next(), live.next()) {
            (None, _) => true,
            (Some(only), None) => only.left <= only.units / 2,
            (Some(_), Some(_)) => false,
        }
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &LeasedBatch> {
        self.batches.iter().filter(move |batch| batch.left > 0 && now < batch.deadline)
    }

    fn take_out(
        &mut self,
        terms: &LeaseTerms,
        now: Timestamp,
        goes: impl Fn(&LeasedBatch) -> bool,
    ) -> LeaseRefunds {
        let mut returns = LeaseRefunds::new();
        self.batches.retain(|batch| {
            let goes = goes(batch);
            if goes {
                returns.extend(batch.give_back(terms, now));
            }
            !goes
        });
        returns
    }
}

impl LeasedBatch {
    fn new(terms: &LeaseTerms, grant: Grant, (number, now): (u64, Timestamp)) -> LeasedBatch {
        let (plan, at) = (&terms.limit.0, nanos(grant.at));
        let state = terms.limit.to_memory(&grant.met);
        let (charged_at, window_ends) = match plan {
            Plan::FixedWindow(window) => (at, Some(window.end(state.as_ref().words(), at))),
            Plan::SlidingCounter(counter) => {
                let charged_at = at.max(plan.seen(state.as_ref()));
                (charged_at, Some(counter.end(charged_at)))
            }
            Plan::Bucket(_) | Plan::SlidingLog(_) => (at.max(plan.seen(state.as_ref())), None),
        };
        let ends = grant.sent.saturating_add(terms.ttl);
        let rest = window_ends.map(|end| Duration::from_nanos(end.saturating_sub(charged_at)));
        LeasedBatch {
            number,
            left: grant.units,
            units: grant.units,
            deadline: rest.map_or(ends, |rest| ends.min(grant.sent.saturating_add(rest))),
            arrived: now,
            touched: now,
            at,
            charged_at,
            window_ends,
            state,
        }
    }

    #[inline]
    fn spend(&mut self, plan: &Plan, cost: u64, now: Timestamp) -> Payment {
        // By the store's clock it is this late at least: waits are not told too short.
        let seen = self.seen(now);
        let figures = plan.decide(self.state.as_ref(), seen, cost);
        plan.take(self.state.as_mut(), self.charged_at, cost);
        self.left -= cost;
        self.touched = now;
        Payment { decision: Decision::new(figures, cost), batch: self.number, cost }
    }

    /// What the store's clock shows, at least.
    fn seen(&self, now: Timestamp) -> u64 {
        Timestamp::from_nanos(self.at).saturating_add(now.saturating_since(self.arrived)).as_nanos()
    }

    /// What to give back of it; nothing where the store would make nothing of it.
    fn give_back(&self, terms: &LeaseTerms, now: Timestamp) -> Option<LeaseRefund> {
        let seen = self.seen(now);
        let (moment, worthless) = match &terms.limit.0 {
            Plan::Bucket(_) => {
                let [paid, owed] = [self.units - self.left, self.left];
                let [paid, owed] = [paid, owed].map(|units| terms.limit.price(units).micros);
                let from = (self.charged_at / TICK).saturating_add(paid);
                (from, from.saturating_add(owed) < seen / TICK)
            }
            Plan::FixedWindow(_) => {
                let end = self.window_ends.unwrap_or(self.charged_at);
                (end.div_ceil(TICK), end <= seen)
            }
            Plan::SlidingLog(log) => (self.charged_at / TICK, self.charged_at + log.window <= seen),
            Plan::SlidingCounter(counter) => {
                let end = self.window_ends.unwrap_or(self.charged_at);
                (self.charged_at / TICK, end + counter.window <= seen)
            }
        };
        (self.left > 0 && !worthless).then_some(LeaseRefund { units: self.left, moment })
    }
}
