//! The figures a decision is made of.
//!
//! A check that only wants yes or no should not pay for divisions, so a bucket's and a counter's
//! figures are kept as they fell out of the decision and worked out when they are asked for.

use crate::algorithm::until_weight_is;

/// The figures of one charge, those that need a division not yet worked out. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figures {
    Bucket(BucketFigures),
    Counter(CounterFigures),
    Plain(PlainFigures),
}

/// Figures that were cheap to have at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainFigures {
    pub(crate) allowed: bool,
    pub(crate) limit: u64,
    pub(crate) cost: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after: u64,
    pub(crate) reset_after: u64,
    pub(crate) next_after: u64,
    pub(crate) delay: u64,
}

/// A bucket after a decision; see `algorithm/bucket.rs` for parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketFigures {
    pub(crate) allowed: bool,
    pub(crate) shapes: bool,
    /// Parts owed after the decision.
    pub(crate) owed: u128,
    pub(crate) cost: u64,
    pub(crate) capacity: u64,
    pub(crate) parts_per_nano: u64,
    pub(crate) parts_per_unit: u64,
    /// How far the caller's clock is behind the state.
    pub(crate) behind: u64,
}

/// A sliding counter after a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterFigures {
    pub(crate) allowed: bool,
    pub(crate) limit: u64,
    pub(crate) cost: u64,
    pub(crate) current: u64,
    pub(crate) previous: u64,
    pub(crate) into: u64,
    pub(crate) window: u64,
    /// How far the caller's clock is behind the state.
    pub(crate) behind: u64,
}

impl Figures {
    #[inline]
    pub(crate) fn allowed(&self) -> bool {
        match self {
            Figures::Bucket(figures) => figures.allowed,
            Figures::Counter(figures) => figures.allowed,
            Figures::Plain(figures) => figures.allowed,
        }
    }

    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        match self {
            Figures::Bucket(figures) => figures.capacity,
            Figures::Counter(figures) => figures.limit,
            Figures::Plain(figures) => figures.limit,
        }
    }

    /// The same of another cost.
    pub(super) fn with_cost(mut self, cost: u64) -> Figures {
        match &mut self {
            Figures::Bucket(figures) => figures.cost = cost,
            Figures::Counter(figures) => figures.cost = cost,
            Figures::Plain(figures) => figures.cost = cost,
        }
        self
    }

    pub(super) fn cost(&self) -> u64 {
        match self {
            Figures::Bucket(figures) => figures.cost,
            Figures::Counter(figures) => figures.cost,
            Figures::Plain(figures) => figures.cost,
        }
    }

    pub(crate) fn remaining(&self) -> u64 {
        match self {
            Figures::Bucket(figures) => figures.remaining(),
            Figures::Counter(figures) => figures.remaining(),
            Figures::Plain(figures) => figures.remaining,
        }
    }

    pub(crate) fn retry_after(&self) -> u64 {
        match self {
            Figures::Bucket(figures) => figures.retry_after(),
            Figures::Counter(figures) => figures.retry_after(),
            Figures::Plain(figures) => figures.retry_after,
        }
    }

    pub(crate) fn reset_after(&self) -> u64 {
        match self {
            Figures::Bucket(figures) => figures.reset_after(),
            Figures::Counter(figures) => figures.reset_after(),
            Figures::Plain(figures) => figures.reset_after,
        }
    }

    pub(crate) fn next_after(&self) -> u64 {
        match self {
            Figures::Bucket(figures) => figures.next_after(),
            Figures::Counter(figures) => figures.next_after(),
            Figures::Plain(figures) => figures.next_after,
        }
    }

    #[inline]
    pub(crate) fn delay(&self) -> u64 {
        match self {
            Figures::Bucket(figures) if figures.shapes => figures.delay(),
            Figures::Plain(figures) => figures.delay,
            _ => 0,
        }
    }

    /// The same figures with a delay of 0.
    #[inline]
    pub(crate) fn without_delay(self) -> Figures {
        match self {
            Figures::Bucket(figures) => Figures::Bucket(BucketFigures { shapes: false, ..figures }),
            Figures::Counter(_) => self,
            Figures::Plain(figures) => Figures::Plain(PlainFigures { delay: 0, ..figures }),
        }
    }

    /// The same as told by a store whose shortest time is `tick`: worked out, waits rounded up.
    pub(crate) fn in_ticks(&self, tick: u64) -> Figures {
        let round = |wait: u64| wait.div_ceil(tick).saturating_mul(tick);
        Figures::Plain(PlainFigures {
            allowed: self.allowed(),
            limit: self.limit(),
            cost: self.cost(),
            remaining: self.remaining(),
            retry_after: if self.allowed() { 0 } else { round(self.retry_after()) },
            reset_after: round(self.reset_after()),
            next_after: round(self.next_after()),
            delay: round(self.delay()),
        })
    }
}

