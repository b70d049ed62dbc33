//! The general charge: any algorithm, new keys, changed limits, held units, and a full store.
//!
//! A [`Transaction`] charges keys of one or several stores, all or none:
//!
//! 1. it merges the charges of one key,
//! 2. reads the clock once per store, before anything is locked: expired reservations give back, which
//!    locks,
//! 3. locks the shards in the order of their addresses, so that no two requests wait for each other,
//! 4. observes every key, and decides,
//! 5. takes, inserts and holds, or changes nothing.
//!
//! No shard is unlocked before the last step, so no other request sees a part of it. If a new key finds
//! the store full, the transaction unlocks all shards, makes room, and starts again at step 3.

use smallvec::SmallVec;

use super::evict::NewKeyAdmission;
use super::fast_path::{KnownKey, KnownOutcome, charge_known};
use super::line::ShardGuard;
use super::observed::{ChargeOutcome, ChargeRecord, ObservedState};
use super::outlook::deny_without_room;
use super::pending_charge::{INLINE, PendingCharge, PerCharge, merge_charges};
use super::reserved::ReservedUnits;
use super::shard::{ChargeContext, ReclaimPolicy};
use super::{KeyEntry, Memory};
use crate::decision::Decision;
use crate::reservation::ReservationId;
use crate::time::Timestamp;

/// What a transaction does if all charges are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargeMode {
    Charge,
    /// Takes, and holds the units until this time.
    Reserve(Timestamp),
    /// Changes nothing.
    Peek,
}

/// Charges that are decided together, and what came of them, by the same numbers.
pub(crate) struct Transaction<'a> {
    charges: PerCharge<PendingCharge<'a>>,
    mode: ChargeMode,
    pub(crate) outcome: ChargeOutcome,
    pub(crate) records: PerCharge<ChargeRecord<'a>>,
    /// In [`ChargeMode::Reserve`], the reservation of each charge whose units are held. Empty if nothing
    /// was taken.
    pub(crate) reservations: PerCharge<Option<ReservationId>>,
    /// `true` for charges of one key whose costs add up to more than a number holds, if there are
    /// any.
    pub(crate) overflows: Option<Box<[bool]>>,
    /// The room that was found for new keys. Empty before the first of them.
    rooms: PerCharge<Option<NewKeyAdmission>>,
}

/// What came of deciding the charges, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AttemptOutcome {
    AllAllowed,
    /// A new key found the store full: room has to be made with no lock held.
    NoRoom,
    /// Worse than no room: no key is evicted for a request that is denied.
    SomeDenied,
    /// A cost is invalid, which changes nothing at all.
    SomeInvalid,
}

/// Charges all or nothing, on the fast path if possible. Adds the records to a list, in order.
#[inline]
pub(crate) fn charge_all<'a, C>(
    charges: &[C],
    pending: fn(&C) -> &PendingCharge<'a>,
    records: &mut impl Extend<ChargeRecord<'a>>,
) -> ChargeOutcome {
    let known = |charge: &C| pending(charge).known();
    let outcome = match charges {
        [a] => charge_few([a].map(known), records),
        [a, b] => charge_few([a, b].map(known), records),
        [a, b, c] => charge_few([a, b, c].map(known), records),
        _ => None,
    };
    outcome.unwrap_or_else(|| {
        let charges = charges.iter().map(|charge| *pending(charge));
        let done = Transaction::run(charges.collect(), ChargeMode::Charge);
        records.extend(done.records);
        done.outcome
    })
}

/// [`charge_all`] on the fast path, or `None` with nothing changed.
#[inline(always)]
pub(crate) fn charge_few<'a, const N: usize>(
    keys: [Option<KnownKey<'a>>; N],
    records: &mut impl Extend<ChargeRecord<'a>>,
) -> Option<ChargeOutcome> {
    if keys.iter().any(Option::is_none) {
        return None;
    }
    let keys = keys.map(|key| key.expect("none is missing"));
    let now = keys[0].now();
    let KnownOutcome { allowed, observed, .. } = charge_known(&keys, now)?;
    records.extend(keys.iter().zip(&observed).map(|(key, [at, owed])| {
        let KnownKey { named, cost, .. } = *key;
        ChargeRecord { named, cost, now, observed: ObservedState::of_words([*at, *owed, 0]) }
    }));
    Some(if allowed { ChargeOutcome::Taken } else { ChargeOutcome::NotTaken })
}

