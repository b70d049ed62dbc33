//! Looking without taking.

use smallvec::SmallVec;

use super::joint::{INLINE, Joint, Turn};
use super::line::Locked;
use super::met::Met;
use super::outlook::deny_without_room;
use super::shard::Call;
use super::{Entry, Memory};
use crate::decision::{Decision, Figures, Status};
use crate::key::Fingerprint;
use crate::time::Timestamp;

impl Memory {
    /// Decides without taking: allowed or not as `charge` would say, the rest as the key stands.
    pub(crate) fn peek(&self, entry: &Entry<'_>, now: Timestamp, cost: u64) -> Decision {
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
    pub(crate) fn status(&self, entry: &Entry<'_>, now: Timestamp) -> Status {
        let mut shard = self.lock_used(entry.fingerprint);
        if let Some(shard) = &mut shard {
            self.tend(shard, entry.fingerprint.id, now.as_nanos());
        }
        let index = index(shard.as_ref(), entry.fingerprint);
        Status::new(look(shard.as_ref(), &self.call(entry.named, now), index, [0, 1]))
    }

    /// Locks the shard of a key, unless it was never used.
    fn lock_used(&self, fingerprint: Fingerprint) -> Option<Locked<'_>> {
        self.shards.lock_used(self.shard_of(fingerprint))
    }
}

/// Decides all charges, as they stand at one instant, and takes none; adds what became
/// of each to a list, in order.
pub(crate) fn look_all<'a, C>(
    charges: &[C],
    joint: fn(&C) -> &Joint<'a>,
    to: &mut impl Extend<Turn<'a>>,
) {
    let joints: SmallVec<[&Joint<'a>; INLINE]> = charges.iter().map(joint).collect();
    let mut turns: SmallVec<[Turn<'a>; INLINE]> =
        joints.iter().map(|joint| Turn { now: joint.memory.now(), ..Turn::new(joint) }).collect();
    let mut locked = joints.clone();
    locked.sort_unstable_by_key(|joint| joint.slot.shard.address());
    locked.dedup_by_key(|joint| joint.slot.shard.address());
    let mut shards: SmallVec<[Locked<'_>; INLINE]> =
        locked.iter().map(|joint| joint.slot.shard.lock()).collect();
    let mut new: SmallVec<[bool; INLINE]> = SmallVec::new();
    for (joint, turn) in joints.iter().zip(&mut turns) {
        let place =
            locked.partition_point(|other| other.slot.shard.address() < joint.slot.shard.address());
        let shard = &mut shards[place];
        joint.memory.tend(shard, joint.entry.fingerprint.id, turn.now.as_nanos());
        new.push(joint.cost > 0 && shard.table.find(joint.entry.fingerprint.id).is_err());
        turn.met = met(shard, joint, turn.now);
    }
    drop(shards);
    deny_without_room(&joints, &new, &mut turns);
    to.extend(turns);
}

/// What a charge meets that is not taken.
fn met(shard: &Locked<'_>, joint: &Joint<'_>, now: Timestamp) -> Met {
    let Joint { memory, entry, cost, .. } = *joint;
    let (call, mut met) = (memory.call(entry.named, now), Met::OPEN);
    let index = shard.table.find(entry.fingerprint.id).ok();
    match index {
        Some(index) => _ = shard.meet(&mut met, index, &call, cost),
        None => _ = met.set(&call, entry.named.plan.fresh().as_ref(), cost),
    }
    shard.stands(index, &call, met)
}

/// The index of a key in its shard, if it is known.
fn index(shard: Option<&Locked<'_>>, fingerprint: Fingerprint) -> Option<usize> {
    shard.and_then(|shard| shard.table.find(fingerprint.id).ok())
}

/// The figures of decisions on each of `costs` for the key at `index` or a new one, none of them taken.
fn look(
    shard: Option<&Locked<'_>>,
    call: &Call<'_>,
    index: Option<usize>,
    costs: [u64; 2],
) -> [Figures; 2] {
    costs.map(|cost| match shard.zip(index) {
        Some((shard, index)) => shard.decide(index, call, cost),
        None => call.named.plan.decide_fresh(call.now, cost),
    })
}
