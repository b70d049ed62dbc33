//! Eight connections at once: what is admitted is exactly what the limits allow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{connect, server, unique, wait};
use tollgate::{Limit, ManualClock};
use tollgate_redis::{RedisLimiter, RedisStore};
use tollgate_testkit::one_limit_of_each;

const CONNECTIONS: usize = 8;

/// Stores on connections of their own, on one clock that stands still.
async fn stores() -> Vec<RedisStore> {
    let clock = ManualClock::new();
    let mut stores = Vec::new();
    for _ in 0..CONNECTIONS {
        stores.push(connect(&server().url()).await.with_test_clock(clock.clone()));
    }
    stores
}

#[test]
fn eight_connections_on_one_key_get_what_one_would() {
    wait(async {
        let stores = stores().await;
        for limit in one_limit_of_each().into_iter().map(hundredfold) {
            let (name, taken) = (unique("one key"), Arc::new(AtomicU64::new(0)));
            let mut tasks = tokio::task::JoinSet::new();
            for store in &stores {
                let limiter = store.limiter(&name, limit.clone()).unwrap();
                let taken = taken.clone();
                tasks.spawn(async move {
                    for number in 0..200_u64 {
                        let cost = 1 + number % 3;
                        if limiter.check_n("ana", cost).await.unwrap().is_allowed() {
                            taken.fetch_add(cost, Ordering::Relaxed);
                        }
                    }
                });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
            let last = stores[0].limiter(&name, limit.clone()).unwrap();
            let left = last.status("ana").await.unwrap().remaining();
            assert_eq!(taken.load(Ordering::Relaxed) + left, limit.capacity(), "{limit}");
            assert_eq!(left, 0, "3,200 units were asked of {limit}");
        }
    });
}

/// The same kind of limit with a capacity of a thousand.
fn hundredfold(limit: Limit) -> Limit {
    use tollgate::{Algorithm, WindowStart};
    let period = limit.period();
    match (limit.algorithm(), limit.align()) {
        (Algorithm::TokenBucket, _) => Limit::token_bucket(7, period).burst(1000),
        (Algorithm::LeakyMeter, _) => Limit::leaky_bucket(7, period).burst(1000),
        (Algorithm::LeakyQueue, _) => Limit::leaky_queue(7, period).burst(999),
        (Algorithm::FixedWindow, WindowStart::FirstRequest) => {
            Limit::fixed_window(1000, period).starting_at_first_request()
        }
        (Algorithm::FixedWindow, WindowStart::Calendar(unit)) => Limit::calendar(1000, unit),
        (Algorithm::FixedWindow, _) => Limit::fixed_window(1000, period),
        (Algorithm::SlidingLog, _) => Limit::sliding_log(1000, period),
        _ => Limit::sliding_counter(1000, period),
    }
}

/// The limits of one process in the test of requests over several.
struct Gate {
    store: RedisStore,
    per_user: RedisLimiter,
    per_route: RedisLimiter,
    everybody: RedisLimiter,
}

impl Gate {
    fn new(store: &RedisStore, name: &str) -> Gate {
        let limiter = |kind: &str, limit| store.limiter(&format!("{name} {kind}"), limit).unwrap();
        let minute = Duration::from_secs(60);
        Gate {
            store: store.clone(),
            per_user: limiter("user", Limit::sliding_log(150, minute)),
            per_route: limiter("route", Limit::sliding_counter(300, minute)),
            everybody: limiter("all", Limit::per_day(501)),
        }
    }

    async fn used(&self, limiter: &RedisLimiter, keys: &[&str]) -> u64 {
        let mut used = 0;
        for key in keys {
            used += limiter.status(*key).await.unwrap().used();
        }
        used
    }
}

#[test]
fn eight_connections_over_several_limits_take_all_or_none() {
    let (users, routes) = (["ana", "ben", "eve", "kim"], ["/a", "/b"]);
    wait(async move {
        let (stores, name) = (stores().await, unique("gate"));
        let allowed = Arc::new(AtomicU64::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for (worker, store) in stores.iter().enumerate() {
            let (gate, allowed) = (Gate::new(store, &name), allowed.clone());
            tasks.spawn(async move {
                for number in 0..200 {
                    let (user, route) = (users[(worker + number) % 4], routes[number % 2]);
                    let mut charges = [
                        gate.per_user.charge(user),
                        gate.per_route.charge(route),
                        gate.everybody.charge(""),
                    ];
                    charges.rotate_left(number % 3);
                    if gate.store.check_all(&charges).await.unwrap().is_allowed() {
                        allowed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let gate = Gate::new(&stores[0], &name);
        let allowed = allowed.load(Ordering::Relaxed);
        assert_eq!(allowed, 501, "four users of 150 and two routes of 300 share 501");
        assert_eq!(gate.used(&gate.per_user, &users).await, allowed);
        assert_eq!(gate.used(&gate.per_route, &routes).await, allowed);
        assert_eq!(gate.used(&gate.everybody, &[""]).await, allowed);
    });
}

/// Sixteen tasks over two stores check one key. The stores keep it under different limits, one of
/// which is a log: what each admits converts the state of the other.
fn sixteen_tasks_under_two_limits(limits: [Limit; 2]) {
    wait(async move {
        let stores = stores().await;
        let (name, admitted) = (unique("two limits"), Arc::new(AtomicU64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..16 {
            let limit = limits[number % 2].clone();
            let limiter = stores[number % 2].limiter(&name, limit).unwrap();
            let admitted = admitted.clone();
            tasks.spawn(async move {
                for _ in 0..100 {
                    let decision = limiter.check("ana").await;
                    if decision.expect("the server answers").is_allowed() {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert_eq!(admitted.load(Ordering::Relaxed), 1000, "{limits:?}");
    });
}

#[test]
fn stores_that_convert_a_key_to_and_from_a_log_admit_one_limit() {
    let log = Limit::sliding_log(1000, Duration::from_secs(3600));
    sixteen_tasks_under_two_limits([Limit::per_hour(1000), log.clone()]);
    sixteen_tasks_under_two_limits([log, Limit::sliding_counter(1000, Duration::from_secs(3600))]);
}

#[test]
fn stores_that_convert_a_key_between_windows_admit_one_limit() {
    let hour = Duration::from_secs(3600);
    let first = Limit::fixed_window(1000, hour).starting_at_first_request();
    sixteen_tasks_under_two_limits([Limit::fixed_window(1000, hour), first]);
}
