//! Batches: one call of the script decides many requests, as they would be one after the other.

use std::time::Duration;

use crate::common::clock::{alone, with_timeouts};
use crate::common::{MICRO, asking, builder, calls, connect, server, unique, wait};
use redis::cmd;
use tollgate::{Limit, Limiter, ManualClock, MemoryStore};
use tollgate_redis::{RedisCharge, RedisDecisions, RedisLimiter, RedisStore, StoreError};
use tollgate_testkit::{Answer, DEADLINE, Fault, FaultProxy, RedisServer, eventually_async};

/// Every algorithm, and every kind of window.
const LIMITS: [&str; 8] = [
    "20/s burst 7",
    "7/min leaky_bucket meter burst 9",
    "3/s leaky_bucket queue burst 6",
    "9/s fixed_window",
    "8/s fixed_window first",
    "12/min calendar Europe/Paris",
    "30/s sliding_counter",
    "11/s sliding_log",
];
/// The same limits later, in other numbers.
const LATER: [&str; 8] = [
    "20/s burst 14",
    "7/min leaky_bucket meter burst 5",
    "5/s leaky_bucket queue burst 6",
    "18/s fixed_window",
    "3/s fixed_window first",
    "24/min calendar Europe/Paris",
    "11/s sliding_counter",
    "17/s sliding_log",
];

/// Charges by the number of their limit, their key and their cost.
type Plain = Vec<(usize, u64, u64)>;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// Several charges, or none; now and then a cost that can never be.
    fn request(&mut self, limits: usize) -> Plain {
        let charges = [0, 1, 1, 1, 1, 2, 3, 5][self.index(8)];
        let charge = |dice: &mut Dice| {
            let cost = match dice.below(40) {
                0 => 0,
                1 => 1000,
                other => 1 + other % 3,
            };
            (dice.index(limits), dice.below(4), cost)
        };
        (0..charges).map(|_| charge(self)).collect()
    }

    fn batch(&mut self, limits: usize) -> Vec<Plain> {
        let size = [1, 2, 9, 64, 130, 300][self.index(6)];
        (0..size).map(|_| self.request(limits)).collect()
    }
}

fn limiters(store: &RedisStore, name: &str, limits: &[&str]) -> Vec<RedisLimiter> {
    let limiter = |(number, text): (usize, &&str)| {
        store.limiter(&format!("{name} {number}"), text.parse().unwrap()).unwrap()
    };
    limits.iter().enumerate().map(limiter).collect()
}

fn charges<'a>(limiters: &'a [RedisLimiter], request: &Plain) -> Vec<RedisCharge<'a>> {
    request.iter().map(|(limit, key, cost)| limiters[*limit].charge(key).cost(*cost)).collect()
}

fn told(decisions: &RedisDecisions) -> Vec<Answer> {
    decisions.iter().map(|(_, decision)| Answer::from(*decision)).collect()
}

async fn together(store: &RedisStore, own: &[RedisLimiter], batch: &[Plain]) -> Vec<Vec<Answer>> {
    let requests: Vec<_> = batch.iter().map(|request| charges(own, request)).collect();
    let answers = store.check_many(&requests).await;
    answers.iter().map(|answer| told(answer.as_ref().unwrap())).collect()
}

async fn in_turn(store: &RedisStore, own: &[RedisLimiter], batch: &[Plain]) -> Vec<Vec<Answer>> {
    let mut answers = Vec::new();
    for request in batch {
        answers.push(told(&store.check_all(&charges(own, request)).await.unwrap()));
    }
    answers
}

fn in_memory(own: &[Limiter], batch: &[Plain]) -> Vec<Vec<Answer>> {
    let one = |request: &Plain| {
        let charges: Vec<_> =
            request.iter().map(|(limit, key, cost)| own[*limit].charge(key).cost(*cost)).collect();
        let decisions = tollgate::check_all(&charges);
        decisions.iter().map(|(_, decision)| Answer::from(decision).in_ticks(MICRO)).collect()
    };
    batch.iter().map(one).collect()
}

