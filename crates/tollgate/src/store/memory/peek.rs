//! Decisions and the status of one key, without taking and without allocating a shard.

use super::line::ShardGuard;
use super::shard::ChargeContext;
use super::{KeyEntry, Memory};
use crate::decision::{Decision, Figures, KeyStatus};
use crate::key::KeyId;
use crate::time::Timestamp;

impl Memory {
    /// Decides without taking: allowed or not as `charge` would say, the rest as the key stands.
    pub(crate) fn peek(&self, entry: &KeyEntry<'_>, now: Timestamp, cost: u64) -> Decision {
        let call = self.call(entry.named, now);
        let mut shard = self.lock_used(entry.fingerprint);
        if let Some(shard) = &mut shard {
            self.tend(shard, entry.fingerprint.id, call.now);
        }
        let index = index(shard.as_ref(), entry.fingerprint);
        let [stands, asked] = look(shard.as_ref(), &call, index, [0, cost]);
        drop(shard);
        let decision = Decision::new(asked, cost);
        // A cost of 0 needs no slot.
        if cost == 0 || !decision.is_allowed() {
            return decision;
        }
        match self.no_room(entry.fingerprint, &call) {
            Some(wait) if index.is_none() => Decision::new(entry.named.plan.full(wait, cost), cost),
            _ => Decision::allowed(stands),
        }
    }

    /// How the key stands.
    pub(crate) fn status(&self, entry: &KeyEntry<'_>, now: Timestamp) -> KeyStatus {
        let mut shard = self.lock_used(entry.fingerprint);
        if let Some(shard) = &mut shard {
            self.tend(shard, entry.fingerprint.id, now.as_nanos());
        }
        let index = index(shard.as_ref(), entry.fingerprint);
        KeyStatus::new(look(shard.as_ref(), &self.call(entry.named, now), index, [0, 1]))
    }

    /// Locks the shard of a key, unless it was never used.
    fn lock_used(&self, fingerprint: KeyId) -> Option<ShardGuard<'_>> {
        self.shards.lock_used(self.shard_of(fingerprint))
    }
}

/// The index of a key in its shard, if it is known.
fn index(shard: Option<&ShardGuard<'_>>, fingerprint: KeyId) -> Option<usize> {
    shard.and_then(|shard| shard.table.find(fingerprint.id).ok())
}

/// The figures of decisions on each of `costs` for the key at `index` or a new one, none of them taken.
fn look(
    shard: Option<&ShardGuard<'_>>,
    call: &ChargeContext<'_>,
    index: Option<usize>,
    costs: [u64; 2],
) -> [Figures; 2] {
    costs.map(|cost| match shard.zip(index) {
        Some((shard, index)) => shard.decide(index, call, cost),
        None => call.named.plan.decide_fresh(call.now, cost),
    })
}
