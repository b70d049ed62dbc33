//! What is around the marks of a chart: title, legend, axes, levels, bands.

use std::fmt::Write;

use super::{HEIGHT, WIDTH, class};
use crate::picture::chart::{Chart, Shape};
use crate::picture::escape::{cut, escape};
use crate::picture::label::label_between;
use crate::picture::scale::Scale;

/// A chart with its scales, and the field that its marks are drawn in.
pub(super) struct Frame<'a> {
    pub(super) chart: &'a Chart,
    pub(super) x: Scale,
    pub(super) y: Scale,
    top: f64,
}

const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 14.0;
const BOTTOM: f64 = HEIGHT - 40.0;

/// About how wide a letter is.
const LETTER: f64 = 7.1;
const LEGEND_TOP: f64 = 42.0;
const LEGEND_ROW: f64 = 18.0;
const SWATCH: f64 = 18.0;

impl<'a> Frame<'a> {
    pub(super) fn of(chart: &'a Chart) -> Frame<'a> {
        let (from, to) = chart.extent();
        let rows = legend(chart).last().map_or(0.0, |(_, row, _)| row + 1.0);
        Frame {
            chart,
            x: Scale::between(chart.x.0, from, to, 7),
            y: Scale::up_to(chart.y.0, chart.highest(), 5),
            top: LEGEND_TOP + rows * LEGEND_ROW,
        }
    }

    pub(super) fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (RIGHT - LEFT)
    }

    pub(super) fn up(&self, value: f64) -> f64 {
        BOTTOM - self.y.place(value) * (BOTTOM - self.top)
    }

    /// What is behind the marks.
    pub(super) fn draw(&self, svg: &mut String) {
        let title = escape(&cut(&self.chart.title, 58));
        let _ = writeln!(svg, "<text class=\"title\" x=\"12\" y=\"20\">{title}</text>");
        self.draw_legend(svg);
        self.draw_sides(svg);
        self.draw_bottom(svg);
        for (from, to, _) in &self.chart.bands {
            let (left, right) = (self.across(*from), self.across(*to));
            let _ = writeln!(
                svg,
                "<rect class=\"band\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                self.top,
                right - left,
                BOTTOM - self.top
            );
        }
    }

    /// What is before the marks: levels, and the names of bands.
    pub(super) fn draw_over(&self, svg: &mut String) {
        for (value, name) in &self.chart.levels {
            let y = self.up(*value);
            let above = if y - 6.0 < self.top + 8.0 { y + 15.0 } else { y - 6.0 };
            let _ = writeln!(
                svg,
                "<path class=\"level\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
                 <text class=\"level-name\" x=\"{RIGHT}\" y=\"{above:.1}\" text-anchor=\"end\">{}</text>",
                escape(&cut(name, 40))
            );
        }
        for (from, to, name) in &self.chart.bands {
            let middle = (self.across(*from) + self.across(*to)) / 2.0;
            let _ = writeln!(
                svg,
                "<text class=\"level-name\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.top + 14.0,
                escape(&cut(name, 24))
            );
        }
    }

    fn draw_legend(&self, svg: &mut String) {
        for ((x, row, _), series) in legend(self.chart).iter().zip(&self.chart.series) {
            let y = LEGEND_TOP + row * LEGEND_ROW;
            let class = class(series.tone);
            let swatch = match series.shape {
                Shape::Bars => format!(
                    "<rect class=\"bar {class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"10\"/>",
                    y - 9.0
                ),
                _ => format!("<path class=\"line {class}\" d=\"M{x:.1} {:.1}h14\"/>", y - 4.0),
            };
            let name = escape(&cut(&series.name, 40));
            let _ =
                writeln!(svg, "{swatch}<text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>", x + SWATCH);
        }
    }

    fn draw_sides(&self, svg: &mut String) {
        for tick in &self.y.ticks {
            let y = self.up(*tick);
            let class = if *tick == 0.0 { "base" } else { "grid" };
            let name = label_between(self.chart.y.0, *tick, self.y.step);
            let _ = writeln!(
                svg,
                "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                LEFT - 6.0,
                y + 4.5
            );
        }
        if !self.chart.y.1.is_empty() {
            let middle = (self.top + BOTTOM) / 2.0;
            let name = escape(&cut(&self.chart.y.1, 32));
            let _ = writeln!(
                svg,
                "<text x=\"11\" y=\"{middle:.1}\" text-anchor=\"middle\" \
                 transform=\"rotate(-90 11 {middle:.1})\">{name}</text>"
            );
        }
    }

    fn draw_bottom(&self, svg: &mut String) {
        let mut free = 0.0;
        for tick in &self.x.ticks {
            let x = self.across(*tick);
            let name = label_between(self.chart.x.0, *tick, self.x.step);
            // Neither end may stick out of the picture.
            let half = name.chars().count() as f64 * LETTER / 2.0;
            let anchor = if x + half > WIDTH - 2.0 { "end" } else { "middle" };
            let (at, left) = match anchor {
                "end" => (WIDTH - 2.0, WIDTH - 2.0 - 2.0 * half),
                _ => (x, x - half),
            };
            // A name that would run into the one before is left out; its tick stays.
            let name = if left < free { "" } else { name.as_str() };
            if !name.is_empty() {
                free = left + 2.0 * half + LETTER;
            }
            let _ = writeln!(
                svg,
                "<path class=\"base\" d=\"M{x:.1} {BOTTOM}v4\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>",
                BOTTOM + 18.0
            );
        }
        if !self.chart.x.1.is_empty() {
            let name = escape(&cut(&self.chart.x.1, 60));
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                (LEFT + RIGHT) / 2.0,
                HEIGHT - 6.0
            );
        }
    }
}

/// Where each series has its name: from the left, in which row, and how wide.
fn legend(chart: &Chart) -> Vec<(f64, f64, f64)> {
    let (mut x, mut row) = (12.0, 0.0);
    let mut places = Vec::new();
    for series in &chart.series {
        let letters = series.name.chars().count().min(40) as f64;
        let width = SWATCH + letters * LETTER + 12.0;
        if x > 12.0 && x + width > WIDTH {
            (x, row) = (12.0, row + 1.0);
        }
        places.push((x, row, width));
        x += width;
    }
    places
}
