//! Refused again without asking, and many at once, where keys lie in several slots.

use std::time::Duration;

use tollgate::{Limit, ManualClock};
use tollgate_redis::{RedisLimiter, RedisStore};

use super::shared::store;
use crate::common::{unique, wait};

/// Two limits whose keys lie in slots of their own.
fn two(store: &RedisStore, few: u64) -> (RedisLimiter, RedisLimiter) {
    let limiter = |name, count| store.limiter(&unique(name), Limit::per_day(count)).unwrap();
    (limiter("few", few), limiter("many", 1000))
}

async fn is_allowed(store: &RedisStore, few: &RedisLimiter, many: &RedisLimiter) -> bool {
    let charges = [few.charge("ana"), many.charge("/")];
    store.check_all(&charges).await.unwrap().is_allowed()
}

#[test]
fn a_request_over_several_slots_is_refused_again_without_asking() {
    let clock = ManualClock::new();
    let store = store().with_test_clock(clock.clone());
    let (few, many) = two(&store, 1);
    wait(async {
        assert!(is_allowed(&store, &few, &many).await);
        assert!(!is_allowed(&store, &few, &many).await);
        assert_eq!(store.health().cached_denials, 0);
        for _ in 0..50 {
            assert!(!is_allowed(&store, &few, &many).await);
        }
        assert_eq!(store.health().cached_denials, 50);
        assert_eq!(many.status("/").await.unwrap().used(), 1, "nothing is held");
        // That was a look, so that it asks again; then what is given back here is seen at once.
        assert!(!is_allowed(&store, &few, &many).await);
        few.refund("ana", 1).await.unwrap();
        assert!(is_allowed(&store, &few, &many).await);
        assert!(!is_allowed(&store, &few, &many).await);
        clock.advance(Duration::from_secs(1));
        let before = store.health().cached_denials;
        assert!(!is_allowed(&store, &few, &many).await);
        assert_eq!(store.health().cached_denials, before, "it is too old");
    });
}

#[test]
fn a_refusal_for_want_of_what_others_hold_on_their_way_is_not_repeated() {
    let store = store().with_test_clock(ManualClock::new());
    let (few, many) = two(&store, 1);
    wait(async {
        // As a request of another process does that is on its way over several slots.
        let held = few.reserve_for("ana", 1, Duration::from_millis(900)).await.unwrap();
        for _ in 0..3 {
            assert!(!is_allowed(&store, &few, &many).await);
            assert!(!few.check("ana").await.unwrap().is_allowed());
        }
        assert_eq!(store.health().cached_denials, 0);
        held.cancel().await.unwrap();
        assert!(is_allowed(&store, &few, &many).await);
    });
}

#[test]
fn a_batch_over_all_nodes_and_several_slots_is_decided_in_order_and_exactly() {
    let store = store().with_test_clock(ManualClock::new());
    let (few, many) = two(&store, 550);
    wait(async {
        // More than may be on their way at once on one key.
        let requests: Vec<_> = (0..900)
            .map(|number| match number % 3 {
                0 => vec![many.charge(number)],
                _ => vec![few.charge("ana"), many.charge("/")],
            })
            .collect();
        let answers = store.check_many(&requests).await;
        assert_eq!(answers.len(), 900);
        for (number, answer) in answers.into_iter().enumerate() {
            // Two of three are over both slots: the first 550 of them fit, none in another's way.
            let fits = number % 3 == 0 || number < 825;
            assert_eq!(answer.unwrap().is_allowed(), fits, "request {number}");
        }
        assert_eq!(many.status("/").await.unwrap().used(), 550);
    });
}
