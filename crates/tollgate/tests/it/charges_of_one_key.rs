//! Charges of several limiters for one key.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Charge, Limit, ManualClock, MemoryStore, WhenFull, check_all};
use tollgate_testkit::cases;

const SECOND: Duration = Duration::from_secs(1);

/// A request: which key, which of six limiters are asked in which order, for how much each; and how many
/// seconds later.
type Request = (u8, Vec<(usize, u64)>, u64);

fn request() -> impl Strategy<Value = Request> {
    let limiters = Just((0..6).collect::<Vec<usize>>()).prop_shuffle();
    let costs = prop::collection::vec(prop_oneof![9 => 1..4_u64, 1 => Just(0)], 1..=4);
    let charges =
        (limiters, costs).prop_map(|(limiters, costs)| limiters.into_iter().zip(costs).collect());
    (0..5_u8, charges, prop_oneof![6 => Just(0), 1 => 1..3_u64])
}

proptest! {
    #![proptest_config(cases(96))]

    /// Keys count by their value: whether charges share a variable makes no difference.
    #[test]
    fn one_variable_decides_as_its_copies_do(
        requests in prop::collection::vec(request(), 1..300),
        limits in prop::array::uniform6(prop_oneof![9 => 4..12_u64, 1 => Just(1)]),
    ) {
        let make = |clock: &ManualClock| {
            let builder = MemoryStore::builder().clock(clock.clone()).max_keys(10_000);
            let store = builder.build().expect("the test's numbers are valid");
            let limiter = |number: usize| {
                let limit = Limit::token_bucket(limits[number], 9 * SECOND);
                store.limiter(&number.to_string(), limit).expect("the test's numbers are valid")
            };
            std::array::from_fn::<_, 6, _>(limiter)
        };
        let clock = ManualClock::new();
        let (one, copied) = (make(&clock), make(&clock));
        for (key, asked, later) in &requests {
            clock.advance(Duration::from_secs(*later));
            let copies: Vec<u8> = asked.iter().map(|_| *key).collect();
            let of_one: Vec<Charge<'_, '_>> = asked
                .iter()
                .map(|(number, cost)| one[*number].charge(key).cost(*cost))
                .collect();
            let of_copies: Vec<Charge<'_, '_>> = asked
                .iter()
                .zip(&copies)
                .map(|((number, cost), copy)| copied[*number].charge(copy).cost(*cost))
                .collect();
            let (of_one, of_copies) = (check_all(&of_one), check_all(&of_copies));
            prop_assert_eq!(of_one.is_allowed(), of_copies.is_allowed());
            prop_assert_eq!(format!("{of_one:?}"), format!("{of_copies:?}"));
        }
        for (one, copied) in one.iter().zip(&copied) {
            for key in 0..5_u8 {
                prop_assert_eq!(one.status(key).remaining(), copied.status(key).remaining());
            }
        }
    }
}

/// The states of one key are in one shard, and may be in each other's eviction sample.
#[test]
fn limiters_that_count_one_key_do_not_make_room_for_each_other() {
    let builder = MemoryStore::builder().clock(ManualClock::new()).max_keys(1000);
    let store = builder.when_full(WhenFull::Evict).build().expect("the test's numbers are valid");
    let [one, other, others] = ["one", "other", "others"].map(|name| {
        store.limiter(name, Limit::per_hour(10)).expect("the test's numbers are valid")
    });
    for key in 0..1000 {
        assert!(others.check_n(key, 9).is_allowed());
    }
    let admitted =
        (0..50).filter(|_| one.check("eve").is_allowed() & other.check("eve").is_allowed()).count();
    assert_eq!(admitted, 10);
    assert_eq!(store.len(), 1000);
}
