//! What goes beyond checks, step by step as in memory: reservations, changed numbers, long logs.

use std::time::Duration;

use crate::common::{MICRO, asking, calls, store, unique, wait};
use tollgate::{
    CalendarUnit, KeyStatus, Limit, Limiter, ManualClock, MemoryStore, Policy, Request, Rule,
};
use tollgate_redis::{RedisGate, RedisLimiter, RedisReserveError, RedisStore, StoreError};
use tollgate_testkit::{Answer, RedisServer, eventually, one_limit_of_each};

const SECOND: Duration = Duration::from_secs(1);

/// A memory store and a Redis store on one clock.
struct Two {
    clock: ManualClock,
    memory: MemoryStore,
    redis: RedisStore,
    name: String,
}

impl Two {
    fn new() -> Two {
        let clock = ManualClock::new();
        let memory = MemoryStore::builder().clock(clock.clone()).max_keys(1000).build();
        let redis = store().with_test_clock(clock.clone());
        let memory = memory.expect("the bound is possible");
        Two { clock, memory, redis, name: unique("two") }
    }

    fn limiters(&self, limit: &Limit) -> (Limiter, RedisLimiter) {
        let memory = self.memory.limiter(&self.name, limit.clone()).expect("the limit is valid");
        let redis = self.redis.limiter(&self.name, limit.clone()).expect("the limit is valid");
        (memory, redis)
    }
}

/// A status as plain numbers, in whole microseconds.
fn figures(status: &KeyStatus) -> (u64, u64, Duration, Duration) {
    let round = |wait: Duration| {
        Duration::from_micros(u64::try_from(wait.as_nanos().div_ceil(1000)).unwrap())
    };
    (status.limit(), status.used(), round(status.retry_after()), round(status.reset_after()))
}

#[track_caller]
fn same(limiters: &(Limiter, RedisLimiter), step: &str) {
    let redis = wait(limiters.1.status("ana")).expect("the server answers");
    assert_eq!(figures(&redis), figures(&limiters.0.status("ana")), "{step}: {:?}", limiters.1);
}

fn held(limiter: &RedisLimiter, cost: u64, timeout: Duration) -> tollgate_redis::RedisReservation {
    wait(limiter.reserve_for("ana", cost, timeout)).expect("there is enough")
}

#[test]
fn reservations_end_as_in_memory() {
    for limit in one_limit_of_each() {
        let two = Two::new();
        let both = two.limiters(&limit);
        let reserve = |cost| {
            let memory = both.0.reserve("ana", cost).expect("there is enough");
            (memory, held(&both.1, cost, SECOND * 60))
        };
        let (memory, redis) = reserve(4);
        same(&both, "reserved");
        two.clock.advance(SECOND / 10);
        memory.settle(1);
        wait(redis.settle(1)).unwrap();
        same(&both, "settled for less");
        let (memory, redis) = reserve(2);
        memory.settle(5);
        wait(redis.settle(5)).unwrap();
        same(&both, "settled for more");
        let (memory, redis) = reserve(2);
        memory.commit();
        wait(redis.commit()).unwrap();
        same(&both, "committed");
        let (memory, redis) = reserve(1);
        memory.cancel();
        wait(redis.cancel()).unwrap();
        same(&both, "cancelled");
        two.clock.advance(Duration::from_millis(143));
        same(&both, "later");
    }
}

#[test]
fn a_reservation_that_nobody_ends_gives_back_when_it_times_out() {
    for limit in one_limit_of_each() {
        let two = Two::new();
        let both = two.limiters(&limit);
        let first = both.0.reserve_for("ana", 3, SECOND / 4).expect("there is enough");
        let other = held(&both.1, 3, SECOND / 4);
        assert!(both.0.check_n("ana", 2).is_allowed());
        assert!(wait(both.1.check_n("ana", 2)).unwrap().is_allowed());
        two.clock.advance(SECOND / 4);
        same(&both, "timed out");
        // Settled too late, it is charged anew.
        first.settle(2);
        wait(other.settle(2)).unwrap();
        same(&both, "settled late");
    }
}