/// `limits` of the limits, by two stores and in memory, until there were 4000 requests.
fn decides_alike(limits: &[&str], deny_cache: Duration, seed: u64) {
    let clock = ManualClock::new();
    let memory = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let memory: Vec<Limiter> =
        limits.iter().map(|text| memory.limiter(text, text.parse().unwrap()).unwrap()).collect();
    let open = || {
        let store = builder(server().url()).deny_cache_ttl(deny_cache).open().unwrap();
        store.with_test_clock(clock.clone())
    };
    let (batching, single) = (open(), open());
    let own = limiters(&batching, &unique("batch"), limits);
    let others = limiters(&single, &unique("single"), limits);
    let (mut dice, mut decided, mut allowed) = (Dice(seed), 0, 0);
    wait(async {
        while decided < 4000 {
            let batch = dice.batch(limits.len());
            let answers = together(&batching, &own, &batch).await;
            let expected = in_turn(&single, &others, &batch).await;
            let in_memory = in_memory(&memory, &batch);
            for (number, request) in batch.iter().enumerate() {
                let what = || format!("request {number} after {decided}: {request:?}");
                let [answer, one_by_one, memory] =
                    [&answers, &expected, &in_memory].map(|all| &all[number]);
                if deny_cache.is_zero() || request.len() == 1 {
                    assert_eq!(answer, memory, "memory, {}", what());
                    assert_eq!(answer, one_by_one, "one by one, {}", what());
                } else {
                    // Where one key is known to refuse, the figures of the others may be older.
                    let is_allowed = |all: &Vec<Answer>| all.iter().all(Answer::is_allowed);
                    assert_eq!(is_allowed(answer), is_allowed(memory), "memory, {}", what());
                }
            }
            decided += batch.len();
            allowed += answers.iter().filter(|all| all.iter().all(Answer::is_allowed)).count();
            clock.advance(Duration::from_micros(dice.below(700_000)));
        }
    });
    let denied_locally = batching.health().cached_denials;
    assert_eq!(denied_locally > 100, !deny_cache.is_zero(), "{denied_locally}");
    assert!(allowed > decided / 10 && allowed < decided * 9 / 10, "{allowed} of {decided}");
}

#[test]
fn a_batch_is_decided_as_its_requests_are_one_after_the_other() {
    decides_alike(&LIMITS, Duration::ZERO, 1);
}

#[test]
fn a_batch_is_decided_alike_where_some_are_refused_without_asking() {
    // Of a refused log the deny cache knows what remained then: the last of the limits is one.
    decides_alike(&LIMITS[..7], Duration::from_secs(1), 2);
}

#[test]
fn a_batch_is_decided_in_order_though_some_of_it_must_be_asked_for_again() {
    let clock = ManualClock::new();
    let open = || asking(&server().url()).with_test_clock(clock.clone());
    let (batching, single) = (open(), open());
    let both = |store: &RedisStore| {
        let name = unique("changed");
        [LIMITS, LATER].map(|limits| limiters(store, &name, &limits))
    };
    let (own, others) = (both(&batching), both(&single));
    let mut dice = Dice(3);
    wait(async {
        for round in 0..60 {
            // The numbers change now and then, and reservations time out.
            let now = usize::from(dice.below(3) == 0);
            for _ in 0..3 {
                let (limit, key) = (dice.index(8), dice.below(4));
                let timeout = Duration::from_micros(1 + dice.below(900_000));
                let held = own[now][limit].reserve_for(key, 1, timeout).await;
                let same = others[now][limit].reserve_for(key, 1, timeout).await;
                assert_eq!(held.is_ok(), same.is_ok());
                // Dropped, they would be given back; these are to time out.
                std::mem::forget((held, same));
            }
            clock.advance(Duration::from_micros(dice.below(900_000)));
            let batch = dice.batch(8);
            let answers = together(&batching, &own[now], &batch).await;
            let expected = in_turn(&single, &others[now], &batch).await;
            for (number, request) in batch.iter().enumerate() {
                assert_eq!(answers[number], expected[number], "{round}, {number}: {request:?}");
            }
        }
    });
}

