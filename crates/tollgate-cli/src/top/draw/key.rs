//! The status of a client under every rule, with a bar for what is left, and its other keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::header::local_time;
use super::style;
use crate::top::state::{KeyPage, State};
use crate::top::table::{Tone, cut, fitted};
use crate::top::tables::{reason, rule_name};
use crate::top::text::{self, count, harmless, lasted, wait};
use crate::top::told::{RuleStanding, Standing};

/// Less than this, and what follows does not stand beside the bar.
const NARROW: usize = 72;

pub(super) fn draw(state: &State, page: &KeyPage, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let mut lines = vec![title(&text::key(&page.key), width)];
    let mut marked = None;
    match (&page.standing, &page.problem) {
        (None, None) => lines.push(Line::from(Span::styled("asking …", style(Tone::Quiet)))),
        (None, Some(problem)) => {
            lines.push(Line::from(Span::styled(harmless(&problem.detail), style(Tone::Bad))));
        }
        (Some(standing), problem) => {
            let age = Age { passed: state.now_ms.saturating_sub(page.told_ms), standing };
            lines.extend(verdict(&age, width));
            let at = local_time(state, page.told_ms);
            lines.push(match problem {
                Some(problem) => {
                    let text = format!("no newer figures than {at}: {}", harmless(&problem.detail));
                    Line::from(Span::styled(cut(&text, width), style(Tone::Bad).bold()))
                }
                None => quiet(format!("figures as of {at}"), width),
            });
            if !page.rules().is_empty() {
                lines.push(Line::default());
            }
            let passed = state.now_ms.saturating_sub(page.others_ms.unwrap_or(page.told_ms));
            let age_of_others = Age { passed, standing };
            let all: Vec<&RuleStanding> = page.rules().iter().chain(page.others()).collect();
            let names = all.iter().map(|of| rule_name(&of.rule).chars().count());
            let name = names.max().unwrap_or_default().clamp(4, (width / 4).max(4));
            for (at, of) in all.iter().enumerate() {
                if at == page.rules().len() {
                    lines.extend(not_applied(standing, width));
                    lines.extend(others_title(state, page, width));
                }
                if page.selected() == Some(at) {
                    marked = Some(lines.len());
                }
                let age = if at < page.rules().len() { &age } else { &age_of_others };
                lines.extend(rule_lines(of, age, (name, width)));
            }
            if all.len() == page.rules().len() {
                lines.extend(not_applied(standing, width));
            }
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

/// An answer of the server, and how many milliseconds ago it came.
struct Age<'s> {
    passed: u64,
    standing: &'s Standing,
}

fn quiet(text: String, width: usize) -> Line<'static> {
    Line::from(Span::styled(cut(&text, width), style(Tone::Quiet)))
}

fn others_title(state: &State, page: &KeyPage, width: usize) -> [Line<'static>; 2] {
    let at =
        page.others_ms.map(|at| format!(", as of {}", local_time(state, at))).unwrap_or_default();
    let more = if page.has_more() { ", the first of more" } else { "" };
    let text = format!("other active keys with {}{at}{more}:", text::key(&page.key));
    [Line::default(), quiet(text, width)]
}

fn title(key: &str, width: usize) -> Line<'static> {
    let key = cut(key, width.saturating_sub(4));
    Line::from(Span::styled(format!("─▸ {key} "), Style::new().bold()))
}

