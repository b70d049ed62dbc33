//! What this node has borrowed, by key: a table with a bound, in sets that are locked one at a time.

use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher13};
use tollgate::port::{Borrower, Grant, LeaseRefund, LeaseRefunds, LeaseTerms, Payment};
use tollgate::{Clock, Decision, Timestamp};

use super::super::names::RedisLimit;
use super::LeaseStats;
use crate::bounds::{LEASE_SETS, LEASES_PER_SET};
use crate::error::StoreError;
use crate::store::RedisStore;

/// The keys of leased rules that this node was asked for lately.
pub(in super::super) struct Leases {
    pub(super) clock: Clock,
    /// So that nobody can aim keys at one set.
    seed: [u64; 2],
    /// Found by the key. No two are locked at a time, and none across an await.
    sets: Box<[Mutex<LeaseSet>]>,
    /// Whether somebody gives back what lies idle.
    pub(super) keeping: Arc<AtomicBool>,
    pub(super) borrows: AtomicU64,
    pub(super) borrowed: AtomicU64,
    pub(super) returns: AtomicU64,
    pub(super) returned: AtomicU64,
}

#[derive(Default)]
struct LeaseSet {
    held: Vec<TableEntry>,
    /// How many charges, and of how many units, were paid from what was in hand.
    charges: u64,
    units: u64,
}

/// A key, and what this node has of it.
struct TableEntry {
    key: u128,
    of: Arc<RedisLimit>,
    name: Box<[u8]>,
    lessee: Borrower,
}

/// A key of a leased limit, on its way through the table.
#[derive(Clone)]
pub(super) struct LeasedKey {
    pub(super) of: Arc<RedisLimit>,
    /// What it is called in Redis.
    pub(super) name: Vec<u8>,
    key: u128,
}

/// Units to give back to a key.
pub(super) struct PendingReturn {
    pub(super) of: Arc<RedisLimit>,
    pub(super) name: Box<[u8]>,
    pub(super) what: LeaseRefund,
}

/// What came of a charge, or of a borrow: what it has in hand, what to borrow now, off the request's
/// path, and what to give back.
#[derive(Default)]
pub(super) struct FollowUp {
    pub(super) borrow: Option<u64>,
    pub(super) back: Vec<PendingReturn>,
}

impl Leases {
    pub(in super::super) fn new(store: &RedisStore) -> Result<Leases, StoreError> {
        let random = || {
            getrandom::u64()
                .map_err(|error| StoreError::Incompatible(format!("no random numbers: {error}")))
        };
        Ok(Leases {
            clock: store.clock().cloned().map_or_else(Clock::system, Clock::from),
            seed: [random()?, random()?],
            sets: (0..LEASE_SETS).map(|_| Mutex::default()).collect(),
            keeping: Arc::default(),
            borrows: AtomicU64::new(0),
            borrowed: AtomicU64::new(0),
            returns: AtomicU64::new(0),
            returned: AtomicU64::new(0),
        })
    }

    /// A key of a leased limit; `None` if the limit is not leased.
    pub(super) fn lent(&self, of: Arc<RedisLimit>, key: &[u8]) -> Option<LeasedKey> {
        of.lease.as_ref()?;
        let name = of.limiter.inner.prefix.written(key);
        let key = self.hash(&name);
        Some(LeasedKey { of, name, key })
    }

    /// Spends units that are in hand, and says what to do off the request's path.
    pub(super) fn spend(
        &self,
        lent: &LeasedKey,
        cost: u64,
        nodes: u64,
    ) -> (Option<Payment>, FollowUp) {
        let now = self.clock.now();
        let mut set = self.set(lent.key);
        let mut then = FollowUp::default();
        let Some(held) = set.find_or_add(lent, now, &mut then) else { return (None, then) };
        let terms = lent.terms();
        let spent = held.lessee.spend(terms, cost, now);
        if spent.is_some() {
            then.borrow = held.lessee.borrow(terms, nodes, now);
            set.charges += 1;
            set.units = set.units.saturating_add(cost);
        }
        (spent, then)
    }

