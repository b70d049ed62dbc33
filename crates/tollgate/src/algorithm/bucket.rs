//! Token bucket, leaky meter and leaky queue: one arithmetic.
//!
//! A key owes what it took until time has paid it back: missing tokens, a level that leaks,
//! turns that are still ahead. With N units per P nanoseconds, reduced by their gcd, all sums are
//! in *parts*, of which a unit has P and a nanosecond pays back N: exact, and free of division.
//!
//! Words: the moment of the last take, and the parts owed then (low and high half).

use super::{PackedState, StateWords, rescale};
use crate::bounds::MOST_EXACT;
use crate::decision::BucketFigures;

/// A checked bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// N.
    parts_per_nano: u64,
    /// P.
    parts_per_unit: u64,
    /// The most that a new key admits at one instant.
    capacity: u64,
    /// The parts owed by a key that has taken its whole capacity. Only of a bucket that packs.
    full: u64,
    /// Whether admitted units leave one by one.
    is_queue: bool,
}

/// A cost in the parts of a bucket that packs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketCost {
    parts: u64,
    /// The most that may be owed before, in parts.
    most: u64,
}

/// A charge of a packed state, decided: the same numbers as `decide` and `take` have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BucketStep {
    pub(crate) allowed: bool,
    /// Parts owed before the charge.
    before: u64,
    /// The state after it, should it be taken.
    pub(crate) after: PackedState,
}

/// A bucket's numbers for a store that counts time in microseconds, reduced anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MicrosBucket {
    /// What a microsecond pays back.
    pub(crate) parts_per_micro: u64,
    pub(crate) parts_per_unit: u64,
    pub(crate) capacity: u64,
    /// How many of the bucket's own parts one of these is.
    pub(crate) finer: u64,
}

impl MicrosBucket {
    /// What a microsecond pays back, in the bucket's own parts.
    pub(crate) fn nano_parts(&self) -> u64 {
        self.parts_per_micro.saturating_mul(self.finer)
    }
}

const NANOS_PER_MICRO: u64 = 1000;

/// The most parts of a microsecond that a store of microseconds can count in.
pub(crate) const MOST_MICRO_PARTS: u64 = MOST_EXACT / 2;

/// A bucket packs if its full debt fits 64 bits with room for debts of at least three times that.
const MOST_PACKED: u128 = 1 << 62;

impl Bucket {
    /// `count` units per `period` nanoseconds; the caller checks [`refill_nanos`](Self::refill_nanos).
    pub(crate) fn new(count: u64, period: u64, capacity: u64, shapes: bool) -> Bucket {
        let common = gcd(count, period);
        let (parts_per_nano, parts_per_unit) = (count / common, period / common);
        Bucket {
            parts_per_nano,
            parts_per_unit,
            capacity,
            full: capacity.saturating_mul(parts_per_unit),
            is_queue: shapes,
        }
    }

    /// Its numbers for a store of microseconds: exact, since the two rates are one fraction. The
    /// parts are its own if they fit, so that a converted debt rounds up as it does in memory.
    pub(crate) fn in_micros(&self) -> MicrosBucket {
        let fits = self.parts_per_nano <= MOST_MICRO_PARTS / NANOS_PER_MICRO;
        let finer = if fits { 1 } else { gcd(NANOS_PER_MICRO, self.parts_per_unit) };
        MicrosBucket {
            parts_per_micro: self.parts_per_nano.saturating_mul(NANOS_PER_MICRO / finer),
            parts_per_unit: self.parts_per_unit / finer,
            capacity: self.capacity,
            finer,
        }
    }

