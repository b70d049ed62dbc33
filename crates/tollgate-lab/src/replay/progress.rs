//! What is kept of all logs while they are read, and how far that is.

use std::cell::Cell;
use std::rc::Rc;

use super::report::Malformed;

/// How far a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How many bytes were read, as they are kept.
    pub bytes: u64,
    /// How many lines were read.
    pub lines: u64,
    /// How many requests were decided.
    pub decided: u64,
}

/// How many requests are decided between two calls of who watches.
const DECIDED_PER_CALL: u64 = 1 << 14;

/// The account of a replay, and who is told of it.
pub(super) struct Account<'p> {
    pub(super) malformed: Malformed,
    pub(super) lines: u64,
    pub(super) read: Rc<Cell<u64>>,
    decided: u64,
    watch: &'p mut dyn FnMut(Progress),
}

impl<'p> Account<'p> {
    pub(super) fn new(watch: &'p mut dyn FnMut(Progress)) -> Account<'p> {
        let (malformed, read) = (Malformed::default(), Rc::default());
        Account { malformed, lines: 0, read, decided: 0, watch }
    }

    /// Counts a line that is to be decided.
    #[inline]
    pub(super) fn decide(&mut self) {
        self.decided += 1;
        if self.decided.is_multiple_of(DECIDED_PER_CALL) {
            self.tell();
        }
    }

    pub(super) fn tell(&mut self) {
        let Account { lines, decided, .. } = *self;
        (self.watch)(Progress { bytes: self.read.get(), lines, decided });
    }
}
