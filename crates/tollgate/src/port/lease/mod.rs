//! Leases: units that a node borrows from the store in one call and then gives out by itself.
//!
//! A lease is an ordinary charge of n units, taken before any of them is spent: **nothing that was
//! not charged is ever spent.** All that is left to see to is *when* a unit is spent, and what may
//! be given back. Nothing here reads a clock, waits or locks: a gate and a simulator drive the
//! same code. A [`Timestamp`] is a moment of this node's own clock, which never steps; a `u64` is a
//! moment of the store's, in microseconds. The two are never compared.
//!
//! **When.** A lease ends a `ttl` after the moment *before it was asked for*. The store charged it
//! later than that, so no unit is spent later than its charge plus `ttl`, however long the answer
//! took and whatever the two clocks show. A fixed window's and a counter's leases also end with the
//! window they were charged in. Hence, over all nodes together:
//!
//! - token bucket, meter: over any interval d at most B + (d + ttl) x N / P;
//! - fixed window: at most L in every window, exactly as without leases; a window that begins with
//!   the first request begins with the first borrow;
//! - sliding counter: its sum of two windows is at most L at every moment, exactly as without;
//! - sliding log: at most L in every interval of W - ttl; so `ttl` is at most half of W.
//!
//! **What may be given back.** A window, a counter and a log know when a unit was charged, and give
//! it back as if it had never been. A bucket does not: with its debt paid back by time meanwhile, a
//! refund to the letter would mint units. Let c be the bucket as it was charged, in the time that
//! pays back what it owes, and u the same with only those units that are ever spent, charged when
//! they were borrowed. A lease of which s units are spent and n are left may then give back
//!
//! f = max(0, n x P/N - max(0, now - moment)), with moment = when it was charged + s x P/N,
//!
//! since c >= u + the sum of f over all leases in hand, always. A charge and a borrow add as much to
//! both sides, a return takes as much from both. Time takes from c at most what passes. From the
//! right it takes as much: from u as long as u owes anything, which it does at least until every
//! lease's moment; and after that from every f that is not zero. So c never owes less than u: what
//! was spent is what the bucket would have allowed, had all been charged when it was borrowed.
//!
//! Not more than that can be given back: a bucket that owed a lot before the borrow may have owed it
//! for others' leases, which give back too.

mod heat;
mod lessee;
mod purse;

use std::time::Duration;

pub use heat::Demand;
pub use lessee::Borrower;
pub use purse::{Grant, LeaseRefunds, Payment, Wallet};

use super::{ScriptPlan, ScriptState, nanos};
use crate::algorithm::{self, TakenAt};
use crate::bounds::MIN_PERIOD;
use crate::limit::{LimitError, Plan};
use crate::time::Timestamp;

/// A lease is for what a key is expected to need in this part of `ttl`: small, so that little is
/// stranded where traffic stops; large enough that asking for the next takes no time in comparison.
const EXPECTED_PART: u64 = 4;

/// Of what is left a node borrows at most one part in this many times the nodes: all of them may
/// do so at once, and again, before anybody finds the store empty.
const FAIR_PARTS: u64 = 2;

/// A limit whose units are leased, and on what terms.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseTerms {
    limit: ScriptPlan,
    ttl: Duration,
    most: u64,
}

impl LeaseTerms {
    /// Leases that last `ttl` and are at most `share_percent` of what a new key admits.
    ///
    /// # Errors
    /// Where the limit is a queue, whose turns are told one by one, or `ttl` is too short or too
    /// long for it, or the share is none.
    pub fn new(
        limit: &ScriptPlan,
        ttl: Duration,
        share_percent: u64,
    ) -> Result<LeaseTerms, LimitError> {
        let refuse = |message: String| Err(LimitError::new(message));
        if matches!(&limit.0, Plan::Bucket(bucket) if bucket.is_queue()) {
            return refuse("a leaky bucket's queue cannot be leased, must be strict".to_owned());
        }
        if ttl < MIN_PERIOD {
            return refuse(format!("lease_ttl is {ttl:?}, must be at least {MIN_PERIOD:?}"));
        }
        if let Plan::SlidingLog(log) = &limit.0
            && ttl > Duration::from_nanos(log.window / 2)
        {
            let most = Duration::from_nanos(log.window / 2);
            return refuse(format!(
                "lease_ttl is {ttl:?}, must be at most {most:?}, half the window of a sliding log"
            ));
        }
        if !(1..=100).contains(&share_percent) {
            return refuse(format!("lease_share is {share_percent}%, must be 1% to 100%"));
        }
        let most = u128::from(limit.capacity()) * u128::from(share_percent) / 100;
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        Ok(LeaseTerms { limit: limit.clone(), ttl, most })
    }

    /// The limit.
    pub fn limit(&self) -> &ScriptPlan {
        &self.limit
    }

    /// How long a lease lasts at most.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The largest lease.
    pub fn most(&self) -> u64 {
        self.most
    }
}

/// How many units to borrow: what `heat` expects to need soon, at most a fair share of the `left`
/// that the store was last seen to have, with so many `nodes` about, and at most what the terms
/// say. 0 where a lease would hold less than two: then asking for each is as good, and the last
/// units of a key are stranded nowhere.
pub fn size(heat: &Demand, terms: &LeaseTerms, (left, nodes): (u64, u64), now: Timestamp) -> u64 {
    let expected = heat.within(terms.ttl, now) / EXPECTED_PART;
    let fair = left / nodes.max(1).saturating_mul(FAIR_PARTS);
    let units = expected.min(fair).min(terms.most);
    if units < 2 { 0 } else { units }
}

/// Units of a lease to be given back to the store. Send it at most once: lost is safe, twice is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRefund {
    /// How many.
    pub units: u64,
    /// A moment of the store's clock, which may lie ahead of it. For a bucket the one from which on
    /// time takes from them: give back [`price`](ScriptPlan::price)`(units)` less `max(now - moment, 0)`,
    /// `now` being the store's, or the state's moment if that is later. For a fixed window its end,
    /// for a log or a counter when they were charged: what units taken at that moment give back.
    pub moment: u64,
}

/// What a store does, on a state that is at hand: for simulations, and to compare scripts with.
impl ScriptPlan {
    /// The state after `units` are taken at `now`, into debt if they are not there.
    #[must_use]
    pub fn take(&self, state: &ScriptState, now: u64, units: u64) -> ScriptState {
        let mut kept = self.to_memory(state);
        self.0.take(kept.as_mut(), nanos(now), units);
        self.kept(&kept)
    }

    /// The state after a lease's units are given back at `now`.
    #[must_use]
    pub fn give_back(&self, state: &ScriptState, now: u64, back: LeaseRefund) -> ScriptState {
        if *state == ScriptState::New {
            return ScriptState::New;
        }
        let mut kept = self.to_memory(state);
        let moment = nanos(back.moment);
        match (&self.0, &mut kept) {
            (Plan::Bucket(bucket), algorithm::State::Words(words)) => {
                bucket.give_back_since(words, nanos(now), moment, back.units);
            }
            // A window that has ended is told by its end, which is what its units remember.
            (Plan::FixedWindow(_), algorithm::State::Words([end, ..])) if moment < *end => {}
            (plan, _) => {
                let taken = TakenAt::At(Timestamp::from_nanos(moment));
                plan.give_back(kept.as_mut(), nanos(now), taken, back.units);
            }
        }
        self.kept(&kept)
    }
}
