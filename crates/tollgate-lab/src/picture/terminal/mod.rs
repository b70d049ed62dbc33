//! Charts of characters: blocks for bars, braille dots for lines.

mod canvas;
mod marks;
mod ranking;

use super::chart::{Chart, Shape, Tone};
use super::escape::{cut, turns};
use super::label::label_between;
use super::scale::Scale;
use canvas::{Canvas, paint};

/// What is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    columns: usize,
    rows: usize,
    coloured: bool,
}

/// Narrower than this nothing can be seen; wider than that nobody looks.
const NARROWEST: usize = 30;
const WIDEST: usize = 160;

impl Screen {
    /// So many columns, without colours.
    pub fn plain(columns: usize) -> Screen {
        Screen { columns: columns.clamp(NARROWEST, WIDEST), rows: 12, coloured: false }
    }

    /// So many columns, in colours.
    pub fn coloured(columns: usize) -> Screen {
        Screen { coloured: true, ..Screen::plain(columns) }
    }

    /// The same with so many rows for what is between the axes.
    #[must_use]
    pub fn rows(mut self, rows: usize) -> Screen {
        self.rows = rows.clamp(2, 60);
        self
    }
}

/// A text from outside as a terminal may have it: control characters, and those that turn the
/// direction of writing, are shown and not sent.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

impl Chart {
    /// The chart in lines of characters, each at most as wide as the screen.
    pub fn terminal(&self, screen: Screen) -> String {
        let y = Scale::up_to(self.y.0, self.highest(), (screen.rows / 3).max(2));
        let names: Vec<String> =
            y.ticks.iter().map(|tick| label_between(self.y.0, *tick, y.step)).collect();
        let margin = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let field = screen.columns.saturating_sub(margin + 2).max(8);
        let (from, to) = self.extent();
        let x = Scale::between(self.x.0, from, to, (field / 12).max(2));
        let mut canvas = Canvas::new(field, screen.rows);
        marks::draw(&mut canvas, self, (&x, &y), screen.coloured);

        let mut lines = vec![cut(&printable(&self.title), screen.columns)];
        lines.extend(self.legend(screen));
        for row in 0..screen.rows {
            let name = tick_at(&y, row, screen.rows).map_or("", |index| names[index].as_str());
            let side = if name.is_empty() { '│' } else { '┤' };
            lines.push(format!("{name:>margin$} {side}{}", canvas.row(row, screen.coloured)));
        }
        lines.extend(bottom(self, &x, (margin, field)));
        lines.join("\n") + "\n"
    }

    /// The names of the series, in as many lines as they need.
    fn legend(&self, screen: Screen) -> Vec<String> {
        let mut lines: Vec<(usize, String)> = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            let glyph = match series.shape {
                Shape::Bars => marks::bar_glyph(series.tone),
                _ => marks::line_glyph(self.lines_before(index), screen.coloured),
            };
            let name = cut(&printable(&series.name), screen.columns - 4);
            let width = name.chars().count() + 4;
            let text =
                format!("{} {name}", paint(&glyph.to_string(), series.tone, screen.coloured));
            match lines.last_mut() {
                Some((used, line)) if *used + width <= screen.columns => {
                    *used += width;
                    line.push_str("  ");
                    line.push_str(&text);
                }
                _ => lines.push((width, text)),
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// How many lines, as opposed to bars, come before a series.
    fn lines_before(&self, index: usize) -> usize {
        self.series[..index].iter().filter(|series| series.shape != Shape::Bars).count()
    }
}

/// Which tick is at a row, counted from the top; the axis itself has zero.
fn tick_at(y: &Scale, row: usize, rows: usize) -> Option<usize> {
    y.ticks.iter().position(|tick| {
        let from_below = (y.place(*tick) * rows as f64).ceil() as usize;
        *tick > 0.0 && rows - from_below.clamp(1, rows) == row
    })
}

/// The axis along the bottom and its names.
fn bottom(chart: &Chart, x: &Scale, (margin, field): (usize, usize)) -> [String; 2] {
    let mut axis: Vec<char> = vec!['─'; field];
    let mut names: Vec<char> = vec![' '; margin + 2 + field];
    let mut free = 0;
    for tick in &x.ticks {
        let column = ((x.place(*tick) * field as f64) as usize).min(field - 1);
        axis[column] = '┬';
        let name: Vec<char> = label_between(chart.x.0, *tick, x.step).chars().collect();
        let middle = margin + 2 + column;
        let start =
            middle.saturating_sub(name.len() / 2).min(names.len().saturating_sub(name.len()));
        if start >= free && start + name.len() <= names.len() {
            names[start..start + name.len()].copy_from_slice(&name);
            free = start + name.len() + 1;
        }
    }
    let names: String = names.into_iter().collect();
    let axis: String = axis.into_iter().collect();
    [format!("{:>margin$} └{axis}", "0"), names.trim_end().to_owned()]
}

/// The number of a tone's colour among a terminal's 256.
fn colour(tone: Tone) -> u8 {
    match tone {
        Tone::Good => 32,
        Tone::Bad => 208,
        Tone::Quiet => 245,
        Tone::Note => 170,
        Tone::Nth(number) => [32, 208, 36, 170, 178, 250][usize::from(number % 6)],
    }
}
