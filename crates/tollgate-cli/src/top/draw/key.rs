//! How a client stands on every rule, with a bar for what is left.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::style;
use crate::top::state::{KeyPage, State};
use crate::top::table::{Tone, cut, fitted};
use crate::top::tables::{reason, rule_name};
use crate::top::text::{self, count, harmless, wait};
use crate::top::told::{RuleStanding, Standing};

/// Less than this, and what follows does not stand beside the bar.
const NARROW: usize = 72;

pub(super) fn draw(state: &State, page: &KeyPage, frame: &mut Frame<'_>, area: Rect) {
    let passed = state.now_ms.saturating_sub(page.told_ms);
    let width = usize::from(area.width);
    let mut lines = vec![title(&text::key(&page.key), width)];
    let mut marked = None;
    match (&page.standing, &page.problem) {
        (None, None) => lines.push(Line::from(Span::styled("asking …", style(Tone::Quiet)))),
        (None, Some(problem)) => {
            lines.push(Line::from(Span::styled(harmless(&problem.detail), style(Tone::Bad))));
        }
        (Some(standing), problem) => {
            lines.push(verdict(standing, passed));
            if let Some(problem) = problem {
                let text = format!("as it stood before: {}", harmless(&problem.detail));
                lines.push(Line::from(Span::styled(text, style(Tone::Bad))));
            }
            lines.push(Line::default());
            let names = standing.rules.iter().map(|of| rule_name(&of.rule).chars().count());
            let name = names.max().unwrap_or_default().clamp(4, (width / 4).max(4));
            for (at, of) in standing.rules.iter().enumerate() {
                if page.selected() == Some(at) {
                    marked = Some(lines.len());
                }
                lines.extend(rule_lines(of, passed, (name, width)));
            }
            lines.extend(not_applied(standing, width));
        }
    }
    // All lines of the selected rule are seen.
    let visible = usize::from(area.height);
    let first = marked.map_or(0, |at| (at + 3).saturating_sub(visible));
    for (line, at) in lines.into_iter().skip(first).zip(area.rows()) {
        frame.render_widget(line, at);
    }
    if let Some(at) = marked.and_then(|at| area.rows().nth(at - first)) {
        frame.buffer_mut().set_style(at, Modifier::REVERSED);
    }
}

fn title(key: &str, width: usize) -> Line<'static> {
    let key = cut(key, width.saturating_sub(4));
    Line::from(Span::styled(format!("─▸ {key} "), Style::new().bold()))
}

fn verdict(standing: &Standing, passed: u64) -> Line<'static> {
    let on = standing.rule.as_deref().map(|rule| format!(" on {}", rule_name(rule)));
    let on = on.unwrap_or_default();
    let (text, tone) = match (standing.allowed, standing.retry_after_ms) {
        (true, _) if standing.reason == "no_rule" => {
            ("with these attributes alone no rule applies".to_owned(), Tone::Good)
        }
        (true, _) => ("with these attributes alone: allowed now".to_owned(), Tone::Good),
        (false, retry) => {
            let again = match retry {
                Some(millis) => format!("retry in {}", wait(millis.saturating_sub(passed))),
                None => "no retry helps".to_owned(),
            };
            (format!("refused now: {}{on}, {again}", reason(&standing.reason)), Tone::Bad)
        }
    };
    let tier = standing.tier.as_deref().map(|tier| format!("   tier {}", harmless(tier)));
    Line::from(vec![Span::styled(text, style(tone).bold()), Span::raw(tier.unwrap_or_default())])
}

/// The rule, a bar, what is left, and what follows; where these come from below.
fn rule_lines(of: &RuleStanding, passed: u64, (name, width): (usize, usize)) -> Vec<Line<'static>> {
    let (what, tone) = standing_words(of, passed);
    let bar = width.saturating_sub(name + 2 + 20 + 34).clamp(6, 30);
    let mut first = vec![
        Span::raw(fitted(&rule_name(&of.rule), name, false)),
        Span::raw("  "),
        Span::styled(meter(of, bar), style(tone)),
        Span::raw(format!("  {:<16}  ", left(of))),
    ];
    let what = Span::styled(what, style(tone));
    let indent = if width < NARROW { 2 } else { name + 2 };
    let numbers = numbers_line(of, indent);
    if width < NARROW {
        let below = Line::from(vec![Span::raw(" ".repeat(indent)), what]);
        return vec![first.into(), below, numbers];
    }
    first.push(what);
    vec![first.into(), numbers]
}

