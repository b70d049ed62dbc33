//! Where in its shard's table a key belongs, how far from there it is looked for, and how many homes a
//! table has.

/// The number of slots from the home slot on that are searched without branches. The distance from home
/// differs from key to key, so that the processor would mispredict a branch on it each time. Very few
/// keys are further away.
pub(super) const NEAR: usize = 8;

/// How many cache lines from there on are brought near: those that most keys are in, and the next. Memory
/// hands out four in little more time than one, and the next keys' slots may be among them.
pub(crate) const LINES: usize = 4;

/// The same for each of a batch, of which several are on their way.
pub(crate) const LINES_IN_BATCH: usize = 3;

/// The same for each of several charges.
pub(crate) const LINES_IN_FEW: usize = 3;

/// The fingerprint scaled to the number of homes.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the shifted product is below `homes`")]
pub(super) fn home(id: u64, homes: u32) -> u32 {
    ((u128::from(id) * u128::from(homes)) >> 64) as u32
}

/// The number of rows that fit this many homes before runs get long.
pub(super) fn rows_for(homes: usize) -> usize {
    homes * 7 / 10
}

/// The number of homes that this many rows need.
pub(super) fn homes_for(rows: usize) -> usize {
    (rows * 10).div_ceil(7)
}