#[test]
fn a_reservation_outlives_a_reset_and_a_drop_gives_back() {
    for limit in one_limit_of_each() {
        let two = Two::new();
        let both = two.limiters(&limit);
        let (memory, redis) = (both.0.reserve("ana", 3).unwrap(), held(&both.1, 3, SECOND * 60));
        both.0.reset("ana");
        assert!(wait(both.1.reset("ana")).unwrap());
        same(&both, "reset");
        memory.commit();
        wait(redis.commit()).unwrap();
        same(&both, "committed after the reset");
        let (memory, redis) = (both.0.reserve("ana", 3).unwrap(), held(&both.1, 3, SECOND * 60));
        drop(memory);
        wait(async move { drop(redis) });
        let memory = figures(&both.0.status("ana"));
        eventually("the dropped units to be returned", || {
            let redis = figures(&wait(both.1.status("ana")).expect("the server answers"));
            (redis == memory).then_some(()).ok_or((redis, memory))
        });
    }
}

#[test]
fn a_key_holds_a_bounded_number_of_reservations() {
    let (_, limiter) = Two::new().limiters(&Limit::per_hour(10_000));
    let mut all = Vec::new();
    for _ in 0..512 {
        all.push(held(&limiter, 1, SECOND * 600));
    }
    let more = wait(limiter.reserve("ana", 1));
    assert!(
        matches!(more, Err(RedisReserveError::Store(StoreError::InvalidRequest(_)))),
        "{more:?}"
    );
    assert_eq!(wait(limiter.status("ana")).unwrap().used(), 512, "the last one took nothing");
    wait(async {
        for one in all {
            one.cancel().await.unwrap()
        }
    });
    assert!(wait(limiter.status("ana")).unwrap().is_fresh());
    let denied = wait(limiter.reserve("ana", 10_001)).unwrap_err();
    assert!(matches!(denied, RedisReserveError::Denied(_)));
    assert!(!denied.decision().unwrap().is_allowed());
}

#[test]
fn changed_numbers_keep_the_proportion_as_in_memory() {
    let minute = SECOND * 60;
    let limits = [
        Limit::per_minute(100),
        Limit::per_minute(50).burst(200),
        Limit::leaky_queue(100, minute).burst(49),
        Limit::fixed_window(100, minute),
        Limit::fixed_window(30, minute),
        Limit::fixed_window(100, minute).starting_at_first_request(),
        Limit::calendar(60, CalendarUnit::Hour).zone("Asia/Kolkata"),
        Limit::sliding_log(100, minute),
        Limit::sliding_log(300, minute),
        Limit::sliding_log(70, minute * 2),
        Limit::sliding_counter(100, minute),
        Limit::sliding_counter(40, minute),
    ];
    for from in &limits {
        for to in limits.iter().filter(|to| *to != from) {
            let two = Two::new();
            let before = two.limiters(from);
            for _ in 0..3 {
                assert!(before.0.check_n("ana", 7).is_allowed());
                assert!(wait(before.1.check_n("ana", 7)).unwrap().is_allowed());
                two.clock.advance(SECOND);
            }
            let after = two.limiters(to);
            let redis = wait(after.1.status("ana")).unwrap();
            assert_eq!(redis.used(), after.0.status("ana").used(), "{from} looked at as {to}");
            let (memory, redis) = (after.0.check("ana"), wait(after.1.check("ana")).unwrap());
            assert_eq!(redis.remaining(), memory.remaining(), "{from} became {to}");
            assert_eq!(redis.is_allowed(), memory.is_allowed(), "{from} became {to}");
        }
    }
}

