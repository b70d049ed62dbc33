//! A field of characters.

use super::colour;
use crate::picture::chart::Tone;

/// What is in one place.
#[derive(Clone, Copy)]
struct Cell {
    glyph: char,
    tone: Option<Tone>,
}

/// Rows of cells, the first at the top.
pub(super) struct Canvas {
    columns: usize,
    rows: usize,
    cells: Vec<Cell>,
}

/// The first character of braille: no dots.
const BRAILLE: u32 = 0x2800;

/// Which bit of a braille character is the dot at a column of two and a row of four.
const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Canvas {
    pub(super) fn new(columns: usize, rows: usize) -> Canvas {
        let empty = Cell { glyph: ' ', tone: None };
        Canvas { columns, rows, cells: vec![empty; columns * rows] }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn is_empty(&self, column: usize, row: usize) -> bool {
        self.cells[row * self.columns + column].glyph == ' '
    }

    pub(super) fn put(&mut self, (column, row): (usize, usize), glyph: char, tone: Option<Tone>) {
        self.cells[row * self.columns + column] = Cell { glyph, tone };
    }

    /// A text from a place on, as far as there is room.
    pub(super) fn write(&mut self, (column, row): (usize, usize), text: &str) {
        for (glyph, column) in text.chars().zip(column..self.columns) {
            self.put((column, row), glyph, None);
        }
    }

    /// A dot, counted in halves of columns and quarters of rows, row 0 at the top.
    pub(super) fn dot(&mut self, x: usize, y: usize, tone: Tone) {
        let cell = &mut self.cells[y / 4 * self.columns + x / 2];
        let code = u32::from(cell.glyph);
        let dots = if (BRAILLE..BRAILLE + 256).contains(&code) { code } else { BRAILLE };
        let glyph = char::from_u32(dots | DOTS[x % 2][y % 4]).unwrap_or('·');
        *cell = Cell { glyph, tone: Some(tone) };
    }

    /// A row as text, without spaces at its end.
    pub(super) fn row(&self, row: usize, coloured: bool) -> String {
        let cells = &self.cells[row * self.columns..(row + 1) * self.columns];
        let used = cells.iter().rposition(|cell| cell.glyph != ' ').map_or(0, |last| last + 1);
        let mut text = String::new();
        for run in cells[..used].chunk_by(|a, b| a.tone == b.tone) {
            let glyphs: String = run.iter().map(|cell| cell.glyph).collect();
            match run[0].tone {
                Some(tone) => text.push_str(&paint(&glyphs, tone, coloured)),
                None => text.push_str(&glyphs),
            }
        }
        text
    }
}

pub(super) fn paint(text: &str, tone: Tone, coloured: bool) -> String {
    if coloured { format!("\x1b[38;5;{}m{text}\x1b[0m", colour(tone)) } else { text.to_owned() }
}
