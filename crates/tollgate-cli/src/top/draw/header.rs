//! The lines at the top: which server, whether all is well, and what if it is not.

use jiff::{Timestamp, Zoned};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::style;
use crate::moment;
use crate::top::state::{Link, State};
use crate::top::table::{Tone, cut};
use crate::top::text::{count, counted, harmless, lasted, wait};
use crate::top::told::{Sample, StoreFallback};

/// How many lines it takes.
pub(super) fn height(state: &State, area: Rect) -> u16 {
    match (area.height < 12, problem_line(state).is_some()) {
        (true, _) => 1,
        (false, false) => 2,
        (false, true) => 3,
    }
}

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    let problem = problem_line(state);
    // If there is one line, a problem is more important than all else.
    if let (Some(problem), 1) = (&problem, area.height) {
        return banner(problem, frame, first);
    }
    name_line(state, frame, first);
    if let (Some(line), Some(last)) = (lines.next(), state.view().history.last()) {
        let line_of = state_line(state, last, line.width);
        frame.render_widget(line_of, line);
    }
    if let (Some(line), Some(problem)) = (lines.next(), &problem) {
        banner(problem, frame, line);
    }
}

fn banner(text: &str, frame: &mut Frame<'_>, area: Rect) {
    let text = cut(text, usize::from(area.width));
    frame.render_widget(Span::raw(text), area);
    let loud = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED);
    frame.buffer_mut().set_style(area, loud);
}

fn name_line(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let last = state.view().history.last();
    let version = last.map(|last| harmless(&last.version)).unwrap_or_default();
    let (word, tone) = match last.map(|last| last.health.as_str()) {
        None => ("connecting …".to_owned(), Tone::Quiet),
        Some("ready") => ("ready".to_owned(), Tone::Good),
        Some(other) => (harmless(&other.to_uppercase()), Tone::Bad),
    };
    let up = last.map(|last| format!(", up {}", lasted(last.uptime_ms))).unwrap_or_default();
    let (now, loud) = match (&state.link, state.paused_since()) {
        (Link::Lost { .. }, _) => ("LOST".to_owned(), style(Tone::Bad).bold()),
        (_, Some(since)) => {
            (format!("PAUSED at {}", local_time(state, since)), style(Tone::Warning).bold())
        }
        (Link::Live, None) => (format!("live {}", local_time(state, state.now_ms)), Style::new()),
    };
    let right = u16::try_from(now.width()).unwrap_or(area.width).min(area.width);
    let line = Line::from(vec![
        Span::styled(format!("tollgate {version}  "), Style::new().bold()),
        Span::raw(format!("{}  ", harmless(&state.settings.server))),
        Span::styled(word, style(tone)),
        Span::raw(up),
    ]);
    let mut left = area;
    left.width = area.width.saturating_sub(right + 1);
    frame.render_widget(line, left);
    let at = Rect { x: area.x + area.width - right, width: right, ..area };
    frame.render_widget(Span::styled(now, loud), at);
}

/// The policy, the store, who is connected and who looks.
fn state_line(state: &State, last: &Sample, width: u16) -> Line<'static> {
    let mut parts = vec![policy(last), store(last)];
    let may = if state.who.may_write() { "may write" } else { "may only read" };
    parts.push((format!("{} {may}", harmless(&state.who.name)), Tone::Quiet));
    let open = last.connections.iter().filter(|(_, open)| **open > 0);
    let open: Vec<String> =
        open.map(|(name, open)| format!("{} {}", harmless(name), count(*open))).collect();
    let open = if open.is_empty() { "none".to_owned() } else { open.join(" ") };
    parts.push((format!("connections {open}"), Tone::Plain));
    let mut left = usize::from(width);
    let mut spans = Vec::new();
    for (at, (text, tone)) in parts.into_iter().enumerate() {
        let text = cut(&if at > 0 { format!("  {text}") } else { text }, left);
        left -= text.width().min(left);
        spans.push(Span::styled(text, style(tone)));
    }
    Line::from(spans)
}

