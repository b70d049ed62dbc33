//! Batches: many keys in one call.

use super::Limiter;
use crate::decision::Decision;
use crate::key::Key;
use crate::store::memory::{BucketOutcome, KnownKey, LINES_IN_BATCH, charge_one};

/// How many keys are looked for while as many are charged: about as many as a core can wait for. With
/// more, what two threads want is taken from one and has to come back before it is used.
const AHEAD: usize = 6;

impl Limiter {
    /// Checks every key of a batch: the answers of as many checks in this order, for much less
    /// than their price, since all are looked for at the same time and the clock is read once.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_many<K: Key>(&self, keys: &[K]) -> Vec<Decision> {
        self.check_batch(keys, |key| (key, 1))
    }

    /// [`check_many`](Self::check_many) with a cost for each key.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_many_n<K: Key>(&self, charges: &[(K, u64)]) -> Vec<Decision> {
        self.check_batch(charges, |(key, cost)| (key, *cost))
    }

    /// [`check_many_n`](Self::check_many_n) that hands over each decision in turn instead of
    /// collecting them: it allocates nothing.
    pub fn for_each_decision<K: Key>(&self, charges: &[(K, u64)], mut each: impl FnMut(Decision)) {
        let decision = |charged: Result<BucketOutcome<'_>, Decision>| match charged {
            Ok(outcome) => outcome.decision(),
            Err(decision) => decision,
        };
        self.charge_each(charges, |(key, cost)| (key, *cost), |charged| each(decision(charged)));
    }

    fn check_batch<T, K: Key>(
        &self,
        items: &[T],
        split: impl Fn(&T) -> (&K, u64),
    ) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(items.len());
        self.charge_each(items, split, |charged| match charged {
            Ok(outcome) => decisions.push(outcome.decision()),
            Err(decision) => decisions.push(decision),
        });
        decisions
    }

    /// Charges every key in turn, while the slots of the next ones are on their way.
    #[inline(always)]
    fn charge_each<T, K: Key>(
        &self,
        items: &[T],
        split: impl Fn(&T) -> (&K, u64),
        mut each: impl FnMut(Result<BucketOutcome<'_>, Decision>),
    ) {
        let memory = self.memory();
        let now = memory.now();
        let ask = |item: &T| {
            let fingerprint = self.0.fingerprints.of(split(item).0);
            (fingerprint, memory.prefetch::<LINES_IN_BATCH>(fingerprint))
        };
        let Some(first) = items.first() else { return };
        // In turns: a loop that did both would have to keep at hand what each of them works with.
        let mut asked = [[ask(first); AHEAD]; 2];
        let ask_each = |items: &[T], asked: &mut [_; AHEAD]| {
            items.iter().zip(asked).for_each(|(item, place)| *place = ask(item));
        };
        let mut ahead = items.chunks(AHEAD);
        ahead.next().into_iter().for_each(|items| ask_each(items, &mut asked[0]));
        for (number, items) in items.chunks(AHEAD).enumerate() {
            if let Some(next) = ahead.next() {
                ask_each(next, &mut asked[(number + 1) % 2]);
            }
            for (item, (fingerprint, slot)) in items.iter().zip(&asked[number % 2]) {
                let (key, cost) = split(item);
                let known = KnownKey::new(memory, *slot, &self.0.named, cost);
                each(match known.and_then(|known| charge_one(known, now)) {
                    Some(outcome) => Ok(outcome),
                    None => Err(self.charge_any(key, *fingerprint, now, cost)),
                });
            }
        }
    }
}
