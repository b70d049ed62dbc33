//! How long things took, counted in fixed steps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const STEPS: usize = 16;

/// Durations counted by the step that each falls into, from ten microseconds to a second. To count
/// one takes two relaxed additions.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; STEPS + 1],
    sum_nanos: AtomicU64,
}

impl Histogram {
    /// The steps: a duration is counted by the first that is not shorter.
    pub const STEPS: [Duration; STEPS] = {
        let micros = [
            10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000,
            250_000, 500_000, 1_000_000,
        ];
        let mut steps = [Duration::ZERO; STEPS];
        let mut step = 0;
        while step < STEPS {
            steps[step] = Duration::from_micros(micros[step]);
            step += 1;
        }
        steps
    };

    /// Counts a duration.
    pub fn record(&self, took: Duration) {
        let step = Self::STEPS.partition_point(|step| *step < took);
        self.counts[step].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How many fell into each step, those longer than all last.
    pub fn counts(&self) -> [u64; STEPS + 1] {
        std::array::from_fn(|step| self.counts[step].load(Ordering::Relaxed))
    }

    /// All durations together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_by_the_first_step_that_is_not_shorter() {
        let histogram = Histogram::default();
        for micros in [0, 10, 11, 1_000_000, 1_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let counts = histogram.counts();
        assert_eq!((counts[0], counts[1], counts[15], counts[16]), (2, 1, 1, 1));
        assert_eq!(histogram.sum(), Duration::from_micros(2_000_022));
    }
}
