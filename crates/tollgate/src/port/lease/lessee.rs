//! What one node knows of one key whose units it may borrow.

use super::{Demand, Grant, LeaseRefunds, LeaseTerms, Payment, Wallet, size};
use crate::decision::Decision;
use crate::time::Timestamp;

/// One key on one node: how hot it is, what is in hand, and what the store was seen to have left.
///
/// For every request [`spend`](Self::spend), and where that has nothing, ask the store and tell
/// [`met`](Self::met) what it answered. Then, off the request's path, [`borrow`](Self::borrow) says
/// how much to ask the store for, if anything; tell its answer with [`lease_granted`](Self::lease_granted),
/// [`lease_denied`](Self::lease_denied) or [`lease_failed`](Self::lease_failed).
#[derive(Clone, Debug, Default)]
pub struct Borrower {
    heat: Demand,
    purse: Wallet,
    /// What the store had left when it was last heard of.
    left: u64,
    /// Whether a borrow is on its way: there is one at a time.
    asking: bool,
    /// Whether the key was reset since that was sent: it may have been charged before.
    void: bool,
}

impl Borrower {
    /// Spends `cost` units of what is in hand; `None` where the store is to be asked.
    #[inline]
    pub fn spend(&mut self, terms: &LeaseTerms, cost: u64, now: Timestamp) -> Option<Payment> {
        self.heat.record(terms.ttl, cost, now);
        self.purse.spend(terms, cost, now)
    }

    /// What a charge of `cost` units would come to that is paid from what is in hand; `None` where the
    /// store is to be asked.
    pub fn look(&self, terms: &LeaseTerms, cost: u64, now: Timestamp) -> Option<Decision> {
        self.purse.look(terms, cost, now)
    }

    /// Puts back what was spent for a request that did not go ahead after all.
    pub fn put_back(&mut self, terms: &LeaseTerms, spent: &Payment, now: Timestamp) {
        self.purse.put_back(terms, spent, now);
    }

    /// Learns what the store has left from its answer to a request that it decided.
    pub fn met(&mut self, decision: &Decision) {
        self.left = decision.remaining();
    }

    /// How many units to ask the store for now, with so many nodes about. After `Some` its answer is
    /// to be told.
    pub fn borrow(&mut self, terms: &LeaseTerms, nodes: u64, now: Timestamp) -> Option<u64> {
        if self.asking || !self.purse.wants_renewal(now) || !self.heat.is_high(terms.ttl, now) {
            return None;
        }
        let units = size(&self.heat, terms, (self.left, nodes), now);
        (self.asking, self.void) = (units > 0, false);
        self.asking.then_some(units)
    }

    /// The store has charged what was to be borrowed. Answers what is to be given back, if it came
    /// too late.
    pub fn lease_granted(
        &mut self,
        terms: &LeaseTerms,
        grant: Grant,
        now: Timestamp,
    ) -> LeaseRefunds {
        self.asking = false;
        self.met(&terms.limit.decide(&grant.met, grant.at, grant.units));
        if self.void { LeaseRefunds::new() } else { self.purse.add(terms, grant, now) }
    }

    /// The store has refused it.
    pub fn lease_denied(&mut self, decision: &Decision) {
        self.asking = false;
        self.met(decision);
    }

    /// There was no answer: what was charged, if it was, is lost.
    pub fn lease_failed(&mut self) {
        self.asking = false;
        self.left = 0;
    }

    /// Takes out what has ended or lies idle, to be given back.
    pub fn ended(&mut self, terms: &LeaseTerms, now: Timestamp) -> LeaseRefunds {
        self.purse.ended(terms, now)
    }

    /// Takes out everything, to be given back: the node stops, or the limit has other numbers.
    pub fn empty(&mut self, terms: &LeaseTerms, now: Timestamp) -> LeaseRefunds {
        self.purse.empty(terms, now)
    }

    /// Forgets what is in hand and what is on its way, for a key that was reset.
    pub fn forget(&mut self) {
        self.void = self.asking;
        self.purse.forget();
    }

    /// What is in hand.
    pub fn purse(&self) -> &Wallet {
        &self.purse
    }

    /// Whether nothing is in hand or on its way.
    pub fn is_free(&self) -> bool {
        !self.asking && self.purse.is_empty()
    }

    /// The units that were asked for lately, about.
    pub fn asked(&self, terms: &LeaseTerms, now: Timestamp) -> u64 {
        self.heat.within(terms.ttl, now)
    }

    /// Whether nothing would be lost by forgetting it all.
    pub fn is_idle(&self, terms: &LeaseTerms, now: Timestamp) -> bool {
        self.is_free() && self.heat.is_idle(terms.ttl, now)
    }
}