fn policy(last: &Sample) -> (String, Tone) {
    let rules = counted(last.policy.rules, "rule");
    let text = format!("policy v{}, {rules}", last.policy.version);
    match last.policy.last_refused {
        true => (format!("{text}, LAST CHANGE REFUSED"), Tone::Bad),
        false => (text, Tone::Plain),
    }
}

fn store(last: &Sample) -> (String, Tone) {
    let store = &last.store;
    if let Some(outage) = &store.outage {
        return (format!("store redis unavailable: {}", harmless(&outage.why)), Tone::Bad);
    }
    let keys =
        store.live_keys.map(|keys| format!(", {}", counted(keys, "key"))).unwrap_or_default();
    let early = store.evictions.saturating_add(store.turned_away);
    match (store.kind.as_str(), early, store.outages) {
        ("memory", 0, _) => (format!("store memory{keys}"), Tone::Plain),
        ("memory", early, _) => {
            (format!("store memory{keys}, FULL: {} lost", count(early)), Tone::Bad)
        }
        (kind, _, 0) => (format!("store {} answers{keys}", harmless(kind)), Tone::Plain),
        (kind, _, times) => {
            let text = format!("store {} answers, {times} outages so far{keys}", harmless(kind));
            (text, Tone::Warning)
        }
    }
}

/// The server that does not answer, or else its store.
fn problem_line(state: &State) -> Option<String> {
    lost_line(state).or_else(|| outage_line(state))
}

fn outage_line(state: &State) -> Option<String> {
    let store = &state.view().history.last()?.store;
    let does = fallback(store.fallback.as_ref()?);
    Some(match &store.outage {
        Some(outage) => {
            let (address, lasted) = (harmless(&outage.address), lasted(outage.lasted_ms));
            format!(" Redis {address} UNAVAILABLE for {lasted}: {does}")
        }
        None => format!(" Redis NOT REACHED yet: {does}"),
    })
}

/// Returns the fallbacks of the rules in words.
fn fallback(of: &StoreFallback) -> String {
    let share = match of.nodes {
        0 | 1 => "on this node alone".to_owned(),
        nodes => format!("each node enforces 1/{nodes}"),
    };
    match (of.local, of.deny, of.allow) {
        (1.., 0, 0) => format!("local limits, {share}"),
        (0, 1.., 0) => "all rules deny".to_owned(),
        (0, 0, 1..) => "all rules allow without counting".to_owned(),
        (0, 0, 0) => "the policy has no rules".to_owned(),
        (local, deny, allow) => {
            let kinds = [
                (local, format!("with local limits ({share})")),
                (deny, "denying".to_owned()),
                (allow, "allowing without counting".to_owned()),
            ];
            let kinds = kinds.into_iter().filter(|(number, _)| *number > 0);
            let kinds = kinds.map(|(number, what)| format!("{} {what}", counted(number, "rule")));
            kinds.collect::<Vec<_>>().join(", ")
        }
    }
}

fn lost_line(state: &State) -> Option<String> {
    let Link::Lost { since_ms, why, retry_at_ms } = &state.link else { return None };
    let lost = if why.turns_away() { "TURNED AWAY" } else { "LOST" };
    let again = wait(retry_at_ms.saturating_sub(state.now_ms));
    Some(format!(
        " {lost} since {} ({}), next try {}: {}",
        local_time(state, *since_ms),
        lasted(state.now_ms.saturating_sub(*since_ms)),
        if again == "now" { again } else { format!("in {again}") },
        harmless(&why.detail),
    ))
}

/// A moment in local time.
fn local(state: &State, millis: u64) -> Option<Zoned> {
    let moment = i64::try_from(millis).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    moment.map(|moment| moment.to_zoned(state.settings.zone.clone()))
}

/// A moment in local time; of today without the date, because lines are short.
pub(super) fn local_time(state: &State, millis: u64) -> String {
    let (Some(at), Some(now)) = (local(state, millis), local(state, state.now_ms)) else {
        return "-".to_owned();
    };
    match at.date() == now.date() {
        true => moment::write_time_of_day(&at),
        false => moment::write_local(&at),
    }
}
