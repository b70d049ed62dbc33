//! Reservations: units taken now and settled when the real cost is known.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::Taken;
use crate::bounds::{DEFAULT_RESERVATION, EXPIRED_PER_CALL};
use crate::decision::Decision;
use crate::key::{Fingerprint, Key, KeyName};
use crate::limiter::Limiter;
use crate::store::memory::{Entry, MemoryStore, Named};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::time::Timestamp;

/// Units that are taken until it is known how many were needed.
///
/// Dropped, it gives them back. One that is neither dropped nor ended gives them back when it
/// times out; what is committed or settled after that is charged anew, into debt if it must.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_hour(10_000))?;
/// let reservation = limiter.reserve("ana", 4_000).expect("a new key has all of it");
/// // … the model answers, and used fewer tokens than the estimate …
/// reservation.settle(1_500);
/// assert_eq!(limiter.status("ana").used(), 1_500);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[must_use = "dropping a reservation gives its units back"]
pub struct Reservation {
    claim: Claim,
    decision: Decision,
}

/// When a reservation times out, and a number to tell those of one moment apart.
type Ticket = (Timestamp, u64);

impl Reservation {
    pub(crate) fn new(
        limiter: &Limiter,
        key: &impl Key,
        cost: u64,
        timeout: Duration,
    ) -> Result<Reservation, Decision> {
        let memory = limiter.memory();
        let fingerprint = limiter.fingerprint(key);
        let now = memory.now();
        let entry = Entry { named: limiter.named(), fingerprint, key };
        let (decision, taken_at) = memory.reserve(&entry, now, cost);
        if !decision.is_allowed() {
            return Err(decision);
        }
        let held = Held { named: limiter.named().clone(), fingerprint, cost, taken_at };
        let claim = Claim::new(limiter.store(), KeyName::new(key), held, now.after(timeout));
        Ok(Reservation { claim, decision })
    }

    /// The decision that took the units.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How many units are reserved.
    pub fn cost(&self) -> u64 {
        self.claim.held.cost
    }

    /// Holds `units` in all where that is more than it held: takes the difference now, into debt if
    /// it is not there. For what turns out to be more while it goes on, such as a long answer.
    pub fn raise(&mut self, units: u64) {
        self.claim.raise(units);
    }

    /// Keeps what was reserved: the estimate was right.
    pub fn commit(self) {
        self.claim.commit();
    }

    /// Gives everything back: nothing was used.
    pub fn cancel(self) {}

    /// Charges what was really used instead of what was reserved: gives the difference back, or
    /// takes it, into debt if it is not there.
    pub fn settle(self, actual: u64) {
        self.claim.settle(actual);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("cost", &self.cost()).finish_non_exhaustive()
    }
}

/// Units of one limit taken for one key, given back unless they are settled in time.
pub(crate) struct Claim {
    store: MemoryStore,
    name: KeyName,
    held: Held,
    ticket: Ticket,
}

impl Claim {
    pub(crate) fn new(store: &MemoryStore, name: KeyName, held: Held, until: Timestamp) -> Claim {
        let ticket = store.0.reservations.add(until, held.clone());
        Claim { store: store.clone(), name, held, ticket }
    }

    /// Keeps what was taken.
    pub(crate) fn commit(&self) {
        self.settle(self.held.cost);
    }

    /// Charges `actual` units instead of those that were taken.
    pub(crate) fn settle(&self, actual: u64) {
        let is_late = self.ticket.0 <= self.store.0.now();
        let was_open = self.end();
        if was_open && is_late {
            // It has timed out, and nobody has come by since to give it back.
            self.give_back(self.held.cost);
        }
        let taken = if was_open && !is_late { self.held.cost } else { 0 };
        if actual > taken {
            let Held { named, fingerprint, .. } = &self.held;
            let entry = Entry { named, fingerprint: *fingerprint, key: &self.name };
            self.store.0.take(&entry, self.store.0.now(), actual - taken);
        } else {
            self.give_back(taken - actual);
        }
    }

