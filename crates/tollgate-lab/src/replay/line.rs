//! A line of a log, and what may be wrong with it.

use std::fmt;

use super::block::Span;
use super::bounds::MAX_LINE;

/// A line in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

/// Why a line is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Common,
    Time,
    NoTime,
    TooLong,
    Json(String),
    Columns { has: usize, wanted: usize },
    Quotes,
    Cost,
    FarAhead,
}

impl<'t> Line<'t> {
    #[inline]
    pub(super) fn new(text: &'t str, start: usize, end: usize) -> Line<'t> {
        Line { text, start, end }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &'t [u8] {
        &self.text.as_bytes()[self.start..self.end]
    }

    /// The line itself, which begins and ends where a character does.
    pub(super) fn text(&self) -> &'t str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    /// Where in the text it begins.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    #[inline]
    pub(super) fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// A part of it; absent where it is `-`.
    #[inline]
    pub(super) fn part(&self, start: usize, end: usize) -> Span {
        if end == start + 1 && self.bytes()[start] == b'-' {
            return Span::ABSENT;
        }
        Span::new(self.start + start, self.start + end)
    }

    /// The part of it that `part`, a piece of its text, is.
    pub(super) fn part_of(&self, part: &str) -> Span {
        let start = part.as_ptr() as usize - self.text.as_ptr() as usize;
        Span::new(start, start + part.len())
    }

    /// The text of a part, where it is not aside.
    pub(super) fn get(&self, span: Span) -> Option<&'t str> {
        span.within(self.text)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Common => f.write_str("is no line of a common or combined log"),
            Wrong::Time => f.write_str("its time cannot be read"),
            Wrong::NoTime => f.write_str("has no time"),
            Wrong::TooLong => write!(f, "is longer than {MAX_LINE} bytes"),
            Wrong::Json(why) => write!(f, "is no JSON object: {why}"),
            Wrong::Columns { has, wanted } => {
                write!(f, "has {has} columns, the header has {wanted}")
            }
            Wrong::Quotes => f.write_str("has a quote that does not end"),
            Wrong::Cost => f.write_str("its cost is no whole number"),
            Wrong::FarAhead => {
                f.write_str("its time is more than a day ahead of the lines around it")
            }
        }
    }
}
