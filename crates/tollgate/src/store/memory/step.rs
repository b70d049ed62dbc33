//! One charge of one key.
//!
//! What most are is short: a known key, a bucket in a slot. While the processor waits for one key's
//! slot it goes ahead to the next key's, but only so many instructions: so what comes after the slot
//! is as little as can be, and whatever else can happen is somewhere else.

use super::home::{Home, NEAR, NEAR_IN_BATCH};
use super::line::{Locked, Spot};
use super::refused::{self, Who};
use super::shard::Call;
use super::{Entry, Memory};
use crate::algorithm::{Bucket, Packed, Step};
use crate::decision::{Decision, Figures};
use crate::limit::Plan;
use crate::time::Timestamp;

/// A charge of a bucket in a slot, decided and, if allowed, taken.
struct Stepped<'a> {
    bucket: &'a Bucket,
    step: Step,
    /// The state's own moment, before.
    at: u64,
    now: u64,
    cost: u64,
}

impl Memory {
    /// Decides, and takes if allowed.
    #[inline]
    pub(crate) fn charge(&self, entry: &Entry<'_>, now: Timestamp, cost: u64) -> Decision {
        self.charge_at(self.spot(entry), entry, now, cost)
    }

    /// [`charge`](Self::charge) at the key's spot, which is known already.
    #[inline(always)]
    pub(crate) fn charge_at(
        &self,
        spot: Spot<'_>,
        entry: &Entry<'_>,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        match self.step::<NEAR>(spot, entry, now, cost) {
            Ok(stepped) => stepped.decision(),
            Err(decision) => decision,
        }
    }

    /// [`charge`](Self::charge), the decision written where it is wanted.
    #[inline(always)]
    pub(crate) fn charge_into(
        &self,
        decision: &mut Decision,
        entry: &Entry<'_>,
        now: Timestamp,
        cost: u64,
    ) {
        match self.step::<NEAR_IN_BATCH>(self.spot(entry), entry, now, cost) {
            Ok(stepped) => *decision = stepped.decision(),
            Err(told) => *decision = told,
        }
    }

    /// [`charge`](Self::charge), telling nothing of what goes ahead at once: then there is no decision.
    #[inline(always)]
    pub(crate) fn charge_or_pass(
        &self,
        decision: &mut Option<Decision>,
        entry: &Entry<'_>,
        now: Timestamp,
        cost: u64,
    ) {
        let told = match self.step::<NEAR>(self.spot(entry), entry, now, cost) {
            Ok(stepped) if stepped.step.allowed && !stepped.bucket.shapes() => return,
            Ok(stepped) => stepped.decision(),
            Err(told) => told,
        };
        let passes = told.is_allowed() && told.delay().is_zero();
        *decision = (!passes).then_some(told);
    }

    /// The common charge, taken if allowed; or the decision of any other.
    #[inline(always)]
    fn step<'a, const SLOTS: usize>(
        &self,
        Spot { place, home }: Spot<'_>,
        entry: &Entry<'a>,
        now: Timestamp,
        cost: u64,
    ) -> Result<Stepped<'a>, Decision> {
        // Put together again where it is needed: to have it in memory all the time takes longer.
        let Entry { named, fingerprint, key } = *entry;
        if cost == 0 {
            return Err(self.peek(&Entry { named, fingerprint, key }, now, 0));
        }
        // What was refused may be there again once a reservation has timed out.
        if !place.is_reserved()
            && let Some(words) = refused::recall(self.who(entry), place.disturbed())
            && let Some(refused) = self.call(named, now).refused(words, cost)
        {
            return Err(refused);
        }
        let shard = place.lock();
        let stepped = match place.is_reserved() {
            true => Err(shard),
            false => self.step_known::<SLOTS>((shard, home), entry, now, cost),
        };
        stepped
            .map_err(|shard| self.charge_any(shard, &Entry { named, fingerprint, key }, now, cost))
    }

    /// The charge of a known key that is a bucket in a slot; of any other, the shard again.
    #[inline(always)]
    fn step_known<'a, 's, const SLOTS: usize>(
        &self,
        (mut shard, home): (Locked<'s>, Home),
        entry: &Entry<'a>,
        now: Timestamp,
        cost: u64,
    ) -> Result<Stepped<'a>, Locked<'s>> {
        let (id, now) = (entry.fingerprint.id, now.as_nanos());
        if shard.waited {
            shard.bring_to_front(id);
        }
        let Some((bucket, words)) = shard.known_bucket::<SLOTS>(id, entry.named, home) else {
            return Err(shard);
        };
        let (met, step) = (*words, bucket.step(*words, now, cost));
        let was_empty = bucket.is_empty(met);
        if step.allowed {
            *words = step.after;
            shard.table.disturbed |= was_empty;
        } else if was_empty {
            refused::remember(self.who(entry), shard.disturbed(), met);
        }
        // What is told of it is written with the lock free again: others may be waiting for it.
        drop(shard);
        Ok(Stepped { bucket, step, at: met[0], now, cost })
    }

    #[inline(always)]
    fn spot(&self, entry: &Entry<'_>) -> Spot<'_> {
        Spot { place: self.place(entry.fingerprint), home: Home::default() }
    }

    #[inline(always)]
    fn who(&self, entry: &Entry<'_>) -> Who {
        Who { store: self.id, limit: entry.named.number, fingerprint: entry.fingerprint }
    }

    /// [`charge`](Self::charge) of any key under any limit.
    #[inline(never)]
    fn charge_any(
        &self,
        mut shard: Locked<'_>,
        entry: &Entry<'_>,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        let call = self.call(entry.named, now);
        self.tend(&mut shard, entry.fingerprint.id, call.now);
        let mut shard = match self.step_known::<NEAR>((shard, Home::default()), entry, now, cost) {
            Ok(stepped) => return stepped.decision(),
            Err(shard) => shard,
        };
        match shard.table.find(entry.fingerprint.id) {
            Ok(index) => shard.charge(index, &call, cost),
            Err(_) => self.charge_new(shard, entry, &call, cost),
        }
    }
}

impl Stepped<'_> {
    #[inline(always)]
    fn decision(&self) -> Decision {
        let figures = self.bucket.figures(&self.step, self.at, self.now, self.cost);
        Decision::new(Figures::Bucket(figures), self.cost)
    }
}

impl Call<'_> {
    /// The decision on a key that was refused with these words, if it still is.
    #[inline]
    fn refused(&self, words: Packed, cost: u64) -> Option<Decision> {
        let Plan::Bucket(bucket) = &self.named.plan else { return None };
        let step = bucket.step(words, self.now, cost);
        let stepped = Stepped { bucket, step, at: words[0], now: self.now, cost };
        (!step.allowed).then(|| stepped.decision())
    }
}
