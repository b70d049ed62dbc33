//! Limiters whose time a test moves.

use tollgate::{Limit, Limiter, ManualClock};

/// A limiter with a store of its own and the clock it reads.
pub fn manual(limit: Limit) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(limit).clock(clock.clone()).max_keys(10_000).build();
    (limiter.expect("the test's limit is valid"), clock)
}

/// How many of `tries` checks of one unit pass at this moment.
pub fn admitted(limiter: &Limiter, key: &str, tries: u32) -> u32 {
    (0..tries).map(|_| u32::from(limiter.check(key).is_allowed())).sum()
}
