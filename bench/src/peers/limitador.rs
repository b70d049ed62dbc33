//! limitador: fixed windows in its memory storage, the key a variable of the limit.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use super::{Peer, Traffic};

pub(super) struct InMemory {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Peer for InMemory {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> InMemory {
        // A window has a burst and no period in which single units come back.
        let most = traffic.terms(keys).burst.into();
        let variable = "user".try_into().expect("a name is an expression");
        let limiter = RateLimiter::new((keys + keys / 4 + 1024) as u64);
        limiter.add_limit(Limit::new("bench", most, 60 * 60, [], [variable]));
        InMemory { limiter, namespace: "bench".into() }
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        let values = HashMap::from([("user".to_owned(), key.clone())]);
        self.limiter
            .check_rate_limited_and_update(&self.namespace, &Context::from(values), 1)
            .is_ok_and(|result| !result.limited)
    }
}
