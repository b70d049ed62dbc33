//! Whether new keys would find room in a full store: looked at, with none made.

use smallvec::SmallVec;

use super::observed::{ChargeRecord, ObservedState};
use super::pending_charge::{INLINE, PendingCharge, PerCharge};
use super::shard::{ChargeContext, Shard};
use super::{Memory, WhenFull};
use crate::bounds::EVICTION_SAMPLE;
use crate::key::KeyId;
use crate::sync::Ordering;

/// What the keys of one request leave to its next.
#[derive(Debug, Default)]
struct RoomPlan {
    /// Keys, by shard and id, that make no room: the request's own, and what has made room for
    /// others of it.
    passed: SmallVec<[(usize, u64); INLINE]>,
    free: usize,
    /// How many times worthless state was looked for.
    turns: usize,
}

impl Memory {
    /// How long until there is room for a new key, where a charge would be denied for want of it.
    #[inline]
    pub(super) fn no_room(&self, fingerprint: KeyId, call: &ChargeContext<'_>) -> Option<u64> {
        if self.denies_new() {
            self.foresee(fingerprint, call, &mut RoomPlan::default())
        } else {
            None
        }
    }

    #[inline]
    fn denies_new(&self) -> bool {
        self.settings.when_full == WhenFull::DenyNewKeys && self.free_places() == 0
    }

    fn free_places(&self) -> usize {
        self.settings.max_keys.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// What [`room`](Self::room) would find: how long there is none, if there is none now.
    #[cold]
    fn foresee(
        &self,
        fingerprint: KeyId,
        call: &ChargeContext<'_>,
        outlook: &mut RoomPlan,
    ) -> Option<u64> {
        if outlook.free == 0 {
            let turn = self.cursor.load(Ordering::Relaxed).wrapping_add(outlook.turns);
            outlook.turns += 1;
            for sweep in self.sweeps(fingerprint, turn) {
                let Some(shard) = self.shards.lock_used(sweep.shard) else { continue };
                let passes = |id| outlook.passed.contains(&(sweep.shard, id));
                let found = worthless(&shard, &sweep, call, passes);
                outlook.free += found.len();
                outlook.passed.extend(found.into_iter().map(|id| (sweep.shard, id)));
            }
        }
        if outlook.free > 0 {
            outlook.free -= 1;
            return None;
        }
        let soonest = self.soonest(fingerprint, |shard, id| outlook.passed.contains(&(shard, id)));
        let wait = soonest.at.saturating_sub(call.now);
        outlook.passed.push((soonest.shard, soonest.id));
        (wait > 0).then_some(wait)
    }

    /// Where room is looked for: in the key's shard, and in one in turn.
    pub(super) fn sweeps(
        &self,
        KeyId { id, place }: KeyId,
        turn: usize,
    ) -> impl Iterator<Item = ReclaimScan> + use<> {
        let most = 4 * EVICTION_SAMPLE;
        let own = self.shard_of(KeyId { id, place });
        let turn = turn % self.shards.len();
        let sweeps = [own, turn].map(|shard| ReclaimScan { shard, from: id, most });
        match own == turn {
            true => [Some(ReclaimScan { shard: own, from: id, most: 2 * most }), None],
            false => sweeps.map(Some),
        }
        .into_iter()
        .flatten()
    }
}

/// Part of a shard to be looked through.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReclaimScan {
    pub(super) shard: usize,
    /// From where this id belongs onwards.
    from: u64,
    /// How many states.
    most: usize,
}

/// The ids of states that are as good as new, out of a sweep past those that `passes` names.
pub(super) fn worthless(
    shard: &Shard,
    sweep: &ReclaimScan,
    call: &ChargeContext<'_>,
    passes: impl Fn(u64) -> bool,
) -> Vec<u64> {
    call.registry.with(|limits| {
        let all = shard.table.sample(sweep.from, usize::MAX);
        let others = all.filter(|index| !passes(shard.table.row(*index).id));
        let worthless = others.take(sweep.most).filter(|index| {
            let named = limits.get(shard.table.limit(*index));
            named.is_none_or(|named| shard.is_fresh(*index, named, call.now))
        });
        worthless.map(|index| shard.table.row(index).id).collect()
    })
}

/// Denies those charges of `new` keys for which a full store would have no room, of a peek that would be
/// allowed otherwise. `new` may be shorter than the charges. Charges of several stores stay as they are:
/// only a request that is denied anyway peeks at those.
pub(super) fn deny_without_room(
    charges: &[PendingCharge<'_>],
    new: &[bool],
    records: &mut [ChargeRecord<'_>],
) {
    let Some(memory) = charges.first().map(|charge| charge.memory) else { return };
    if !charges.iter().all(|charge| std::ptr::eq(charge.memory, memory)) {
        return;
    }
    let wanted = new.iter().filter(|new| **new).count();
    let free = memory.free_places();
    if memory.settings.when_full != WhenFull::DenyNewKeys || wanted <= free {
        return;
    }
    let mut outlook = RoomPlan::default();
    outlook.passed.extend(charges.iter().map(|of| (of.shard(), of.entry.fingerprint.id)));
    // Places that are free are claimed in the order of the locks.
    let mut claiming: PerCharge<usize> = (0..new.len()).filter(|at| new[*at]).collect();
    claiming.sort_unstable_by_key(|at| charges[*at].lock_rank());
    let mut lacking: PerCharge<usize> = claiming.into_iter().skip(free).collect();
    lacking.sort_unstable();
    for at in lacking {
        let (charge, record) = (&charges[at], &mut records[at]);
        let call = memory.call(charge.entry.named, record.now);
        if let Some(wait) = memory.foresee(charge.entry.fingerprint, &call, &mut outlook) {
            let figures = record.named.plan.full(wait, record.cost);
            record.observed = ObservedState::of_figures(&figures);
        }
    }
}