    /// Holds `units` where that is more than it held; in full and for a minute where it has timed
    /// out.
    pub(crate) fn raise(&mut self, units: u64) {
        let before = self.held.cost;
        if units <= before {
            return;
        }
        let memory = &self.store.0;
        let now = memory.now();
        self.held.cost = units;
        let is_held = memory.reservations.raise(self.ticket, units);
        // Units that are given back count as taken when the first of them were: nobody gets more
        // back of a window than is still in it.
        if !is_held {
            self.held.taken_at = now;
            let until = now.after(DEFAULT_RESERVATION);
            self.ticket = memory.reservations.add(until, self.held.clone());
        }
        let Held { named, fingerprint, .. } = &self.held;
        let entry = Entry { named, fingerprint: *fingerprint, key: &self.name };
        memory.take(&entry, now, if is_held { units - before } else { units });
    }

    /// Ends it; false if it has ended, or timed out, before.
    fn end(&self) -> bool {
        self.store.0.reservations.remove(self.ticket)
    }

    fn give_back(&self, units: u64) {
        if units > 0 {
            let Held { named, fingerprint, taken_at, .. } = &self.held;
            self.store.0.give_back(named, *fingerprint, Taken::At(*taken_at), units);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.end() {
            self.give_back(self.held.cost);
        }
    }
}

/// The reservations of a store that have not ended, by when they time out.
#[derive(Debug)]
pub(crate) struct Reservations {
    held: Mutex<BTreeMap<Ticket, Held>>,
    /// When the first times out, so that a check need not lock to know that none has.
    first: AtomicU64,
    tickets: AtomicU64,
}

/// What a reservation holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) named: Arc<Named>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) cost: u64,
    pub(crate) taken_at: Timestamp,
}

impl Default for Reservations {
    fn default() -> Reservations {
        Reservations {
            held: Mutex::default(),
            first: AtomicU64::new(u64::MAX),
            tickets: AtomicU64::new(0),
        }
    }
}

impl Reservations {
    fn add(&self, until: Timestamp, held: Held) -> Ticket {
        let ticket = (until, self.tickets.fetch_add(1, Ordering::Relaxed));
        self.change(|all| all.insert(ticket, held));
        ticket
    }

    /// Makes a reservation one of `units`; false if it has timed out.
    fn raise(&self, ticket: Ticket, units: u64) -> bool {
        self.change(|all| all.get_mut(&ticket).map(|held| held.cost = units)).is_some()
    }

    fn remove(&self, ticket: Ticket) -> bool {
        self.change(|all| all.remove(&ticket)).is_some()
    }

    /// Whether one may have timed out by `now`.
    #[inline]
    pub(crate) fn any_expired(&self, now: Timestamp) -> bool {
        // Relaxed: who misses a change by a hair sees it with the next call.
        self.first.load(Ordering::Relaxed) <= now.as_nanos()
    }

    /// When the first times out.
    pub(crate) fn first(&self) -> Timestamp {
        Timestamp::from_nanos(self.first.load(Ordering::Relaxed))
    }

    /// Takes some that have timed out by `now`.
    pub(crate) fn expire(&self, now: Timestamp) -> Vec<Held> {
        self.change(|all| {
            let expired = |all: &BTreeMap<Ticket, Held>| {
                all.keys().next().is_some_and(|(until, _)| *until <= now)
            };
            let mut gone = Vec::new();
            while gone.len() < EXPIRED_PER_CALL && expired(all) {
                gone.extend(all.pop_first().map(|(_, held)| held));
            }
            gone
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Ticket, Held>) -> T) -> T {
        let mut all = lock(&self.held);
        let changed = change(&mut all);
        let first = all.keys().next().map_or(u64::MAX, |(until, _)| until.as_nanos());
        self.first.store(first, Ordering::Relaxed);
        changed
    }
}
