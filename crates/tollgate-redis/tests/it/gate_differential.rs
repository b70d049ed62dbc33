//! Seeded policies and requests, decided by a gate in memory and by one over Redis: every field of
//! every ruling is the same, waits rounded up to whole microseconds.
//!
//! `TOLLGATE_RULINGS` says how many rulings at least; 30,000 on a server and 5,000 on a Cluster if it
//! does not.

use std::time::Duration;

use crate::cluster::shared::cluster;
use crate::common::policies::{Asked, Dice};
use crate::common::rulings::Said;
use crate::common::{builder, server, unique, wait};
use tokio::task::JoinSet;
use tollgate::{
    Client, Gate, GateReservation, ManualClock, MemoryStore, Override, Policy, Timestamp,
};
use tollgate_redis::{RedisGate, RedisGateReservation, RedisStore};

const AT_ONCE: u64 = 32;
const STEPS: usize = 150;

/// What two rulings must have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Same {
    /// Every field. The store asks the server each time: what it remembers of refusals, the limits that
    /// did not refuse may since have left behind.
    Figures,
    /// Whether, why, and for how long each rule blocks, whatever the store remembers. Without
    /// reservations, whose end it may see a second late.
    Verdict,
}

fn store(url: &str, same: Same) -> RedisStore {
    let lasts = if same == Same::Figures { Duration::ZERO } else { Duration::from_secs(1) };
    wait(builder(url).deny_cache_ttl(lasts).connect()).unwrap()
}

/// A policy in memory and over Redis, on one clock.
struct Two {
    clock: ManualClock,
    memory: Gate,
    redis: RedisGate,
    holds: Vec<(GateReservation, RedisGateReservation)>,
    dice: Dice,
    same: Same,
    rulings: usize,
    /// What was done, for whoever reads a failure.
    story: Vec<String>,
}

impl Two {
    fn new(store: &RedisStore, seed: u64, same: Same) -> Two {
        let mut dice = Dice::new(seed);
        let mut policy = dice.policy();
        policy.partition = seed.is_multiple_of(3).then(|| "user".to_owned());
        let clock = ManualClock::at(Timestamp::from_secs(1_700_000_000 + dice.below(100_000)));
        let memory = MemoryStore::builder().clock(clock.clone()).build().unwrap();
        let redis = store.with_test_clock(clock.clone());
        let redis = RedisGate::builder(redis).namespace(unique("ns")).build(policy.clone());
        Two {
            clock,
            memory: Gate::with_store(memory, policy.clone()).unwrap(),
            redis: redis.unwrap(),
            holds: Vec::new(),
            dice,
            same,
            rulings: 0,
            story: vec![format!("{policy:?}")],
        }
    }

    fn compare(&mut self, what: &str, memory: &tollgate::Ruling, redis: &tollgate::Ruling) {
        let (memory, redis) = (Said::of(memory), Said::of(redis));
        if self.same == Same::Verdict {
            let story = || self.story.join("\n");
            assert_eq!(memory.verdict(), redis.verdict(), "{}\n{what}", story());
            self.rulings += 1;
            return;
        }
        if !memory.agrees(&redis) {
            let story = self.story.join("\n");
            panic!("{story}\n{what}\nmemory {memory:?}\nredis  {redis:?}");
        }
        self.rulings += 1;
    }

    async fn step(&mut self) {
        self.clock.advance(self.dice.pause());
        let asked = self.dice.asked();
        let request = asked.request();
        let kind = self.dice.below(100);
        self.story.push(format!("{:?} {kind} {asked:?}", self.clock.now()));
        match kind {
            0..55 => {
                let (memory, redis) =
                    (self.memory.check(&request), self.redis.check(&request).await);
                self.compare("check", &memory, &redis);
            }
            55..65 => {
                let (memory, redis) = (self.memory.peek(&request), self.redis.peek(&request).await);
                self.compare("peek", &memory, &redis);
            }
            65..71 => {
                let memory = self.memory.check_up_to(&request);
                let redis = self.redis.take_up_to(&request).await;
                self.compare("take_up_to", &memory.1, &redis.1);
                assert_eq!(memory.0, redis.0, "{}", self.story.join("\n"));
            }
            71..78 if !self.dice.changes_numbers() && self.same == Same::Figures => {
                self.reserve(&asked).await
            }
            78..84 => self.end().await,
            84..88 => {
                self.memory.refund(&request);
                self.redis.refund(&request).await.unwrap();
            }
            _ => self.operate(kind, &asked).await,
        }
    }

    async fn reserve(&mut self, asked: &Asked) {
        let request = asked.request();
        let timeout = Duration::from_millis(1 + self.dice.below(4000));
        let memory = self.memory.reserve_for(&request, timeout);
        let redis = self.redis.reserve_for(&request, timeout).await;
        match (memory, redis) {
            (Ok(memory), Ok(redis)) => {
                self.compare("reserve", memory.ruling(), redis.ruling());
                self.holds.push((memory, redis));
            }
            (Err(memory), Err(redis)) => self.compare("reserve", &memory, &redis),
            (memory, redis) => {
                panic!("{}\n{:?} {:?}", self.story.join("\n"), memory.is_ok(), redis.is_ok())
            }
        }
    }

