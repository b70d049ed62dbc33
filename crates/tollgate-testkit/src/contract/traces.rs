//! Properties that play a trace twice and compare.

use std::time::Duration;

use tollgate::ManualClock;

use super::KEY;
use crate::answer::Answer;
use crate::reference::Reference;
use crate::traffic::{Act, ChangingTrace, Trace};
use crate::under_test::{LimiterUnderTest, StoreUnderTest};

/// A trace without its denied requests gives the same other decisions.
pub fn denials_are_free<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S, trace: &Trace) {
    let clock = trace.clock();
    let all = trace.play(&make(clock.clone()), &clock);
    let clock = trace.clock();
    let store = make(clock.clone());
    let limiter = store.limiter("trace", &trace.limit);
    for (step, answer) in trace.steps.iter().zip(all) {
        step.time.apply(&clock);
        let denied = answer.is_some_and(|answer| !answer.is_allowed());
        if !(denied && matches!(step.act, Act::Check(_))) {
            assert_eq!(step.act.apply(&store, &limiter, KEY), answer, "{step:?}");
        }
    }
}

/// Requests for other keys, and for the same key of other limits, change no decision.
pub fn isolation<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &Trace,
    others: &Trace,
) {
    let clock = trace.clock();
    let alone = trace.play(&make(clock.clone()), &clock);
    let clock = trace.clock();
    let store = make(clock.clone());
    let limiter = store.limiter("trace", &trace.limit);
    let other = store.limiter("other", &others.limit);
    for (index, (step, answer)) in trace.steps.iter().zip(alone).enumerate() {
        step.time.apply(&clock);
        for busy in &others.steps[..others.steps.len().min(4)] {
            busy.act.apply(&store, &limiter, &format!("somebody else {index}"));
            busy.act.apply(&store, &other, KEY);
        }
        assert_eq!(step.act.apply(&store, &limiter, KEY), answer, "{step:?}");
    }
}

/// Dropping what is as good as new changes no decision.
pub fn invisible_reclaim<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S, trace: &Trace) {
    let clock = trace.clock();
    let reclaimed = trace.play(&make(clock.clone()), &clock);
    let clock = trace.clock();
    let store = make(clock.clone());
    let limiter = store.limiter("trace", &trace.limit);
    for (step, answer) in trace.steps.iter().zip(reclaimed) {
        step.time.apply(&clock);
        if step.act != Act::Reclaim {
            assert_eq!(step.act.apply(&store, &limiter, KEY), answer, "{step:?}");
        }
    }
}

/// Every figure of every decision is the reference model's, in whole ticks, and so is what a peek
/// says when the waits it names are over and a tick before.
pub fn same_answer_everywhere<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &Trace,
    tick: Duration,
) {
    let clock = trace.clock();
    let (store, model) = (make(clock.clone()), Reference::new(clock.clone()));
    let limiter = store.limiter("trace", &trace.limit);
    let expected = model.limiter("trace", &trace.limit);
    for step in &trace.steps {
        step.time.apply(&clock);
        let answer = step.act.apply(&store, &limiter, KEY);
        let wanted = step.act.apply(&model, &expected, KEY);
        let wanted = wanted.map(|answer| answer.in_ticks(tick));
        assert_eq!(answer, wanted, "{step:?} at {:?}", clock.now());
        let (Act::Check(cost) | Act::Peek(cost), Some(answer)) = (step.act, answer) else {
            continue;
        };
        let now = clock.now();
        for later in edges(&answer, tick) {
            clock.set(now.saturating_add(later));
            let wanted = expected.peek_n(KEY, cost).in_ticks(tick);
            assert_eq!(limiter.peek_n(KEY, cost), wanted, "{later:?} after {step:?} at {now:?}");
        }
        clock.set(now);
    }
}

/// The same of a key whose limit changes.
pub fn same_answer_under_changes<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &ChangingTrace,
    tick: Duration,
) {
    let clock = trace.clock();
    let (store, model) = (make(clock.clone()), Reference::new(clock.clone()));
    let (limiters, expected) = (trace.limiters(&store), trace.limiters(&model));
    for (number, (limit, step)) in trace.steps.iter().enumerate() {
        step.time.apply(&clock);
        let (limiter, expected) = (&limiters[*limit], &expected[*limit]);
        let answer = step.act.apply(&store, limiter, KEY);
        let wanted = step.act.apply(&model, expected, KEY);
        let wanted = wanted.map(|answer| answer.in_ticks(tick));
        assert_eq!(answer, wanted, "{step:?}, number {number}, at {:?}", clock.now());
        let (Act::Check(cost), Some(answer)) = (step.act, answer) else { continue };
        let now = clock.now();
        for later in edges(&answer, tick) {
            clock.set(now.saturating_add(later));
            let wanted = expected.peek_n(KEY, cost).in_ticks(tick);
            assert_eq!(limiter.peek_n(KEY, cost), wanted, "{later:?} after {step:?} at {now:?}");
        }
        clock.set(now);
    }
}

/// While only the counts of a key's limits differ, a trace without its denied requests gives the
/// same other decisions.
pub fn denials_are_free_under_tiers<S: StoreUnderTest>(
    make: impl Fn(ManualClock) -> S,
    trace: &ChangingTrace,
) {
    let clock = trace.clock();
    let all = trace.play(&make(clock.clone()), &clock);
    let clock = trace.clock();
    let store = make(clock.clone());
    let limiters = trace.limiters(&store);
    for ((limit, step), answer) in trace.steps.iter().zip(all) {
        step.time.apply(&clock);
        let denied = answer.is_some_and(|answer| !answer.is_allowed());
        if !(denied && matches!(step.act, Act::Check(_))) {
            assert_eq!(step.act.apply(&store, &limiters[*limit], KEY), answer, "{step:?}");
        }
    }
}

/// The ends of the waits that an answer names, each with the tick before.
fn edges(answer: &Answer, tick: Duration) -> impl Iterator<Item = Duration> {
    let waits = [answer.retry_after.unwrap_or_default(), answer.reset_after, answer.delay];
    let waits = waits.into_iter().filter(|wait| !wait.is_zero());
    waits.flat_map(move |wait| [wait - tick, wait])
}

/// A peek says what the check that follows it decides, and a trace without its peeks is decided
/// the same.
pub fn peek_agrees_with_check<S: StoreUnderTest>(make: impl Fn(ManualClock) -> S, trace: &Trace) {
    let clock = trace.clock();
    let unpeeked = trace.play(&make(clock.clone()), &clock);
    let clock = trace.clock();
    let store = make(clock.clone());
    let limiter = store.limiter("trace", &trace.limit);
    for (step, answer) in trace.steps.iter().zip(unpeeked) {
        step.time.apply(&clock);
        let Act::Check(cost) = step.act else {
            step.act.apply(&store, &limiter, KEY);
            continue;
        };
        let peeked = limiter.peek_n(KEY, cost);
        assert_eq!(limiter.peek_n(KEY, cost), peeked, "a peek changed something");
        let checked = limiter.check_n(KEY, cost);
        assert_eq!(Some(checked), answer, "a peek changed something");
        let taken = if checked.is_allowed() { cost } else { 0 };
        assert_eq!(
            (peeked.outcome, peeked.retry_after, peeked.delay, peeked.remaining - taken),
            (checked.outcome, checked.retry_after, checked.delay, checked.remaining),
            "{step:?}"
        );
    }
}
