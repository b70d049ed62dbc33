//! A check of a denied key agrees with the peek before it, whatever changed the key in between.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Charge, Limit, Limiter, ManualClock, MemoryStore, check_all};

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    /// The same key under other numbers.
    CheckWide(u64),
    /// With another limiter's, of the same key or of nobody.
    CheckBoth {
        same: bool,
    },
    Refund(u64),
    Reset,
    /// Settled for so many units more than were reserved.
    Debt(u64),
    /// Reserves one unit for a second.
    Reserve,
    /// Gives back what is reserved.
    Cancel,
    Reclaim,
    Forward(u64),
    Back(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        24 => (1..4u64).prop_map(Step::Check),
        1 => (1..4u64).prop_map(Step::CheckWide),
        2 => any::<bool>().prop_map(|same| Step::CheckBoth { same }),
        1 => (1..3u64).prop_map(Step::Refund),
        1 => Just(Step::Reset),
        1 => (1..5u64).prop_map(Step::Debt),
        1 => Just(Step::Reserve),
        1 => Just(Step::Cancel),
        1 => Just(Step::Reclaim),
        3 => (1..4000u64).prop_map(Step::Forward),
        1 => (1..4000u64).prop_map(Step::Back),
    ];
    prop::collection::vec(step, 1..160)
}

fn limit(count: u64, queue: bool) -> Limit {
    let second = Duration::from_secs(1);
    if queue {
        Limit::leaky_queue(count, second).burst(2)
    } else {
        Limit::per_second(count).burst(3)
    }
}

/// A check says what a peek, which looks into the store itself, has just said.
fn check(limiter: &Limiter, cost: u64) -> Result<(), TestCaseError> {
    let looked = limiter.peek_n("ana", cost);
    let decided = limiter.check_n("ana", cost);
    prop_assert_eq!(looked.is_allowed(), decided.is_allowed());
    if !decided.is_allowed() {
        prop_assert_eq!(looked.remaining(), decided.remaining());
        prop_assert_eq!(looked.retry_after(), decided.retry_after());
        prop_assert_eq!(looked.reset_after(), decided.reset_after());
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_remembered_refusal_is_what_the_store_would_say(steps in steps(), queue: bool) {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(10));
        let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
        let tight = store.limiter("per user", limit(1, queue)).unwrap();
        let wide = store.limiter("per user", limit(3, queue)).unwrap();
        let everybody = store.limiter("everybody", Limit::per_second(1000)).unwrap();
        let mut reserved = Vec::new();
        for step in steps {
            match step {
                Step::Reserve => {
                    reserved.extend(tight.reserve_for("ana", 1, Duration::from_secs(1)));
                }
                Step::Cancel => drop(reserved.pop()),
                Step::Check(cost) => check(&tight, cost)?,
                Step::CheckWide(cost) => check(&wide, cost)?,
                Step::CheckBoth { same } => {
                    let (ana, nobody) = ("ana", "");
                    let other = if same { &ana } else { &nobody };
                    let charges: [Charge<'_, '_>; 2] = [tight.charge(ana), everybody.charge(other)];
                    let looked = tight.peek("ana").is_allowed();
                    prop_assert_eq!(check_all(&charges).is_allowed(), looked);
                }
                Step::Refund(units) => tight.refund("ana", units),
                Step::Reset => drop(tight.reset("ana")),
                Step::Debt(units) => {
                    if let Ok(reserved) = tight.reserve("ana", 1) {
                        reserved.settle(1 + units);
                    }
                }
                Step::Reclaim => store.reclaim(),
                Step::Forward(millis) => clock.advance(Duration::from_millis(millis)),
                Step::Back(millis) => {
                    let back = clock.now().as_nanos().saturating_sub(millis * 1_000_000);
                    clock.set(tollgate::Timestamp::from_nanos(back));
                }
            }
        }
    }
}

#[test]
fn stores_do_not_share_what_was_refused() {
    // Of one seed, so that the key has one fingerprint in all, and each perhaps where the last one was.
    let (clock, mut seed) = (ManualClock::new(), Vec::new());
    let builder = || MemoryStore::builder().clock(clock.clone());
    builder().build().unwrap().snapshot(&mut seed).unwrap();
    for _ in 0..3 {
        let store = builder().restore(seed.as_slice()).unwrap();
        let limiter = store.limiter("per user", Limit::per_hour(1)).unwrap();
        assert!(limiter.check("ana").is_allowed());
        assert!((0..40).all(|_| !limiter.check("ana").is_allowed()));
    }
}

#[test]
fn what_is_remembered_of_a_key_ends_when_all_are_made_new() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build().unwrap();
    for _ in 0..3 {
        let limiter = store.limiter("per user", Limit::per_hour(1)).unwrap();
        assert!(limiter.check("ana").is_allowed());
        assert!((0..40).all(|_| !limiter.check("ana").is_allowed()));
        limiter.reset_all();
    }
}
