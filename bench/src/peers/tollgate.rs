//! Ours.

use std::hint::black_box;

use tollgate::{Limit, Limiter, LimiterBuilder, MemoryStore, check_all};

use super::{Loaded, Peer, Terms, Traffic};

/// How many requests a batch has.
const BATCH: usize = 256;

fn limit(keys: usize, traffic: Traffic) -> Limit {
    let Terms { period, burst } = traffic.terms(keys);
    Limit::token_bucket(1, period).burst(burst.into())
}

fn max_keys(keys: usize) -> usize {
    keys + keys / 4 + 1024
}

fn builder(keys: usize, traffic: Traffic) -> LimiterBuilder {
    Limiter::builder(limit(keys, traffic)).max_keys(max_keys(keys))
}

pub(super) struct Text(Limiter);

impl Peer for Text {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Text {
        Text(builder(keys, traffic).build().expect("the limit is possible"))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.0.check(key.as_str()).is_allowed()
    }

    fn held(&self) -> Option<usize> {
        Some(self.0.store().len())
    }
}

pub(super) struct Nameless(Limiter);

impl Peer for Nameless {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Nameless {
        let builder = builder(keys, traffic).discard_key_names();
        Nameless(builder.build().expect("the limit is possible"))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.0.check(key.as_str()).is_allowed()
    }

    fn held(&self) -> Option<usize> {
        Some(self.0.store().len())
    }
}

pub(super) struct Number(Limiter);

impl Peer for Number {
    type Key = u64;

    fn build(keys: usize, traffic: Traffic) -> Number {
        Number(builder(keys, traffic).build().expect("the limit is possible"))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.check(*key).is_allowed()
    }

    fn held(&self) -> Option<usize> {
        Some(self.0.store().len())
    }
}

/// Batches of requests.
pub(super) struct Batch(Limiter);

impl Peer for Batch {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Batch {
        Batch(builder(keys, traffic).build().expect("the limit is possible"))
    }

    fn check(&self, key: &String) -> bool {
        self.0.check(key.as_str()).is_allowed()
    }

    fn held(&self) -> Option<usize> {
        Some(self.0.store().len())
    }

    #[inline]
    fn check_each(&self, keys: &[String]) {
        for batch in keys.chunks(BATCH) {
            for decision in self.0.check_many(batch) {
                black_box(decision.is_allowed());
            }
        }
    }
}

/// Three limits on the same key, in one store, all or nothing.
pub(super) struct Three([Limiter; 3]);

impl Peer for Three {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Three {
        let store = MemoryStore::builder().max_keys(max_keys(3 * keys)).build();
        let store = store.expect("the bound is possible");
        let limiter =
            |name| store.limiter(name, limit(keys, traffic)).expect("the limit is possible");
        Three(["second", "minute", "hour"].map(limiter))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        let [second, minute, hour] = &self.0;
        let key = key.as_str();
        check_all(&[second.charge(&key), minute.charge(&key), hour.charge(&key)]).is_allowed()
    }

    fn held(&self) -> Option<usize> {
        Some(self.0[0].store().len() / self.0.len())
    }

    fn one(&self) -> Option<Box<dyn Loaded>> {
        Some(Box::new(OneOfThree(self.0[0].clone())))
    }
}

/// Three limits on the same key, each in a store of its own and asked by itself: three times one limit,
/// and not all or nothing.
pub(super) struct Apart([Limiter; 3]);

impl Peer for Apart {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> Apart {
        Apart([(); 3].map(|()| builder(keys, traffic).build().expect("the limit is possible")))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        let [second, minute, hour] = &self.0;
        let allowed =
            [second, minute, hour].map(|limiter| limiter.check(key.as_str()).is_allowed());
        allowed == [true; 3]
    }

    fn held(&self) -> Option<usize> {
        self.0.iter().map(|limiter| limiter.store().len()).min()
    }
}

/// One of three limits on the same key: in a store that holds the states of all three.
pub(super) struct OneOfThree(Limiter);

impl Peer for OneOfThree {
    type Key = String;

    fn build(keys: usize, traffic: Traffic) -> OneOfThree {
        OneOfThree(Three::build(keys, traffic).0[0].clone())
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.0.check(key.as_str()).is_allowed()
    }
}