#[test]
fn after_a_denial_the_new_numbers_set_the_pace() {
    for [from, to] in [
        ["1/h", "1/s"],
        ["10/h fixed_window", "10/s fixed_window"],
        ["10/h sliding_log", "10/s sliding_log"],
        ["10/h sliding_counter", "10/s"],
    ] {
        let two = Two::new();
        let (_, before) = two.limiters(&from.parse().unwrap());
        let (_, after) = two.limiters(&to.parse().unwrap());
        assert!(wait(before.check_n("ana", before.limit().capacity())).unwrap().is_allowed());
        assert!(!wait(after.check("ana")).unwrap().is_allowed(), "{from} to {to}");
        let retry = wait(after.peek("ana")).unwrap().retry_after().unwrap();
        two.clock.advance(retry);
        assert!(wait(after.check("ana")).unwrap().is_allowed(), "{from} to {to}");
    }
}

#[test]
fn an_open_reservation_lives_through_changed_numbers() {
    for to in one_limit_of_each() {
        let two = Two::new();
        let before = two.limiters(&Limit::per_hour(10));
        let redis = held(&before.1, 5, SECOND * 60);
        let after = two.limiters(&to);
        assert!(wait(after.1.check("ana")).unwrap().is_allowed(), "half of {to} is left");
        wait(redis.cancel()).unwrap();
        assert!(wait(before.1.status("ana")).unwrap().used() <= 1, "{to} gave back");
    }
}

#[test]
fn a_long_log_is_kept_in_pieces_and_answers_as_in_memory() {
    let two = Two::new();
    let both = two.limiters(&Limit::sliding_log(300, SECOND));
    let mut random = 12_345_u64;
    for step in 0..4000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        let dice = random >> 33;
        // Faster and slower than the limit, so that it fills and empties, with idle spells.
        let pace = [200, 3000, 5000, 9000][step / 500 % 4];
        two.clock.advance(Duration::from_micros(if dice.is_multiple_of(499) {
            2_000_000
        } else {
            dice % pace
        }));
        let cost = 1 + dice % 3;
        if dice.is_multiple_of(11) {
            both.0.refund("ana", cost * 9);
            wait(both.1.refund("ana", cost * 9)).unwrap();
        } else {
            let memory = Answer::from(both.0.check_n("ana", cost)).in_ticks(MICRO);
            let redis = Answer::from(wait(both.1.check_n("ana", cost)).unwrap());
            assert_eq!(redis, memory, "step {step}");
        }
    }
}

#[test]
fn a_counter_weighs_exactly_however_large_its_numbers() {
    let day = SECOND * 86_400;
    let cases =
        [(8, SECOND), (10, SECOND * 60), (1_000_003, day), (1 << 40, day), (1 << 50, day * 30_000)];
    for (count, window) in cases {
        let two = Two::new();
        let both = two.limiters(&Limit::sliding_counter(count, window));
        // To the beginning of a window, and on to the next with all of the first taken.
        let micros = u64::try_from(window.as_micros()).unwrap();
        let into = two.clock.now().as_nanos() / 1000 % micros;
        two.clock.advance(Duration::from_micros(micros - into));
        assert!(wait(both.1.check_n("ana", count)).unwrap().is_allowed());
        assert!(both.0.check_n("ana", count).is_allowed());
        two.clock.advance(window);
        let began = two.clock.now();
        for at in (1..8).flat_map(|eighth| [micros / 8 * eighth - 1, micros / 8 * eighth]) {
            two.clock.set(began.saturating_add(Duration::from_micros(at)));
            let left = wait(both.1.status("ana")).unwrap().remaining();
            assert_eq!(left, both.0.status("ana").remaining(), "{count} at {at}");
            // The script and the figures are compared with every check.
            let more = wait(both.1.check_n("ana", left + 1)).unwrap();
            assert!(!more.is_allowed(), "{count} at {at}");
            let rest = wait(both.1.check_n("ana", left)).unwrap();
            assert_eq!(rest.is_allowed(), left > 0, "{count} at {at}: no cost may be zero");
            wait(both.1.refund("ana", left)).unwrap();
        }
    }
}

