//! Reservations: units taken now and settled when the real cost is known.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bounds::{DEFAULT_RESERVATION, EXPIRED_PER_CALL};
use crate::decision::{Decision, DecisionError};
use crate::key::{Key, KeyId, KeyName};
use crate::limiter::Limiter;
use crate::store::memory::{
    ChargeMode, KeyEntry, MemoryStore, PendingCharge, RegisteredLimit, ReservedUnits, Transaction,
};
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
/// let reservation = limiter.reserve("ana", 4_000)?;
/// // … the model answers, and used fewer tokens than the estimate …
/// reservation.settle(1_500);
/// assert_eq!(limiter.status("ana").used(), 1_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a reservation gives its units back"]
pub struct Reservation {
    claim: OpenReservation,
    decision: Decision,
}

/// When a reservation times out, and a number to tell those of one moment apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReservationId {
    pub(crate) until: Timestamp,
    number: u64,
}

impl ReservationId {
    /// Whether it has timed out by `now`. At the last moment that can be told time stands still,
    /// and what times out then never does.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.until <= now && self.until < Timestamp::MAX
    }
}

impl Reservation {
    pub(crate) fn new(
        limiter: &Limiter,
        key: &impl Key,
        cost: u64,
        timeout: Duration,
    ) -> Result<Reservation, ReserveError> {
        let memory = limiter.memory();
        let fingerprint = limiter.fingerprint(key);
        let until = memory.now().saturating_add(timeout);
        let entry = KeyEntry { named: limiter.named(), fingerprint, key };
        let charge = PendingCharge::new(memory, entry, cost);
        let done = Transaction::run([charge].into_iter().collect(), ChargeMode::Reserve(until));
        let decision = done.records[0].decision(done.outcome);
        if !decision.is_allowed() {
            return Err(ReserveError(decision));
        }
        let held = ReservedCharge { named: limiter.named().clone(), fingerprint, cost };
        let ticket = done.reservations.first().copied().flatten();
        let claim = OpenReservation::new(limiter.store(), KeyName::new(key), held, ticket);
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

    /// Raises the reservation to `units` in all, if it holds fewer: takes the difference now, into
    /// debt if it is not there. For costs that grow while the work goes on, such as a long answer.
    pub fn raise_to(&mut self, units: u64) {
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

/// The error of a reservation that the limit does not allow, with the decision.
#[derive(Clone, Copy, Debug)]
pub struct ReserveError(Decision);

impl ReserveError {
    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.0
    }
}

impl From<DecisionError> for ReserveError {
    fn from(denial: DecisionError) -> ReserveError {
        ReserveError(*denial.decision())
    }
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing is reserved: {}", DecisionError::of(self.0))
    }
}

impl std::error::Error for ReserveError {}

/// Units of one limit taken for one key, given back unless they are settled in time.
pub(crate) struct OpenReservation {
    store: MemoryStore,
    name: KeyName,
    held: ReservedCharge,
    /// None of what is not counted: there is nothing to give back.
    ticket: Option<ReservationId>,
}

/// What a reservation holds.
#[derive(Clone, Debug)]
pub(crate) struct ReservedCharge {
    pub(crate) named: Arc<RegisteredLimit>,
    pub(crate) fingerprint: KeyId,
    pub(crate) cost: u64,
}

impl OpenReservation {
    /// Returns a claim on what the store holds until the ticket's time. Without a ticket it holds nothing.
    pub(crate) fn new(
        store: &MemoryStore,
        name: KeyName,
        held: ReservedCharge,
        ticket: Option<ReservationId>,
    ) -> OpenReservation {
        if let Some(ticket) = ticket {
            store.0.reservations.add(ticket, held.fingerprint);
        }
        OpenReservation { store: store.clone(), name, held, ticket }
    }

    /// Keeps what was taken.
    pub(crate) fn commit(&self) {
        self.settle(self.held.cost);
    }

