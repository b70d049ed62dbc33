//! ratelimit: one bucket for everybody, in atomics. It has no keys and looks none up.

use ratelimit::Ratelimiter;

use super::{Peer, Terms, Traffic};

pub(super) struct Single(Ratelimiter);

impl Peer for Single {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Single {
        let Terms { period, burst } = traffic.terms(keys);
        let burst = burst.into();
        let builder = Ratelimiter::builder(1).period(period);
        let limiter = builder.max_tokens(burst).initial_available(burst).build();
        Single(limiter.expect("it starts as full as it may be"))
    }

    #[inline]
    fn check(&self, _key: &String) -> bool {
        self.0.try_wait().is_ok()
    }
}
