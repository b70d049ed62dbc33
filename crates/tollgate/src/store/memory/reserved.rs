//! What open reservations hold, kept beside the shard of their key and changed under its lock.
//!
//! What is given back must leave a key as if it had never been taken. Windows and logs know when a
//! unit was taken, and whether it still counts. A bucket knows only what is owed in all, so that is
//! watched while units are held: time pays for them last, once nothing else is owed. What is still
//! owed for them is thus the least that was owed in all since they were taken, if that is less than
//! they are. Whatever is done to a key looks first, since only then is it seen how low it was.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::line::ShardGuard;
use super::shard::ChargeContext;
use super::{Memory, RegisteredLimit};
use crate::algorithm::{State, StateMut, TakenAt};
use crate::bounds::MAX_PARTS;
use crate::key::KeyId;
use crate::limit::Plan;
use crate::reservation::ReservationId;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::time::Timestamp;

/// What is reserved of the keys of one shard.
#[derive(Debug, Default)]
pub(super) struct HeldUnits {
    /// How many keys have open reservations, so that most calls need not look.
    keys: AtomicUsize,
    /// By key, in the order in which they were taken; and so by `low`, the least first.
    parts: OnceLock<Box<Mutex<HeldParts>>>,
}

type HeldParts = BTreeMap<u64, Vec<HeldPart>>;

/// Units that a reservation has just taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReservedUnits {
    pub(crate) ticket: ReservationId,
    pub(crate) units: u64,
}

/// Units that a reservation took at one moment.
#[derive(Clone, Debug)]
struct HeldPart {
    ticket: ReservationId,
    named: Arc<RegisteredLimit>,
    units: u64,
    taken_at: Timestamp,
    /// The least that was owed in all since; nothing once the key was made new.
    low: u128,
    /// When the last of its turns has passed, of a queue.
    ends: u64,
}

impl HeldUnits {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        // Relaxed: written and read under the shard's lock; who reads it without sees what
        // happened before its own call.
        self.keys.load(Ordering::Relaxed) == 0
    }

    /// Adds what a key has just taken; the shard's lock is held.
    fn add(&self, id: u64, part: HeldPart) {
        let mut all = lock(self.parts.get_or_init(Box::default));
        add(all.entry(id).or_default(), part);
        self.keys.store(all.len(), Ordering::Relaxed);
    }

    /// Changes what is reserved of a key, if anything is; the shard's lock is held.
    fn change<T>(&self, id: u64, change: impl FnOnce(&mut Vec<HeldPart>) -> T) -> Option<T> {
        let mut all = lock(self.parts.get()?);
        let parts = all.get_mut(&id)?;
        let changed = change(parts);
        if parts.is_empty() {
            all.remove(&id);
        }
        self.keys.store(all.len(), Ordering::Relaxed);
        Some(changed)
    }

    /// The keys of which something has timed out by `now`.
    fn expired(&self, now: Timestamp) -> Vec<u64> {
        let Some(all) = self.parts.get() else { return Vec::new() };
        let expired = |parts: &[HeldPart]| parts.iter().any(|part| part.ticket.is_expired(now));
        lock(all).iter().filter(|(_, parts)| expired(parts)).map(|(id, _)| *id).collect()
    }
}

impl Memory {
    /// To be called with the shard of a key locked before anything is done to the key: what has
    /// timed out is given back, and how low it was is remembered.
    #[inline(always)]
    pub(super) fn tend(&self, shard: &mut ShardGuard<'_>, id: u64, now: u64) {
        if !shard.reserved().is_empty() {
            self.tend_reserved(shard, id, Timestamp::from_nanos(now));
        }
    }

    #[cold]
    fn tend_reserved(&self, shard: &mut ShardGuard<'_>, id: u64, now: Timestamp) {
        shard.reserved().change(id, |parts| {
            self.lower(shard, id, now, parts);
            if parts.iter().any(|part| part.ticket.is_expired(now)) {
                let comes_back = self.comes_back(shard, (id, now), parts);
                self.give_back_parts(shard, (id, now), parts, |number, part| {
                    let units = if comes_back[number] { part.units } else { 0 };
                    part.ticket.is_expired(now).then_some(units)
                });
            }
        });
    }

