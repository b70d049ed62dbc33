//! Tables of text, for the screen and for print: columns that fit the space there is.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a cell is, which says how it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Warning,
    Quiet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

pub(super) fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), tone: Tone::Plain }
}

pub(super) fn toned(text: impl Into<String>, tone: Tone) -> Cell {
    Cell { text: text.into(), tone }
}

/// Where a column stands, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// What is left.
    Rest,
    /// As wide as its longest text, at most so wide.
    UpTo(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: Width,
    /// Numbers are read from the right.
    pub(super) is_number: bool,
    /// It is left out of tables that are narrower.
    pub(super) from: usize,
}

pub(super) struct Table {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Cell>>,
}

/// Between two columns.
pub(super) const SPACE: usize = 2;

/// Less of the column that takes the rest says nothing.
const LEAST_REST: usize = 10;

impl Table {
    /// The columns that there is room for, and how wide each is.
    pub(super) fn fit(&self, width: usize) -> Vec<(usize, usize)> {
        let shown = self.columns.iter().enumerate().filter(|(_, column)| column.from <= width);
        let mut fixed: Vec<(usize, Option<usize>)> = shown
            .map(|(at, column)| match column.width {
                Width::Rest => (at, None),
                Width::UpTo(most) => (at, Some(self.widest(at).min(most))),
            })
            .collect();
        let taken = |fixed: &[(usize, Option<usize>)]| {
            let spaces = SPACE * fixed.len().saturating_sub(1);
            spaces + fixed.iter().filter_map(|(_, width)| *width).sum::<usize>()
        };
        while fixed.len() > 1 && taken(&fixed) + LEAST_REST > width {
            fixed.pop();
        }
        let rest = width.saturating_sub(taken(&fixed));
        fixed.into_iter().map(|(at, width)| (at, width.unwrap_or(rest))).collect()
    }

    fn widest(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.width());
        cells.chain([self.columns[at].title.width()]).max().unwrap_or_default()
    }

    /// As wide as it would like to be.
    pub(super) fn natural_width(&self) -> usize {
        let widths = (0..self.columns.len()).map(|at| match self.columns[at].width {
            Width::Rest => self.widest(at),
            Width::UpTo(most) => self.widest(at).min(most),
        });
        widths.sum::<usize>() + SPACE * self.columns.len().saturating_sub(1)
    }
}

/// A text in so many places, cut with `…` or filled with blanks.
pub(super) fn fitted(text: &str, width: usize, is_number: bool) -> String {
    let cut = cut(text, width);
    let blanks = " ".repeat(width.saturating_sub(cut.width()));
    if is_number { blanks + &cut } else { cut + &blanks }
}

pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut shown = String::new();
    for c in text.chars() {
        let Some(rest) = left.checked_sub(c.width().unwrap_or_default()) else { break };
        (left, shown) = (rest, shown + c.encode_utf8(&mut [0; 4]));
    }
    if width > 0 { shown + "…" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { title: "KEY", width: Width::Rest, is_number: false, from: 0 },
        Column { title: "RULE", width: Width::UpTo(10), is_number: false, from: 0 },
        Column { title: "LIMIT", width: Width::UpTo(9), is_number: true, from: 40 },
    ];

    #[test]
    fn columns_are_left_out_before_the_first_is_squeezed() {
        let rows = vec![vec![cell("tenant=acme"), cell("a rule with a long name"), cell("5")]];
        let table = Table { columns: &COLUMNS, rows };
        assert_eq!(table.fit(60), [(0, 41), (1, 10), (2, 5)]);
        assert_eq!(table.fit(39), [(0, 27), (1, 10)], "too narrow for the limit");
        assert_eq!(table.fit(15), [(0, 15)], "the key is what matters");
        assert_eq!(table.fit(0), [(0, 0)]);
        assert_eq!(table.natural_width(), 11 + 2 + 10 + 2 + 5);
    }

    #[test]
    fn what_is_cut_says_so_and_is_never_wider() {
        assert_eq!(fitted("tenant", 8, false), "tenant  ");
        assert_eq!(fitted("12", 4, true), "  12");
        assert_eq!(cut("tenant=acme", 8), "tenant=…");
        assert_eq!(cut("鍵鍵鍵", 4), "鍵…", "a wide character is not halved");
        assert_eq!((cut("ab", 1).as_str(), cut("ab", 0).as_str()), ("…", ""));
    }
}
