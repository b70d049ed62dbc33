//! Requests over several slots, many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{Limit, ManualClock};
use tollgate_redis::{RedisLimiter, RedisStore};
use tollgate_testkit::DEADLINE;

use super::shared::{cluster, keys_that_all_expire, store};
use crate::common::{connect, unique, wait};

const USERS: [&str; 4] = ["ana", "ben", "eve", "kim"];
const ROUTES: [&str; 2] = ["/a", "/b"];

/// Three limits whose keys lie in slots of their own.
struct Gate {
    store: RedisStore,
    per_user: RedisLimiter,
    per_route: RedisLimiter,
    everybody: RedisLimiter,
}

impl Gate {
    fn new(store: &RedisStore, name: &str) -> Gate {
        let limiter = |kind: &str, limit| store.limiter(&format!("{name} {kind}"), limit).unwrap();
        let hour = Duration::from_secs(3600);
        Gate {
            store: store.clone(),
            per_user: limiter("user", Limit::sliding_log(150, hour)),
            per_route: limiter("route", Limit::sliding_counter(300, hour)),
            everybody: limiter("all", Limit::per_day(501)),
        }
    }

    async fn check(&self, user: &str, route: &str) -> bool {
        let charges =
            [self.per_user.charge(user), self.per_route.charge(route), self.everybody.charge("")];
        self.store.check_all(&charges).await.unwrap().is_allowed()
    }

    async fn used(&self) -> [u64; 3] {
        let mut used = [0; 3];
        for user in USERS {
            used[0] += self.per_user.status(user).await.unwrap().used();
        }
        for route in ROUTES {
            used[1] += self.per_route.status(route).await.unwrap().used();
        }
        used[2] = self.everybody.status("").await.unwrap().used();
        used
    }
}

#[test]
fn eight_connections_over_several_slots_take_all_or_none_and_never_too_much() {
    let shared = store();
    wait(async {
        let (clock, name) = (ManualClock::new(), unique("gate"));
        let allowed = Arc::new(AtomicU64::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..8 {
            let store = connect(&cluster().url()).await.with_test_clock(clock.clone());
            let (gate, allowed) = (Gate::new(&store, &name), allowed.clone());
            tasks.spawn(async move {
                for number in 0..80 {
                    if gate.check(USERS[(worker + number) % 4], ROUTES[number % 2]).await {
                        allowed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let gate = Gate::new(&shared.with_test_clock(clock), &name);
        let at_once = allowed.load(Ordering::Relaxed);
        assert_eq!(gate.used().await, [at_once; 3], "all or none, and denials gave back");
        assert!(at_once <= 501);
        // What others on their way denied is still there.
        let mut then = 0;
        for user in USERS {
            for route in ROUTES {
                while gate.check(user, route).await {
                    then += 1;
                }
            }
        }
        assert_eq!(at_once + then, 501, "{at_once} at once");
        assert_eq!(gate.used().await, [501; 3]);
    });
}

#[test]
fn who_gives_up_in_the_middle_leaves_nothing_taken() {
    let shared = store();
    wait(async {
        let clock = ManualClock::new();
        let store = shared.with_test_clock(clock.clone());
        let gate = Gate::new(&store, &unique("dropped"));
        for micros in 0..200 {
            // Wherever it is by then.
            let limit = Duration::from_micros(micros * 20);
            let _ = tokio::time::timeout(limit, gate.check("ana", "/a")).await;
        }
        // Units still held are given back when their time is over: twice the timeout of a call.
        clock.advance(DEADLINE * 3);
        let used = gate.used().await;
        let [user, route, all] = used;
        // Whoever gives up between two commits has paid some; nobody has paid more than he asked for.
        assert!(user <= 150 && route <= 200 && all <= 200, "{used:?}");
        assert!(keys_that_all_expire(cluster()) > 0);
    });
}

#[test]
fn a_reservation_that_its_owner_left_comes_back_by_itself() {
    let shared = store();
    wait(async {
        let clock = ManualClock::new();
        let store = shared.with_test_clock(clock.clone());
        let (a, b) = (unique("a"), unique("b"));
        let [a, b] = [a, b].map(|name| store.limiter(&name, Limit::per_day(10)).unwrap());
        // As a process does that dies after it has reserved.
        let held = a.reserve_for("left", 10, Duration::from_secs(40)).await.unwrap();
        std::mem::forget(held);
        let charges = [a.charge("left"), b.charge("right")];
        assert!(!store.check_all(&charges).await.unwrap().is_allowed());
        assert!(b.status("right").await.unwrap().is_fresh(), "the other slot gave back");
        clock.advance(Duration::from_secs(40));
        assert!(store.check_all(&charges).await.unwrap().is_allowed());
        assert_eq!(a.status("left").await.unwrap().used(), 1);
    });
}

#[test]
fn turns_of_a_queue_are_taken_only_when_all_else_is_there() {
    let shared = store();
    wait(async {
        let store = shared.with_test_clock(ManualClock::new());
        let second = Duration::from_secs(1);
        let queue =
            store.limiter(&unique("queue"), Limit::leaky_queue(1, second).burst(9)).unwrap();
        let few = store.limiter(&unique("few"), Limit::per_day(2)).unwrap();
        let request = [queue.charge("q"), few.charge("f")];
        for delay in 0..2 {
            let decisions = store.check_all(&request).await.unwrap();
            let (_, turn) = decisions.iter().next().unwrap();
            assert_eq!(turn.delay(), second * delay);
        }
        assert!(!store.check_all(&request).await.unwrap().is_allowed());
        assert_eq!(queue.status("q").await.unwrap().used(), 2, "no turn was taken");
        // Numbers that have changed are looked at as they will be.
        let name = queue.name();
        let queue = store.limiter(name, Limit::leaky_queue(2, second).burst(19)).unwrap();
        let more = store.limiter(&unique("more"), Limit::per_day(2)).unwrap();
        let request = [queue.charge("q"), more.charge("f")];
        assert!(store.check_all(&request).await.unwrap().is_allowed());
    });
}
