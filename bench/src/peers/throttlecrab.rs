//! throttlecrab: one map, `&mut self`, so threads share it behind a lock as its documents say.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Peer, Terms, Traffic};

pub(super) struct Shared {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    burst: i64,
    period_secs: i64,
}

impl Peer for Shared {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Shared {
        // It never sweeps during a run, which is the best case for it.
        let store = PeriodicStore::builder().capacity(keys);
        let store = store.cleanup_interval(Duration::from_secs(24 * 60 * 60)).build();
        let Terms { period, burst } = traffic.terms(keys);
        // With a burst of 1 its state expires at once and nothing is ever denied.
        let burst = burst.max(2).into();
        let period_secs = period.as_secs().cast_signed();
        Shared { limiter: Mutex::new(RateLimiter::new(store)), burst, period_secs }
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter
            .rate_limit(key, self.burst, 1, self.period_secs, 1, now)
            .is_ok_and(|(allowed, _)| allowed)
    }
}
