//! What happened when, in a bounded number of steps of time.

use super::bounds::{POINTS, SERIES};

/// How many numbers a point has: allowed, refused by rules without a series of their own, and
/// refused by those with one.
pub(super) const KINDS: usize = 2 + SERIES;

/// Steps of time in seconds; each holds the one before it a whole number of times.
const STEPS: [u64; 15] =
    [1, 2, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 4_838_400];

/// Counts over time.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Which of `STEPS`; each further one is the last, eight times longer.
    step: usize,
    /// Which step the first point is.
    first: u64,
    points: Vec<[u64; KINDS]>,
}

impl Series {
    /// Counts one request of a kind; `now` is in microseconds and never less than before.
    #[inline]
    pub(super) fn add(&mut self, now: u64, kind: usize) {
        let seconds = now / 1_000_000;
        if self.points.is_empty() {
            self.first = seconds / self.seconds();
        }
        loop {
            let at = (seconds / self.seconds()).saturating_sub(self.first);
            match usize::try_from(at) {
                Ok(at) if at < POINTS => {
                    if at >= self.points.len() {
                        self.points.resize(at + 1, [0; KINDS]);
                    }
                    self.points[at][kind] += 1;
                    return;
                }
                _ => self.coarsen(),
            }
        }
    }

    /// How long a step is.
    pub(super) fn seconds(&self) -> u64 {
        let further = self.step.saturating_sub(STEPS.len() - 1);
        let last = STEPS[self.step.min(STEPS.len() - 1)];
        last.saturating_mul(8_u64.saturating_pow(u32::try_from(further).unwrap_or(u32::MAX)))
    }

    #[cold]
    fn coarsen(&mut self) {
        let old = self.seconds();
        self.step += 1;
        let times = self.seconds() / old;
        let first = self.first / times;
        let mut merged: Vec<[u64; KINDS]> = Vec::new();
        for (at, point) in (self.first..).zip(&self.points) {
            let place = usize::try_from(at / times - first).unwrap_or(0);
            if place >= merged.len() {
                merged.resize(place + 1, [0; KINDS]);
            }
            merged[place].iter_mut().zip(point).for_each(|(sum, of)| *sum += of);
        }
        (self.first, self.points) = (first, merged);
    }

    /// When each step begins, in seconds since 1970, and what happened in it.
    pub(super) fn points(&self) -> impl Iterator<Item = (u64, &[u64; KINDS])> {
        (self.first..).map(|at| at * self.seconds()).zip(&self.points)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn everything_is_counted_in_the_step_it_happened_in(
            gaps in prop::collection::vec((0_u64..40, 0_u32..38), 1..200),
        ) {
            let mut series = Series::default();
            let (mut now, mut all) = (1_700_000_000_000_000_u64, Vec::new());
            for (gap, scale) in gaps {
                now = (now + (gap << scale)).min(u64::MAX / 2000);
                series.add(now, 0);
                all.push(now / 1_000_000);
            }
            prop_assert!(series.points.len() <= POINTS);
            let step = series.seconds();
            for (at, point) in series.points() {
                let there = all.iter().filter(|now| (at..at + step).contains(now)).count();
                prop_assert_eq!(point[0], u64::try_from(there).unwrap());
            }
        }
    }
}