#[test]
fn a_reservation_in_the_middle_of_a_long_log_is_taken_out() {
    let two = Two::new();
    let both = two.limiters(&Limit::sliding_log(1000, SECOND * 60));
    let take = |times: u32| {
        for _ in 0..times {
            two.clock.advance(Duration::from_millis(1));
            assert!(both.0.check("ana").is_allowed());
            assert!(wait(both.1.check("ana")).unwrap().is_allowed());
        }
    };
    take(100);
    two.clock.advance(Duration::from_millis(1));
    let (memory, redis) = (both.0.reserve("ana", 50).unwrap(), held(&both.1, 50, SECOND * 600));
    take(200);
    memory.settle(20);
    wait(redis.settle(20)).unwrap();
    for _ in 0..70 {
        same(&both, "settled");
        two.clock.advance(Duration::from_millis(997));
    }
}

#[test]
fn as_many_as_there_are_is_taken() {
    for limit in one_limit_of_each() {
        let two = Two::new();
        let both = two.limiters(&limit);
        for most in [3, 100, 1, 0, u64::MAX] {
            let (memory, redis) =
                (both.0.check_up_to("ana", most), wait(both.1.take_up_to("ana", most)).unwrap());
            assert_eq!(redis.units, memory.units, "{limit} up to {most}");
            let memory = Answer::from(memory.decision).in_ticks(MICRO);
            assert_eq!(Answer::from(redis.decision), memory, "{limit} up to {most}");
        }
    }
}

#[test]
fn keys_are_listed_and_reset_by_prefix() {
    let limiter = store().limiter(&unique("li*st[ed]"), Limit::per_hour(10)).unwrap();
    let other = store().limiter(&unique("li*st[ed]"), Limit::per_hour(10)).unwrap();
    wait(async {
        for number in 0..1500 {
            let prefix = if number % 3 == 0 { "bot" } else { "user" };
            assert!(limiter.check((format!("{prefix}-{number}"), 7)).await.unwrap().is_allowed());
        }
        assert!(other.check("bot-1").await.unwrap().is_allowed());
        let mut names = std::collections::BTreeSet::new();
        let mut walk = limiter.keys();
        while let Some(keys) = walk.next().await.unwrap() {
            names.extend(keys.into_iter().map(|name| name.to_string()));
        }
        assert_eq!(names.len(), 1500);
        assert!(names.contains("(bot-3, 7)"));
        let mut steps = Vec::new();
        let done = limiter.reset_prefix("bot-", |progress| steps.push(progress)).await.unwrap();
        assert_eq!(done.reset, 500);
        assert!(steps.len() > 1 && steps.is_sorted_by_key(|step| step.seen));
        assert!(limiter.status(("bot-3", 7)).await.unwrap().is_fresh());
        assert_eq!(limiter.status(("user-1", 7)).await.unwrap().used(), 1);
        assert_eq!(limiter.reset_all(|_| {}).await.unwrap().reset, 1000);
        assert_eq!(other.status("bot-1").await.unwrap().used(), 1, "not its key");
    });
}

#[test]
fn a_batch_decides_every_request_by_itself() {
    let store = store().with_test_clock(ManualClock::new());
    wait(async {
        let five = store.limiter(&unique("five"), Limit::per_hour(5)).unwrap();
        let all = store.limiter(&unique("all"), Limit::per_hour(3000)).unwrap();
        let request = |key: u64, cost: u64| vec![five.charge(key % 300).cost(cost), all.charge("")];
        let mut requests: Vec<_> = (0..2400).map(|key| request(key, 1)).collect();
        requests.push(request(7, 6));
        requests.push(vec![]);
        requests.push((0..65).map(|key| five.charge(key)).collect());
        let answers = store.check_many(&requests).await;
        assert_eq!(answers.len(), 2403);
        for key in 0..300 {
            let admitted = answers[..2400].iter().skip(key).step_by(300);
            let admitted = admitted.filter(|answer| answer.as_ref().unwrap().is_allowed());
            assert_eq!(admitted.count(), 5);
        }
        assert_eq!(all.status("").await.unwrap().used(), 1500, "all or none");
        assert!(!answers[2400].as_ref().unwrap().is_allowed(), "too large a cost");
        assert!(answers[2401].as_ref().unwrap().is_allowed(), "nothing to charge");
        assert!(matches!(&answers[2402], Err(StoreError::InvalidRequest(_))), "too many charges");
    });
}

