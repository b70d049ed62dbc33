//! The design everybody writes first: a locked map of locked buckets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::{Peer, Terms, Traffic};

struct Bucket {
    tokens: f64,
    filled: Instant,
}

pub(super) struct Naive {
    buckets: Mutex<HashMap<String, Arc<Mutex<Bucket>>>>,
    burst: f64,
    per_second: f64,
}

impl Naive {
    #[inline]
    fn bucket(&self, key: &str, now: Instant) -> Arc<Mutex<Bucket>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get(key) {
            return Arc::clone(bucket);
        }
        let bucket = Arc::new(Mutex::new(Bucket { tokens: self.burst, filled: now }));
        buckets.insert(key.to_owned(), Arc::clone(&bucket));
        bucket
    }
}

impl Peer for Naive {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Naive {
        let Terms { period, burst } = traffic.terms(keys);
        let per_second = 1.0 / period.as_secs_f64();
        Naive { buckets: Mutex::default(), burst: burst.into(), per_second }
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        let now = Instant::now();
        let bucket = self.bucket(key, now);
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + since * self.per_second).min(self.burst);
        bucket.filled = now;
        let allowed = bucket.tokens >= 1.0;
        if allowed {
            bucket.tokens -= 1.0;
        }
        allowed
    }
}
