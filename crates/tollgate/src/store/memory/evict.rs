//! What happens when the store is full: reclaim what is worthless, then do as `when_full` says.

use super::outlook::worthless;
use super::shard::{ChargeContext, Shard};
use super::{Memory, RegisteredLimit, WhenFull};
use crate::bounds::EVICTION_SAMPLE;
use crate::key::KeyId;
use crate::sync::Ordering;

/// What a full store makes of a new key.
#[derive(Clone, Copy, Debug)]
pub(super) enum NewKeyAdmission {
    /// The store was full; what that means is still to be found out.
    Full,
    /// A place is claimed for it.
    Claimed,
    /// It passes uncounted.
    Uncounted,
    /// It is denied; there may be room after so many nanoseconds.
    Denied { retry_after: u64 },
}

/// How much is lost if a state is forgotten; the least of a sample makes room.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionCost {
    denied: bool,
    /// The share of its limit that the key has used, in parts of 2^64.
    used: u128,
    reset_after: u64,
}

/// A state, and when it is as good as new.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextFresh {
    pub(super) at: u64,
    pub(super) shard: usize,
    pub(super) id: u64,
}

impl Memory {
    /// Finds room for a new key; no shard may be locked.
    pub(super) fn room(&self, fingerprint: KeyId, call: &ChargeContext<'_>) -> NewKeyAdmission {
        self.room_beside(fingerprint, call, &|_, id| id == fingerprint.id)
    }

    /// [`room`](Self::room), of no key that is `spared`, by shard and id.
    pub(super) fn room_beside(
        &self,
        fingerprint: KeyId,
        call: &ChargeContext<'_>,
        spared: &dyn Fn(usize, u64) -> bool,
    ) -> NewKeyAdmission {
        if self.claim() || self.reclaim_some(fingerprint, call) {
            return NewKeyAdmission::Claimed;
        }
        match self.settings.when_full {
            WhenFull::Evict if self.evict(fingerprint, call, spared) => {
                return NewKeyAdmission::Claimed;
            }
            WhenFull::AllowUncounted => {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
                return NewKeyAdmission::Uncounted;
            }
            WhenFull::Evict | WhenFull::DenyNewKeys => {}
        }
        // What is told is kept: whoever comes back then finds that state gone, wherever it lies.
        let soonest = self.soonest(fingerprint, |_, _| false);
        if self.reclaim_one(&soonest, call) {
            return NewKeyAdmission::Claimed;
        }
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        NewKeyAdmission::Denied { retry_after: soonest.at.saturating_sub(call.now).max(1) }
    }

    /// Makes room for a key, whatever the store does when it is full.
    pub(super) fn make_room(&self, fingerprint: KeyId, call: &ChargeContext<'_>) -> bool {
        self.evict(fingerprint, call, &|_, id| id == fingerprint.id)
    }

    /// Evicts the state of a sample whose loss is least, and claims its place.
    fn evict(
        &self,
        fingerprint: KeyId,
        call: &ChargeContext<'_>,
        spared: &dyn Fn(usize, u64) -> bool,
    ) -> bool {
        // Somebody else may evict the same key first; a few tries find another.
        for _ in 0..EVICTION_SAMPLE {
            if self.claim() {
                return true;
            }
            let mut least: Option<(EvictionCost, usize, u64)> = None;
            self.sample(fingerprint, |place, shard, index, named| {
                // Never the key itself: somebody else has brought it, and what it took counts.
                let id = shard.table.row(index).id;
                if spared(place, id) {
                    return;
                }
                let loss = loss(shard, index, named, call.now);
                if least.as_ref().is_none_or(|(least, ..)| loss < *least) {
                    least = Some((loss, place, id));
                }
            });
            let Some((loss, place, id)) = least else {
                return false;
            };
            if self.shards.lock(place).remove(id, call.registry) {
                match loss.reset_after {
                    0 => self.count_reclaimed(1),
                    _ => drop(self.evicted.fetch_add(1, Ordering::Relaxed)),
                }
                return true;
            }
        }
        false
    }

