//! A ranking as SVG.

use std::fmt::Write;

use super::{WIDTH, class};
use crate::picture::chart::Tone;
use crate::picture::escape::{cut, escape};
use crate::picture::label::label;
use crate::picture::ranking::Ranking;

const ROW: f64 = 24.0;
const TOP: f64 = 52.0;
const NAMES: f64 = 170.0;
const FIGURES: f64 = 64.0;

/// How high the picture is.
pub(crate) fn height(ranking: &Ranking) -> f64 {
    TOP + ranking.rows.len() as f64 * ROW + 6.0
}

pub(crate) fn draw(svg: &mut String, ranking: &Ranking) {
    let title = escape(&cut(&ranking.title, 58));
    let _ = writeln!(svg, "<text class=\"title\" x=\"12\" y=\"20\">{title}</text>");
    let mut x = 12.0;
    for (name, tone) in &ranking.parts {
        let _ = writeln!(
            svg,
            "<rect class=\"bar {}\" x=\"{x:.1}\" y=\"33\" width=\"12\" height=\"10\"/>\
             <text x=\"{:.1}\" y=\"42\">{}</text>",
            class(*tone),
            x + 18.0,
            escape(&cut(name, 24))
        );
        x += 30.0 + name.chars().count().min(24) as f64 * 7.1;
    }
    let most = ranking.largest();
    for (index, (name, values)) in ranking.rows.iter().enumerate() {
        let y = TOP + index as f64 * ROW;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            NAMES - 8.0,
            y + 15.0,
            escape(&cut(name, 22))
        );
        row(svg, ranking, values, (y, most));
    }
}

fn row(svg: &mut String, ranking: &Ranking, values: &[f64], (y, most): (f64, f64)) {
    let room = WIDTH - NAMES - FIGURES;
    let mut x = NAMES;
    for (value, (_, tone)) in values.iter().zip(&ranking.parts) {
        let width = value.max(0.0) / most * room;
        if width > 0.0 {
            let tone: Tone = *tone;
            let _ = write!(
                svg,
                "<rect class=\"bar {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"16\"/>",
                class(tone),
                y + 3.0
            );
        }
        x += width;
    }
    let total: f64 = values.iter().sum();
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        x + 6.0,
        y + 15.0,
        label(ranking.unit, total)
    );
}
