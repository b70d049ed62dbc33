//! A key that was just refused is refused again without asking the server, and never wrongly.

use std::time::{Duration, Instant};

use crate::common::{asking, calls, connect, server, unique, wait};
use tollgate::{Limit, ManualClock};
use tollgate_redis::{RedisLimiter, RedisStore};
use tollgate_testkit::{Answer, RedisServer, eventually_async};

/// A limit of ten an hour by a clock of one's own, used up for "ana".
struct Used {
    store: RedisStore,
    clock: ManualClock,
    limiter: RedisLimiter,
}

impl Used {
    async fn new() -> Used {
        let clock = ManualClock::new();
        let store = connect(&server().url()).await.with_test_clock(clock.clone());
        let limiter = store.limiter(&unique("used"), Limit::per_hour(10)).unwrap();
        assert!(limiter.check_n("ana", 10).await.unwrap().is_allowed());
        let used = Used { store, clock, limiter };
        assert!(!used.check().await);
        used
    }

    async fn check(&self) -> bool {
        self.limiter.check("ana").await.unwrap().is_allowed()
    }

    /// The check is refused, and whether it was refused here.
    async fn refused_here(&self) -> bool {
        let before = self.store.health().cached_denials;
        assert!(!self.check().await);
        self.store.health().cached_denials > before
    }
}

#[test]
fn a_flood_on_a_refused_key_costs_the_server_less_than_a_hundredth() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        for text in
            ["10/hour", "10/hour fixed_window", "10/hour sliding_log", "10/hour sliding_counter"]
        {
            let limiter = store.limiter(text, text.parse().unwrap()).unwrap();
            assert!(limiter.check_n("ana", 10).await.unwrap().is_allowed());
            let before = calls(&server);
            for _ in 0..5000 {
                assert!(!limiter.check("ana").await.unwrap().is_allowed());
            }
            let asked = calls(&server) - before;
            assert!((1..50).contains(&asked), "{text}: {asked} of 5000");
        }
    });
}

#[test]
fn switched_off_every_check_asks() {
    let server = RedisServer::start();
    wait(async {
        let store = asking(&server.url());
        let limiter = store.limiter("a", Limit::per_hour(1)).unwrap();
        for _ in 0..50 {
            let _ = limiter.check("ana").await.unwrap();
        }
        assert!(calls(&server) >= 50);
        assert_eq!(store.health().cached_denials, 0);
    });
}

#[test]
fn a_refusal_from_here_says_what_the_server_would() {
    wait(async {
        for text in ["10/s", "10/s leaky_bucket meter", "10/s fixed_window", "10/s sliding_counter"]
        {
            let clock = ManualClock::new();
            let store = connect(&server().url()).await.with_test_clock(clock.clone());
            let limit: Limit = text.parse().unwrap();
            let limiter = store.limiter(&unique(text), limit).unwrap();
            assert!(limiter.check_n("ana", 9).await.unwrap().is_allowed());
            for _ in 0..200 {
                let before = store.health().cached_denials;
                let here = limiter.check_n("ana", 7).await.unwrap();
                if store.health().cached_denials > before {
                    let there = limiter.peek_n("ana", 7).await.unwrap();
                    assert_eq!(Answer::from(here), Answer::from(there), "{text}");
                    // The look has made it forget.
                    let _ = limiter.check_n("ana", 7).await.unwrap();
                }
                clock.advance(Duration::from_micros(4321));
            }
            assert!(store.health().cached_denials > 50, "{text}: {:?}", store.health());
        }
    });
}

#[test]
fn when_the_wait_is_over_the_server_is_asked_and_allows_it() {
    wait(async {
        let clock = ManualClock::new();
        let store = connect(&server().url()).await.with_test_clock(clock.clone());
        let limiter = store.limiter(&unique("wait"), Limit::per_second(10)).unwrap();
        assert!(limiter.check_n("ana", 10).await.unwrap().is_allowed());
        let denied = limiter.check("ana").await.unwrap();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
        clock.advance(Duration::from_millis(40));
        let denied = limiter.check("ana").await.unwrap();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(60)), "it counts down");
        clock.advance(Duration::from_micros(59_999));
        assert!(!limiter.check("ana").await.unwrap().is_allowed());
        assert_eq!(store.health().cached_denials, 2);
        clock.advance(Duration::from_micros(1));
        assert!(limiter.check("ana").await.unwrap().is_allowed());
    });
}

#[test]
fn by_the_machines_clock_a_refusal_ends_when_its_wait_does() {
    const PERIOD: Duration = Duration::from_millis(400);
    wait(async {
        let store = connect(&server().url()).await;
        let limiter = store.limiter(&unique("real"), Limit::token_bucket(1, PERIOD)).unwrap();
        let mut key = 0;
        // On a machine that does other work the wait may be over too soon: then another key is used.
        let (start, wait) = eventually_async("a refusal without asking", async || {
            key += 1;
            let start = Instant::now();
            assert!(limiter.check(key).await.unwrap().is_allowed());
            let _ = limiter.check(key).await.unwrap();
            let before = store.health().cached_denials;
            let refused = limiter.check(key).await.unwrap();
            let is_local = store.health().cached_denials > before;
            is_local.then(|| (start, refused.retry_after().unwrap()))
        })
        .await;
        tokio::time::sleep(wait).await;
        assert!(limiter.check(key).await.unwrap().is_allowed(), "as soon as the wait is over");
        assert!(start.elapsed() >= PERIOD, "and not before");
    });
}

