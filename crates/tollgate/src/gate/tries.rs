//! How many units are asked for while others take what was counted.

use crate::bounds::{FAIR_TRIES, TAKE_TRIES};

/// The tries of one who takes as many units as there are, by counting first.
#[derive(Debug)]
pub struct PartialCharge {
    most: u64,
    made: usize,
}

impl PartialCharge {
    /// For at most so many units.
    pub fn new(most: u64) -> PartialCharge {
        PartialCharge { most, made: 0 }
    }

    /// How many units to ask for next, where so many are left; `None` where there are none, or it has
    /// been tried often enough.
    pub fn next(&mut self, left: u64) -> Option<u64> {
        let units = left.min(self.most);
        if units == 0 || self.made == TAKE_TRIES {
            return None;
        }
        self.made += 1;
        if self.made > FAIR_TRIES {
            // Others come and go in step with us: what is asked for less is there between them.
            self.most = units.div_ceil(2);
        }
        Some(units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_units_will_do_after_some_tries_and_one_at_last() {
        let mut tries = PartialCharge::new(100);
        let asked: Vec<u64> = std::iter::from_fn(|| tries.next(1000)).collect();
        assert_eq!(asked.len(), TAKE_TRIES);
        assert!(asked[..=FAIR_TRIES].iter().all(|units| *units == 100));
        assert_eq!(asked[FAIR_TRIES + 1..FAIR_TRIES + 4], [50, 25, 13]);
        assert_eq!(asked.last(), Some(&1));
    }

    #[test]
    fn no_more_is_asked_for_than_is_left() {
        let mut tries = PartialCharge::new(100);
        assert_eq!((tries.next(7), tries.next(3), tries.next(0)), (Some(7), Some(3), None));
    }
}