#[test]
fn a_request_is_decided_though_the_numbers_of_all_its_charges_have_changed() {
    let store = store().with_test_clock(ManualClock::new());
    let name = unique("changed");
    for (limit, remaining) in [(Limit::per_hour(10), 9), (Limit::per_hour(20), 17)] {
        let limiters: Vec<RedisLimiter> = (0..64)
            .map(|number| store.limiter(&format!("{name} {number}"), limit.clone()).unwrap())
            .collect();
        let charges: Vec<_> = limiters.iter().map(|limiter| limiter.charge("ana")).collect();
        let decisions = wait(store.check_all(&charges)).unwrap();
        assert!(decisions.iter().all(|(_, decision)| decision.remaining() == remaining));
        assert!(decisions.is_allowed());
    }
}

#[test]
fn hold_of_several_limits_is_settled_by_one_call() {
    let (server, minute) = (RedisServer::start(), Duration::from_secs(60));
    let policy = Policy::new()
        .rule(Rule::new("bucket").key(["user"]).limit(Limit::per_day(10)))
        .rule(Rule::new("log").key(["user"]).limit(Limit::sliding_log(10, minute)))
        .rule(Rule::new("counter").limit(Limit::sliding_counter(10, minute)))
        .rule(Rule::new("window").limit(Limit::fixed_window(10, minute)).limit(Limit::per_day(10)));
    let ana = Request::new().with("user", "ana").cost(5);
    wait(async {
        let store = asking(&server.url()).with_test_clock(ManualClock::new());
        let gate = RedisGate::with_store(store, policy.clone()).unwrap();
        let left = async || {
            let ruling = gate.status(&ana).await;
            ruling.rules().map(|of| of.remaining()).collect::<Vec<_>>()
        };
        // The server learns the script.
        gate.reserve(&ana).await.unwrap().cancel().await.unwrap();
        for (actual, expected) in [(2, [8; 4]), (7, [3; 4]), (0, [10; 4]), (5, [5; 4])] {
            let hold = gate.reserve(&ana).await.unwrap();
            let before = calls(&server);
            hold.settle(actual).await.unwrap();
            assert_eq!(calls(&server) - before, 1, "{actual}");
            assert_eq!(left().await, expected, "{actual}");
            gate.reset_all(|_| ()).await.unwrap();
        }
        // A hold that another node has kept is settled by one call too.
        let hold = gate.reserve(&ana).await.unwrap();
        assert!(gate.detach(7, hold, minute).await.unwrap().is_none());
        let kept = gate.attach(7).await.unwrap().unwrap();
        let before = calls(&server);
        kept.cancel().await.unwrap();
        assert_eq!(calls(&server) - before, 1);
        assert_eq!(left().await, [10; 4]);
        // States that were converted meanwhile are settled all the same.
        let hold = gate.reserve(&ana).await.unwrap();
        let mut other = policy.clone();
        other.rules[0] = Rule::new("bucket").key(["user"]).limit(Limit::per_day(20));
        gate.replace(other).unwrap();
        assert!(gate.check(&ana.clone().cost(1)).await.is_allowed());
        hold.settle(2).await.unwrap();
        assert_eq!(left().await[1..], [7; 3]);
    });
}
