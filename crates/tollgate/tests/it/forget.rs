//! Limits that are forgotten: nobody can tell, but by what the store remembers.
#![allow(clippy::unwrap_used, reason = "of tests")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Decision, Limit, Limiter, ManualClock, MemoryStore};
use tollgate_testkit::cases;

const NAMES: [&str; 2] = ["a", "b"];

fn limits() -> Vec<Limit> {
    let texts = [
        "3/s",
        "5/s burst 2",
        "4/2s leaky_bucket",
        "2/s fixed_window",
        "6/s sliding_counter",
        "3/s sliding_log",
        "2/3s sliding_log",
        "7/min",
    ];
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[derive(Clone, Debug)]
enum Act {
    /// Of a limiter's name, of a limit, of a key, of a cost.
    Check(usize, usize, u8, u64),
    /// The limiter is kept by somebody from now on.
    Hold(usize, usize),
    LetGo,
    Pass(u64),
    /// Of those whose bit is set.
    Forget(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let (name, limit) = (0..NAMES.len(), 0..limits().len());
    let one = prop_oneof![
        8 => (name.clone(), limit.clone(), 0..6_u8, 1..4_u64)
            .prop_map(|(name, limit, key, cost)| Act::Check(name, limit, key, cost)),
        1 => (name, limit).prop_map(|(name, limit)| Act::Hold(name, limit)),
        1 => Just(Act::LetGo),
        3 => (0..2500_u64).prop_map(Act::Pass),
        3 => any::<u32>().prop_map(Act::Forget),
    ];
    prop::collection::vec(one, 1..200)
}

/// All that a decision says.
fn told(decision: &Decision) -> (bool, [u64; 2], Option<Duration>, [Duration; 3]) {
    let (delay, next) = (decision.delay(), decision.next_unit_after());
    let units = [decision.limit(), decision.remaining()];
    (decision.is_allowed(), units, decision.retry_after(), [decision.reset_after(), delay, next])
}

struct Store {
    store: MemoryStore,
    limits: Vec<Limit>,
    held: Vec<Limiter>,
}

impl Store {
    fn new(clock: &ManualClock) -> Store {
        // Few shards, since each is looked through.
        let store = MemoryStore::builder().clock(clock.clone()).max_keys(256).build().unwrap();
        // So many that their numbers do not fit a slot.
        for count in 1..=250 {
            store.limiter("others", Limit::per_hour(count)).unwrap();
        }
        Store { store, limits: limits(), held: Vec::new() }
    }

    fn limiter(&self, name: usize, limit: usize) -> Limiter {
        self.store.limiter(NAMES[name], self.limits[limit].clone()).unwrap()
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn forgetting_limits_changes_no_decision(acts in acts()) {
        let clock = ManualClock::new();
        let (mut forgets, remembers) = (Store::new(&clock), Store::new(&clock));
        for act in acts {
            match act {
                Act::Check(name, limit, key, cost) => {
                    let [one, other] = [&forgets, &remembers]
                        .map(|store| store.limiter(name, limit).check_n([key], cost));
                    prop_assert_eq!(told(&one), told(&other), "{} {}", NAMES[name], limits()[limit]);
                }
                Act::Hold(name, limit) => forgets.held.push(forgets.limiter(name, limit)),
                Act::LetGo => forgets.held.clear(),
                Act::Pass(millis) => clock.advance(Duration::from_millis(millis)),
                Act::Forget(which) => {
                    let all = (0..NAMES.len()).flat_map(|name| {
                        (0..forgets.limits.len()).map(move |limit| (name, limit))
                    });
                    let chosen = all.enumerate().filter(|(bit, _)| which >> bit & 1 == 1);
                    let limiters = chosen.map(|(_, (name, limit))| forgets.limiter(name, limit));
                    drop(forgets.store.retire_idle(limiters.collect()));
                }
            }
            // What somebody holds still means what it did.
            for held in &forgets.held {
                let same = remembers.store.limiter(held.name(), held.limit().clone()).unwrap();
                prop_assert_eq!(told(&held.peek([0_u8])), told(&same.peek([0_u8])));
            }
        }
        let mut snapshot = Vec::new();
        forgets.store.snapshot(&mut snapshot).unwrap();
        let builder = MemoryStore::builder().clock(clock.clone()).max_keys(256);
        let restored = builder.restore(snapshot.as_slice()).unwrap();
        for (name, limit) in (0..NAMES.len()).flat_map(|name| (0..8).map(move |limit| (name, limit))) {
            for key in 0..6_u8 {
                let limit = forgets.limits[limit].clone();
                let again = restored.limiter(NAMES[name], limit.clone()).unwrap();
                let same = remembers.store.limiter(NAMES[name], limit).unwrap();
                prop_assert_eq!(told(&again.peek([key])), told(&same.peek([key])));
            }
        }
    }
}

#[test]
fn a_limit_that_somebody_has_or_whose_keys_are_in_use_is_not_forgotten() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let limiter = |count| store.limiter("a", Limit::per_second(count)).unwrap();
    let kept = limiter(1);
    assert!(store.retire_idle(vec![kept.clone()])[0].is_some(), "another has it");
    assert!(store.retire_idle(vec![limiter(1)])[0].is_some(), "made by itself, too");
    drop(kept);
    let reservation = limiter(1).reserve("ana", 1).unwrap();
    assert!(store.retire_idle(vec![limiter(1)])[0].is_some(), "units are held");
    reservation.cancel();
    clock.advance(Duration::from_secs(2));
    let elsewhere = Limiter::new(Limit::per_second(1)).unwrap();
    let left = store.retire_idle(vec![limiter(1), limiter(1), elsewhere, limiter(2)]);
    let left: Vec<bool> = left.iter().map(Option::is_some).collect();
    assert_eq!(left, [false, false, true, false], "both of one, and none of another store");
    assert_eq!(store.len(), 0, "its keys are gone, too");
}

#[test]
fn ever_new_limits_take_no_more_room_once_they_are_forgotten() {
    let store = MemoryStore::builder().clock(ManualClock::new()).max_keys(256).build().unwrap();
    let kept = store.limiter("a", Limit::per_hour(1)).unwrap();
    assert!(kept.check("ana").is_allowed());
    let size = || {
        let mut snapshot = Vec::new();
        store.snapshot(&mut snapshot).unwrap();
        snapshot.len()
    };
    let before = size();
    for round in 0..10_u64 {
        let new = |count: u64| store.limiter("a", Limit::per_hour(round * 1000 + count)).unwrap();
        let made: Vec<_> = (2..500).map(new).collect();
        assert!(size() > before);
        assert!(store.retire_idle(made).iter().all(Option::is_none));
        assert_eq!(size(), before);
    }
    assert!(!kept.check("ana").is_allowed(), "what was not forgotten is as it was");
}

#[test]
fn who_forgets_while_others_ask_lets_nobody_take_too_much() {
    let store = MemoryStore::builder().clock(ManualClock::new()).max_keys(256).build().unwrap();
    let (done, taken) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    let limit = |of: usize| Limit::per_hour(100 + of as u64);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let all = (0..taken.len()).map(|of| store.limiter("a", limit(of)).unwrap());
                drop(store.retire_idle(all.collect()));
            }
        });
        let askers: Vec<_> = (0..2_usize)
            .map(|asker| {
                let (store, taken) = (&store, &taken);
                scope.spawn(move || {
                    for ask in 0..3000 {
                        let of = (ask + asker) % taken.len();
                        // A key of its own for each limit, so that all numbers stay as they are.
                        let limiter = store.limiter("a", limit(of)).unwrap();
                        let allowed = limiter.check([u8::try_from(of).unwrap()]).is_allowed();
                        taken[of].fetch_add(u64::from(allowed), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        askers.into_iter().for_each(|asker| asker.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(taken.map(AtomicU64::into_inner), [100, 101, 102]);
}