impl Memory {
    /// Charges a key that is not in the table of its shard.
    #[inline(never)]
    pub(super) fn charge_new(
        &self,
        shard: ShardGuard<'_>,
        entry: &KeyEntry<'_>,
        call: &ChargeContext<'_>,
        cost: u64,
    ) -> Decision {
        let charge = PendingCharge::new(self, *entry, cost);
        let mut one = Transaction::new(SmallVec::from_iter([charge]), ChargeMode::Charge);
        one.records[0].now = Timestamp::from_nanos(call.now);
        one.finish(&[0], Some(shard));
        one.records[0].decision(one.outcome)
    }
}

impl<'a> Transaction<'a> {
    /// Decides all charges, and does as `mode` says.
    #[cold]
    #[inline(never)]
    pub(crate) fn run(charges: PerCharge<PendingCharge<'a>>, mode: ChargeMode) -> Transaction<'a> {
        let mut all = Transaction::new(charges, mode);
        let mut order = all.lock_order();
        let is_same_key = |pair: &[usize]| all.charges[pair[0]].is_same_key(&all.charges[pair[1]]);
        if order.windows(2).any(is_same_key) {
            all = all.merged();
            order = all.lock_order();
        }
        all.read_clocks();
        all.finish(&order, None);
        all
    }

    #[inline(always)]
    fn new(charges: PerCharge<PendingCharge<'a>>, mode: ChargeMode) -> Transaction<'a> {
        let record = |charge: &PendingCharge<'a>| ChargeRecord {
            named: charge.entry.named,
            cost: charge.cost,
            now: Timestamp::from_nanos(0),
            observed: ObservedState::FRESH,
        };
        let records = charges.iter().map(record).collect();
        let reserves = matches!(mode, ChargeMode::Reserve(_));
        let reservations = charges.iter().filter(|_| reserves).map(|_| None).collect();
        Transaction {
            charges,
            mode,
            outcome: ChargeOutcome::NotTaken,
            records,
            reservations,
            overflows: None,
            rooms: SmallVec::new(),
        }
    }

    /// Returns the transaction with the charges of one key added up. If their costs add up to more than a
    /// number holds, it only peeks.
    fn merged(self) -> Transaction<'a> {
        let (charges, overflows) = merge_charges(&self.charges);
        if overflows.contains(&true) {
            let overflows = Some(overflows.into_boxed_slice());
            return Transaction { overflows, ..Transaction::new(charges, ChargeMode::Peek) };
        }
        Transaction::new(charges, self.mode)
    }

    /// Returns the numbers of the charges by the address of their shard, and of one shard by key, so that
    /// charges of one key are neighbors.
    fn lock_order(&self) -> PerCharge<usize> {
        let mut order: PerCharge<usize> = (0..self.charges.len()).collect();
        order.sort_unstable_by_key(|number| self.charges[*number].lock_rank());
        order
    }

    /// Reads the clock of each store once.
    fn read_clocks(&mut self) {
        for number in 0..self.records.len() {
            let memory = self.charges[number].memory;
            let is_same = |other: &usize| std::ptr::eq(self.charges[*other].memory, memory);
            self.records[number].now = match (0..number).find(is_same) {
                Some(other) => self.records[other].now,
                None => memory.now(),
            };
        }
    }

    /// Decides and applies. `locked` is the shard of a single charge if it is locked already.
    fn finish(&mut self, order: &[usize], mut locked: Option<ShardGuard<'a>>) {
        let mut attempt = Attempt {
            charges: &self.charges,
            mode: self.mode,
            records: &mut self.records,
            reservations: &mut self.reservations,
            rooms: &mut self.rooms,
        };
        let verdict = loop {
            match attempt.run(order, locked.take()) {
                AttemptOutcome::NoRoom => attempt.make_room(),
                verdict => break verdict,
            }
        };
        match verdict {
            AttemptOutcome::AllAllowed if self.mode == ChargeMode::Peek => {
                let is_new =
                    |room: &Option<NewKeyAdmission>| matches!(room, Some(NewKeyAdmission::Full));
                let new: PerCharge<bool> = self.rooms.iter().map(is_new).collect();
                deny_without_room(&self.charges, &new, &mut self.records);
            }
            AttemptOutcome::AllAllowed => self.outcome = ChargeOutcome::Taken,
            _ => self.reservations.clear(),
        }
    }
}

