//! The series themselves.

use std::fmt::Write;

use super::class;
use super::frame::Frame;
use crate::picture::chart::{Series, Shape};

pub(super) fn draw(svg: &mut String, frame: &Frame<'_>) {
    let stacks = frame.chart.stacks();
    for (series, stack) in frame.chart.series.iter().zip(&stacks) {
        let class = class(series.tone);
        match series.shape {
            Shape::Bars => bars(svg, frame, class, stack),
            Shape::Line | Shape::Steps => {
                let _ =
                    writeln!(svg, "<path class=\"line {class}\" d=\"{}\"/>", path(frame, series));
            }
            Shape::Area => {
                let path = path(frame, series);
                let Some((first, _)) = series.points.first() else { continue };
                let _ = writeln!(
                    svg,
                    "<path class=\"area {class}\" d=\"{path}V{:.1}H{:.1}Z\"/>\
                     <path class=\"line {class}\" d=\"{path}\"/>",
                    frame.up(0.0),
                    frame.across(*first)
                );
            }
        }
    }
}

/// All bars of a series as one path: a picture of thousands stays small.
fn bars(svg: &mut String, frame: &Frame<'_>, class: &str, stack: &[(f64, f64, f64)]) {
    let width = frame.chart.bar_width();
    let mut path = String::new();
    for (x, bottom, top) in stack {
        if top <= bottom {
            continue;
        }
        let (left, right) = (frame.across(*x), frame.across(x + width));
        // A line of paper between bars, where they are wide enough to have one.
        let gap = if right - left > 7.0 { 1.0 } else { 0.0 };
        let (bottom, top) = (frame.up(*bottom), frame.up(*top));
        let _ = write!(
            path,
            "M{left:.1} {bottom:.1}V{top:.1}H{:.1}V{bottom:.1}Z",
            (right - gap).max(left + 0.5)
        );
    }
    if !path.is_empty() {
        let _ = writeln!(svg, "<path class=\"bar {class}\" d=\"{path}\"/>");
    }
}

fn path(frame: &Frame<'_>, series: &Series) -> String {
    let mut path = String::new();
    for (index, (x, y)) in series.points.iter().enumerate() {
        let (x, y) = (frame.across(*x), frame.up(*y));
        let _ = match (index, series.shape) {
            (0, _) => write!(path, "M{x:.1} {y:.1}"),
            (_, Shape::Steps) => write!(path, "H{x:.1}V{y:.1}"),
            _ => write!(path, "L{x:.1} {y:.1}"),
        };
    }
    path
}