/// The ruling in words, with the attributes that rules need if none applies.
fn verdict(age: &Age<'_>, width: usize) -> Vec<Line<'static>> {
    let standing = age.standing;
    let (text, tone) = ruling(age);
    let tier = standing.tier.as_deref().map(|tier| format!("   tier {}", harmless(tier)));
    let first = vec![Span::styled(text, style(tone).bold()), Span::raw(tier.unwrap_or_default())];
    let mut lines = vec![Line::from(first)];
    if standing.degraded {
        let text = "Redis is unavailable: figures are the local limits of this node";
        lines.push(Line::from(Span::styled(text, style(Tone::Bad).bold())));
    }
    let needed = needed(standing);
    if standing.rules.is_empty() && standing.list.is_none() && !needed.is_empty() {
        lines.push(Line::from(cut(&format!("rules need: {needed}"), width)));
    }
    lines
}

fn ruling(age: &Age<'_>) -> (String, Tone) {
    let standing = age.standing;
    let rule = standing.rule.as_deref().map(rule_name).unwrap_or_default();
    if let Some(list) = &standing.list {
        let name = harmless(&list.name);
        return match list.allows {
            true => (format!("next request allowed: on the allow list {name}"), Tone::Good),
            false => (format!("next request DENIED: on the deny list {name}"), Tone::Bad),
        };
    }
    if standing.allowed {
        return match standing.reason.as_str() {
            "no_rule" if standing.rules.is_empty() => {
                ("no rule matches these attributes".to_owned(), Tone::Warning)
            }
            "no_rule" => ("next request allowed: no limit applies".to_owned(), Tone::Good),
            "store_away" => {
                (format!("next request allowed, not counted: rule {rule}"), Tone::Warning)
            }
            _ => ("next request allowed".to_owned(), Tone::Good),
        };
    }
    let why = match standing.reason.as_str() {
        "block" => format!("blocked under rule {rule}"),
        "limits" => format!("over the limit of rule {rule}"),
        "store_away" => format!("rule {rule} denies while Redis is unavailable"),
        other => format!("{} {rule}", reason(other)),
    };
    let again = match standing.retry_after_ms {
        Some(millis) if millis > age.passed => format!("retry in {}", wait(millis - age.passed)),
        Some(_) => format!("when asked {} ago", lasted(age.passed)),
        None => "no retry helps".to_owned(),
    };
    (format!("next request DENIED: {why}, {again}"), Tone::Bad)
}

/// The attributes that rules need: `tenant + user, ip`.
fn needed(standing: &Standing) -> String {
    let mut sets: Vec<String> = Vec::new();
    for of in &standing.not_applied {
        let names: Vec<String> = of.needs.iter().map(|name| harmless(name)).collect();
        let set = names.join(" + ");
        if !set.is_empty() && !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets.join(", ")
}

/// The rule, a bar, what is left, and what follows; where these come from below.
fn rule_lines(
    of: &RuleStanding,
    age: &Age<'_>,
    (name, width): (usize, usize),
) -> Vec<Line<'static>> {
    let (what, tone) = standing_words(of, age);
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

/// The limits, their source, and the key.
fn numbers_line(of: &RuleStanding, indent: usize) -> Line<'static> {
    let from = match (of.numbers_from.as_str(), of.override_source.as_deref()) {
        (_, Some("policy_file")) => "(override of the policy file)",
        (_, Some("run_time")) => "(run-time override)",
        ("tier", _) => "(tier)",
        ("override", _) => "(override)",
        // Asked for by its key alone: the tier of its requests is not known.
        ("key", _) => "(rule default, without tier or override)",
        _ => "(rule default)",
    };
    let numbers: Vec<String> = of.numbers.iter().map(|text| harmless(text)).collect();
    let numbers = match (numbers.is_empty(), of.limit) {
        (true, None | Some(u64::MAX)) => format!("unlimited {from}, "),
        // Found by a search, which reports no limits.
        (true, Some(_)) => String::new(),
        (false, _) => format!("{} {from}, ", numbers.join(" and ")),
    };
    let text = format!("{}{numbers}key {}", " ".repeat(indent), text::key(&of.key));
    Line::from(Span::styled(text, style(Tone::Quiet)))
}

fn left(of: &RuleStanding) -> String {
    match (of.remaining, of.limit) {
        (Some(remaining), Some(limit)) if limit < u64::MAX => {
            format!("{} of {} left", count(remaining), count(limit))
        }
        _ if of.numbers.is_empty() => "unlimited".to_owned(),
        _ => "no figures".to_owned(),
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
        (None, None) if !of.numbers.is_empty() => 0,
        _ => width,
    };
    "█".repeat(full) + &"░".repeat(width - full.min(width))
}

/// Returns the decision of a rule in words, as the server reported it: a wait that has passed since
/// does not change it.
fn standing_words(of: &RuleStanding, age: &Age<'_>) -> (String, Tone) {
    let left = |millis: u64| match millis.checked_sub(age.passed) {
        Some(rest) if rest > 0 => Ok(wait(rest)),
        _ => Err(format!("when asked {} ago", lasted(age.passed))),
    };
    let shadow = if of.shadow { "shadow: " } else { "" };
    if let Some(millis) = of.blocked_ms {
        let text = left(millis)
            .map_or_else(|ago| format!("BLOCKED {ago}"), |rest| format!("BLOCKED for {rest}"));
        return (format!("{shadow}{text}"), if of.shadow { Tone::Warning } else { Tone::Bad });
    }
    match (of.limit, &age.standing.list) {
        (None, _) if of.numbers.is_empty() => return ("OK".to_owned(), Tone::Good),
        (None, Some(_)) => return ("not evaluated: a list decides".to_owned(), Tone::Quiet),
        (None, None) => return ("not evaluated".to_owned(), Tone::Quiet),
        (Some(0), _) if age.standing.degraded => {
            return (format!("{shadow}denies while Redis is unavailable"), Tone::Bad);
        }
        _ => {}
    }
    let full = match (of.limit, of.reset_after_ms) {
        (Some(u64::MAX), _) | (_, None) => String::new(),
        (_, Some(0)) => ", full".to_owned(),
        (_, Some(millis)) => left(millis).map_or(String::new(), |rest| format!(", full in {rest}")),
    };
    match (of.allowed, of.retry_after_ms) {
        (true, _) if of.shadow => (format!("shadow: would allow{full}"), Tone::Plain),
        (true, _) => (format!("OK{full}"), Tone::Good),
        (false, None) => (
            format!("{shadow}can never fit this limit"),
            if of.shadow { Tone::Warning } else { Tone::Bad },
        ),
        (false, Some(millis)) if of.shadow => {
            let text = left(millis).map_or_else(|ago| ago, |rest| format!("for {rest}"));
            (format!("shadow: would deny {text}"), Tone::Warning)
        }
        (false, Some(millis)) => {
            let text = left(millis)
                .map_or_else(|ago| format!(" {ago}"), |rest| format!(", next in {rest}"));
            (format!("OVER LIMIT{text}"), Tone::Bad)
        }
    }
}

fn not_applied(standing: &Standing, width: usize) -> Vec<Line<'static>> {
    if standing.not_applied.is_empty() {
        return Vec::new();
    }
    let each = standing.not_applied.iter();
    let each = each
        .map(|of| quiet(format!("  {}: {}", rule_name(&of.rule), harmless(&of.because)), width));
    [Line::default(), quiet("does not apply:".to_owned(), width)].into_iter().chain(each).collect()
}

/// The selected key in one line, under the tables.
pub(super) fn draw_line(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let Some(row) = state.selected_row() else { return };
    let who = cut(&row.target.shown(), usize::from(area.width / 2));
    let standing = state.detail().and_then(|of| Some((of, of.standing.rules.first()?)));
    let line = match standing {
        Some((detail, of)) => {
            let passed = state.now_ms.saturating_sub(detail.told_ms);
            let (what, tone) = standing_words(of, &Age { passed, standing: &detail.standing });
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
