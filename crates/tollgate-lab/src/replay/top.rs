//! The keys with the most of something, in bounded memory.

use std::collections::HashMap;

use super::bounds::TOP_KEYS;

/// Keys and how often each was seen. When there are too many, the rarest half is forgotten; a key
/// that comes after that may have been among them, and begins with as much as those had at most.
/// So a key is never told smaller than it is, and what was never crowded is exact.
#[derive(Debug)]
pub(super) struct Top<V> {
    keys: HashMap<u64, Counted<V>>,
    /// The most that a forgotten key may have been seen.
    forgotten: u64,
    most: usize,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted<V> {
    pub(super) count: u64,
    /// How much of that may not be its own.
    pub(super) over: u64,
    pub(super) value: V,
}

impl<V> Default for Top<V> {
    fn default() -> Top<V> {
        Top { keys: HashMap::new(), forgotten: 0, most: TOP_KEYS }
    }
}

impl<V> Top<V> {
    /// Counts a key, which is `new` if it is not known.
    pub(super) fn add(&mut self, hash: u64, new: impl FnOnce() -> V, seen: impl FnOnce(&mut V)) {
        if let Some(known) = self.keys.get_mut(&hash) {
            known.count += 1;
            return seen(&mut known.value);
        }
        if self.keys.len() >= 2 * self.most {
            self.forget();
        }
        let over = self.forgotten;
        self.keys.insert(hash, Counted { count: over + 1, over, value: new() });
    }

    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.keys.values().map(|key| key.count).collect();
        let middle = counts.len() - self.most;
        let (_, least, _) = counts.select_nth_unstable(middle);
        // Those with as many as the rarest that could stay go too: which of them were to stay would
        // be left to chance.
        let least = *least;
        self.keys.retain(|_, key| key.count > least);
        self.forgotten = self.forgotten.max(least);
    }

    /// Whether some keys were forgotten.
    pub(super) fn is_crowded(&self) -> bool {
        self.forgotten > 0
    }

    /// How many keys are known.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys with the most, those of equal count as `name` orders them.
    pub(super) fn into_largest<K: Ord>(
        self,
        most: usize,
        name: impl Fn(&V) -> K,
    ) -> Vec<Counted<V>> {
        let mut all: Vec<Counted<V>> = self.keys.into_values().collect();
        all.sort_by_cached_key(|key| (std::cmp::Reverse(key.count), name(&key.value)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_key_is_told_smaller_than_it_is_and_no_large_one_is_missing(
            keys in prop::collection::vec(0_u64..60, 0..2000),
            most in 1_usize..40,
        ) {
            let mut top = Top { most, ..Top::default() };
            let mut exact: HashMap<u64, u64> = HashMap::new();
            for key in &keys {
                // Few keys are frequent, as of clients.
                let key = key * key / 60;
                top.add(key, || key, |_| {});
                *exact.entry(key).or_default() += 1;
            }
            prop_assert!(top.len() <= 2 * most);
            let forgotten = top.forgotten;
            let told = top.into_largest(usize::MAX, |key| *key);
            for key in &told {
                let real = exact[&key.value];
                prop_assert!(key.count - key.over <= real && real <= key.count);
            }
            for (key, real) in exact {
                prop_assert!(real <= forgotten || told.iter().any(|told| told.value == key));
            }
            prop_assert!(told.is_sorted_by(|a, b| a.count >= b.count));
        }
    }
}