    /// Drops worthless states of the key's shard and of one shard in turn, and claims the place
    /// of the first.
    fn reclaim_some(&self, fingerprint: KeyId, call: &ChargeContext<'_>) -> bool {
        // Relaxed: any shard will do, the cursor only spreads the work.
        let turn = self.cursor.fetch_add(1, Ordering::Relaxed);
        let reclaimed: usize = self
            .sweeps(fingerprint, turn)
            .filter_map(|sweep| {
                let mut shard = self.shards.lock_used(sweep.shard)?;
                let worthless = worthless(&shard, &sweep, call, |_| false);
                Some(worthless.into_iter().filter(|id| shard.remove(*id, call.registry)).count())
            })
            .sum();
        self.count_reclaimed(reclaimed);
        self.release(reclaimed.saturating_sub(1));
        reclaimed > 0
    }

    /// Claims the place of the state that a denied key was told to wait for, if it has come.
    fn reclaim_one(&self, soonest: &NextFresh, call: &ChargeContext<'_>) -> bool {
        if soonest.at > call.now {
            return false;
        }
        let mut shard = self.shards.lock(soonest.shard);
        let Ok(index) = shard.table.find(soonest.id) else { return false };
        // Somebody may have used it since it was looked at.
        let worthless = call.registry.with(|limits| {
            let named = limits.get(shard.table.limit(index));
            named.is_none_or(|named| shard.is_fresh(index, named, call.now))
        });
        let reclaimed = worthless && shard.remove(soonest.id, call.registry);
        self.count_reclaimed(usize::from(reclaimed));
        reclaimed
    }

    /// The state of the sample that is worthless first, of those that `passes` does not name: there
    /// is room by then if nothing arrives.
    pub(super) fn soonest(
        &self,
        fingerprint: KeyId,
        passes: impl Fn(usize, u64) -> bool,
    ) -> NextFresh {
        let mut soonest = NextFresh { at: u64::MAX, shard: 0, id: 0 };
        self.sample(fingerprint, |place, shard, index, named| {
            let (at, id) =
                (named.plan.fresh_at(shard.state(index, named)), shard.table.row(index).id);
            if at < soonest.at && !passes(place, id) {
                soonest = NextFresh { at, shard: place, id };
            }
        });
        soonest
    }

    /// Calls `each` with a sample of states, from where the key belongs onwards.
    fn sample(
        &self,
        fingerprint: KeyId,
        mut each: impl FnMut(usize, &Shard, usize, &RegisteredLimit),
    ) {
        let first = self.shard_of(fingerprint);
        let mut seen = 0;
        for place in (first..self.shards.len()).chain(0..first) {
            let Some(shard) = self.shards.lock_used(place) else { continue };
            self.registry.with(|limits| {
                for index in shard.table.sample(fingerprint.id, 2 * EVICTION_SAMPLE) {
                    if let Some(named) = limits.get(shard.table.limit(index)) {
                        seen += 1;
                        each(place, &shard, index, named);
                    }
                }
            });
            if seen >= EVICTION_SAMPLE {
                return;
            }
        }
    }
}

fn loss(shard: &Shard, index: usize, named: &RegisteredLimit, now: u64) -> EvictionCost {
    let figures = named.plan.decide(shard.state(index, named), now, 1);
    let (limit, remaining) = (figures.limit(), figures.remaining());
    // The decision counts the unit it was asked about as taken.
    let remaining = if figures.allowed() { remaining + 1 } else { remaining };
    EvictionCost {
        denied: !figures.allowed(),
        used: (u128::from(limit - remaining) << 64) / u128::from(limit),
        reset_after: named.plan.fresh_at(shard.state(index, named)).saturating_sub(now),
    }
}
