//! Forgetting limits: those that nobody holds and that have no state which says anything.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Memory, RegisteredLimit};

impl Memory {
    /// Forgets those limits that nobody but `held` holds, which the caller has alone, if all their
    /// states are as good as new, and says which: their numbers, rising.
    pub(crate) fn forget(&self, held: &[&Arc<RegisteredLimit>]) -> Vec<u32> {
        // From here on nobody can make a state under one of them, unless it is brought back.
        let leaving = self.registry.put_out(held);
        if leaving.is_empty() {
            return Vec::new();
        }
        let numbers: HashSet<u32> = leaving.iter().map(|named| named.number).collect();
        let now = self.now().as_nanos();
        let mut live = HashSet::new();
        for mut shard in self.shards.lock_each() {
            let mut idle = Vec::new();
            self.registry.with(|limits| {
                for index in shard.table.taken() {
                    let number = shard.table.limit(index);
                    if !numbers.contains(&number) {
                        continue;
                    }
                    let named = limits.get(number);
                    if named.is_some_and(|named| !shard.is_fresh(index, named, now)) {
                        live.insert(number);
                    } else {
                        idle.push(shard.table.row(index).id);
                    }
                }
            });
            let removed = idle.into_iter().filter(|id| shard.remove(*id, &self.registry)).count();
            // Released under the lock: who finds the store full finds a key, or a place.
            self.count_reclaimed(removed);
            self.release(removed);
        }
        self.registry.strike_out(&leaving, |named| live.contains(&named.number))
    }
}