    /// For each part, whether it gives its units back if it has timed out.
    ///
    /// Turns of a queue come back only if no turn behind them was given away at that moment. Parts that
    /// have timed out since the last call are therefore looked at in the order of their time-outs, so
    /// that the result does not depend on when the key was looked at.
    fn comes_back(
        &self,
        shard: &ShardGuard<'_>,
        (id, now): (u64, Timestamp),
        parts: &[HeldPart],
    ) -> Vec<bool> {
        let mut comes_back = vec![true; parts.len()];
        let Ok(index) = shard.table.find(id) else { return comes_back };
        let limit = shard.table.limit(index);
        let is_due = |part: &HeldPart| part.ticket.is_expired(now) && part.named.number == limit;
        let mut due: Vec<usize> =
            (0..parts.len()).filter(|number| is_due(&parts[*number])).collect();
        let Some(named) = due.first().map(|number| &parts[*number].named) else {
            return comes_back;
        };
        let (Plan::Bucket(bucket), State::Words(mut words)) =
            (&named.plan, shard.copy(index, &self.call(named, now)))
        else {
            return comes_back;
        };
        if !bucket.is_queue() {
            return comes_back;
        }
        due.sort_unstable_by_key(|number| (parts[*number].ticket.until, Reverse(*number)));
        for number in due {
            let part = &parts[number];
            comes_back[number] = bucket.fresh_at(words) == part.ends;
            if comes_back[number] {
                bucket.pay(&mut words, now.as_nanos(), bucket.parts(part.units).min(part.low));
            }
        }
        comes_back
    }

    /// Gives back what has timed out of all keys of a shard.
    pub(super) fn tend_shard(&self, shard: &mut ShardGuard<'_>, now: Timestamp) {
        if !shard.reserved().is_empty() {
            for id in shard.reserved().expired(now) {
                self.tend_reserved(shard, id, now);
            }
        }
    }

    /// Gives back what has timed out of a key.
    pub(super) fn give_back_expired_of(&self, fingerprint: KeyId, now: Timestamp) {
        self.tend(&mut self.lock(fingerprint), fingerprint.id, now.as_nanos());
        self.waiting.nudge(fingerprint);
    }

    /// Holds units that a key has just taken. Returns `false` if the key is not counted.
    pub(crate) fn hold(
        &self,
        named: &RegisteredLimit,
        fingerprint: KeyId,
        now: Timestamp,
        reserved: ReservedUnits,
    ) -> bool {
        let mut shard = self.lock(fingerprint);
        self.tend(&mut shard, fingerprint.id, now.as_nanos());
        self.hold_in(&shard, fingerprint.id, &self.call(named, now), reserved)
    }

    /// [`hold`](Self::hold) of a key whose shard is locked.
    pub(super) fn hold_in(
        &self,
        shard: &ShardGuard<'_>,
        id: u64,
        call: &ChargeContext<'_>,
        ReservedUnits { ticket, units }: ReservedUnits,
    ) -> bool {
        let (Ok(index), Some(named)) = (shard.table.find(id), self.limit(call.named.number)) else {
            return false;
        };
        let state = shard.copy(index, call);
        let seen = Timestamp::from_nanos(named.plan.seen(state.as_ref()));
        let part = HeldPart {
            ticket,
            units,
            taken_at: Timestamp::from_nanos(call.now).max(seen),
            low: named.plan.owed(state.as_ref(), call.now),
            ends: named.plan.fresh_at(state.as_ref()),
            named,
        };
        shard.reserved().add(id, part);
        true
    }

    /// Whether a reservation is open.
    pub(crate) fn is_held(
        &self,
        fingerprint: KeyId,
        ticket: ReservationId,
        now: Timestamp,
    ) -> bool {
        let mut shard = self.lock(fingerprint);
        self.tend(&mut shard, fingerprint.id, now.as_nanos());
        let is_own = |part: &HeldPart| part.ticket == ticket;
        let held = shard.reserved().change(fingerprint.id, |parts| parts.iter().any(is_own));
        held == Some(true)
    }

    /// When the first reservation of the key times out, if it has any.
    pub(crate) fn held_until(&self, fingerprint: KeyId) -> Option<Timestamp> {
        let first = |parts: &mut Vec<HeldPart>| parts.iter().map(|part| part.ticket.until).min();
        self.lock(fingerprint).reserved().change(fingerprint.id, first)?
    }

    /// Ends a reservation: keeps up to `keep` of its units and gives the others back, the latest
    /// first. How many it keeps; `None` if it had ended, or timed out, before.
    pub(crate) fn end(
        &self,
        fingerprint: KeyId,
        (ticket, now): (ReservationId, Timestamp),
        keep: u64,
    ) -> Option<u64> {
        let mut shard = self.lock(fingerprint);
        self.tend(&mut shard, fingerprint.id, now.as_nanos());
        let kept = shard.reserved().change(fingerprint.id, |parts| {
            let own = parts.iter().filter(|part| part.ticket == ticket);
            let held = own.map(|part| part.units).reduce(u64::saturating_add)?;
            let mut left = held.saturating_sub(keep);
            self.give_back_parts(&mut shard, (fingerprint.id, now), parts, |_, part| {
                let back = (part.ticket == ticket).then(|| part.units.min(left))?;
                left -= back;
                Some(back)
            });
            Some(held.min(keep))
        })?;
        drop(shard);
        self.waiting.nudge(fingerprint);
        kept
    }