impl BucketFigures {
    fn room(&self) -> u128 {
        u128::from(self.capacity) * u128::from(self.parts_per_unit)
    }

    fn remaining(&self) -> u64 {
        let left = self.room().saturating_sub(self.owed);
        match u64::try_from(left) {
            // Most fit, and a wide division takes as long as all the rest.
            Ok(left) => left / self.parts_per_unit,
            Err(_) => u64::try_from(left / u128::from(self.parts_per_unit)).unwrap_or(u64::MAX),
        }
    }

    fn price(&self) -> u128 {
        u128::from(self.cost) * u128::from(self.parts_per_unit)
    }

    fn retry_after(&self) -> u64 {
        self.until_paid(self.owed.saturating_add(self.price()).saturating_sub(self.room()))
    }

    /// The wait for the first turn: until what was owed before this cost is paid.
    fn delay(&self) -> u64 {
        self.until_paid(self.owed.saturating_sub(self.price()))
    }

    fn reset_after(&self) -> u64 {
        self.until_paid(self.owed)
    }

    /// The wait until one unit more than now is there.
    fn next_after(&self) -> u64 {
        let one_more = u128::from(self.remaining()) + 1;
        let held = (one_more * u128::from(self.parts_per_unit)).min(self.room());
        self.until_paid(self.owed.saturating_sub(self.room() - held))
    }

    /// How long until time has paid back `parts`, rounded up.
    fn until_paid(&self, parts: u128) -> u64 {
        if parts == 0 {
            return 0;
        }
        let nanos = match u64::try_from(parts) {
            Ok(parts) => parts.div_ceil(self.parts_per_nano),
            Err(_) => {
                let nanos = parts.div_ceil(u128::from(self.parts_per_nano));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        nanos.saturating_add(self.behind)
    }
}

impl CounterFigures {
    fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.current).saturating_sub(self.weight())
    }

    /// What the previous window still counts for.
    fn weight(&self) -> u64 {
        let in_view = u128::from(self.previous) * u128::from(self.window - self.into);
        u64::try_from(in_view / u128::from(self.window)).unwrap_or(u64::MAX)
    }

    /// The wait until one unit more than now is there: the used part falls below what it is, or
    /// where it is a debt, below the limit.
    fn next_after(&self) -> u64 {
        let used = self.current.saturating_add(self.weight());
        if used == 0 {
            return 0;
        }
        let most = used.min(self.limit) - 1;
        self.until(match most.checked_sub(self.current) {
            Some(most) => until_weight_is(self.previous, self.window, most),
            None => self.window + until_weight_is(self.current, self.window, most),
        })
    }

    fn retry_after(&self) -> u64 {
        let most = self.limit.saturating_sub(self.cost);
        self.until(match most.checked_sub(self.current) {
            Some(most) => until_weight_is(self.previous, self.window, most),
            None => self.window + until_weight_is(self.current, self.window, most),
        })
    }

    fn reset_after(&self) -> u64 {
        if self.current > 0 {
            return self.until(self.window + until_weight_is(self.current, self.window, 0));
        }
        match until_weight_is(self.previous, self.window, 0) {
            at if at <= self.into => 0,
            at => self.until(at),
        }
    }

    /// From the caller's now to the moment `at` after the current window began.
    fn until(&self, at: u64) -> u64 {
        (at - self.into.min(at)).saturating_add(self.behind)
    }
}