    /// Whether admitted units leave one by one.
    #[inline(always)]
    pub(crate) fn is_queue(&self) -> bool {
        self.is_queue
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn packs(&self) -> bool {
        self.room() <= MOST_PACKED
    }

    /// How long an empty bucket needs to be as good as new, rounded up.
    pub(crate) fn refill_nanos(&self) -> u128 {
        self.room().div_ceil(u128::from(self.parts_per_nano))
    }

    /// Whether `other` needs as long from used up to fresh.
    pub(super) fn has_horizon_of(&self, other: &Bucket) -> bool {
        let [(nanos, rest), (other_nanos, other_rest)] = [self, other].map(|bucket| {
            let per_nano = u128::from(bucket.parts_per_nano);
            (bucket.room() / per_nano, bucket.room() % per_nano)
        });
        // Each rest is less than its bucket's parts of a nanosecond, so no product overflows.
        nanos == other_nanos
            && rest * u128::from(other.parts_per_nano)
                == other_rest * u128::from(self.parts_per_nano)
    }

    /// Whether `nanos` are more than it needs from used up to fresh.
    #[inline]
    pub(super) fn is_past_horizon(&self, nanos: u64) -> bool {
        u128::from(nanos) * u128::from(self.parts_per_nano) > self.room()
    }

    #[inline(always)]
    pub(crate) fn decide(&self, state: StateWords, now: u64, cost: u64) -> BucketFigures {
        let before = self.owed(state, now);
        let after = before.saturating_add(self.parts(cost));
        let allowed = cost <= self.capacity && after <= self.room();
        BucketFigures {
            allowed,
            shapes: self.is_queue,
            owed: if allowed { after } else { before },
            cost,
            capacity: self.capacity,
            parts_per_nano: self.parts_per_nano,
            parts_per_unit: self.parts_per_unit,
            behind: state[0].saturating_sub(now),
        }
    }

    #[inline(always)]
    pub(crate) fn take(&self, state: &mut StateWords, now: u64, cost: u64) {
        let owed = self.owed(*state, now).saturating_add(self.parts(cost));
        *state = words(state[0].max(now), owed);
    }

    /// Converts a cost to parts of a bucket that packs; `None` if no state can fit it.
    #[inline(always)]
    pub(crate) fn cost(&self, cost: u64) -> Option<BucketCost> {
        let parts = cost.checked_mul(self.parts_per_unit)?;
        Some(BucketCost { parts, most: self.full.checked_sub(parts)? })
    }

    /// [`decide`](Self::decide) and [`take`](Self::take) of a bucket that packs: all that can be
    /// allowed fits 64 bits.
    #[inline(always)]
    pub(crate) fn step(&self, [at, owed]: PackedState, now: u64, cost: BucketCost) -> BucketStep {
        let elapsed = now.saturating_sub(at);
        let before = owed.saturating_sub(elapsed.saturating_mul(self.parts_per_nano));
        let allowed = before <= cost.most;
        // Not past 64 bits if it is allowed, and of no use if it is not.
        let after = before.wrapping_add(cost.parts);
        BucketStep { allowed, before, after: [at.wrapping_add(elapsed), after] }
    }

    /// The figures that go with a step.
    #[inline(always)]
    pub(crate) fn figures(&self, step: &BucketStep, at: u64, now: u64, cost: u64) -> BucketFigures {
        BucketFigures {
            allowed: step.allowed,
            shapes: self.is_queue,
            owed: u128::from(if step.allowed { step.after[1] } else { step.before }),
            cost,
            capacity: self.capacity,
            parts_per_nano: self.parts_per_nano,
            parts_per_unit: self.parts_per_unit,
            behind: at.saturating_sub(now),
        }
    }

    pub(super) fn give_back(&self, state: &mut StateWords, now: u64, units: u64) {
        let owed = self.owed(*state, now).saturating_sub(self.parts(units));
        *state = words(state[0].max(now), owed);
    }

    /// Pays back `owed` parts, or what is owed if that is less; how many.
    pub(crate) fn pay(&self, state: &mut StateWords, now: u64, owed: u128) -> u128 {
        let before = self.owed(*state, now);
        let paid = owed.min(before);
        *state = words(state[0].max(now), before - paid);
        paid
    }

    /// Parts of `from`, in proportion to what each has room for.
    pub(crate) fn in_proportion(&self, owed: u128, from: &Bucket) -> u128 {
        rescale::scale(owed, self.room(), from.room())
    }

    /// Gives back `units` less what was paid back from `since` to `now`.
    pub(crate) fn give_back_since(&self, state: &mut StateWords, now: u64, since: u64, units: u64) {
        let at = state[0].max(now);
        let paid = u128::from(at.saturating_sub(since)) * u128::from(self.parts_per_nano);
        let back = self.parts(units).saturating_sub(paid);
        *state = words(at, self.owed(*state, at).saturating_sub(back));
    }

    /// Gives back a queue's turn, if nobody has been told a later one: what is told is told.
    pub(super) fn give_back_turn(&self, state: &mut StateWords, now: u64, turn: u64, units: u64) {
        let mut without = *state;
        self.give_back(&mut without, now, units);
        if self.fresh_at(without) == turn {
            *state = without;
        }
    }

    pub(crate) fn fresh_at(&self, state: StateWords) -> u64 {
        let nanos = match u64::try_from(owed_then(state)) {
            // Most fit, and a wide division takes as long as ten others.
            Ok(owed) => owed.div_ceil(self.parts_per_nano),
            Err(_) => {
                let nanos = owed_then(state).div_ceil(u128::from(self.parts_per_nano));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        state[0].saturating_add(nanos)
    }

    /// What is owed at `now`, in parts.
    #[inline]
    pub(super) fn owed(&self, state: StateWords, now: u64) -> u128 {
        let elapsed = now.saturating_sub(state[0]);
        owed_then(state).saturating_sub(u128::from(elapsed) * u128::from(self.parts_per_nano))
    }

    /// The parts owed by a key that has taken all it can.
    #[inline]
    pub(super) fn room(&self) -> u128 {
        self.parts(self.capacity)
    }

    #[inline]
    pub(crate) fn parts(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.parts_per_unit)
    }
}

#[inline]
fn owed_then([_, low, high]: StateWords) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

/// The state of a key that owes `owed` parts at `at`.
#[inline]
pub(crate) fn words(at: u64, owed: u128) -> StateWords {
    let low = owed & u128::from(u64::MAX);
    // Both halves are below 2^64 by the mask and the shift.
    [at, u64::try_from(low).unwrap_or(u64::MAX), u64::try_from(owed >> 64).unwrap_or(u64::MAX)]
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
