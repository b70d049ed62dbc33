//! A ranking in lines of characters.

use super::canvas::paint;
use super::marks::bar_glyph;
use super::{Screen, printable};
use crate::picture::escape::cut;
use crate::picture::label::label;
use crate::picture::ranking::Ranking;

impl Ranking {
    /// The ranking in lines, each at most as wide as the screen.
    pub fn terminal(&self, screen: Screen) -> String {
        let name_room = screen.columns / 3;
        let names: Vec<String> =
            self.rows.iter().map(|(name, _)| cut(&printable(name), name_room)).collect();
        let figures: Vec<String> =
            self.rows.iter().map(|(_, values)| label(self.unit, values.iter().sum())).collect();
        let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max();
        let (names_width, figures_width) =
            (widest(&names).unwrap_or(0), widest(&figures).unwrap_or(0));
        let room = screen.columns.saturating_sub(names_width + figures_width + 4).max(4);

        let mut lines = vec![cut(&printable(&self.title), screen.columns)];
        let parts = self.parts.iter().map(|(name, tone)| {
            let glyph = paint(&bar_glyph(*tone).to_string(), *tone, screen.coloured);
            format!("{glyph} {}", printable(name))
        });
        lines.push(parts.collect::<Vec<_>>().join("  "));
        for ((name, figure), (_, values)) in names.iter().zip(&figures).zip(&self.rows) {
            let bar = self.bar(values, room, screen.coloured);
            lines.push(format!("{name:<names_width$}  {figure:>figures_width$}  {bar}"));
        }
        lines.join("\n") + "\n"
    }

    fn bar(&self, values: &[f64], room: usize, coloured: bool) -> String {
        let scale = room as f64 / self.largest();
        let (mut bar, mut before, mut drawn) = (String::new(), 0.0, 0);
        for (value, (_, tone)) in values.iter().zip(&self.parts) {
            before += value * scale;
            let end = (before.round() as usize).min(room);
            let glyphs = bar_glyph(*tone).to_string().repeat(end.saturating_sub(drawn));
            if !glyphs.is_empty() {
                bar.push_str(&paint(&glyphs, *tone, coloured));
            }
            drawn = drawn.max(end);
        }
        bar
    }
}
