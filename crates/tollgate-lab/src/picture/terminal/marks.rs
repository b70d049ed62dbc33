//! The series of a chart, on a canvas.

use super::canvas::Canvas;
use super::printable;
use crate::picture::chart::{Chart, Series, Shape, Tone};
use crate::picture::escape::cut;
use crate::picture::scale::Scale;

/// The heights of a block, in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the lines after the first are drawn with where there are no colours.
const MARKS: [char; 5] = ['×', 'o', '+', '*', '~'];

/// What bars of a tone are made of.
pub(super) fn bar_glyph(tone: Tone) -> char {
    match tone {
        Tone::Good | Tone::Nth(0) => '█',
        Tone::Bad | Tone::Nth(1) => '░',
        _ => '▒',
    }
}

/// What a line is made of, the `number`th of the chart.
pub(super) fn line_glyph(number: usize, coloured: bool) -> char {
    match number {
        0 => '⠒',
        _ if coloured => '⠒',
        _ => MARKS[(number - 1) % MARKS.len()],
    }
}

pub(super) fn draw(canvas: &mut Canvas, chart: &Chart, (x, y): (&Scale, &Scale), coloured: bool) {
    bars(canvas, chart, x, y);
    let lines = chart.series.iter().filter(|series| series.shape != Shape::Bars);
    for (number, series) in lines.enumerate() {
        let mark = (number > 0 && !coloured).then(|| line_glyph(number, coloured));
        line(canvas, series, (x, y), mark);
    }
    bands(canvas, chart, x);
    levels(canvas, chart, y);
}

fn bars(canvas: &mut Canvas, chart: &Chart, x: &Scale, y: &Scale) {
    let width = chart.bar_width();
    let stacks = chart.stacks();
    let (columns, rows) = (canvas.columns(), canvas.rows());
    for column in 0..columns {
        let reach = (x.to - x.from) / columns as f64;
        let from = x.from + column as f64 * reach;
        for (series, stack) in chart.series.iter().zip(&stacks) {
            let Some((bottom, top)) = heights(stack, width, (from, from + reach)) else { continue };
            let (bottom, top) = (y.place(bottom) * rows as f64, y.place(top) * rows as f64);
            for row in 0..rows {
                let floor = (rows - 1 - row) as f64;
                let filled = (top - floor).clamp(0.0, 1.0) - (bottom - floor).clamp(0.0, 1.0);
                let glyph = match bar_glyph(series.tone) {
                    // Only what begins at the bottom of a cell can be shown in eighths.
                    '█' if bottom <= floor => EIGHTHS[(filled * 8.0).round() as usize],
                    shade if filled >= 0.5 => shade,
                    _ => ' ',
                };
                // What stands below keeps the cell that both have a part of: it is never hidden.
                if glyph != ' ' && canvas.is_empty(column, row) {
                    canvas.put((column, row), glyph, Some(series.tone));
                }
            }
        }
    }
}

/// From where to where the bars within a column go: their mean.
fn heights(stack: &[(f64, f64, f64)], width: f64, (from, to): (f64, f64)) -> Option<(f64, f64)> {
    let first = stack.partition_point(|(x, ..)| x + width * (1.0 - 1e-9) <= from);
    let within = stack[first..].iter().take_while(|(x, ..)| *x < to - width * 1e-9);
    let (mut many, mut sum) = (0.0, (0.0, 0.0));
    for (x, bottom, top) in within {
        let share = (x + width).min(to) - x.max(from);
        many += share;
        sum = (sum.0 + bottom * share, sum.1 + top * share);
    }
    (many > 0.0).then(|| (sum.0 / many, sum.1 / many))
}

/// A line of dots; where dots have no colours, the lines after the first are of other marks.
fn line(canvas: &mut Canvas, series: &Series, (x, y): (&Scale, &Scale), mark: Option<char>) {
    let (columns, rows) = match mark {
        None => (canvas.columns() * 2, canvas.rows() * 4),
        Some(_) => (canvas.columns(), canvas.rows()),
    };
    let down = |value: f64| ((1.0 - y.place(value)) * (rows - 1) as f64).round() as usize;
    for column in 0..columns {
        let from = x.from + (x.to - x.from) * column as f64 / columns as f64;
        let to = x.from + (x.to - x.from) * (column + 1) as f64 / columns as f64;
        let Some((lowest, highest)) = reach(series, from, to) else { continue };
        match mark {
            None => {
                (down(highest)..=down(lowest)).for_each(|row| canvas.dot(column, row, series.tone));
            }
            Some(mark) => canvas.put((column, down(highest)), mark, Some(series.tone)),
        }
    }
}

/// The lowest and the highest that a series is between `from` and `to`.
fn reach(series: &Series, from: f64, to: f64) -> Option<(f64, f64)> {
    let points = &series.points;
    let (first, last) = (points.first()?, points.last()?);
    if to < first.0 || from > last.0 {
        return None;
    }
    let ends = [value_at(series, from.max(first.0)), value_at(series, to.min(last.0))];
    let begin = points.partition_point(|(x, _)| *x < from);
    let within = points[begin..].iter().take_while(|(x, _)| *x < to).map(|(_, y)| *y);
    let all = ends.into_iter().chain(within);
    Some(all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y))))
}

fn value_at(series: &Series, x: f64) -> f64 {
    let points = &series.points;
    let after = points.partition_point(|(at, _)| *at <= x);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (Some((_, y)), _) if series.shape == Shape::Steps => y,
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), None) => y,
        (None, Some((_, y))) => *y,
        (None, None) => 0.0,
    }
}

fn bands(canvas: &mut Canvas, chart: &Chart, x: &Scale) {
    for (from, to, name) in &chart.bands {
        let columns = canvas.columns() as f64;
        let first = (x.place(*from) * columns) as usize;
        let last = ((x.place(*to) * columns).ceil() as usize).min(canvas.columns());
        for row in 0..canvas.rows() {
            for column in first..last {
                if canvas.is_empty(column, row) {
                    canvas.put((column, row), '·', None);
                }
            }
        }
        canvas.write((first, 0), &cut(&printable(name), last.saturating_sub(first).max(3)));
    }
}

fn levels(canvas: &mut Canvas, chart: &Chart, y: &Scale) {
    for (value, name) in &chart.levels {
        let from_below = (y.place(*value) * canvas.rows() as f64).ceil() as usize;
        let row = canvas.rows() - from_below.clamp(1, canvas.rows());
        for column in 0..canvas.columns() {
            if canvas.is_empty(column, row) {
                canvas.put((column, row), '╌', None);
            }
        }
        let name = format!(" {}", cut(&printable(name), canvas.columns().saturating_sub(2)));
        let start = canvas.columns().saturating_sub(name.chars().count());
        canvas.write((start, row), &name);
    }
}
