//! What the contract asks of a store: small, so that every store can be put under it.
//!
//! Time comes from the manual clock that the store was made with. A store whose calls can fail
//! fails the test where they do.

use tollgate::{Limit, Limiter, MemoryStore, check_all};

use crate::answer::Answer;

/// One limit over many keys.
pub trait LimiterUnderTest: Send + Sync {
    /// Takes `cost` units if the limit allows them all.
    fn check_n(&self, key: &str, cost: u64) -> Answer;

    /// What `check_n` would say, taking nothing.
    fn peek_n(&self, key: &str, cost: u64) -> Answer;

    /// Gives back units, the latest first.
    fn refund(&self, key: &str, units: u64);

    /// Makes the key new.
    fn reset(&self, key: &str);
}

/// What keeps the state of limiters.
pub trait StoreUnderTest: Send + Sync {
    /// Its limiters.
    type Limiter: LimiterUnderTest;

    /// The limiter `name`.
    fn limiter(&self, name: &str, limit: &Limit) -> Self::Limiter;

    /// Takes every charge of a limiter, a key and a cost, or none; whether it did.
    fn check_all(&self, charges: &[(&Self::Limiter, &str, u64)]) -> bool;

    /// Drops all state that is as good as new, where that is not left to the store.
    fn reclaim(&self);
}

impl LimiterUnderTest for Limiter {
    fn check_n(&self, key: &str, cost: u64) -> Answer {
        Limiter::check_n(self, key, cost).into()
    }

    fn peek_n(&self, key: &str, cost: u64) -> Answer {
        Limiter::peek_n(self, key, cost).into()
    }

    fn refund(&self, key: &str, units: u64) {
        Limiter::refund(self, key, units);
    }

    fn reset(&self, key: &str) {
        Limiter::reset(self, key);
    }
}

impl StoreUnderTest for MemoryStore {
    type Limiter = Limiter;

    fn limiter(&self, name: &str, limit: &Limit) -> Limiter {
        MemoryStore::limiter(self, name, limit.clone()).expect("traffic has valid limits")
    }

    fn check_all(&self, charges: &[(&Limiter, &str, u64)]) -> bool {
        let charges: Vec<_> =
            charges.iter().map(|(limiter, key, cost)| limiter.charge(key).cost(*cost)).collect();
        check_all(&charges).is_allowed()
    }

    fn reclaim(&self) {
        MemoryStore::reclaim(self);
    }
}