    async fn end(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        let at = usize::try_from(self.dice.below(self.holds.len() as u64)).unwrap();
        let (memory, redis) = self.holds.swap_remove(at);
        let how = self.dice.below(5);
        self.story.push(format!("end {at} {how}"));
        match how {
            0 => {
                memory.commit();
                redis.commit().await.unwrap();
            }
            1 => {
                memory.cancel();
                redis.cancel().await.unwrap();
            }
            actual => {
                memory.settle(actual * 2 - 3);
                redis.settle(actual * 2 - 3).await.unwrap();
            }
        }
    }

    /// What is given back to a key that was made new meanwhile is not the same everywhere.
    async fn cancel_all(&mut self) {
        for (memory, redis) in std::mem::take(&mut self.holds) {
            memory.cancel();
            redis.cancel().await.unwrap();
        }
    }

    async fn operate(&mut self, kind: u64, asked: &Asked) {
        let request = asked.request();
        let client = Client::from([("user".to_owned(), asked.user().to_owned())]);
        let length = Duration::from_millis(self.dice.below(3000));
        match kind {
            88..90 => {
                self.cancel_all().await;
                self.redis.reset_request(&request).await.unwrap();
                self.memory.reset_request(&request);
            }
            90 => {
                let blocked = self.memory.block_request(&request, length).unwrap();
                let also = self.redis.block_request(&request, length).await.unwrap();
                assert_eq!(blocked, also, "{}", self.story.join("\n"));
            }
            91 => {
                let lifted = self.memory.unblock_request(&request);
                let also = self.redis.unblock_request(&request).await.unwrap();
                assert_eq!(lifted, also, "{}", self.story.join("\n"));
            }
            92..95 if self.dice.changes_numbers() => {
                let mut change = Override::of(client);
                if self.dice.below(2) == 0 {
                    change.tier = Some("pro".to_owned());
                }
                let rule = self.memory.policy().rules[0].name.clone();
                change = change.limits(rule, self.dice.numbers());
                if self.dice.below(3) == 0 {
                    change.until = Some(self.clock.now().saturating_add(length));
                }
                self.story.push(format!("{change:?}"));
                self.memory.set_override(change.clone()).unwrap();
                self.redis.set_override(change).await.unwrap();
            }
            95..97 => {
                let known = self.memory.remove_override(&client);
                let also = self.redis.remove_override(&client).await.unwrap();
                assert_eq!(known, also, "{}", self.story.join("\n"));
            }
            97 if self.dice.changes_numbers() => {
                let policy: Policy = self.dice.changed(&self.memory.policy());
                self.story.push(format!("{policy:?}"));
                self.memory.replace(policy.clone()).unwrap();
                self.redis.replace(policy).unwrap();
            }
            98 => {
                self.cancel_all().await;
                let rule = self.memory.policy().rules[0].name.clone();
                self.memory.reset_rule(&rule);
                self.redis.reset_rule(&rule, |_| ()).await.unwrap();
            }
            _ => {}
        }
    }
}

/// The number of rulings, and of those made without a call.
#[derive(Clone, Copy, Debug, Default)]
struct RulingCounts {
    rulings: usize,
    refused_here: u64,
}

async fn play(store: RedisStore, seed: u64, same: Same) -> RulingCounts {
    let mut two = Two::new(&store, seed, same);
    for _ in 0..STEPS {
        two.step().await;
    }
    RulingCounts { rulings: two.rulings, refused_here: two.redis.store().health().cached_denials }
}

/// Plays policies until there are `wanted` rulings, or `TOLLGATE_RULINGS`. Returns the number of
/// rulings that were made without a call.
fn compare_with(url: &str, same: Same, wanted: usize, mut seeds: impl Iterator<Item = u64>) -> u64 {
    let store = store(url, same);
    let wanted: usize = std::env::var("TOLLGATE_RULINGS")
        .map_or(wanted, |text| text.parse().expect("TOLLGATE_RULINGS is a number"));
    let (mut rulings, mut refused_here) = (0, 0);
    wait(async {
        let mut playing = JoinSet::new();
        while rulings < wanted || !playing.is_empty() {
            while rulings < wanted && (playing.len() as u64) < AT_ONCE {
                playing.spawn(play(store.clone(), seeds.next().unwrap(), same));
            }
            let played: RulingCounts = playing.join_next().await.unwrap().unwrap();
            rulings += played.rulings;
            refused_here += played.refused_here;
        }
    });
    println!("{rulings} rulings, {refused_here} of them without a call");
    assert!(rulings >= wanted);
    refused_here
}

#[test]
fn a_gate_over_redis_rules_as_one_in_memory() {
    assert_eq!(compare_with(&server().url(), Same::Figures, 30_000, 0..), 0);
}

#[test]
fn a_gate_over_a_cluster_rules_as_one_in_memory_wherever_its_rules_lie() {
    assert_eq!(compare_with(&cluster().url(), Same::Figures, 5_000, 0..), 0);
    assert!(compare_with(&cluster().url(), Same::Verdict, 3_000, 1_000_000..) > 0);
}

#[test]
fn what_is_refused_without_asking_is_what_memory_refuses() {
    let here = compare_with(&server().url(), Same::Verdict, 15_000, 1_000_000..);
    assert!(here > 300, "{here} were refused here");
}
