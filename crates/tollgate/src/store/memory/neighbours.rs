//! The most common request of several charges: a few limits of one key whose states, all of them known
//! and buckets in slots, are side by side. It is decided as [`charge_few`](super::few::charge_few) would,
//! for what one lookup costs and not one for each; where a neighbour's that is not asked stands between
//! them, by that.

use std::array;

use smallvec::SmallVec;

use super::joint::{Charged, INLINE, Turn};
use super::line::{Sought, Spot};
use super::met::Met;
use super::registry::Common;
use super::table::Slot;
use super::tagged::Tagged;
use super::{Memory, Named};
use crate::algorithm::{Asked, Bucket};

/// What one of the limits is to take.
#[derive(Clone, Copy)]
pub(crate) struct Due<'a> {
    pub(crate) named: &'a Named,
    /// The key's, for this limiter.
    pub(crate) id: u64,
    pub(crate) cost: u64,
}

/// The same, worked out before the slots have come.
#[derive(Clone, Copy)]
struct Ready<'a> {
    tagged: Tagged,
    bucket: &'a Bucket,
    asked: Asked,
}

impl<'a> Due<'a> {
    /// `None` if it is not of the common kind.
    #[inline(always)]
    fn ready(&self) -> Option<Ready<'a>> {
        let Common { bucket, tag } = self.named.common.as_ref().filter(|_| self.cost > 0)?;
        Some(Ready { tagged: Tagged::new(self.id, *tag), bucket, asked: bucket.asked(self.cost)? })
    }
}

/// Decides all charges and takes all or none; `None` if they are of another kind, and then nothing is
/// taken, and what is in `turns` is of no use. `sought` is where the key should be.
#[inline(always)]
pub(crate) fn charge_neighbours<'a, const N: usize>(
    memory: &'a Memory,
    Sought { spot: Spot { place, home }, .. }: Sought<'a>,
    dues: [Due<'a>; N],
    turns: &mut SmallVec<[Turn<'a>; INLINE]>,
) -> Option<Charged> {
    // Indices and not iterators: which of them the compiler sees through decides what all this costs.
    let mut charges = [dues.first()?.ready()?; N];
    for number in 1..N {
        charges[number] = dues[number].ready()?;
    }
    let tagged = charges.map(|charge| charge.tagged);
    // How many come before each: where it is from the first on.
    let ranks: [usize; N] =
        tagged.map(|one| tagged.map(|other| usize::from(other < one)).iter().sum());
    let least = tagged.into_iter().min()?;
    let now = memory.now();
    let turn = |Due { named, cost, .. }: Due<'a>| Turn { named, cost, now, met: Met::OPEN };
    *turns = SmallVec::from_buf_and_len(array::from_fn(|number| turn(dues[number.min(N - 1)])), N);
    let turns: &mut [Turn<'a>; N] = turns.as_mut_slice().try_into().ok()?;

    let (mut shard, _) = place.guard_several();
    // What is held is watched by who takes its time.
    if place.is_reserved() {
        return None;
    }
    let slots: &mut [Slot; N] = shard.table.side_by_side(least, home)?;
    for number in 0..N {
        let slot = slots.get(ranks[number])?;
        if slot.tagged != tagged[number].get() {
            return None;
        }
        turns[number].met.meet(slot.words);
    }
    for number in 0..N {
        let Ready { bucket, asked, .. } = charges[number];
        let words = &mut slots.get_mut(ranks[number])?.words;
        let step = bucket.step(*words, now.as_nanos(), asked);
        if !step.allowed {
            put_back(slots, ranks, &turns[..number]);
            return Some(Charged::None);
        }
        if bucket.is_empty(*words) {
            place.disturb();
        }
        *words = step.after;
    }
    Some(Charged::All)
}

/// Makes the states of these turns, which are the first, what they were.
#[inline(never)]
fn put_back<const N: usize>(slots: &mut [Slot; N], ranks: [usize; N], taken: &[Turn<'_>]) {
    for (turn, rank) in taken.iter().zip(ranks) {
        slots[rank].words = turn.met.packed();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::Name;
    use crate::store::memory::LINES;
    use crate::{Limit, MemoryStore};

    /// Decisions are tested elsewhere, and are the same if nothing is ever decided here.
    #[test]
    fn what_three_limiters_made_in_a_row_count_of_a_key_is_decided_at_once() {
        let store = MemoryStore::builder().max_keys(10_000).build().expect("the bound is possible");
        let limiters = ["second", "minute", "hour"]
            .map(|name| store.limiter(name, Limit::per_hour(3)).expect("the limit is possible"));
        let mut decided = 0;
        for key in 0..1000_u64 {
            limiters.iter().for_each(|limiter| assert!(limiter.check(key).is_allowed()));
            let memory = limiters[0].memory();
            let hashed = key.hashed(&memory.hashes);
            let dues = limiters.each_ref().map(|limiter| {
                let id = limiter.fingerprint_of(hashed).id;
                Due { named: limiter.named(), id, cost: 1 }
            });
            let sought = memory.fetch_lock(hashed).fetch_slot::<LINES>(dues[0].id);
            let mut turns = SmallVec::new();
            let charged = charge_neighbours(memory, sought, dues, &mut turns);
            assert!(matches!(charged, Some(Charged::All) | None), "{charged:?}");
            decided += usize::from(charged.is_some());
        }
        assert!(decided > 950, "{decided} of 1000");
    }
}
