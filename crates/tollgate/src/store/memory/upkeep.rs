//! What operators ask of a store, none of it on the path of a check: lists, counts, clearing.

use super::{Memory, RegisteredLimit};
use crate::decision::KeyStatus;
use crate::key::KeyName;
use crate::sync::Ordering;

impl Memory {
    /// The live keys of a limiter in one shard, with how they stand; `None` past the last shard.
    pub(crate) fn shard_keys(
        &self,
        shard: usize,
        named: &RegisteredLimit,
    ) -> Option<Vec<(KeyName, KeyStatus)>> {
        let now = self.now();
        if shard >= self.shards.len() {
            return None;
        }
        let Some(mut shard) = self.shards.lock_used(shard) else { return Some(Vec::new()) };
        self.tend_shard(&mut shard, now);
        let call = self.call(named, now);
        let ours: Vec<usize> = self.registry.with(|limits| {
            let of_limiter = |index: &usize| {
                limits.get(shard.table.limit(*index)).is_some_and(|of| {
                    of.limiter == named.limiter && !shard.is_fresh(*index, of, call.now)
                })
            };
            shard.table.taken().filter(of_limiter).collect()
        });
        // Decided after the registry is unlocked, which a state under other numbers asks again.
        let status = |index| {
            let figures = [0, 1].map(|cost| shard.decide(index, &call, cost));
            (shard.name(index).unwrap_or_default(), KeyStatus::new(figures))
        };
        Some(ours.into_iter().map(status).collect())
    }

    /// Makes all keys of `limiter` new.
    pub(crate) fn reset_all(&self, limiter: &str) {
        for mut shard in self.shards.lock_each() {
            let ours: Vec<u64> = self.registry.with(|limits| {
                let rows = shard.table.taken().map(|index| shard.table.row(index));
                let of_limiter =
                    |number| limits.get(number).is_some_and(|named| *named.limiter == *limiter);
                rows.filter(|row| of_limiter(row.limit)).map(|row| row.id).collect()
            });
            let removed = ours.into_iter().filter(|id| shard.remove(*id, &self.registry)).count();
            self.release(removed);
        }
        self.waiting.nudge_all();
    }

    /// Makes all keys of all limiters new.
    pub(crate) fn clear(&self) {
        for mut shard in self.shards.lock_each() {
            let all: Vec<u64> =
                shard.table.taken().map(|index| shard.table.row(index).id).collect();
            let removed = all.into_iter().filter(|id| shard.remove(*id, &self.registry)).count();
            self.release(removed);
        }
        self.waiting.nudge_all();
    }

    /// Drops all state that is as good as new.
    pub(crate) fn reclaim(&self) {
        let now = self.now().as_nanos();
        for mut shard in self.shards.lock_each() {
            // Released under the lock: who finds the store full finds a key, or a place.
            let reclaimed = shard.rebuild(&self.registry, now);
            self.count_reclaimed(reclaimed);
            self.release(reclaimed);
        }
    }

    /// Counts states that were dropped since they were as good as new.
    pub(super) fn count_reclaimed(&self, states: usize) {
        if states > 0 {
            let states = u64::try_from(states).unwrap_or(u64::MAX);
            self.reclaimed.fetch_add(states, Ordering::Relaxed);
        }
    }

    pub(crate) fn reclaimed(&self) -> u64 {
        self.reclaimed.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Bytes the store occupies.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Memory>() + self.shards.heap_bytes()
    }
}
