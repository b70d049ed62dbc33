//! Traffic of one key under limits that change: by a tier, an override or another policy.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Limit, ManualClock, Timestamp, WindowStart};

use super::limits::any_limits;
use super::steps::{Mix, steps};
use super::{Move, NANO, Step, early, starts};
use crate::under_test::StoreUnderTest;
use crate::{Answer, contract::KEY};

/// What happens to one key under several limits of one name.
#[derive(Clone, Debug)]
pub struct ChangingTrace {
    /// The limits.
    pub limits: Vec<Limit>,
    /// Where the clock begins.
    pub start: Timestamp,
    /// What happens, each under the limit of that index.
    pub steps: Vec<(usize, Step)>,
}

impl ChangingTrace {
    /// A clock at the trace's beginning.
    pub fn clock(&self) -> ManualClock {
        ManualClock::at(self.start)
    }

    /// The limiters of a store: they share their keys.
    pub fn limiters<S: StoreUnderTest>(&self, store: &S) -> Vec<S::Limiter> {
        self.limits.iter().map(|limit| store.limiter("trace", limit)).collect()
    }

    /// Plays the trace on a key of `store`, whose clock is `clock`: the answers of its steps.
    pub fn play<S: StoreUnderTest>(&self, store: &S, clock: &ManualClock) -> Vec<Option<Answer>> {
        let limiters = self.limiters(store);
        let play = |(limit, step): &(usize, Step)| {
            step.time.apply(clock);
            step.act.apply(store, &limiters[*limit], KEY)
        };
        self.steps.iter().map(play).collect()
    }
}

/// Traffic under two or three limits of any kind, on a clock that only goes forwards.
pub fn changing(tick: Duration) -> impl Strategy<Value = ChangingTrace> {
    changing_traces(tick, any_changes(tick), Mix { refunds: 1, ..Mix::default() })
}

/// Traffic under limits that differ in their counts alone, as those of tiers do.
pub fn changing_counts(tick: Duration) -> impl Strategy<Value = ChangingTrace> {
    changing_traces(tick, tiers(tick), Mix::default())
}

/// Traffic under limits of any kind, on a clock that is also set back, by any time.
pub fn changing_with_clock_steps(tick: Duration) -> impl Strategy<Value = ChangingTrace> {
    changing_traces(tick, any_changes(tick), Mix { rewinds: 2, ..Mix::default() })
}

fn changing_traces(
    tick: Duration,
    limits: impl Strategy<Value = Vec<Limit>>,
    mix: Mix,
) -> impl Strategy<Value = ChangingTrace> {
    (limits, starts(tick)).prop_flat_map(move |(limits, start)| {
        let step = |index: usize| {
            // Of each limit's own costs and edges of time.
            steps(&limits[index], tick, mix).prop_map(move |steps| (index, steps[0]))
        };
        let each: Vec<_> = (0..limits.len()).map(|index| step(index).boxed()).collect();
        let steps = prop::collection::vec(prop::strategy::Union::new(each), 1..40);
        steps.prop_map(move |steps| {
            let moves: Vec<Step> = steps.iter().map(|(_, step)| *step).collect();
            let first = |limit: &Limit| early(start, tick, limit, &moves);
            let start = match limits.iter().map(first).min() {
                Some(early) if tick > NANO => early,
                _ => start,
            };
            ChangingTrace { limits: limits.clone(), start, steps }
        })
    })
}

fn any_changes(tick: Duration) -> impl Strategy<Value = Vec<Limit>> {
    prop_oneof![
        3 => prop::collection::vec(small_limits(), 2..4),
        2 => tiers(tick),
        1 => prop::collection::vec(any_limits(tick), 2..4),
    ]
}

/// Limits of every algorithm, of few units and lengths, so that edges of one are near those of
/// another.
fn small_limits() -> impl Strategy<Value = Limit> {
    let counts = prop::sample::select(vec![1_u64, 2, 3, 7, 10, 100, 1000]);
    let periods = prop::sample::select(vec![1_u64, 7, 10, 60, 3600, 86_400]);
    let kinds: [fn(u64, Duration) -> Limit; 8] = [
        Limit::token_bucket,
        Limit::leaky_bucket,
        Limit::leaky_queue,
        Limit::fixed_window,
        |count, window| Limit::fixed_window(count, window).starting_at_first_request(),
        |count, _| Limit::calendar(count, tollgate::CalendarUnit::Day).zone("Europe/Paris"),
        Limit::sliding_log,
        Limit::sliding_counter,
    ];
    (0..kinds.len(), counts, periods)
        .prop_map(move |(kind, count, seconds)| kinds[kind](count, Duration::from_secs(seconds)))
}

/// A limit, and the same with other counts.
fn tiers(tick: Duration) -> impl Strategy<Value = Vec<Limit>> {
    let limit = prop_oneof![3 => small_limits(), 1 => any_limits(tick)];
    let counts =
        prop::collection::vec(prop::sample::select(vec![1_u64, 2, 3, 5, 7, 50, 100, 997]), 1..3);
    (limit, counts).prop_map(|(limit, counts)| {
        let small = limit.count() <= 1 << 20 && limit.capacity() <= 1 << 20;
        let others = counts.into_iter().filter(|_| small);
        let others: Vec<_> = others.map(|count| with_count(&limit, count)).collect();
        [vec![limit], others].concat()
    })
}

/// A limit of the same algorithm and horizon; a bucket's count and burst are `count` times as large.
fn with_count(limit: &Limit, count: u64) -> Limit {
    let period = limit.period();
    let capacity = limit.capacity() * count;
    match limit.algorithm() {
        Algorithm::TokenBucket => {
            Limit::token_bucket(limit.count() * count, period).burst(capacity)
        }
        Algorithm::LeakyMeter => Limit::leaky_bucket(limit.count() * count, period).burst(capacity),
        Algorithm::LeakyQueue => {
            Limit::leaky_queue(limit.count() * count, period).burst(capacity - 1)
        }
        Algorithm::SlidingLog => Limit::sliding_log(count, period),
        Algorithm::SlidingCounter => Limit::sliding_counter(count, period),
        _ => match limit.align() {
            WindowStart::FirstRequest => {
                Limit::fixed_window(count, period).starting_at_first_request()
            }
            WindowStart::Calendar(unit) => {
                let zone = limit.zone_name().unwrap_or("UTC").to_owned();
                Limit::calendar(count, unit).zone(zone)
            }
            _ => Limit::fixed_window(count, period),
        },
    }
}

/// Cuts each move back so that the clock stays within the horizon of the latest moment it showed.
pub(super) fn within_horizon(limit: &Limit, steps: &mut [Step]) {
    let period = limit.period().as_nanos();
    let horizon = match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyMeter | Algorithm::LeakyQueue => {
            u128::from(limit.capacity()) * period / u128::from(limit.count())
        }
        Algorithm::SlidingCounter => 2 * period,
        _ => period,
    };
    let mut behind = 0_u128;
    for step in steps {
        match &mut step.time {
            Move::Forward(by) => behind = behind.saturating_sub(by.as_nanos()),
            Move::Back(by) => {
                let most = u64::try_from(horizon - behind).unwrap_or(u64::MAX);
                // Whole microseconds stay whole.
                *by = (*by).min(Duration::from_nanos(most / 1000 * 1000));
                behind += by.as_nanos();
            }
        }
    }
}