    /// What is in hand for a charge of `cost` would come to, spending nothing.
    pub(super) fn look(&self, lent: &LeasedKey, cost: u64) -> Option<Decision> {
        let (now, mut set) = (self.clock.now(), self.set(lent.key));
        let held = set.find(lent)?;
        held.lessee.look(lent.terms(), cost, now)
    }

    /// Puts back what was spent for a request that did not go ahead.
    pub(super) fn put_back(&self, lent: &LeasedKey, spent: &Payment, cost: u64) {
        let (now, mut set) = (self.clock.now(), self.set(lent.key));
        if let Some(held) = set.find(lent) {
            held.lessee.put_back(lent.terms(), spent, now);
        }
        set.charges -= 1;
        set.units -= cost;
    }

    /// Learns from the store's own answer to a charge how much of the key is left, and says how much
    /// to borrow.
    pub(super) fn met(&self, lent: &LeasedKey, decision: &Decision, nodes: u64) -> Option<u64> {
        let (now, mut set) = (self.clock.now(), self.set(lent.key));
        let held = set.find(lent)?;
        held.lessee.met(decision);
        held.lessee.borrow(lent.terms(), nodes, now)
    }

    /// Puts in hand what was borrowed, or what of it is to be given back.
    pub(super) fn granted(&self, lent: &LeasedKey, grant: Grant) -> Vec<PendingReturn> {
        let (now, mut set) = (self.clock.now(), self.set(lent.key));
        let returns = match set.find(lent) {
            Some(held) => held.lessee.lease_granted(lent.terms(), grant, now),
            // Its numbers have changed meanwhile.
            None => {
                let mut lessee = Borrower::default();
                let mut returns = lessee.lease_granted(lent.terms(), grant, now);
                returns.extend(lessee.empty(lent.terms(), now));
                returns
            }
        };
        backs(&lent.of, &lent.name, returns)
    }

    /// The store has refused a borrow: how much less to ask for, if anything.
    pub(super) fn refused(&self, lent: &LeasedKey, decision: &Decision, nodes: u64) -> Option<u64> {
        let (now, mut set) = (self.clock.now(), self.set(lent.key));
        let held = set.find(lent)?;
        held.lessee.lease_denied(decision);
        held.lessee.borrow(lent.terms(), nodes, now)
    }

    /// There was no answer to a borrow.
    pub(super) fn failed(&self, lent: &LeasedKey) {
        if let Some(held) = self.set(lent.key).find(lent) {
            held.lessee.lease_failed();
        }
    }

    /// Takes out what has ended or lies idle, and forgets keys that nobody asks for.
    pub(super) fn ended(&self) -> Vec<PendingReturn> {
        let (now, mut back) = (self.clock.now(), Vec::new());
        for set in &self.sets {
            let mut set = lock(set);
            set.held.retain_mut(|held| {
                let Some(terms) = &held.of.lease else { return false };
                back.extend(backs(&held.of, &held.name, held.lessee.ended(terms, now)));
                !held.lessee.is_idle(terms, now)
            });
        }
        back
    }

    /// Takes out everything, to be given back.
    pub(super) fn empty(&self) -> Vec<PendingReturn> {
        let (now, mut back) = (self.clock.now(), Vec::new());
        for set in &self.sets {
            for held in &mut lock(set).held {
                if let Some(terms) = &held.of.lease {
                    back.extend(backs(&held.of, &held.name, held.lessee.empty(terms, now)));
                }
            }
        }
        back
    }

    /// Forgets what is in hand of a key that was reset: it is not charged any more.
    pub(in super::super) fn forget(&self, name: &[u8]) {
        let key = self.hash(name);
        let mut set = self.set(key);
        set.held.iter_mut().filter(|held| held.key == key).for_each(|held| held.lessee.forget());
    }

