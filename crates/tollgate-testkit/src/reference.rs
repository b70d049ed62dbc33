//! The reference: a store of models, one a key, that forgets nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate::{Limit, ManualClock};

use crate::answer::Answer;
use crate::model::KeyModel;
use crate::under_test::{LimiterUnderTest, StoreUnderTest};

/// A store that answers as the specification says.
#[derive(Debug)]
pub struct Reference {
    clock: ManualClock,
    keys: Arc<Mutex<ModelsByKey>>,
    /// One step at a time, whatever it touches.
    turn: Arc<Mutex<()>>,
}

/// The models by the names of their limiters and keys.
type ModelsByKey = HashMap<(String, String), KeyModel>;

/// A limiter of the [`Reference`].
#[derive(Debug)]
pub struct ReferenceLimiter {
    name: String,
    limit: Limit,
    clock: ManualClock,
    keys: Arc<Mutex<ModelsByKey>>,
    turn: Arc<Mutex<()>>,
}

impl Reference {
    /// A store that reads the time from `clock`.
    pub fn new(clock: ManualClock) -> Reference {
        Reference { clock, keys: Arc::default(), turn: Arc::default() }
    }
}

impl ReferenceLimiter {
    fn with<T>(&self, key: &str, act: impl FnOnce(&mut KeyModel, u64) -> T) -> T {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (self.name.clone(), key.to_owned());
        let model = keys.entry(name).or_insert_with(|| KeyModel::new(&self.limit));
        act(model, self.clock.now().as_nanos())
    }

    fn check_in_turn(&self, key: &str, cost: u64) -> Answer {
        self.with(key, |model, now| model.check_under(&self.limit, now, cost))
    }
}

impl LimiterUnderTest for ReferenceLimiter {
    fn check_n(&self, key: &str, cost: u64) -> Answer {
        let _turn = self.turn.lock();
        self.check_in_turn(key, cost)
    }

    fn peek_n(&self, key: &str, cost: u64) -> Answer {
        self.with(key, |model, now| model.peek_under(&self.limit, now, cost))
    }

    fn refund(&self, key: &str, units: u64) {
        self.with(key, |model, now| model.refund_under(&self.limit, now, units));
    }

    fn reset(&self, key: &str) {
        self.with(key, |model, _| *model = KeyModel::new(&self.limit));
    }
}

impl StoreUnderTest for Reference {
    type Limiter = ReferenceLimiter;

    fn limiter(&self, name: &str, limit: &Limit) -> ReferenceLimiter {
        ReferenceLimiter {
            name: name.to_owned(),
            limit: limit.clone(),
            clock: self.clock.clone(),
            keys: self.keys.clone(),
            turn: self.turn.clone(),
        }
    }

    fn check_all(&self, charges: &[(&ReferenceLimiter, &str, u64)]) -> bool {
        let _turn = self.turn.lock();
        let allowed =
            charges.iter().all(|(limiter, key, cost)| limiter.peek_n(key, *cost).is_allowed());
        if allowed {
            for (limiter, key, cost) in charges {
                limiter.check_in_turn(key, *cost);
            }
        }
        allowed
    }

    fn reclaim(&self) {}
}

/// The models under the contract that they serve to check.
#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::Reference;
    use crate::{NANO, store_contract, store_contract_of_changes};

    store_contract!(|clock: ManualClock| Reference::new(clock), NANO, cases: 8);
    store_contract_of_changes!(|clock: ManualClock| Reference::new(clock), NANO, cases: 8);
}