    /// Remembers how low the key is at `now`.
    fn lower(&self, shard: &ShardGuard<'_>, id: u64, now: Timestamp, parts: &mut [HeldPart]) {
        let index = shard.table.find(id).ok();
        let mut last: Option<(u32, u128)> = None;
        for part in parts.iter_mut().rev() {
            let owed = match (index, last) {
                (None, _) => 0,
                (Some(_), Some((number, owed))) if number == part.named.number => owed,
                (Some(index), _) => {
                    let state = shard.copy(index, &self.call(&part.named, now));
                    let owed = part.named.plan.owed(state.as_ref(), now.as_nanos());
                    last = Some((part.named.number, owed));
                    owed
                }
            };
            part.low = part.low.min(owed);
        }
    }

    /// Gives back of each part as many units as `back` says, the latest part first, and forgets
    /// those it says anything of.
    ///
    /// What is left of the others: those taken later owed so much less all the time, had this never
    /// been taken; those taken before are owed at most what was owed beside it.
    fn give_back_parts(
        &self,
        shard: &mut ShardGuard<'_>,
        (id, now): (u64, Timestamp),
        parts: &mut Vec<HeldPart>,
        mut back: impl FnMut(usize, &HeldPart) -> Option<u64>,
    ) {
        let index = shard.table.find(id).ok();
        let mut beside: Option<HeldDebt> = None;
        let mut given = vec![None; parts.len()];
        for (number, (part, given)) in parts.iter_mut().zip(&mut given).enumerate().rev() {
            if let Some(beside) = beside.as_ref().and_then(|owed| owed.under(&part.named)) {
                part.low = part.low.min(beside);
            }
            let Some(units) = back(number, part) else { continue };
            let mut paid = 0;
            if let (Some(index), true) = (index, part.low > 0 && units > 0) {
                let call = self.call(&part.named, now);
                shard.change(index, &call, |plan, state| {
                    paid = part.give_back(plan, state, call.now, units);
                });
            }
            *given = Some(paid);
            beside = Some(HeldDebt(part.low.saturating_sub(paid), Arc::clone(&part.named)));
        }
        let mut given = given.into_iter();
        let mut earlier: Option<HeldDebt> = None;
        parts.retain_mut(|part| {
            let before = earlier.as_ref().and_then(|owed| owed.under(&part.named)).unwrap_or(0);
            part.low = part.low.saturating_sub(before);
            let Some(paid) = given.next().flatten() else { return true };
            earlier = Some(HeldDebt(before.saturating_add(paid), Arc::clone(&part.named)));
            false
        });
    }
}

impl HeldPart {
    /// Gives back `units` of it; what is owed less for that, in parts.
    fn give_back(&self, plan: &Plan, state: StateMut<'_>, now: u64, units: u64) -> u128 {
        let Plan::Bucket(bucket) = plan else {
            plan.give_back(state, now, TakenAt::At(self.taken_at), units);
            return 0;
        };
        let StateMut::Words(words) = state else { return 0 };
        // Of a queue nothing comes back once somebody has been told a later turn: what is told is
        // told.
        if bucket.is_queue() && bucket.fresh_at(*words) != self.ends {
            return 0;
        }
        bucket.pay(words, now, bucket.parts(units).min(self.low))
    }
}

/// Parts of a bucket of these numbers.
struct HeldDebt(u128, Arc<RegisteredLimit>);

impl HeldDebt {
    /// As many of another's, in proportion; of what is no bucket there are none.
    fn under(&self, named: &RegisteredLimit) -> Option<u128> {
        match (&self.1.plan, &named.plan) {
            (Plan::Bucket(_), Plan::Bucket(_)) if self.1.number == named.number => Some(self.0),
            (Plan::Bucket(from), Plan::Bucket(to)) => Some(to.in_proportion(self.0, from)),
            _ => None,
        }
    }
}

/// Adds what was just taken. What is as if it had been taken with the part before it is one with
/// it, and so is what would be too many: that comes back by the earlier part's moment, which never
/// gives back too much.
fn add(parts: &mut Vec<HeldPart>, part: HeldPart) {
    let is_own = |other: &HeldPart| other.ticket == part.ticket;
    let Some(place) = parts.iter().rposition(is_own) else { return parts.push(part) };
    let before = &mut parts[place];
    let units = before.units.saturating_add(part.units);
    let was_lowest = match &part.named.plan {
        Plan::Bucket(bucket) => {
            !bucket.is_queue() && part.low == before.low.saturating_add(bucket.parts(part.units))
        }
        _ => part.taken_at == before.taken_at && before.low > 0,
    };
    if was_lowest {
        parts.remove(place);
        parts.push(HeldPart { units, ..part });
    } else if parts.iter().filter(|other| is_own(other)).count() < MAX_PARTS {
        parts.push(part);
    } else {
        parts[place].units = units;
    }
}
