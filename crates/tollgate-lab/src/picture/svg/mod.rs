//! Charts as SVG: no scripts, no outside requests, no `style` attributes, so that a strict
//! content security policy may stand.

mod frame;
mod marks;
mod ranking;

use std::fmt::Write;

pub(super) use self::open as open_picture;
use super::chart::{Chart, Tone};
use super::escape::escape;
use frame::Frame;
pub(super) use ranking::{draw as draw_ranking, height as ranking_height};

/// The style of every picture, light and dark: for a page that shows some of them inline.
/// Everything in it begins with `.chart`.
pub const STYLE: &str = include_str!("style.css");

/// How wide a picture is drawn: so that its letters can be read on a phone.
pub(super) const WIDTH: f64 = 480.0;
pub(super) const HEIGHT: f64 = 280.0;

/// The space between pictures of one file.
const GAP: f64 = 16.0;

impl Chart {
    /// The chart as a file of its own: `<svg …>` with its style in it.
    pub fn svg(&self) -> String {
        panels(&self.title, std::slice::from_ref(self), 1)
    }

    /// The chart as a part of a page that has [`STYLE`] among its styles.
    pub fn svg_inline(&self) -> String {
        let mut svg = String::new();
        open(&mut svg, (WIDTH, HEIGHT), &self.title, &self.words());
        self.draw(&mut svg);
        svg + "</svg>"
    }

    fn draw(&self, svg: &mut String) {
        let frame = Frame::of(self);
        frame.draw(svg);
        marks::draw(svg, &frame);
        frame.draw_over(svg);
    }

    /// What there is to see, in words.
    fn words(&self) -> String {
        if !self.description.is_empty() {
            return self.description.clone();
        }
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        format!("{} over {}", names.join(", "), self.x.1)
    }
}

/// Several charts in one file, in rows of `columns`.
pub fn panels(title: &str, charts: &[Chart], columns: usize) -> String {
    let columns = columns.clamp(1, charts.len().max(1));
    let rows = charts.len().div_ceil(columns).max(1);
    let along = |many: usize, size: f64| many as f64 * size + (many - 1) as f64 * GAP;
    let size = (along(columns, WIDTH), along(rows, HEIGHT));
    let words: Vec<String> =
        charts.iter().map(|chart| format!("{}: {}", chart.title, chart.words())).collect();
    let mut svg = String::new();
    open(&mut svg, size, title, &words.join(". "));
    let _ = writeln!(
        svg,
        "<style>{STYLE}</style><rect class=\"paper\" width=\"{}\" height=\"{}\"/>",
        size.0, size.1
    );
    for (index, chart) in charts.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let (x, y) = (column as f64 * (WIDTH + GAP), row as f64 * (HEIGHT + GAP));
        let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        chart.draw(&mut svg);
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

pub(super) fn open(svg: &mut String, (width, height): (f64, f64), title: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" \
         viewBox=\"0 0 {width} {height}\"><title>{}</title><desc>{}</desc>",
        escape(title),
        escape(words)
    );
}

/// The class of a tone in [`STYLE`].
pub(super) fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Quiet => "quiet",
        Tone::Note => "note",
        Tone::Nth(number) => ["n0", "n1", "n2", "n3", "n4", "n5"][usize::from(number % 6)],
    }
}