    /// The same for all keys that are meant.
    pub(in super::super) fn forget_where(&self, is_meant: impl Fn(&[u8]) -> bool) {
        for set in &self.sets {
            let mut set = lock(set);
            let meant = set.held.iter_mut().filter(|held| is_meant(&held.name));
            meant.for_each(|held| held.lessee.forget());
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.sets.iter().map(|set| lock(set).held.len()).sum()
    }

    /// What was borrowed and what became of it.
    pub(in super::super) fn counts(&self) -> LeaseStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut counts = LeaseStats {
            borrows: read(&self.borrows),
            borrowed: read(&self.borrowed),
            returns: read(&self.returns),
            returned: read(&self.returned),
            ..LeaseStats::default()
        };
        let now = self.clock.now();
        for set in &self.sets {
            let set = lock(set);
            counts.charges += set.charges;
            counts.spent = counts.spent.saturating_add(set.units);
            let in_hand = set.held.iter().map(|held| held.lessee.purse().left(now));
            counts.available = in_hand.fold(counts.available, u64::saturating_add);
        }
        counts
    }

    fn hash(&self, bytes: &[u8]) -> u128 {
        let mut hasher = SipHasher13::new_with_keys(self.seed[0], self.seed[1]);
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }

    fn set(&self, key: u128) -> MutexGuard<'_, LeaseSet> {
        let count = u128::try_from(self.sets.len()).unwrap_or(1);
        lock(&self.sets[usize::try_from(key % count).unwrap_or(0)])
    }
}

fn lock(set: &Mutex<LeaseSet>) -> MutexGuard<'_, LeaseSet> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

fn backs(of: &Arc<RedisLimit>, name: &[u8], returns: LeaseRefunds) -> Vec<PendingReturn> {
    returns
        .into_iter()
        .map(|what| PendingReturn { of: of.clone(), name: name.into(), what })
        .collect()
}

impl LeasedKey {
    fn terms(&self) -> &LeaseTerms {
        self.of.lease.as_ref().expect("only what is leased is lent")
    }
}

impl LeaseSet {
    /// The key under the same numbers.
    fn find(&mut self, lent: &LeasedKey) -> Option<&mut TableEntry> {
        let is_same = |held: &&mut TableEntry| held.key == lent.key && held.is_of(&lent.of);
        self.held.iter_mut().find(is_same)
    }

    /// The key under these numbers; `None` where there is no room for one more.
    fn find_or_add(
        &mut self,
        lent: &LeasedKey,
        now: Timestamp,
        then: &mut FollowUp,
    ) -> Option<&mut TableEntry> {
        let place = match self.held.iter().position(|held| held.key == lent.key) {
            Some(place) => place,
            None => self.add(lent, now)?,
        };
        let held = &mut self.held[place];
        if !held.is_of(&lent.of) {
            if let Some(terms) = &held.of.lease {
                then.back = backs(&held.of, &held.name, held.lessee.empty(terms, now));
            }
            held.lessee = Borrower::default();
            held.of = lent.of.clone();
        }
        Some(held)
    }

    /// Where the key is added: in the place of one that is least asked for and has nothing in hand,
    /// if there is no other.
    fn add(&mut self, lent: &LeasedKey, now: Timestamp) -> Option<usize> {
        let (of, name) = (lent.of.clone(), lent.name.as_slice().into());
        let held = TableEntry { key: lent.key, of, name, lessee: Borrower::default() };
        if self.held.len() < LEASES_PER_SET {
            self.held.push(held);
            return Some(self.held.len() - 1);
        }
        let asked = |held: &TableEntry| {
            let terms = held.of.lease.as_ref()?;
            held.lessee.is_free().then(|| held.lessee.asked(terms, now))
        };
        let coldest =
            self.held.iter().enumerate().filter_map(|(at, held)| Some((asked(held)?, at)));
        let (_, place) = coldest.min()?;
        self.held[place] = held;
        Some(place)
    }
}

impl TableEntry {
    /// Whether it is of this limit, or of one with the same numbers and terms.
    fn is_of(&self, of: &Arc<RedisLimit>) -> bool {
        Arc::ptr_eq(&self.of, of) || self.of.lease == of.lease
    }
}