/// Where the numbers are from and what is counted together.
fn numbers_line(of: &RuleStanding, indent: usize) -> Line<'static> {
    let from = match (of.numbers_from.as_str(), of.override_source.as_deref()) {
        (_, Some("policy_file")) => "by an override of the policy file",
        (_, Some("run_time")) => "by a run-time override",
        ("tier", _) => "of its tier",
        ("override", _) => "by an override",
        // Asked for by its key, of which nobody can know what else a request brings.
        ("key", _) => "of the rule, unless by a tier or an override",
        _ => "of the rule",
    };
    let numbers: Vec<String> = of.numbers.iter().map(|text| harmless(text)).collect();
    let numbers = if numbers.is_empty() { "unlimited".to_owned() } else { numbers.join(" and ") };
    let text = format!("{}{numbers}, {from}; counts {}", " ".repeat(indent), text::key(&of.key));
    Line::from(Span::styled(text, style(Tone::Quiet)))
}

fn left(of: &RuleStanding) -> String {
    match (of.remaining, of.limit) {
        (Some(remaining), Some(limit)) if limit < u64::MAX => {
            format!("{} of {} left", count(remaining), count(limit))
        }
        _ => "unlimited".to_owned(),
    }
}

/// What is left, as a bar.
fn meter(of: &RuleStanding, width: usize) -> String {
    let full = match (of.remaining, of.limit) {
        (Some(remaining), Some(limit)) if limit > 0 && limit < u64::MAX => {
            let filled = width as u128 * u128::from(remaining.min(limit)) / u128::from(limit);
            // A unit that is left is seen.
            usize::try_from(filled).unwrap_or(width).max(usize::from(remaining > 0))
        }
        (_, Some(0)) => 0,
        _ => width,
    };
    "█".repeat(full) + &"░".repeat(width - full.min(width))
}

fn standing_words(of: &RuleStanding, passed: u64) -> (String, Tone) {
    let left = |millis: Option<u64>| millis.unwrap_or_default().saturating_sub(passed);
    let (blocked, retry, reset) =
        (left(of.blocked_ms), left(of.retry_after_ms), left(of.reset_after_ms));
    let full = match (of.limit, reset) {
        (None | Some(u64::MAX), _) => String::new(),
        (_, reset) if reset > 0 && reset <= retry => String::new(),
        (_, 0) => ", full".to_owned(),
        _ => format!(", full in {}", wait(reset)),
    };
    match () {
        () if blocked > 0 => (format!("BLOCKED for {}", wait(blocked)), Tone::Bad),
        () if of.shadow && retry > 0 => {
            (format!("shadow: would refuse for {}", wait(retry)), Tone::Warning)
        }
        () if of.shadow => (format!("shadow: allows{full}"), Tone::Plain),
        () if !of.allowed && of.retry_after_ms.is_none() => ("never allows".to_owned(), Tone::Bad),
        () if retry > 0 => (format!("REFUSES for {}{full}", wait(retry)), Tone::Bad),
        () => (format!("allows{full}"), Tone::Good),
    }
}

fn not_applied(standing: &Standing, width: usize) -> Vec<Line<'static>> {
    if standing.not_applied.is_empty() {
        return Vec::new();
    }
    let quiet = |text: String| Line::from(Span::styled(cut(&text, width), style(Tone::Quiet)));
    let each = standing.not_applied.iter();
    let each =
        each.map(|of| quiet(format!("  {}: {}", rule_name(&of.rule), harmless(&of.because))));
    [Line::default(), quiet("does not apply:".to_owned())].into_iter().chain(each).collect()
}

/// The selected key in one line, under the tables.
pub(super) fn draw_line(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let Some(row) = state.selected_row() else { return };
    let who = cut(&row.target.shown(), usize::from(area.width / 2));
    let standing = state.detail().and_then(|of| Some((of, of.standing.rules.first()?)));
    let line = match standing {
        Some((detail, of)) => {
            let passed = state.now_ms.saturating_sub(detail.told_ms);
            let (what, tone) = standing_words(of, passed);
            let who = Span::styled(format!("{who}  "), Style::new().bold());
            let bar = Span::styled(meter(of, 10), style(tone));
            let (left, what) =
                (Span::raw(format!(" {}  ", left(of))), Span::styled(what, style(tone)));
            match usize::from(area.width) < NARROW {
                true => Line::from(vec![who, what]),
                false => Line::from(vec![who, bar, left, what]),
            }
        }
        None => Line::from(Span::styled(who, Style::new().bold())),
    };
    frame.render_widget(line, area);
}
