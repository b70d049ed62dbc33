//! Random traffic: limits of every algorithm, and what happens to a key under them.

mod changes;
mod limits;
mod steps;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tollgate::{Limit, ManualClock, Timestamp};

use crate::under_test::{LimiterUnderTest, StoreUnderTest};
use crate::{Answer, contract::KEY};
pub use changes::{ChangingTrace, changing, changing_counts, changing_with_clock_steps};
pub use limits::{any_limits, calendars, one_limit_of_each};
use steps::{Mix, steps};

/// The memory store's tick.
pub const NANO: Duration = Duration::from_nanos(1);

/// What a step does with the clock first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Time passes.
    Forward(Duration),
    /// Somebody sets the clock back.
    Back(Duration),
}

/// What a step then does with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A check of so many units.
    Check(u64),
    /// A peek of so many units.
    Peek(u64),
    /// So many units are given back.
    Refund(u64),
    /// The key is made new.
    Reset,
    /// The store drops what is as good as new.
    Reclaim,
}

/// A move of the clock and an act.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What the clock does first.
    pub time: Move,
    /// What is then done.
    pub act: Act,
}

/// What happens to one key under a limit.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The limit.
    pub limit: Limit,
    /// Where the clock begins.
    pub start: Timestamp,
    /// What happens.
    pub steps: Vec<Step>,
}

impl Trace {
    /// A clock at the trace's beginning.
    pub fn clock(&self) -> ManualClock {
        ManualClock::at(self.start)
    }

    /// Plays the trace on a key of `store`, whose clock is `clock`: the answers of its steps.
    pub fn play(&self, store: &impl StoreUnderTest, clock: &ManualClock) -> Vec<Option<Answer>> {
        let limiter = store.limiter("trace", &self.limit);
        let play = |step: &Step| {
            step.time.apply(clock);
            step.act.apply(store, &limiter, KEY)
        };
        self.steps.iter().map(play).collect()
    }
}

impl Move {
    /// Moves `clock`.
    pub fn apply(self, clock: &ManualClock) {
        match self {
            Move::Forward(by) => clock.advance(by),
            Move::Back(by) => {
                let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
                clock.set(Timestamp::from_nanos(clock.now().as_nanos().saturating_sub(by)));
            }
        }
    }
}

impl Act {
    /// Does it, and says what was answered, if anything is.
    pub fn apply<S: StoreUnderTest>(
        self,
        store: &S,
        limiter: &S::Limiter,
        key: &str,
    ) -> Option<Answer> {
        match self {
            Act::Check(cost) => return Some(limiter.check_n(key, cost)),
            Act::Peek(cost) => return Some(limiter.peek_n(key, cost)),
            Act::Refund(units) => limiter.refund(key, units),
            Act::Reset => limiter.reset(key),
            Act::Reclaim => store.reclaim(),
        }
        None
    }
}

/// Traffic of checks, peeks and resets, in whole ticks, on a clock that only goes forwards.
pub fn monotone(tick: Duration) -> impl Strategy<Value = Trace> {
    traces(tick, Mix::default())
}

/// Traffic on a clock that is also set back, within the horizon of its limit.
pub fn with_rewinds(tick: Duration) -> impl Strategy<Value = Trace> {
    with_clock_steps(tick).prop_map(|mut trace| {
        changes::within_horizon(&trace.limit, &mut trace.steps);
        trace
    })
}

/// Traffic on a clock that is also set back, by any time.
pub fn with_clock_steps(tick: Duration) -> impl Strategy<Value = Trace> {
    traces(tick, Mix { rewinds: 1, ..Mix::default() })
}

/// Traffic that also gives back.
pub fn with_refunds(tick: Duration) -> impl Strategy<Value = Trace> {
    traces(tick, Mix { refunds: 2, ..Mix::default() })
}

/// Traffic that also gives back, on a store that is now and then told to reclaim.
pub fn with_reclaims(tick: Duration) -> impl Strategy<Value = Trace> {
    traces(tick, Mix { refunds: 1, reclaims: 3, ..Mix::default() })
}

fn traces(tick: Duration, mix: Mix) -> impl Strategy<Value = Trace> {
    (any_limits(tick), starts(tick)).prop_flat_map(move |(limit, start)| {
        steps(&limit, tick, mix).prop_map(move |steps| {
            let start = if tick > NANO { early(start, tick, &limit, &steps) } else { start };
            Trace { limit: limit.clone(), start, steps }
        })
    })
}

/// A start so early that the steps and the longest wait end before [`Timestamp::MAX`]. A store of
/// coarser ticks than the model's has no moment there: the last is no whole tick.
fn early(start: Timestamp, tick: Duration, limit: &Limit, steps: &[Step]) -> Timestamp {
    let forward = |step: &Step| match step.time {
        Move::Forward(by) => by.as_nanos(),
        Move::Back(_) => 0,
    };
    let period = limit.period().as_nanos();
    let refill = u128::from(limit.capacity()) * period / u128::from(limit.count());
    // A bucket refills, a counter has two windows, and a calendar's may be longer than its period.
    let reach = steps.iter().map(forward).sum::<u128>() + refill + 3 * period;
    let latest = u128::from(Timestamp::MAX.as_nanos()).saturating_sub(reach);
    let latest = u64::try_from(latest / tick.as_nanos() * tick.as_nanos()).unwrap_or(u64::MAX);
    start.min(Timestamp::from_nanos(latest))
}

/// Moments from the first to far ahead, in whole ticks.
fn starts(tick: Duration) -> impl Strategy<Value = Timestamp> {
    let seconds = prop_oneof![
        1 => 0..3_u64,
        4 => Just(946_684_800_u64),
        4 => 946_684_800..2_000_000_000_u64,
        1 => Just(8_000_000_000_u64),
    ];
    let tick = u64::try_from(tick.as_nanos()).expect("a tick is short");
    (seconds, 0..1_000_000_000_u64).prop_map(move |(seconds, nanos)| {
        Timestamp::from_nanos(seconds * 1_000_000_000 + nanos / tick * tick)
    })
}

/// How many cases a property is tried on: `few`, or what `PROPTEST_CASES` says.
pub fn cases(few: u32) -> Config {
    let config = Config { max_shrink_iters: 4096, ..Config::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => Config { cases: few, ..config },
    }
}
