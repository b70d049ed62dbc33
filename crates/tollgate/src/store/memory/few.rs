//! The common request of several charges: a few known keys of one store, each a bucket in a slot.
//! It is decided as [`charge_all`](super::charge_all) would, for a third of the price, since nothing
//! else can happen; where something else can, nothing is done.

use super::joint::Joint;
use crate::algorithm::Packed;
use crate::time::Timestamp;

/// What became of a few charges.
pub(super) struct Few<const N: usize> {
    pub(super) allowed: bool,
    pub(super) now: Timestamp,
    /// The states they met, by the charges' numbers.
    pub(super) words: [Packed; N],
}

/// Decides all charges and takes all or none; `None` if they are not of the common kind.
#[inline(always)]
pub(super) fn charge_few<const N: usize>(joints: &[&Joint<'_>; N]) -> Option<Few<N>> {
    let memory = joints.first()?.memory;
    if joints.iter().any(|joint| !std::ptr::eq(joint.memory, memory)) {
        return None;
    }
    let order = lock_order(joints);
    let now = memory.now();
    let mut shards = [const { None }; N];
    let mut waited = [false; N];
    // Which of them a charge uses: its own, or that of a charge before it.
    let mut uses = [0; N];
    for at in 0..N {
        let (joint, before) = (joints[order[at]], joints[order[at.saturating_sub(1)]]);
        if at > 0 && joint.address == before.address {
            if order[..at].iter().any(|other| joint.is_same_key(joints[*other])) {
                return None;
            }
            uses[at] = uses[at - 1];
        } else {
            let (shard, had_to_wait) = memory.shards.guard(joint.shard);
            // Held units are watched by who takes its time.
            if memory.shards.at(joint.shard).is_reserved() {
                return None;
            }
            (shards[at], waited[at]) = (Some(shard), had_to_wait);
            uses[at] = at;
        }
    }
    let mut words = [[0; 2]; N];
    let mut after = [[0; 2]; N];
    let mut places = [0; N];
    let (mut allowed, mut was_empty) = (true, false);
    for (at, number) in order.into_iter().enumerate() {
        let Joint { entry, cost, .. } = joints[number];
        let shard = shards[uses[at]].as_mut()?;
        let index = shard.table.find(entry.fingerprint.id).ok()?;
        if waited[at] {
            shard.table.bring_to_front(index);
        }
        let bucket = shard.bucket(index, entry.named).filter(|_| *cost > 0)?;
        words[number] = shard.table.words(index);
        let step = bucket.step(words[number], now.as_nanos(), *cost);
        allowed &= step.allowed;
        was_empty |= bucket.is_empty(words[number]);
        (after[at], places[at]) = (step.after, index);
    }
    if allowed {
        for at in 0..N {
            *shards[uses[at]].as_mut()?.table.words_mut(places[at]) = after[at];
        }
        if was_empty {
            joints.iter().for_each(|joint| memory.shards.at(joint.shard).disturb());
        }
    }
    Some(Few { allowed, now, words })
}

/// The numbers of the charges, lowest lock first.
#[inline(always)]
fn lock_order<const N: usize>(joints: &[&Joint<'_>; N]) -> [usize; N] {
    let mut order: [usize; N] = std::array::from_fn(|number| number);
    for last in (1..N).rev() {
        for at in 0..last {
            let (a, b) = (order[at], order[at + 1]);
            let is_higher = joints[a].address > joints[b].address;
            (order[at], order[at + 1]) = if is_higher { (b, a) } else { (a, b) };
        }
    }
    order
}
