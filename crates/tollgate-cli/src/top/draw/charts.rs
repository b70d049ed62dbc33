//! Rates as they went, and latency.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;

use super::style;
use crate::top::history::{Rates, TRANSPORTS};
use crate::top::state::State;
use crate::top::table::{Tone, cut, fitted};
use crate::top::tables::rule_name;
use crate::top::text::{micros, rate};

/// From this height on a rate is drawn in two lines.
const TALL: u16 = 32;
const SHORT: u16 = 12;

/// Columns that a rate's name and numbers take.
const LABEL: u16 = 34;

/// One of the rates.
type Of = fn(&Rates) -> u64;

const SERIES: [(&str, Color, Of); 3] = [
    ("allowed", Color::Green, |of| of.allowed),
    ("refused", Color::Red, |of| of.refused),
    ("degraded", Color::Yellow, |of| of.degraded),
];

/// How much of an area they take.
pub(super) fn height(area: Rect) -> u16 {
    match area.height {
        ..SHORT => 2,
        SHORT..TALL => 4,
        _ => 8,
    }
}

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let each = if area.height >= 7 { 2 } else { 1 };
    let shown = if area.height > 2 { 3 } else { 1 };
    let mut parts = vec![Constraint::Length(each); shown];
    parts.push(Constraint::Length(1));
    let lines = Layout::vertical(parts).split(area);
    match shown {
        1 => all_in_one(state, frame, lines[0]),
        _ => {
            for ((name, colour, of), line) in SERIES.iter().zip(lines.iter()) {
                series(state, (name, *colour, *of), frame, *line);
            }
        }
    }
    frame.render_widget(latency(state), lines[shown]);
}

/// The rates of one rule as if it were enforced; those of all rules as they are.
fn shown(rates: Rates, rule: Option<&str>) -> Rates {
    if rule.is_some() { rates.enforced() } else { rates }
}

fn series(state: &State, (name, colour, of): (&str, Color, Of), frame: &mut Frame<'_>, area: Rect) {
    let history = &state.view().history;
    let rule = state.charted.as_deref();
    let parts = [Constraint::Length(LABEL.min(area.width)), Constraint::Min(0)];
    let [label, chart] = Layout::horizontal(parts).areas(area);
    let points = history.series(rule, usize::from(chart.width));
    let shown = |rates: &Rates| of(&shown(*rates, rule));
    let values: Vec<Option<u64>> = points.iter().map(|point| point.as_ref().map(shown)).collect();
    let peak = values.iter().flatten().max().copied().unwrap_or_default();
    let now = shown(&history.rates(rule));
    let known = if history.has_rates() { format!("{}/s", rate(now)) } else { "-".to_owned() };
    let bold = if now > 0 { Style::new().fg(colour).bold() } else { Style::new() };
    let text = Line::from(vec![
        Span::raw(format!("{name:<9}")),
        Span::styled(format!("{known:>10}"), bold),
        Span::styled(format!("  peak {:<7}", rate(peak)), style(Tone::Quiet)),
    ]);
    frame.render_widget(text, label);
    // The newest is at the right edge.
    let before = usize::from(chart.width).saturating_sub(values.len());
    // Little is seen, too.
    let least = peak.div_ceil(8 * u64::from(chart.height.max(1)));
    let seen = |value: u64| if value > 0 { value.max(least) } else { 0 };
    let values = values.into_iter().map(|value| value.map(seen));
    let bars = std::iter::repeat_n(None, before).chain(values);
    let spark = Sparkline::default().data(bars).max(peak.max(1)).absent_value_symbol(" ");
    frame.render_widget(spark.style(Style::new().fg(colour)), chart);
}

fn all_in_one(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let rule = state.charted.as_deref();
    let rates = shown(state.view().history.rates(rule), rule);
    let mut spans = Vec::new();
    for (name, colour, of) in SERIES {
        spans.push(Span::raw(format!("{name} ")));
        spans.push(Span::styled(format!("{}/s  ", rate(of(&rates))), Style::new().fg(colour)));
    }
    frame.render_widget(Line::from(spans), area);
}

/// Of each transport that was asked in the last seconds; and whose rates are drawn.
fn latency(state: &State) -> Line<'static> {
    let history = &state.view().history;
    let each = TRANSPORTS.iter().filter_map(|(of, name)| {
        let latency = history.latency(of)?;
        Some(format!("{name} {} / {}", micros(latency.p50_us), micros(latency.p99_us)))
    });
    let all: Vec<String> = each.collect();
    let text = match all.is_empty() {
        true => "nobody has asked in the last seconds".to_owned(),
        false => all.join("   "),
    };
    let mut spans = vec![Span::raw(fitted("p50/p99", 11, false)), Span::raw(text)];
    if let Some(rule) = &state.charted {
        let text = format!("rates of {} only (Esc: all)   ", cut(&rule_name(rule), 24));
        spans.insert(0, Span::styled(text, style(Tone::Warning)));
    }
    Line::from(spans)
}