#[test]
fn what_this_process_gives_back_is_seen_at_once() {
    wait(async {
        let used = Used::new().await;
        used.limiter.refund("ana", 1).await.unwrap();
        assert!(used.check().await);
        assert!(!used.check().await);
        assert!(used.refused_here().await);
        assert!(used.limiter.reset("ana").await.unwrap());
        assert!(used.check().await);

        let used = Used::new().await;
        assert_eq!(used.limiter.reset_all(|_| {}).await.unwrap().reset, 1);
        assert!(used.check().await);

        let used = Used::new().await;
        used.limiter.refund("ana", 2).await.unwrap();
        let held = used.limiter.reserve("ana", 2).await.unwrap();
        assert!(!used.check().await);
        assert!(used.limiter.reserve("ana", 1).await.is_err());
        held.settle(1).await.unwrap();
        assert!(used.check().await);
        let held = {
            used.limiter.refund("ana", 1).await.unwrap();
            used.limiter.reserve("ana", 1).await
        };
        assert!(!used.check().await);
        held.unwrap().cancel().await.unwrap();
        assert!(used.check().await);
    });
}

#[test]
fn what_another_process_gives_back_is_seen_within_a_second() {
    wait(async {
        let used = Used::new().await;
        let other = connect(&server().url()).await.with_test_clock(used.clock.clone());
        let same = other.limiter(used.limiter.name(), Limit::per_hour(10)).unwrap();
        assert!(same.reset("ana").await.unwrap());
        assert!(used.refused_here().await);
        used.clock.advance(Duration::from_millis(999));
        assert!(used.refused_here().await);
        used.clock.advance(Duration::from_millis(1));
        assert!(used.check().await);
    });
}

#[test]
fn a_look_at_a_key_makes_the_next_check_agree_with_it() {
    wait(async {
        let used = Used::new().await;
        let other = connect(&server().url()).await.with_test_clock(used.clock.clone());
        let same = other.limiter(used.limiter.name(), Limit::per_hour(10)).unwrap();
        assert!(same.reset("ana").await.unwrap());
        assert!(used.limiter.peek("ana").await.unwrap().is_allowed());
        assert!(used.check().await);
    });
}

#[test]
fn other_numbers_are_not_refused_by_the_old_ones() {
    wait(async {
        let used = Used::new().await;
        let more = used.store.limiter(used.limiter.name(), Limit::per_hour(100)).unwrap();
        let fixed = Limit::fixed_window(50, Duration::from_secs(3600));
        assert!(!more.check("ana").await.unwrap().is_allowed(), "an empty bucket stays empty");
        assert_eq!(used.store.health().cached_denials, 0);
        assert!(
            used.store.limiter("other", fixed).unwrap().check("ana").await.unwrap().is_allowed()
        );
    });
}

#[test]
fn a_smaller_cost_that_fits_is_not_refused() {
    wait(async {
        let used = Used::new().await;
        used.limiter.refund("ana", 4).await.unwrap();
        assert!(!used.limiter.check_n("ana", 6).await.unwrap().is_allowed());
        let before = used.store.health().cached_denials;
        let larger = used.limiter.check_n("ana", 7).await.unwrap();
        assert_eq!(used.store.health().cached_denials, before + 1);
        assert_eq!(larger.retry_after(), Some(Duration::from_secs(3 * 360)), "its own wait");
        assert!(used.limiter.check_n("ana", 4).await.unwrap().is_allowed());
    });
}

#[test]
fn what_was_met_before_this_process_took_more_refuses_nothing() {
    wait(async {
        let used = Used::new().await;
        used.limiter.refund("ana", 4).await.unwrap();
        assert!(!used.limiter.check_n("ana", 6).await.unwrap().is_allowed());
        assert!(used.limiter.check_n("ana", 4).await.unwrap().is_allowed());
        let before = used.store.health().cached_denials;
        let denied = used.limiter.check_n("ana", 5).await.unwrap();
        assert_eq!(
            denied.retry_after(),
            Some(Duration::from_secs(5 * 360)),
            "all five are missing"
        );
        assert_eq!(used.store.health().cached_denials, before, "it asked");
    });
}

#[test]
fn several_limits_are_refused_here_only_with_all_their_figures() {
    wait(async {
        let used = Used::new().await;
        let everybody = used.store.limiter(&unique("all"), Limit::per_hour(1000)).unwrap();
        let both = [used.limiter.charge("ana"), everybody.charge("")];
        let asked = used.store.check_all(&both).await.unwrap();
        assert_eq!(used.store.health().cached_denials, 0, "one of the states is not known");
        let again = used.store.check_all(&both).await.unwrap();
        assert_eq!(used.store.health().cached_denials, 1);
        let figures = |all: &tollgate_redis::RedisDecisions| -> Vec<(String, Answer)> {
            all.iter().map(|(name, decision)| (name.to_owned(), (*decision).into())).collect()
        };
        assert_eq!(figures(&asked), figures(&again));
        assert!(!again.is_allowed());
        assert_eq!(again.deciding().unwrap().0, used.limiter.name());
        assert!(everybody.check("").await.unwrap().is_allowed(), "the other is nobody's refusal");
        assert!(!used.store.check_all(&both).await.unwrap().is_allowed());
        assert_eq!(used.store.health().cached_denials, 2, "however busy the other limit is");
        let ben = [used.limiter.charge("ben"), everybody.charge("")];
        assert!(used.store.check_all(&ben).await.unwrap().is_allowed());
        assert_eq!(everybody.status("").await.unwrap().used(), 2);
    });
}