/// How many scripts the server runs while `store` decides `requests`.
async fn calls_for(
    server: &RedisServer,
    store: &RedisStore,
    requests: &[Vec<RedisCharge<'_>>],
) -> u64 {
    let before = calls(server);
    assert!(store.check_many(requests).await.iter().all(Result::is_ok));
    calls(server) - before
}

#[test]
fn one_call_decides_a_batch_of_64_and_no_call_what_is_refused_anyway() {
    let server = RedisServer::start();
    wait(async {
        let store = connect(&server.url()).await;
        let limiter = |name, count| store.limiter(name, Limit::per_day(count)).unwrap();
        let (a, b, c) = (limiter("a", 1), limiter("b", 1000), limiter("c", 1000));
        let one = |keys: std::ops::Range<u64>| keys.map(|key| vec![a.charge(key)]);
        let many = |count: u64| one(0..count).collect::<Vec<_>>();
        assert!(b.check("").await.unwrap().is_allowed());
        assert_eq!(calls_for(&server, &store, &many(2)).await, 2, "the script is not known yet");
        let fresh = |from: u64, count: u64| one(from..from + count).collect::<Vec<_>>();
        assert_eq!(calls_for(&server, &store, &fresh(1000, 64)).await, 1);
        assert_eq!(calls_for(&server, &store, &fresh(2000, 65)).await, 2);
        assert_eq!(calls_for(&server, &store, &fresh(3000, 192)).await, 3);
        let three: Vec<_> =
            (0..64).map(|key| vec![a.charge(5000 + key), b.charge(key), c.charge(key)]).collect();
        assert_eq!(calls_for(&server, &store, &three).await, 4, "192 charges, 63 in a call");
        // Taken before: asked for once, and then known.
        assert_eq!(calls_for(&server, &store, &fresh(1000, 64)).await, 1);
        let before = store.health().cached_denials;
        assert_eq!(calls_for(&server, &store, &fresh(1000, 64)).await, 0);
        assert_eq!(store.health().cached_denials, before + 64);
        // Those that are known are left out, and those that are not share a call.
        let mut mixed = fresh(1000, 64);
        mixed.extend(fresh(7000, 64));
        assert_eq!(calls_for(&server, &store, &mixed).await, 1);
        let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let () = cmd("SCRIPT").arg("FLUSH").query(&mut raw).unwrap();
        assert_eq!(calls_for(&server, &store, &fresh(8000, 64)).await, 2, "sent whole once");
    });
}

#[test]
fn what_fails_for_one_request_of_a_batch_is_no_answer_to_the_others() {
    wait(async {
        let (store, name) = (connect(&server().url()).await, unique("foreign"));
        let five = store.limiter(&name, Limit::per_day(5)).unwrap();
        let mut raw = redis::Client::open(server().url()).unwrap().get_connection().unwrap();
        let key = format!("tg:{{}}:{}:{name}:k\x0cben", name.len());
        let () = cmd("RPUSH").arg(key).arg("a list").query(&mut raw).unwrap();
        let two = vec![five.charge("ana"), five.charge("ben")];
        let many = (0..65).map(|key| five.charge(key)).collect();
        let requests = [
            vec![five.charge("ana")],
            vec![five.charge("ben")],
            two,
            many,
            vec![five.charge("ana").cost(6)],
            vec![five.charge("ana").cost(0)],
            vec![],
            vec![five.charge("ana").cost(4)],
            vec![five.charge("ana")],
        ];
        let answers = store.check_many(&requests).await;
        let is_allowed = |number: usize| answers[number].as_ref().unwrap().is_allowed();
        assert!(is_allowed(0));
        assert!(matches!(&answers[1], Err(StoreError::ForeignKey(_))), "{:?}", answers[1]);
        assert!(matches!(&answers[2], Err(StoreError::ForeignKey(_))), "{:?}", answers[2]);
        assert!(matches!(&answers[3], Err(StoreError::InvalidRequest(_))), "{:?}", answers[3]);
        assert!(!is_allowed(4), "six never fit");
        assert!(is_allowed(5), "a cost of 0 always fits");
        assert!(is_allowed(6) && is_allowed(7) && !is_allowed(8));
        assert_eq!(five.status("ana").await.unwrap().used(), 5);
    });
}

#[test]
fn a_server_out_of_memory_still_denies_what_is_used_up() {
    let server = RedisServer::start();
    wait(async {
        let store = asking(&server.url());
        let one = store.limiter("a", Limit::per_day(1)).unwrap();
        assert!(one.check(0).await.unwrap().is_allowed());
        let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let () = cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).query(&mut raw).unwrap();
        let requests = [[one.charge(0)], [one.charge(1)], [one.charge(0)]];
        let answers = store.check_many(&requests).await;
        assert!(!answers[0].as_ref().unwrap().is_allowed());
        assert!(matches!(&answers[1], Err(StoreError::Refused(_))), "{:?}", answers[1]);
        assert!(!answers[2].as_ref().unwrap().is_allowed());
        let again = store.check_many(&requests).await;
        assert!(matches!(&again[0], Err(StoreError::Unavailable { .. })), "{:?}", again[0]);
    });
}