/// A transaction that decides and applies. Slices, because an index into a list that may be on the heap
/// takes more instructions.
struct Attempt<'t, 'a> {
    charges: &'t [PendingCharge<'a>],
    mode: ChargeMode,
    records: &'t mut [ChargeRecord<'a>],
    reservations: &'t mut [Option<ReservationId>],
    rooms: &'t mut PerCharge<Option<NewKeyAdmission>>,
}

impl<'a> Attempt<'_, 'a> {
    /// Locks every shard once, observes every key, decides, and applies.
    fn run(&mut self, order: &[usize], locked: Option<ShardGuard<'a>>) -> AttemptOutcome {
        let mut shards: SmallVec<[ShardGuard<'a>; INLINE]> = SmallVec::new();
        let is_locked = locked.is_some();
        shards.extend(locked);
        let mut places: PerCharge<usize> = SmallVec::new();
        for (at, number) in order.iter().enumerate() {
            let shard = self.charges[*number].slot.shard;
            let is_same = at > 0 && {
                let last = self.charges[order[at - 1]].slot.shard;
                last.address() == shard.address()
            };
            if !is_same && !is_locked {
                shards.push(shard.lock());
            }
            places.push(shards.len() - 1);
        }
        let mut verdict = AttemptOutcome::AllAllowed;
        for (number, place) in order.iter().zip(&places) {
            let PendingCharge { memory, ref entry, .. } = self.charges[*number];
            let now = self.records[*number].now.as_nanos();
            memory.tend(&mut shards[*place], entry.fingerprint.id, now);
            verdict = verdict.max(self.observe(*number, &shards[*place]));
        }
        for (number, place) in order.iter().zip(&places) {
            self.apply(*number, &mut shards[*place], verdict);
        }
        verdict
    }

    fn call(&self, number: usize) -> ChargeContext<'a> {
        let PendingCharge { memory, entry, .. } = self.charges[number];
        memory.call(entry.named, self.records[number].now)
    }

    /// Records the state of a key, and decides its charge.
    fn observe(&mut self, number: usize, shard: &ShardGuard<'a>) -> AttemptOutcome {
        let (call, PendingCharge { entry, cost, .. }) = (self.call(number), self.charges[number]);
        let index = shard.table.find(entry.fingerprint.id).ok();
        self.records[number].observed = match index {
            Some(index) => shard.observe(index, &call, cost),
            None => ObservedState::of_state(entry.named.plan.fresh().as_ref(), &call, cost),
        };
        // A cost of 0 is always allowed and needs no slot: only its figures are wanted.
        if cost == 0 {
            return AttemptOutcome::AllAllowed;
        }
        if !entry.named.plan.can_fit(cost) {
            return AttemptOutcome::SomeInvalid;
        }
        if !self.records[number].is_allowed() {
            return AttemptOutcome::SomeDenied;
        }
        if index.is_some() { AttemptOutcome::AllAllowed } else { self.claim_room(number) }
    }

    /// Claims the place of a new key. A peek only notes that the key needs one.
    fn claim_room(&mut self, number: usize) -> AttemptOutcome {
        let PendingCharge { memory, entry, cost, .. } = self.charges[number];
        self.rooms.resize(self.charges.len(), None);
        if self.mode == ChargeMode::Peek {
            self.rooms[number] = Some(NewKeyAdmission::Full);
            return AttemptOutcome::AllAllowed;
        }
        let room = self.rooms[number].get_or_insert_with(|| match memory.claim() {
            true => NewKeyAdmission::Claimed,
            false => NewKeyAdmission::Full,
        });
        match *room {
            NewKeyAdmission::Denied { retry_after } => {
                let figures = entry.named.plan.full(retry_after, cost);
                self.records[number].observed = ObservedState::of_figures(&figures);
                AttemptOutcome::SomeDenied
            }
            NewKeyAdmission::Full => AttemptOutcome::NoRoom,
            NewKeyAdmission::Claimed | NewKeyAdmission::Uncounted => AttemptOutcome::AllAllowed,
        }
    }

    /// Takes one charge or leaves it.
    fn apply(&mut self, number: usize, shard: &mut ShardGuard<'a>, verdict: AttemptOutcome) {
        match verdict {
            // A cost of 0 has no state. A place that was claimed stays so until the next attempt.
            AttemptOutcome::NoRoom => {}
            _ if self.charges[number].cost == 0 => {}
            AttemptOutcome::AllAllowed if self.mode != ChargeMode::Peek => self.take(number, shard),
            _ => self.leave(number, shard, verdict),
        }
    }

    fn is_claimed(&self, number: usize) -> bool {
        matches!(self.rooms.get(number), Some(Some(NewKeyAdmission::Claimed)))
    }

    /// Takes one charge. Searches the key again, because a key that was added to the shard may have moved
    /// it.
    fn take(&mut self, number: usize, shard: &mut ShardGuard<'a>) {
        let (call, is_claimed) = (self.call(number), self.is_claimed(number));
        let PendingCharge { memory, ref entry, cost, .. } = self.charges[number];
        match shard.table.find(entry.fingerprint.id) {
            Ok(index) => {
                shard.take(index, &call, cost);
                // Another request has added the key since its place was claimed.
                memory.release(usize::from(is_claimed));
            }
            Err(_) if is_claimed => {
                // Of several charges none may be reclaimed: it might be the one that is taken next.
                let is_only = self.charges.len() == 1;
                let reclaim =
                    if is_only { ReclaimPolicy::DropFresh } else { ReclaimPolicy::KeepAll };
                memory.add(shard, memory.new_key(entry, &call, cost), &call, reclaim);
            }
            // A new key that is not counted.
            Err(_) => {}
        }
        if let ChargeMode::Reserve(until) = self.mode {
            let ticket = memory.reservations.ticket(until);
            let units = ReservedUnits { ticket, units: cost };
            let is_held = memory.hold_in(shard, entry.fingerprint.id, &call, units);
            self.reservations[number] = is_held.then_some(ticket);
        }
    }

    /// Leaves one charge, because another was denied or the transaction only peeks.
    fn leave(&mut self, number: usize, shard: &mut ShardGuard<'a>, verdict: AttemptOutcome) {
        let (call, is_claimed) = (self.call(number), self.is_claimed(number));
        let PendingCharge { memory, entry, .. } = self.charges[number];
        memory.release(usize::from(is_claimed));
        let is_shown = self.records[number].observed.is_allowed_only();
        let is_stored = verdict == AttemptOutcome::SomeDenied && self.mode != ChargeMode::Peek;
        if !is_shown && !is_stored {
            return;
        }
        let index = shard.table.find(entry.fingerprint.id).ok();
        if let Some(index) = index.filter(|_| is_stored) {
            shard.store_conversion(index, &call);
        }
        if is_shown {
            // A charge that only another limit kept from being taken has the figures of a cost of 0.
            let figures = shard.decide_at(index, &call, 0);
            self.records[number].observed = ObservedState::of_figures(&figures);
        }
    }

    /// Makes room for a key that found none. Everything is decided again after it.
    #[cold]
    fn make_room(&mut self) {
        let is_full = |room: &Option<NewKeyAdmission>| matches!(room, Some(NewKeyAdmission::Full));
        if let Some(number) = self.rooms.iter().position(is_full) {
            let (call, PendingCharge { memory, entry, .. }) =
                (self.call(number), self.charges[number]);
            // The request's own keys are not evicted, because what they have taken would be lost.
            let is_own = |shard, id| {
                self.charges.iter().any(|charge| {
                    std::ptr::eq(charge.memory, memory)
                        && (charge.shard(), charge.entry.fingerprint.id) == (shard, id)
                })
            };
            self.rooms[number] = Some(memory.room_beside(entry.fingerprint, &call, &is_own));
        }
    }
}
