//! What a Cluster that stands still decides, compared with memory.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{Limit, ManualClock, MemoryStore, check_all};
use tollgate_redis::RedisLimiter;
use tollgate_testkit::{Answer, RedisCluster, one_limit_of_each, store_contract};

use super::shared::{asking, exclusive, injected};
use crate::common::{MICRO, connect, unique, wait};

store_contract!(injected, MICRO, cases: 6);

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.0 >> 33) % sides
    }
}

/// Requests over up to four limits whose keys lie in up to four slots: every figure of every limit.
async fn requests_in_several_slots(seed: u64) {
    let (clock, name, mut dice) = (ManualClock::new(), unique("several"), Dice(seed));
    let memory = MemoryStore::builder().clock(clock.clone()).max_keys(1000).build().unwrap();
    let redis = asking().with_test_clock(clock.clone());
    let both: Vec<(tollgate::Limiter, RedisLimiter)> = one_limit_of_each()
        .into_iter()
        .enumerate()
        .map(|(number, limit)| {
            let name = format!("{name} {number}");
            (memory.limiter(&name, limit.clone()).unwrap(), redis.limiter(&name, limit).unwrap())
        })
        .collect();
    for step in 0..150 {
        clock.advance(Duration::from_micros(dice.roll(400_000)));
        let chosen: Vec<(usize, String, u64)> = (0..=dice.roll(4))
            .map(|_| {
                let number = usize::try_from(dice.roll(8)).unwrap() % both.len();
                (number, format!("{}", dice.roll(3)), 1 + dice.roll(4))
            })
            .collect();
        let figures = |decision: tollgate::Decision| Answer::from(decision).in_ticks(MICRO);
        let in_memory: Vec<Answer> = {
            let charge = |(number, key, cost): &(usize, String, u64)| {
                (both[*number].0.clone(), key.clone(), *cost)
            };
            let owned: Vec<_> = chosen.iter().map(charge).collect();
            let charges: Vec<_> =
                owned.iter().map(|(limiter, key, cost)| limiter.charge(key).cost(*cost)).collect();
            check_all(&charges).iter().map(|(_, one)| figures(one)).collect()
        };
        let charges: Vec<_> = chosen
            .iter()
            .map(|(number, key, cost)| both[*number].1.charge(key).cost(*cost))
            .collect();
        let in_redis = redis.check_all(&charges).await.unwrap();
        let in_redis: Vec<Answer> = in_redis.iter().map(|(_, one)| figures(*one)).collect();
        assert_eq!(in_redis, in_memory, "step {step}: {chosen:?}");
    }
}

#[test]
fn requests_in_several_slots_are_decided_as_in_memory() {
    wait(async {
        let mut playing = JoinSet::new();
        for seed in 0..16 {
            playing.spawn(requests_in_several_slots(seed));
        }
        while let Some(played) = playing.join_next().await {
            played.unwrap();
        }
    });
}

/// How often the script was run on the primaries.
pub(crate) fn scripts_run(cluster: &RedisCluster) -> u64 {
    let calls = |node: usize| {
        let stats = cluster.ask(node, "INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or("");
        let calls = line.split("calls=").nth(1).and_then(|rest| rest.split(',').next());
        calls.and_then(|calls| calls.parse().ok()).unwrap_or(0_u64)
    };
    (0..3).map(calls).sum()
}

#[test]
fn a_partition_s_charges_are_one_call() {
    let cluster = exclusive();
    let store = wait(connect(&cluster.url()));
    let tenant = store.limiter(&unique("tenant"), Limit::per_hour(1000)).unwrap();
    let user = store.limiter(&unique("user"), Limit::per_hour(1000)).unwrap();
    let apart = [tenant.clone(), user.clone()];
    let together = [tenant, user.partition_by(0)];
    let calls = |limiters: &[RedisLimiter; 2]| {
        let charges = [limiters[0].charge("acme"), limiters[1].charge(("acme", "ana"))];
        assert!(wait(store.check_all(&charges)).unwrap().is_allowed());
        let before = scripts_run(&cluster);
        assert!(wait(store.check_all(&charges)).unwrap().is_allowed());
        scripts_run(&cluster) - before
    };
    assert_eq!(calls(&together), 1);
    assert_eq!(calls(&apart), 4, "reserved and committed in two places");
}