/// What came of batches on one key.
#[derive(Debug, Default)]
struct Tally {
    allowed: u64,
    failed: u64,
}

impl Tally {
    /// A batch while nothing is broken.
    async fn batch(&mut self, store: &RedisStore, limiter: &RedisLimiter) {
        let requests: Vec<_> = (0..300).map(|_| [limiter.charge("ana")]).collect();
        self.count(store.check_many(&requests).await);
    }

    /// A batch whose calls may get no answer. After three timeouts no server is called.
    async fn broken_batch(&mut self, store: &RedisStore, limiter: &RedisLimiter) {
        let requests: Vec<_> = (0..300).map(|_| [limiter.charge("ana")]).collect();
        let (answers, timeouts) = with_timeouts(DEADLINE, store.check_many(&requests)).await;
        assert!(timeouts <= 3, "{timeouts} timeouts");
        self.count(answers);
    }

    fn count(&mut self, answers: Vec<Result<RedisDecisions, StoreError>>) {
        assert_eq!(answers.len(), 300);
        for answer in answers {
            match answer {
                Ok(decisions) => self.allowed += u64::from(decisions.is_allowed()),
                Err(
                    StoreError::Connection(_)
                    | StoreError::Timeout(_)
                    | StoreError::Unavailable { .. },
                ) => self.failed += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

/// Batches go on while `break_it` does so, and until they are answered again.
async fn rides_out(url: &str, mut break_it: impl FnMut(u32)) -> Tally {
    const LIMIT: u64 = 3000;
    let store = builder(url).open().unwrap();
    let limiter =
        store.limiter(&unique("b"), Limit::fixed_window(LIMIT, Duration::from_secs(86_400 * 365)));
    let limiter = limiter.unwrap();
    let mut tally = Tally::default();
    tally.batch(&store, &limiter).await;
    assert_eq!((tally.allowed, tally.failed), (300, 0));
    for number in 0..4 {
        let (call, broken) = (tally.broken_batch(&store, &limiter), async {
            tokio::task::yield_now().await;
            break_it(number);
        });
        tokio::join!(call, broken);
    }
    let status = eventually_async("an answer", async || limiter.status("ana").await).await;
    let used = status.used();
    assert!((tally.allowed..=tally.allowed + tally.failed).contains(&used), "{used}: {tally:?}");
    for _ in 0..LIMIT / 300 {
        tally.batch(&store, &limiter).await;
    }
    assert!(tally.allowed <= LIMIT && tally.allowed + tally.failed >= LIMIT, "{tally:?}");
    tally
}

#[test]
fn a_server_killed_in_mid_batch_costs_answers_and_mints_nothing() {
    // It has on disk what it answered.
    let mut server = RedisServer::with_options(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = server.url();
    let tally = alone(rides_out(&url, |number| match number {
        0 => server.kill(),
        2 => server.restart(),
        _ => {}
    }));
    assert!(tally.failed > 0, "{tally:?}");
}

#[test]
fn a_connection_that_breaks_in_mid_batch_costs_answers_and_mints_nothing() {
    for fault in [Fault::Reset, Fault::Freeze, Fault::HalfAnswer, Fault::Garbage] {
        let proxy = FaultProxy::to(server().port());
        let tally = alone(rides_out(&proxy.url(), |number| match number {
            0 => proxy.set(fault),
            2 => proxy.set(Fault::None),
            _ => {}
        }));
        assert!(tally.failed > 0, "{fault:?}: {tally:?}");
    }
}
