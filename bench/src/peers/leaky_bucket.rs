//! leaky-bucket: one bucket for everybody. It has no keys and looks none up.

use leaky_bucket::RateLimiter;

use super::{Peer, Terms, Traffic};

pub(super) struct Single(RateLimiter);

impl Peer for Single {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Single {
        let Terms { period, burst } = traffic.terms(keys);
        let burst = burst as usize;
        let mut builder = RateLimiter::builder();
        Single(builder.interval(period).refill(1).max(burst).initial(burst).build())
    }

    #[inline]
    fn check(&self, _key: &String) -> bool {
        self.0.try_acquire(1)
    }
}
