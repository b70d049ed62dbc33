//! Looking without taking.

use smallvec::SmallVec;

use super::joint::{INLINE, Joint};
use super::line::Locked;
use super::shard::Call;
use super::{Entry, Memory};
use crate::decision::{Decision, Figures, Status};
use crate::key::Fingerprint;
use crate::time::Timestamp;

impl Memory {
    /// Decides without taking: allowed or not as `charge` would say, the rest as the key stands.
    pub(crate) fn peek(&self, entry: &Entry<'_>, now: Timestamp, cost: u64) -> Decision {
        let shard = self.lock(entry.fingerprint);
        Memory::peek_in(&shard, &self.call(entry.named, now), entry.fingerprint, cost)
    }

    fn peek_in(
        shard: &Locked<'_>,
        call: &Call<'_>,
        fingerprint: Fingerprint,
        cost: u64,
    ) -> Decision {
        let [stands, asked] = look(shard, call, fingerprint, [0, cost]);
        if cost > 0 && asked.allowed() {
            Decision::untaken(stands)
        } else {
            Decision::new(asked, cost)
        }
    }

    /// How the key stands.
    pub(crate) fn status(&self, entry: &Entry<'_>, now: Timestamp) -> Status {
        let shard = self.lock(entry.fingerprint);
        Status::new(look(&shard, &self.call(entry.named, now), entry.fingerprint, [0, 1]))
    }
}

/// Decides all charges, as they stand at one instant, and takes none.
pub(crate) fn look_all<'a, C>(
    charges: &[C],
    joint: fn(&C) -> &Joint<'a>,
) -> SmallVec<[Decision; INLINE]> {
    let times: SmallVec<[Timestamp; INLINE]> =
        charges.iter().map(|charge| joint(charge).memory.now()).collect();
    let mut locked: SmallVec<[&Joint<'a>; INLINE]> = charges.iter().map(joint).collect();
    locked.sort_unstable_by_key(|joint| joint.address);
    locked.dedup_by_key(|joint| joint.address);
    let shards: SmallVec<[Locked<'_>; INLINE]> =
        locked.iter().map(|joint| joint.memory.shards.lock(joint.shard)).collect();
    let look = |(charge, now): (&C, Timestamp)| {
        let Joint { memory, address, entry, cost, .. } = *joint(charge);
        let place = locked.iter().position(|other| other.address == address)?;
        let call = memory.call(entry.named, now);
        Some(Memory::peek_in(&shards[place], &call, entry.fingerprint, cost))
    };
    let looked = charges.iter().zip(times).map(look);
    looked.map(|decision| decision.unwrap_or(Decision::UNDECIDED)).collect()
}

/// The figures of decisions on each of `costs`, none of them taken.
fn look(
    shard: &Locked<'_>,
    call: &Call<'_>,
    fingerprint: Fingerprint,
    costs: [u64; 2],
) -> [Figures; 2] {
    let index = shard.table.find(fingerprint.id);
    costs.map(|cost| match index {
        Ok(index) => shard.decide(index, call, cost),
        Err(_) => call.named.plan.decide_fresh(call.now, cost),
    })
}
