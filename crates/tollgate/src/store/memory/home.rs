//! Where in its shard's table a key belongs, and how far from there it is looked for.

/// How many slots from its home on are looked at without branches, as measured. How far a key is from
/// home differs from key to key, and a branch on it is foretold wrongly each time; but every slot that
/// is looked at must have arrived.
pub(super) const NEAR: usize = 4;

/// How many cache lines from there on are brought near: those that are looked at, and the next. Memory
/// hands out four in little more time than one, and the next keys' slots may be among them.
pub(crate) const LINES: usize = 4;

/// The same for each of a batch, of which several are on their way.
pub(crate) const LINES_IN_BATCH: usize = 3;

/// The same for each of several charges.
pub(super) const LINES_IN_FEW: usize = 3;

/// The fingerprint scaled to the number of homes.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the shifted product is below `homes`")]
pub(super) fn home(id: u64, homes: u32) -> u32 {
    ((u128::from(id) * u128::from(homes)) >> 64) as u32
}
