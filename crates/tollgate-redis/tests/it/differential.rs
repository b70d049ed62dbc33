//! Seeded traffic, decided in memory, in Redis and by the reference model: every figure of every
//! decision is the same, waits rounded up to whole microseconds.
//!
//! `TOLLGATE_DECISIONS` says how many decisions at least; 200,000 if it does not.

use std::collections::VecDeque;
use std::time::Duration;

use crate::common::{MICRO, connect, unique, wait};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redis::{Client, Commands};
use tokio::task::JoinSet;
use tollgate::{Limiter, ManualClock, MemoryStore};
use tollgate_redis::{RedisLimiter, RedisStore};
use tollgate_testkit::{
    Act, Answer, LimiterUnderTest, RedisServer, Reference, ReferenceLimiter, StoreUnderTest, Trace,
    monotone, with_refunds, with_rewinds,
};

const KEY: &str = "the key";

/// How many traces are on their way at once: their calls share round trips.
const AT_ONCE: usize = 64;

/// One key in three stores on one clock.
struct Three {
    clock: ManualClock,
    memory: Limiter,
    model: ReferenceLimiter,
    redis: RedisLimiter,
}

impl Three {
    fn new(store: &RedisStore, trace: &Trace) -> Three {
        let clock = trace.clock();
        let memory = MemoryStore::builder().clock(clock.clone()).max_keys(64).build();
        let memory = memory.expect("the bound is possible").limiter("trace", trace.limit.clone());
        let redis = store.with_test_clock(clock.clone());
        Three {
            memory: memory.expect("traffic has valid limits"),
            model: Reference::new(clock.clone()).limiter("trace", &trace.limit),
            redis: redis.limiter(&unique("trace"), trace.limit.clone()).expect("it can be kept"),
            clock,
        }
    }

    /// What the three say; nothing for what is not answered.
    async fn act(&self, act: Act) -> Option<[Answer; 3]> {
        let Three { memory, model, redis, .. } = self;
        let (memory, model, redis) = match act {
            Act::Check(cost) => (
                memory.check_n(KEY, cost),
                model.check_n(KEY, cost),
                redis.check_n(KEY, cost).await,
            ),
            Act::Peek(cost) => {
                (memory.peek_n(KEY, cost), model.peek_n(KEY, cost), redis.peek_n(KEY, cost).await)
            }
            Act::Refund(units) => {
                memory.refund(KEY, units);
                model.refund(KEY, units);
                redis.refund(KEY, units).await.expect("the server answers");
                return None;
            }
            Act::Reset => {
                memory.reset(KEY);
                model.reset(KEY);
                redis.reset(KEY).await.expect("the server answers");
                return None;
            }
            Act::Reclaim => return None,
        };
        let redis = redis.expect("the server answers");
        Some([Answer::from(memory).in_ticks(MICRO), model.in_ticks(MICRO), redis.into()])
    }
}

/// Plays a trace on three stores, and says how many decisions it was.
async fn play(store: RedisStore, trace: Trace) -> usize {
    let three = Three::new(&store, &trace);
    let mut decisions = 0;
    for (number, step) in trace.steps.iter().enumerate() {
        step.time.apply(&three.clock);
        if let Some([memory, model, redis]) = three.act(step.act).await {
            assert_eq!(redis, memory, "memory differs at step {number} of {trace:#?}");
            assert_eq!(redis, model, "the model differs at step {number} of {trace:#?}");
            decisions += 1;
        }
    }
    decisions
}

/// How many keys the server holds, each of them with a TTL.
fn keys_that_all_expire(server: &RedisServer) -> usize {
    let client = Client::open(server.url()).expect("the url is right");
    let mut connection = client.get_connection().expect("the server is there");
    let keys = connection.scan().expect("the server answers");
    let keys: Vec<Vec<u8>> = keys.collect::<Result<_, _>>().expect("keys are bytes");
    for some in keys.chunks(1000) {
        let mut lifetimes = redis::pipe();
        for key in some {
            lifetimes.pttl(key);
        }
        let lifetimes: Vec<i64> = lifetimes.query(&mut connection).expect("the server answers");
        assert!(lifetimes.iter().all(|left| *left > 0), "a key that does not expire");
    }
    keys.len()
}

fn traces(seed: u8) -> impl Iterator<Item = Trace> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let kinds = proptest::prop_oneof![monotone(MICRO), with_rewinds(MICRO), with_refunds(MICRO)];
    let traces = std::iter::from_fn(move || Some(kinds.new_tree(&mut runner).ok()?.current()));
    // Making a trace takes time: each is played from several moments, at which windows and calendars
    // lie otherwise.
    traces.flat_map(|trace| {
        [0, 77_777_777, 12_345_678_901].map(|micros| {
            let start = trace.start.saturating_add(Duration::from_micros(micros));
            Trace { start, ..trace.clone() }
        })
    })
}

#[test]
fn memory_redis_and_the_model_decide_alike() {
    let wanted: usize = std::env::var("TOLLGATE_DECISIONS")
        .map_or(200_000, |text| text.parse().expect("TOLLGATE_DECISIONS is a number"));
    let mut traces: VecDeque<_> = (0..4).map(traces).collect();
    let mut next = move || {
        traces.rotate_left(1);
        traces.front_mut().and_then(Iterator::next).expect("traffic does not end")
    };
    let server = RedisServer::start();
    let decided = wait(async {
        let store = connect(&server.url()).await;
        let (mut decided, mut playing) = (0, JoinSet::new());
        while decided < wanted {
            while playing.len() < AT_ONCE {
                playing.spawn(play(store.clone(), next()));
            }
            decided += playing.join_next().await.expect("some are playing").expect("no panic");
        }
        while let Some(played) = playing.join_next().await {
            decided += played.expect("no panic");
        }
        decided
    });
    let keys = keys_that_all_expire(&server);
    println!("{decided} decisions, {keys} keys");
    assert!(decided >= wanted);
}
