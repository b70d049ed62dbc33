//! Steps: idle times of every magnitude, costs from one to hostile.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Limit;

use super::{Act, Move, Step};

/// How often, beside ten checks, something else happens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix {
    pub(super) rewinds: u32,
    pub(super) refunds: u32,
    pub(super) reclaims: u32,
}

/// The most steps of a trace.
const STEPS: usize = 40;

pub(super) fn steps(
    limit: &Limit,
    tick: Duration,
    mix: Mix,
) -> impl Strategy<Value = Vec<Step>> + use<> {
    let step =
        (moves(limit, tick, mix), acts(limit, mix)).prop_map(|(time, act)| Step { time, act });
    prop::collection::vec(step, 1..STEPS)
}

fn moves(limit: &Limit, tick: Duration, mix: Mix) -> impl Strategy<Value = Move> + use<> {
    prop_oneof![
        10 => idle(limit, tick).prop_map(Move::Forward),
        mix.rewinds => idle(limit, tick).prop_map(Move::Back),
    ]
}

/// Nothing, any magnitude, or an edge: multiples of a unit's time and of the window, and a tick
/// to either side.
fn idle(limit: &Limit, tick: Duration) -> impl Strategy<Value = Duration> + use<> {
    let tick = u64::try_from(tick.as_nanos()).expect("a tick is short");
    let window = u64::try_from(limit.period().as_nanos()).expect("a period fits");
    let unit = window.div_ceil(limit.count());
    let digits = window.ilog10() + 1;
    let anything = (0..=digits, 1..10_u64).prop_map(|(zeros, digit)| digit * 10_u64.pow(zeros));
    let around = |length: u64, most: u64| {
        (1..=most, -1..=1_i64).prop_map(move |(times, off)| {
            // Rounded up to ticks, then one tick to either side.
            (length.saturating_mul(times).div_ceil(tick) * tick).saturating_add_signed(
                off.saturating_mul(i64::try_from(tick).expect("a tick is short")),
            )
        })
    };
    prop_oneof![
        4 => Just(0_u64),
        3 => anything,
        2 => around(unit, 12),
        1 => around(window.div_ceil(2), 5),
    ]
    .prop_map(move |nanos| Duration::from_nanos(nanos / tick * tick))
}

fn acts(limit: &Limit, mix: Mix) -> impl Strategy<Value = Act> + use<> {
    prop_oneof![
        20 => costs(limit).prop_map(Act::Check),
        4 => costs(limit).prop_map(Act::Peek),
        2 * mix.refunds => costs(limit).prop_map(Act::Refund),
        2 * mix.reclaims => Just(Act::Reclaim),
        1 => Just(Act::Reset),
    ]
}

fn costs(limit: &Limit) -> impl Strategy<Value = u64> + use<> {
    let capacity = limit.capacity();
    prop_oneof![
        12 => Just(1),
        6 => 1..=capacity.min(4),
        4 => 1..=capacity,
        2 => (0..=capacity.min(3)).prop_map(move |less| capacity - less),
        1 => Just(capacity.saturating_add(1)),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        2 => Just(0),
    ]
}
