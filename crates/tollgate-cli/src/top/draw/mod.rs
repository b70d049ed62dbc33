//! The picture of a state. Nothing is remembered here, and nothing is asked.

mod charts;
mod dialog;
mod grid;
mod header;
mod help;
mod key;
mod looks;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Wrap};

use super::state::{Kind, Notice, Page, Pane, State};
use super::table::{Tone, cut};
use super::tables;
use super::text::harmless;
pub(super) use looks::Looks;

/// Less than this, and there is only one table at a time.
const ALL_TABLES: (u16, u16) = (64, 20);
/// From here on tables of keys stand side by side.
const SIDE_BY_SIDE: u16 = 140;
const SMALLEST: (u16, u16) = (20, 6);

/// Draws the state.
pub(super) fn draw(state: &State, looks: Looks, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        frame.render_widget(Line::from("too small"), area);
    } else {
        let heads = header::height(state, area);
        let parts = [Constraint::Length(heads), Constraint::Min(1), Constraint::Length(1)];
        let [head, body, foot] = Layout::vertical(parts).areas(area);
        header::draw(state, frame, head);
        match state.page() {
            None => overview(state, frame, body),
            Some(Page::Key(page)) => key::draw(state, page, frame, body),
            Some(Page::Found(page)) => found(page, frame, body),
        }
        match state.notice() {
            Some(notice) if state.dialog.is_none() => self::notice(notice, frame, area),
            _ => footer(state, frame, foot),
        }
        if state.helps {
            help::draw(frame, area);
        }
        if let Some(asked) = &state.dialog {
            dialog::draw(state, asked, frame, area);
        }
    }
    looks.apply(frame.buffer_mut());
}

fn overview(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let charts = charts::height(area);
    let parts = [Constraint::Length(charts), Constraint::Min(2), Constraint::Length(1)];
    let [top, middle, detail] = Layout::vertical(parts).areas(area);
    charts::draw(state, frame, top);
    if middle.width < ALL_TABLES.0 || area.height + 3 < ALL_TABLES.1 {
        pane(state, state.focus, frame, middle);
    } else {
        let rules = rules_height(state, middle);
        if middle.width >= SIDE_BY_SIDE {
            let parts = [Constraint::Min(4), Constraint::Length(rules)];
            let [keys, below] = Layout::vertical(parts).areas(middle);
            let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).spacing(2).areas(keys);
            pane(state, Pane::Refused, frame, left);
            pane(state, Pane::Hottest, frame, right);
            pane(state, Pane::Rules, frame, below);
        } else {
            let parts = [Constraint::Fill(5), Constraint::Fill(4), Constraint::Length(rules)];
            let [refused, hottest, below] = Layout::vertical(parts).areas(middle);
            pane(state, Pane::Refused, frame, refused);
            pane(state, Pane::Hottest, frame, hottest);
            pane(state, Pane::Rules, frame, below);
        }
    }
    key::draw_line(state, frame, detail);
}

/// As many lines as there are rules, up to a third.
fn rules_height(state: &State, area: Rect) -> u16 {
    let rules = state.view().history.last().map_or(0, |last| last.rules.len());
    let wanted = u16::try_from(rules).unwrap_or(u16::MAX).saturating_add(2);
    wanted.clamp(4, (area.height / 3).max(4))
}

fn pane(state: &State, pane: Pane, frame: &mut Frame<'_>, area: Rect) {
    let (title, empty, table) = match pane {
        Pane::Refused => {
            let history = &state.view().history;
            let passed = match state.paused_since() {
                Some(_) => 0,
                None => state.now_ms.saturating_sub(history.last_at().unwrap_or(state.now_ms)),
            };
            let table = tables::refused_keys(history.last(), passed);
            ("most refused keys, last minutes", "nobody was refused in the last minutes", table)
        }
        Pane::Hottest => {
            let table = tables::hottest_keys(state);
            ("", "no requests in the last minutes", table)
        }
        Pane::Rules => ("rules", "nothing was decided yet", tables::rules(state)),
    };
    let left_out = state.view().history.last().map_or(0, |last| last.rules_left_out);
    let title = match (pane, left_out) {
        (Pane::Hottest, _) => hottest_title(state),
        (Pane::Rules, 1..) => format!("{title}, the busiest; {left_out} more are left out"),
        _ => title.to_owned(),
    };
    let has_focus = state.focus == pane;
    let selected = state.selected(pane).filter(|_| has_focus);
    let grid = grid::Grid { title: &title, empty, table: &table, selected, has_focus };
    grid.draw(frame, area);
}

