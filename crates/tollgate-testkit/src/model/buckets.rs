//! Token bucket, leaky meter and leaky queue, in fractions.
//!
//! A fraction of a unit is kept as so many P-ths of one, a fraction of a nanosecond as so many
//! N-ths: integers without bound, so that nothing is ever rounded.

use num_bigint::BigInt;
use num_rational::BigRational;
use tollgate::Limit;

use super::Model;

/// N units per P nanoseconds.
#[derive(Debug)]
struct Rate {
    count: BigInt,
    period: BigInt,
}

impl Rate {
    fn of(limit: &Limit) -> Rate {
        Rate { count: limit.count().into(), period: limit.period().as_nanos().into() }
    }

    /// So many units, in P-ths, rounded up to a part of a unit: as many P-ths as N and P have as a
    /// common divisor.
    fn fraction(&self, units: &BigRational) -> BigInt {
        let mut part = (self.count.clone(), self.period.clone());
        while part.1 != 0.into() {
            part = (part.1.clone(), part.0 % part.1);
        }
        (units * &self.period / &part.0).ceil().to_integer() * part.0
    }

    /// So many whole units, in P-ths.
    fn units(&self, units: u64) -> BigInt {
        &self.period * units
    }

    /// What flows in `nanos` nanoseconds, in P-ths of a unit.
    fn flow(&self, nanos: u128) -> BigInt {
        &self.count * nanos
    }
}

/// Tokens that flow in.
#[derive(Debug)]
pub(super) struct Tokens {
    rate: Rate,
    most: BigInt,
    tokens: BigInt,
    /// When there were so many.
    counted_at: u128,
}

impl Tokens {
    pub(super) fn new(limit: &Limit) -> Tokens {
        let rate = Rate::of(limit);
        let most = rate.units(limit.capacity());
        Tokens { rate, tokens: most.clone(), most, counted_at: 0 }
    }

    pub(super) fn with_used(limit: &Limit, at: u128, used: &BigRational) -> Tokens {
        let full = Tokens::new(limit);
        let tokens = &full.most - full.rate.fraction(used);
        Tokens { tokens, counted_at: at, ..full }
    }

    fn tokens_at(&self, at: u128) -> BigInt {
        (&self.tokens + self.rate.flow(at - self.counted_at)).min(self.most.clone())
    }
}

impl Model for Tokens {
    fn fits(&self, at: u128, cost: u64) -> bool {
        self.tokens_at(at) >= self.rate.units(cost)
    }

    fn is_new(&self, at: u128) -> bool {
        self.tokens_at(at) == self.most
    }

    fn used(&self, at: u128) -> BigRational {
        BigRational::new(&self.most - self.tokens_at(at), self.rate.period.clone())
    }

    fn take(&mut self, at: u128, cost: u64) {
        self.tokens = self.tokens_at(at) - self.rate.units(cost);
        self.counted_at = at;
    }

    fn give_back(&mut self, at: u128, units: u64) {
        self.tokens = (self.tokens_at(at) + self.rate.units(units)).min(self.most.clone());
        self.counted_at = at;
    }
}

/// A level that sinks.
#[derive(Debug)]
pub(super) struct Meter {
    leak: Rate,
    brim: BigInt,
    level: BigInt,
    /// When it stood so high.
    measured_at: u128,
}

impl Meter {
    pub(super) fn new(limit: &Limit) -> Meter {
        let leak = Rate::of(limit);
        Meter { brim: leak.units(limit.capacity()), leak, level: 0.into(), measured_at: 0 }
    }

    pub(super) fn with_used(limit: &Limit, at: u128, used: &BigRational) -> Meter {
        let empty = Meter::new(limit);
        Meter { level: empty.leak.fraction(used), measured_at: at, ..empty }
    }

    fn level_at(&self, at: u128) -> BigInt {
        (&self.level - self.leak.flow(at - self.measured_at)).max(0.into())
    }
}

impl Model for Meter {
    fn fits(&self, at: u128, cost: u64) -> bool {
        self.level_at(at) + self.leak.units(cost) <= self.brim
    }

    fn is_new(&self, at: u128) -> bool {
        self.level_at(at) == 0.into()
    }

    fn used(&self, at: u128) -> BigRational {
        BigRational::new(self.level_at(at), self.leak.period.clone())
    }

    fn take(&mut self, at: u128, cost: u64) {
        self.level = self.level_at(at) + self.leak.units(cost);
        self.measured_at = at;
    }

    fn give_back(&mut self, at: u128, units: u64) {
        self.level = (self.level_at(at) - self.leak.units(units)).max(0.into());
        self.measured_at = at;
    }
}

/// Turns, one after the other. Moments and distances are in N-ths of a nanosecond.
#[derive(Debug)]
pub(super) struct Queue {
    /// How many units may be waiting.
    places: u64,
    /// N.
    count: BigInt,
    /// P / N, which is P N-ths: from one turn to the next.
    distance: BigInt,
    /// The first turn that nobody has.
    free_turn: BigInt,
}

impl Queue {
    pub(super) fn new(limit: &Limit) -> Queue {
        let Rate { count, period } = Rate::of(limit);
        Queue { places: limit.capacity() - 1, count, distance: period, free_turn: 0.into() }
    }

    /// The turns that are taken follow `at`: so many distances later is the first free one.
    pub(super) fn with_used(limit: &Limit, at: u128, used: &BigRational) -> Queue {
        let idle = Queue::new(limit);
        // A P-th of a unit waits for a P-th of the distance, which is one N-th of a nanosecond.
        let free_turn = idle.moment(at) + Rate::of(limit).fraction(used);
        Queue { free_turn, ..idle }
    }

    fn moment(&self, at: u128) -> BigInt {
        &self.count * at
    }

    fn first_turn(&self, at: u128) -> BigInt {
        self.moment(at).max(self.free_turn.clone())
    }
}

impl Model for Queue {
    fn fits(&self, at: u128, cost: u64) -> bool {
        let last_turn = self.first_turn(at) + &self.distance * cost.saturating_sub(1);
        last_turn - self.moment(at) <= &self.distance * self.places
    }

    fn is_new(&self, at: u128) -> bool {
        self.free_turn <= self.moment(at)
    }

    fn used(&self, at: u128) -> BigRational {
        let ahead = (&self.free_turn - self.moment(at)).max(0.into());
        BigRational::new(ahead, self.distance.clone())
    }

    fn take(&mut self, at: u128, cost: u64) {
        self.free_turn = self.first_turn(at) + &self.distance * cost;
    }

    fn give_back(&mut self, at: u128, units: u64) {
        self.free_turn = (&self.free_turn - &self.distance * units).max(self.moment(at));
    }

    fn turn(&self, at: u128) -> Option<u128> {
        let turn = BigRational::new(self.first_turn(at), self.count.clone()).ceil().to_integer();
        Some(turn.try_into().expect("a turn is not before 1970 and fits"))
    }
}
