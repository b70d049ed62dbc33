//! Where in its shard's table a key belongs, and how far from there it is looked for.

/// How many slots from its home on are looked at without branches, as measured. How far a key is from
/// home differs from key to key, and a branch on it is foretold wrongly each time; but every slot that
/// is looked at must have arrived.
pub(super) const NEAR: usize = 4;

/// The same in a batch: two lines of slots have been brought ahead, and a third would be waited for.
pub(super) const NEAR_IN_BATCH: usize = 3;

/// Where a key's home is among so many: worked out ahead of the lock, and mostly still so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Home {
    index: usize,
    homes: u32,
}

impl Home {
    #[inline(always)]
    pub(super) fn of(id: u64, homes: u32) -> Home {
        Home { index: home(id, homes), homes }
    }

    #[inline(always)]
    pub(super) fn index(self) -> usize {
        self.index
    }

    #[inline(always)]
    pub(super) fn among(self, id: u64, homes: u32) -> usize {
        if homes == self.homes { self.index } else { home(id, homes) }
    }
}

/// The fingerprint scaled to the number of homes.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the shifted product is below `homes`")]
pub(super) fn home(id: u64, homes: u32) -> usize {
    ((u128::from(id) * u128::from(homes)) >> 64) as usize
}