fn hottest_title(state: &State) -> String {
    match &state.charted {
        None => "hottest keys, last minutes".to_owned(),
        Some(rule) => {
            let rule_name = cut(&harmless(rule), 24);
            match state.is_shadow(rule) {
                true => format!("keys that {rule_name} would deny most, last minutes"),
                false => format!("hottest keys of {rule_name}, last minutes"),
            }
        }
    }
}

fn found(page: &super::state::FoundPage, frame: &mut Frame<'_>, area: Rect) {
    let text = cut(&harmless(&page.text), 40);
    let (title, empty, table) = match &page.found {
        None => (format!("searching for {text} …"), String::new(), None),
        Some(Err(problem)) => (format!("search for {text}"), harmless(&problem.detail), None),
        Some(Ok(found)) => {
            let more = if found.more { ", the first of more: refine the search" } else { "" };
            let title = format!("active keys that contain {text}: {}{more}", found.keys.len());
            let empty = format!(
                "no active key contains {text}; idle keys are not listed, look one up by \
                 attribute, e.g. user={text}"
            );
            (title, empty, Some(tables::found(found)))
        }
    };
    let none = super::table::Table { columns: &[], rows: Vec::new() };
    let table = table.as_ref().unwrap_or(&none);
    let selected = page.selected();
    let grid = grid::Grid { title: &title, empty: &empty, table, selected, has_focus: true };
    grid.draw(frame, area);
}

/// What was done or is wrong, at the bottom, in as many lines as it takes.
fn notice(notice: &Notice, frame: &mut Frame<'_>, area: Rect) {
    let tone = if notice.bad { Tone::Bad } else { Tone::Good };
    let text = Span::styled(notice.text.as_str(), style(tone).bold());
    let text = Paragraph::new(text).wrap(Wrap { trim: true });
    let height = dialog::wrapped_height(&text, area.width).min(area.height / 2);
    let at = Rect { y: area.bottom() - height, height, ..area };
    frame.render_widget(Clear, at);
    frame.render_widget(text, at);
}

fn footer(state: &State, frame: &mut Frame<'_>, area: Rect) {
    if let Some(search) = state.dialog.as_ref().filter(|dialog| dialog.kind == Kind::Search) {
        return dialog::draw_search(search, frame, area);
    }
    let keys: &[(&str, &str)] = match state.page() {
        None => &[
            ("q", "quit"),
            ("?", "help"),
            ("/", "search"),
            ("Enter", "details"),
            ("r", "reset"),
            ("b", "block"),
            ("o", "override"),
            ("p", "pause"),
            ("Tab", "next table"),
        ],
        Some(Page::Key(_)) => &[
            ("Esc", "back"),
            ("?", "help"),
            ("r", "reset"),
            ("b", "block"),
            ("u", "unblock"),
            ("o", "override"),
            ("x", "remove it"),
            ("/", "search"),
        ],
        Some(Page::Found(_)) => &[
            ("Esc", "back"),
            ("Enter", "details"),
            ("r", "reset"),
            ("b", "block"),
            ("/", "search"),
        ],
    };
    let mut spans = Vec::new();
    let mut left = usize::from(area.width);
    for (key, what) in keys {
        // Whole or not at all.
        let Some(rest) = left.checked_sub(key.len() + 1 + what.len()) else { break };
        left = rest.saturating_sub(2);
        spans.push(Span::styled(*key, Style::new().bold()));
        spans.push(Span::styled(format!(" {what}  "), style(Tone::Quiet)));
    }
    frame.render_widget(Line::from(spans), area);
}

/// How a tone looks. What it says is also in words: there may be no colours.
fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
    }
}
