//! Properties that try other moments and other costs at every step, with peeks.

use std::time::Duration;

use tollgate::{ManualClock, Timestamp};

use super::KEY;
use crate::answer::Answer;
use crate::traffic::{Act, Trace};
use crate::under_test::{LimiterUnderTest, StoreUnderTest};

/// Plays a trace and calls `look` after every check, with the limiter, the check's cost and answer.
fn after_each_check<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &Trace,
    look: impl Fn(&S::Limiter, &ManualClock, u64, Answer),
) {
    let clock = trace.clock();
    let store = make(clock.clone());
    let limiter = store.limiter("limit", &trace.limit);
    for step in &trace.steps {
        step.time.apply(&clock);
        let answer = step.act.apply(&store, &limiter, KEY);
        if let (Act::Check(cost), Some(answer)) = (step.act, answer) {
            look(&limiter, &clock, cost, answer);
        }
    }
}

/// Denied at t with a retry of r: allowed at t + r, and denied a tick before.
pub fn exact_retry<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &Trace,
    tick: Duration,
) {
    after_each_check(make, trace, |limiter, clock, cost, answer| {
        let now = clock.now();
        let Some(wait) = answer.retry_after.filter(|_| !answer.is_allowed()) else { return };
        assert!(wait >= tick, "denied, and told to retry at once");
        if now.saturating_add(wait) < Timestamp::MAX {
            clock.set(now.saturating_add(wait));
            assert!(limiter.peek_n(KEY, cost).is_allowed(), "denied after {wait:?}");
        }
        clock.set(now.saturating_add(wait - tick));
        assert!(!limiter.peek_n(KEY, cost).is_allowed(), "allowed a tick before {wait:?}");
        clock.set(now);
    });
}

/// After a decision with `remaining` = m, taking m at once is allowed and m + 1 is not.
pub fn truthful_remaining<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S, trace: &Trace) {
    after_each_check(make, trace, |limiter, _, _, answer| {
        let most = answer.remaining;
        if most > 0 {
            assert!(limiter.peek_n(KEY, most).is_allowed(), "{most} should remain");
        }
        if let Some(more) = most.checked_add(1) {
            assert!(!limiter.peek_n(KEY, more).is_allowed(), "more than {most} remains");
        }
    });
}

/// A clock that was set back decides exactly as it would at the latest moment at which the key
/// took something, and its waits are longer by the difference.
pub fn monotone_time<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S, trace: &Trace) {
    let (wall, clamped) = (trace.clock(), trace.clock());
    let (store, control) = (make(wall.clone()), make(clamped.clone()));
    let limiter = store.limiter("limit", &trace.limit);
    let expected = control.limiter("limit", &trace.limit);
    let mut latest = Timestamp::from_nanos(0);
    for step in &trace.steps {
        step.time.apply(&wall);
        let at = wall.now().max(latest);
        clamped.set(at);
        let answer = step.act.apply(&store, &limiter, KEY);
        let wanted = step.act.apply(&control, &expected, KEY);
        let wanted = wanted.map(|answer| answer.from_behind(at.saturating_since(wall.now())));
        assert_eq!(answer, wanted, "{step:?}");
        match step.act {
            Act::Check(cost) if cost > 0 && answer.is_some_and(|answer| answer.is_allowed()) => {
                latest = at;
            }
            Act::Reset => latest = Timestamp::from_nanos(0),
            _ => {}
        }
    }
}

/// A clock that moves back, by however much, returns nothing of what was taken.
pub fn clock_steps_return_nothing<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &Trace,
    tick: Duration,
) {
    let limit = &trace.limit;
    let refill =
        u128::from(limit.capacity()) * limit.period().as_nanos() / u128::from(limit.count());
    let refill = u64::try_from(refill).map_or(limit.period(), Duration::from_nanos);
    let steps = [limit.period() / 3, limit.period(), 2 * limit.period(), refill, 3 * refill];
    let whole = |by: Duration| by.as_nanos().is_multiple_of(tick.as_nanos());
    after_each_check(make, trace, |limiter, clock, _, answer| {
        let now = clock.now();
        for by in steps.into_iter().flat_map(|by| [by, by + tick]).filter(|by| whole(*by)) {
            let Some(before) = now.as_nanos().checked_sub(crate::answer::count(by)) else {
                continue;
            };
            clock.set(Timestamp::from_nanos(before));
            let remaining = limiter.peek_n(KEY, 1).remaining;
            assert!(remaining <= answer.remaining, "{remaining} are left {by:?} before {answer:?}");
        }
        clock.set(now);
    });
}
