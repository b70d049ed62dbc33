use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Limiter, ManualClock, Policy, Rule, Timestamp};

use super::*;
use crate::replay::suggest::suggestions;

/// What real limiters refuse, one for each rung.
fn refused_by_limiters(rungs: &[Limit], requests: &[(u64, u8, u64)]) -> Vec<u64> {
    let refused = |limit: &Limit| {
        let clock = ManualClock::at(Timestamp::from_nanos(0));
        let limiter = Limiter::builder(limit.clone()).clock(clock.clone()).build().unwrap();
        let denied = requests.iter().filter(|(now, key, cost)| {
            clock.set(Timestamp::from_nanos(now * 1000));
            !limiter.check_n(u64::from(*key), *cost).is_allowed()
        });
        u64::try_from(denied.count()).unwrap()
    };
    rungs.iter().map(refused).collect()
}

fn hash(key: u8) -> u64 {
    u64::from(key).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 40
}

fn offer_all(ladder: &mut Ladder, requests: &[(u64, u8, u64)]) {
    for (now, key, cost) in requests {
        ladder.offer(Offer { hash: hash(*key), now: *now, cost: *cost });
    }
}

const LIMITS: [&str; 12] = [
    "10/s",
    "7/s burst 3",
    "100/min burst 250",
    "5/s leaky_bucket burst 2",
    "20/s leaky_bucket queue burst 4",
    "3/s leaky_bucket queue burst 0",
    "10/s fixed_window",
    "12/s fixed_window align first",
    "30/min calendar Europe/Paris",
    "10/s sliding_log",
    "10/s sliding_counter",
    "1000000000/day",
];

proptest! {
    #[test]
    fn every_rung_refuses_what_a_limiter_of_its_numbers_does(
        limit in prop::sample::select(&LIMITS[..]),
        steps in prop::collection::vec((0_u64..400_000, 0_u8..3, 1_u64..4), 1..120),
        begin in 1_700_000_000_000_000_u64..1_800_000_000_000_000,
        large in 1_u64..2_000_000_000,
    ) {
        let limit: Limit = limit.parse().unwrap();
        let mut now = begin;
        let mut requests: Vec<(u64, u8, u64)> = steps.into_iter().map(|(step, key, cost)| {
            // Many at one moment, as in a log that tells seconds.
            now += if step % 3 == 0 { step } else { 0 };
            (now, key, cost)
        }).collect();
        requests.push((now + 1, 0, large));
        let mut ladder = Ladder::new(0, &limit, 1 << 30).unwrap();
        offer_all(&mut ladder, &requests);
        let ladder = ladder.finish();
        let (offered, refused) = ladder.refused();
        prop_assert_eq!(offered, u64::try_from(requests.len()).unwrap());
        prop_assert_eq!(refused, refused_by_limiters(&ladder.rungs, &requests));
    }

    #[test]
    fn dropping_keys_that_are_as_good_as_new_changes_nothing(
        limit in prop::sample::select(&LIMITS[..]),
        steps in prop::collection::vec((0_u64..400_000, 0_u8..250, 1_u64..3), 1..250),
    ) {
        let limit: Limit = limit.parse().unwrap();
        let mut now = 1_700_000_000_000_000;
        let requests: Vec<(u64, u8, u64)> =
            steps.into_iter().map(|(step, key, cost)| { now += step; (now, key, cost) }).collect();
        let of = |bytes: usize, requests: &[(u64, u8, u64)]| {
            let mut ladder = Ladder::new(0, &limit, bytes).unwrap();
            offer_all(&mut ladder, requests);
            ladder.finish()
        };
        let (small, large) = (of(8000, &requests), of(1 << 30, &requests));
        if small.one_in() == Some(1) {
            prop_assert_eq!(small.refused(), large.refused());
        } else {
            // What is looked at is looked at from beginning to end.
            let seen: Vec<_> = requests.iter().copied()
                .filter(|(_, key, _)| hash(*key).trailing_zeros() >= small.level).collect();
            prop_assert_eq!(small.refused(), of(1 << 30, &seen).refused());
        }
    }
}

#[test]
fn memory_is_bounded_however_many_keys_there_are() {
    for text in ["10/day", "10/day sliding_log", "10/day sliding_counter"] {
        let limit: Limit = text.parse().unwrap();
        let mut ladder = Ladder::new(0, &limit, 100_000).unwrap();
        for at in 0..400_000_u64 {
            let hash = (at % 200_000).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
            ladder.offer(Offer { hash, now: at, cost: 1 });
            let size = match &ladder.seen {
                Seen::Keys(keys) => keys.size(),
                Seen::Logs(logs) => logs.size(),
                Seen::GivenUp => 0,
            };
            assert!(size <= 100_000, "{text}: {size} bytes");
        }
        assert!(ladder.one_in().is_some_and(|one_in| one_in >= 64), "{text}");
    }
}

#[test]
fn nothing_is_suggested_where_no_request_was_looked_at() {
    let limit: Limit = "10/day".parse().unwrap();
    let policy = Policy::new().rule(Rule::new("all").limit(limit.clone()));
    let seen = |most_bytes: usize| {
        let mut ladders = Ladders { most_bytes, ..Ladders::default() };
        ladders.offer(0, (0, &limit), Offer { hash: 1, now: 1, cost: 1 });
        let ladders = ladders.into_ladders();
        assert_eq!(ladders.0[0].refused().0, u64::from(most_bytes > 100));
        suggestions(ladders, &policy)
    };
    let (suggested, not) = seen(1 << 20);
    assert_eq!((suggested.len(), not.len()), (1, 0));
    let (suggested, not) = seen(10);
    assert!(suggested.is_empty());
    assert_eq!((&*not[0].rule, &*not[0].limit), ("all", "10/day"));
}

#[test]
fn the_smallest_rung_is_the_first_that_refuses_no_more_than_its_share() {
    let limit = Limit::fixed_window(10, Duration::from_secs(3600));
    let mut ladder = Ladder::new(0, &limit, 1 << 20).unwrap();
    let begin = 1_700_000_000_000_000 / 3_600_000_000 * 3_600_000_000;
    // One client with 100 requests in an hour, and 900 clients with one each.
    for at in 0..1000_u64 {
        let key = if at < 100 { 0 } else { at };
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 50;
        ladder.offer(Offer { hash, now: begin + at, cost: 1 });
    }
    let ladder = ladder.finish();
    let smallest = |share| ladder.smallest(share).map(|(limit, refused)| (limit.count(), refused));
    assert_eq!(smallest(0), Some((100, 0)));
    assert_eq!(smallest(1), Some((100, 0)));
    assert_eq!(smallest(20), Some((80, 20)));
    assert_eq!(smallest(50), Some((50, 50)));
    assert_eq!(smallest(49), Some((60, 40)));
}
