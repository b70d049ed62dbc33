//! Where ticks are, and where a value is on a picture.

use super::chart::Unit;

/// An axis made ready: from where to where, and its ticks.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) step: f64,
    pub(super) ticks: Vec<f64>,
}

/// Steps of time that people count in, in seconds, from a second to thirty days.
const TIME_STEPS: [f64; 23] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1_800.0,
    3_600.0,
    7_200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    432_000.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
];

impl Scale {
    /// An axis that begins at zero and ends at the tick at or above `highest`.
    pub(super) fn up_to(unit: Unit, highest: f64, most_ticks: usize) -> Scale {
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let step = step(unit, highest, most_ticks);
        let to = ((highest / step) - 1e-9).ceil().max(1.0) * step;
        Scale { from: 0.0, to, step, ticks: ticks(0.0, to, step) }
    }

    /// An axis that is exactly from `from` to `to`, with ticks at round numbers between.
    pub(super) fn between(unit: Unit, from: f64, to: f64, most_ticks: usize) -> Scale {
        let step = step(unit, to - from, most_ticks);
        Scale { from, to, step, ticks: ticks(from, to, step) }
    }

    /// Where `value` is: 0 where the axis begins, 1 where it ends; never outside.
    pub(super) fn place(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// The smallest round step that cuts `length` into at most `most` parts.
fn step(unit: Unit, length: f64, most: usize) -> f64 {
    let least = length / most.max(1) as f64;
    let in_time = matches!(unit, Unit::Seconds | Unit::Moment) && least > 0.5;
    let of_time = TIME_STEPS.iter().copied().find(|step| in_time && *step >= least * (1.0 - 1e-9));
    of_time.unwrap_or_else(|| round_up(least, unit))
}

/// The next 1, 2 or 5 times a power of ten. How many there are of something is whole.
fn round_up(least: f64, unit: Unit) -> f64 {
    let mut power = 1.0;
    while power * 10.0 <= least && power < 1e300 {
        power *= 10.0;
    }
    while power > least && power > 1e-12 {
        power /= 10.0;
    }
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let found = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    let step = found.unwrap_or(power);
    if unit == Unit::Count { step.max(1.0) } else { step }
}

fn ticks(from: f64, to: f64, step: f64) -> Vec<f64> {
    let first = (from / step - 1e-9).ceil();
    let mut ticks = Vec::new();
    // Never many: `step` was chosen so. The bound is for what rounding may do at the far end.
    for number in 0..100 {
        let tick = (first + f64::from(number)) * step;
        if tick > to + step * 1e-6 {
            break;
        }
        ticks.push(tick);
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Scale::up_to(Unit::Count, 47.0, 5).ticks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(Scale::up_to(Unit::Count, 0.0, 5).ticks, [0.0, 1.0]);
        assert_eq!(Scale::up_to(Unit::Count, 3.0, 5).ticks, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(
            Scale::between(Unit::Seconds, 0.0, 120.0, 6).ticks,
            [0.0, 30.0, 60.0, 90.0, 120.0]
        );
        assert_eq!(Scale::between(Unit::Moment, 10.0, 100.0, 3).ticks, [30.0, 60.0, 90.0]);
        assert_eq!(Scale::up_to(Unit::Seconds, 0.004, 5).ticks.len(), 5);
    }

    #[test]
    fn absurd_ends_have_ticks_too() {
        for highest in [1e-300, 1e-9, 1e18, 1e300, f64::MAX] {
            let scale = Scale::up_to(Unit::Count, highest, 5);
            assert!(scale.ticks.len() <= 100, "{highest}");
            assert!(scale.place(highest) <= 1.0, "{highest}");
        }
    }
}
