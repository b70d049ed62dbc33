//! What changes a key otherwise than by a charge: debts, what is given back, a new start.

use super::evict::NewKeyAdmission;
use super::line::ShardGuard;
use super::shard::{ChargeContext, ReclaimPolicy};
use super::{KeyEntry, Memory, RegisteredLimit};
use crate::algorithm::TakenAt;
use crate::key::KeyId;
use crate::time::Timestamp;

impl Memory {
    /// Takes `cost` units whether they are there or not.
    pub(crate) fn take(&self, entry: &KeyEntry<'_>, now: Timestamp, cost: u64) {
        let call = self.call(entry.named, now);
        let mut shard = self.lock(entry.fingerprint);
        self.tend(&mut shard, entry.fingerprint.id, call.now);
        if let Ok(index) = shard.table.find(entry.fingerprint.id) {
            shard.take(index, &call, cost);
        } else if self.claim() {
            self.insert_taken(shard, entry, &call, cost);
        } else {
            drop(shard);
            // A debt makes room as a new key does: where that may push nobody out, it is forgotten.
            if matches!(self.room(entry.fingerprint, &call), NewKeyAdmission::Claimed) {
                let shard = self.lock(entry.fingerprint);
                self.insert_taken(shard, entry, &call, cost);
            }
        }
    }

    /// Charges a key whose place is claimed; if somebody else has added it, the place is free.
    fn insert_taken(
        &self,
        mut shard: ShardGuard<'_>,
        entry: &KeyEntry<'_>,
        call: &ChargeContext<'_>,
        cost: u64,
    ) {
        if let Ok(index) = shard.table.find(entry.fingerprint.id) {
            shard.take(index, call, cost);
            return self.release(1);
        }
        let key = self.new_key(entry, call, cost);
        self.add(&mut shard, key, call, ReclaimPolicy::DropFresh);
    }

    /// Gives back `units`.
    pub(crate) fn give_back(
        &self,
        named: &RegisteredLimit,
        fingerprint: KeyId,
        taken: TakenAt,
        units: u64,
    ) {
        // To give nothing back changes nothing, not even the numbers that a state is kept in.
        if units == 0 {
            return;
        }
        let call = self.call(named, self.now());
        {
            let mut shard = self.lock(fingerprint);
            self.tend(&mut shard, fingerprint.id, call.now);
            if let Ok(index) = shard.table.find(fingerprint.id) {
                shard.change(index, &call, |plan, state| {
                    plan.give_back(state, call.now, taken, units);
                });
            }
        }
        self.waiting.nudge(fingerprint);
    }

    /// Makes the key new; whether it was known.
    pub(crate) fn reset(&self, fingerprint: KeyId) -> bool {
        let mut shard = self.lock(fingerprint);
        let known = shard.remove(fingerprint.id, &self.registry);
        self.release(usize::from(known));
        drop(shard);
        self.waiting.nudge(fingerprint);
        known
    }
}
