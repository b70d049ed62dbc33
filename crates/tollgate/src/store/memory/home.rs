//! Where in its shard's table a key belongs, how far from there it is looked for, and how many homes a
//! table has.

use super::slots::Form;

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

/// How many rows fit so many homes before runs get long. Pages are filled a little more: a table
/// grows by a whole page, and would otherwise take more memory than in one piece.
pub(super) fn rows_for(homes: usize, form: Form) -> usize {
    match form {
        Form::Plain => homes * 7 / 10,
        Form::Paged => homes * 3 / 4,
    }
}

/// How many homes so many rows need.
pub(super) fn homes_for(rows: usize, form: Form) -> usize {
    match form {
        Form::Plain => (rows * 10).div_ceil(7),
        Form::Paged => (rows * 4).div_ceil(3),
    }
}
