//! A key's id with its limit's number in the last byte, as a slot has it.

use std::num::NonZeroU8;

/// The last byte of a tagged id.
pub(super) const TAG: u64 = 0xff;

/// What a slot says of a key whose state was made under the limit that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tagged(u64);

impl Tagged {
    #[inline(always)]
    pub(super) fn new(id: u64, tag: NonZeroU8) -> Tagged {
        Tagged(id | u64::from(tag.get()))
    }

    #[inline(always)]
    pub(super) fn get(self) -> u64 {
        self.0
    }

    /// Whether both have one id, whatever their limits: in one store, a key of one limiter.
    #[inline(always)]
    pub(super) fn is_same_key(self, other: Tagged) -> bool {
        (self.0 ^ other.0) <= TAG
    }
}
