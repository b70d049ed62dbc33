//! Lines of a log that a flood must not make a flood of.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::Timestamp;

use crate::bounds::LINES_A_SECOND;

/// Says of something that clients can make happen whether it may be logged again.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    second: AtomicU64,
    lines: AtomicU64,
    left_out: AtomicU64,
}

impl Seldom {
    /// How many lines were left out before this one; `None` where this one is left out, too.
    /// Threads that meet may write one more or fewer.
    pub(crate) fn may_log(&self, now: Timestamp) -> Option<u64> {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.lines.store(0, Ordering::Relaxed);
        }
        if self.lines.fetch_add(1, Ordering::Relaxed) < LINES_A_SECOND {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_a_second_and_says_how_many_are_missing() {
        let seldom = Seldom::default();
        let flood = |second| -> Vec<Option<u64>> {
            let at = Timestamp::from_secs(second);
            (0..1000).map(|_| seldom.may_log(at)).collect()
        };
        let lines = usize::try_from(LINES_A_SECOND).unwrap();
        let first = flood(5);
        assert!(first[..lines].iter().all(|line| *line == Some(0)));
        assert!(first[lines..].iter().all(Option::is_none));
        assert_eq!(flood(6)[..2], [Some(1000 - LINES_A_SECOND), Some(0)]);
    }
}
