//! governor: GCRA in a `DashMap`, its default keyed store.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{Peer, Terms, Traffic};

fn quota(keys: usize, traffic: Traffic) -> Quota {
    let Terms { period, burst } = traffic.terms(keys);
    let quota = Quota::with_period(period).expect("the period is above zero");
    quota.allow_burst(NonZeroU32::new(burst).expect("the burst is above zero"))
}

pub(super) struct Text(DefaultKeyedRateLimiter<String>);

impl Peer for Text {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Text {
        Text(RateLimiter::dashmap(quota(keys, traffic)))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }
}

pub(super) struct Number(DefaultKeyedRateLimiter<u64>);

impl Peer for Number {
    type Key = u64;

    fn build(keys: usize, traffic: Traffic) -> Number {
        Number(RateLimiter::dashmap(quota(keys, traffic)))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// Three limiters asked one after the other: what an earlier one took stays taken.
pub(super) struct Three([DefaultKeyedRateLimiter<String>; 3]);

impl Peer for Three {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Three {
        Three(std::array::from_fn(|_| RateLimiter::dashmap(quota(keys, traffic))))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.0.iter().all(|limiter| limiter.check_key(key).is_ok())
    }
}
