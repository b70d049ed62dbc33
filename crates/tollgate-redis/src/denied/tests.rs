use tollgate::Limit;

use std::sync::Arc;

use super::*;
use crate::layout::HashTag;
use crate::limiter::RedisLimiterInner;

const SECOND: Duration = Duration::from_secs(1);

/// A cache and its clock, and a limiter of ten an hour.
fn new() -> (DenyCache, ManualClock, Arc<RedisLimiterInner>) {
    let clock = ManualClock::new();
    let limiter =
        RedisLimiterInner::new(HashTag::None, "a", Limit::per_hour(10)).expect("a valid limit");
    (DenyCache::new(SECOND, Some(clock.clone()), [1, 2]), clock, Arc::new(limiter))
}

fn asked(limiter: &Arc<RedisLimiterInner>, key: u64, cost: u64) -> ScriptCharge<'_> {
    ScriptCharge { limiter, key: limiter.prefix.key(&key), cost }
}

/// A bucket that owes everything.
fn empty(clock: &ManualClock, limiter: &RedisLimiterInner) -> ScriptReply {
    let now = clock.now().as_nanos() / 1000;
    let owed = limiter.terms.ported.price(10);
    let states = vec![ScriptState::Bucket { at: now, owed }];
    ScriptReply::refused(now, states)
}

#[test]
fn a_refusal_that_was_overtaken_by_a_change_is_not_learned() {
    let (denials, clock, limiter) = new();
    let request = [asked(&limiter, 1, 1)];
    let places = denials.look(&request).expect_err("nothing is known");
    drop(denials.forget_at_last(&request[0].key));
    denials.learn(&request, &places, &empty(&clock, &limiter));
    let places = denials.look(&request).expect_err("it may be from before the change");
    denials.learn(&request, &places, &empty(&clock, &limiter));
    assert!(denials.look(&request).is_ok());
}

#[test]
fn no_more_is_kept_than_there_is_room_for() {
    let (denials, clock, limiter) = new();
    for key in 0..50_000 {
        let request = [asked(&limiter, key, 1)];
        if let Err(places) = denials.look(&request) {
            denials.learn(&request, &places, &empty(&clock, &limiter));
        }
        assert!(denials.look(&request).is_ok(), "the newest stays");
    }
    let sizes = denials.sets.iter().map(|set| set.lock().expect("not poisoned").seen.len());
    assert_eq!(sizes.clone().max(), Some(DENIALS_PER_SET));
    assert!(sizes.sum::<usize>() <= 10_000);
}