    /// Charges `actual` units instead of those that were taken.
    pub(crate) fn settle(&self, actual: u64) {
        let taken = match self.ticket {
            Some(ticket) => self.end(ticket, actual).unwrap_or(0),
            None => self.held.cost,
        };
        if actual > taken {
            self.take(self.store.0.now(), actual - taken);
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
        let ReservedCharge { named, fingerprint, .. } = &self.held;
        let is_held = |ticket: &ReservationId| memory.is_held(*fingerprint, *ticket, now);
        let (ticket, more) = match self.ticket {
            Some(ticket) if is_held(&ticket) => (ticket, units - before),
            Some(_) => (memory.reservations.ticket(now.saturating_add(DEFAULT_RESERVATION)), units),
            None => (
                memory.reservations.ticket(now.saturating_add(DEFAULT_RESERVATION)),
                units - before,
            ),
        };
        self.take(now, more);
        if memory.hold(named, *fingerprint, now, ReservedUnits { ticket, units: more }) {
            memory.reservations.add(ticket, *fingerprint);
            self.ticket = Some(ticket);
        }
        self.held.cost = units;
    }

    fn take(&self, now: Timestamp, units: u64) {
        let ReservedCharge { named, fingerprint, .. } = &self.held;
        let entry = KeyEntry { named, fingerprint: *fingerprint, key: &self.name };
        self.store.0.take(&entry, now, units);
    }

    /// Ends it, keeping up to `keep` units; how many, or `None` if it has ended, or timed out,
    /// before.
    fn end(&self, ticket: ReservationId, keep: u64) -> Option<u64> {
        let memory = &self.store.0;
        memory.reservations.remove(ticket);
        memory.end(self.held.fingerprint, (ticket, memory.now()), keep)
    }
}

impl Drop for OpenReservation {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.end(ticket, 0);
        }
    }
}

/// When the reservations of a store time out that have not ended, and of which keys they are. What
/// they hold is kept beside the keys.
#[derive(Debug)]
pub(crate) struct Reservations {
    open: Mutex<BTreeMap<ReservationId, KeyId>>,
    /// When the first times out, so that a check need not lock to know that none has.
    first: AtomicU64,
    tickets: AtomicU64,
}

impl Default for Reservations {
    fn default() -> Reservations {
        Reservations {
            open: Mutex::default(),
            first: AtomicU64::new(u64::MAX),
            tickets: AtomicU64::new(0),
        }
    }
}

impl Reservations {
    /// A ticket of its own.
    pub(crate) fn ticket(&self, until: Timestamp) -> ReservationId {
        ReservationId { until, number: self.tickets.fetch_add(1, Ordering::Relaxed) }
    }

    fn add(&self, ticket: ReservationId, fingerprint: KeyId) {
        // What never times out need not be found.
        if ticket.until < Timestamp::MAX {
            self.change(|open| open.insert(ticket, fingerprint));
        }
    }

    fn remove(&self, ticket: ReservationId) {
        self.change(|open| open.remove(&ticket));
    }

    /// Whether one may have timed out by `now`.
    #[inline]
    pub(crate) fn any_expired(&self, now: Timestamp) -> bool {
        // Relaxed: who misses a change by a hair sees it with the next call.
        self.first.load(Ordering::Relaxed) <= now.as_nanos()
    }

    /// Takes some that have timed out by `now`; the keys they are of.
    pub(crate) fn expire(&self, now: Timestamp) -> Vec<KeyId> {
        self.change(|open| {
            let mut keys = Vec::new();
            while keys.len() < EXPIRED_PER_CALL
                && let Some(first) = open.first_entry()
                && first.key().is_expired(now)
            {
                keys.push(first.remove());
            }
            keys
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<ReservationId, KeyId>) -> T) -> T {
        let mut open = lock(&self.open);
        let changed = change(&mut open);
        let first = open.keys().next().map_or(u64::MAX, |ticket| ticket.until.as_nanos());
        self.first.store(first, Ordering::Relaxed);
        changed
    }
}
