use std::sync::Arc;
use std::thread;

use tollgate::port::{Grant, LeaseTerms, ScriptState};
use tollgate::{Clock, Limit, ManualClock};

use super::super::names::RedisLimit;
use super::table::{LeasedKey, Leases};
use crate::bounds::{LEASE_SETS, LEASES_PER_SET};
use crate::store::RedisStore;

const UNITS: u64 = 30_000;

struct TestTable {
    leases: Arc<Leases>,
    counter: Arc<RedisLimit>,
}

impl TestTable {
    /// Asks no server anything.
    fn new() -> TestTable {
        let store = RedisStore::open("redis://127.0.0.1:1").unwrap();
        let store = store.with_test_clock(ManualClock::new());
        let limiter = store.limiter("a", Limit::per_hour(1_000_000)).unwrap();
        let ttl = std::time::Duration::from_secs(1);
        let lease = LeaseTerms::new(&limiter.inner.terms.ported, ttl, 100).ok();
        let leases = Arc::new(Leases::new(&store).unwrap());
        TestTable { leases, counter: Arc::new(RedisLimit { limiter, lease }) }
    }

    fn lent(&self, key: &str) -> LeasedKey {
        self.leases.lent(self.counter.clone(), key.as_bytes()).unwrap()
    }

    /// Puts units in hand of a key that was asked for before.
    fn grant(&self, lent: &LeasedKey, units: u64) {
        let _ = self.leases.spend(lent, 1, 1);
        let sent = Clock::from(ManualClock::new()).now();
        let at = sent.as_nanos() / 1000;
        assert!(
            self.leases.granted(lent, Grant { sent, at, met: ScriptState::New, units }).is_empty()
        );
    }
}

#[test]
fn threads_spend_what_is_in_hand_once_and_put_back_what_they_do_not_need() {
    let table = TestTable::new();
    let lent = table.lent("ana");
    table.grant(&lent, UNITS);
    let spent: u64 = thread::scope(|threads| {
        let work = |number: u64| {
            let (leases, lent) = (&table.leases, &lent);
            move || {
                let mut kept = 0;
                for step in 0.. {
                    let cost = 1 + (number + step) % 4;
                    match leases.spend(lent, cost, 1).0 {
                        None => return kept,
                        Some(spent) if step % 3 == 0 => leases.put_back(lent, &spent, cost),
                        Some(_) => kept += cost,
                    }
                }
                kept
            }
        };
        let all: Vec<_> = (0..8).map(|number| threads.spawn(work(number))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let counts = table.leases.counts();
    assert_eq!(counts.spent, spent);
    assert_eq!(spent + counts.available, UNITS, "every unit is spent once, or there still");
    // Whoever came to less than it wanted left that.
    assert!(counts.available < 4, "{counts:?}");
}

#[test]
fn keys_that_are_asked_for_once_take_no_more_room_than_there_is() {
    let table = TestTable::new();
    let lent = table.lent("ana");
    table.grant(&lent, UNITS);
    for number in 0..2 * LEASE_SETS * LEASES_PER_SET {
        let other = table.lent(&number.to_string());
        assert!(table.leases.spend(&other, 1, 1).0.is_none());
    }
    assert!(table.leases.keys() <= LEASE_SETS * LEASES_PER_SET);
    assert!(table.leases.spend(&lent, 1, 1).0.is_some(), "what is in hand stays");
}
