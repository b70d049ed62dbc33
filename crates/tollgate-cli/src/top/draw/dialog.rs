//! Dialogs: what will be done, and whether to.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::style;
use crate::top::state::{Dialog, Field, Kind, State, Target};
use crate::top::table::{Tone, cut};
use crate::top::tables::rule_name;
use crate::top::text::{self, harmless};

const WIDTH: u16 = 68;

/// The line that a search is typed in.
pub(super) fn draw_search(dialog: &Dialog, frame: &mut Frame<'_>, area: Rect) {
    let Some(field) = dialog.fields.first() else { return };
    let width = usize::from(area.width);
    let typed = end_of(&harmless(&field.text), width.saturating_sub(2));
    let hint = if field.text.is_empty() { format!(" {}", field.hint) } else { String::new() };
    let line = Line::from(vec![
        Span::styled(format!("/{typed}"), Style::new().bold()),
        Span::styled(" ", Modifier::REVERSED),
        Span::styled(hint, style(Tone::Quiet)),
    ]);
    frame.render_widget(line, area);
}

pub(super) fn draw(state: &State, dialog: &Dialog, frame: &mut Frame<'_>, area: Rect) {
    if dialog.kind == Kind::Search {
        return;
    }
    let (title, what) = words(&dialog.kind);
    let width = WIDTH.min(area.width);
    let inner = usize::from(width.saturating_sub(4));
    let mut lines = vec![Line::from(what)];
    lines.push(Line::default());
    for (at, field) in dialog.fields.iter().enumerate() {
        lines.extend(field_lines(field, at == dialog.at && !dialog.busy, inner));
    }
    let audit = format!("In the audit log it will be done by {}.", harmless(&state.who.name));
    lines.push(Line::from(Span::styled(audit, style(Tone::Quiet))));
    if let Some(error) = &dialog.error {
        lines.push(Line::from(Span::styled(error.clone(), style(Tone::Bad).bold())));
    }
    lines.push(Line::default());
    lines.push(Line::from(match (dialog.busy, dialog.fields.is_empty()) {
        (true, _) => "being done …",
        (false, true) => "y yes   n no",
        (false, false) => "Enter do it   Tab next field   Esc leave it",
    }));
    let text = Paragraph::new(lines).wrap(Wrap { trim: false });
    let height = wrapped_height(&text, width.saturating_sub(4)).saturating_add(2);
    let window = centred(area, width, height);
    frame.render_widget(Clear, window);
    let block = Block::bordered().title(Span::styled(format!(" {title} "), Style::new().bold()));
    let inside = block.inner(window);
    frame.render_widget(block, window);
    let inside = Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside };
    frame.render_widget(text, inside);
}

/// How many lines a text takes that is so wide.
pub(super) fn wrapped_height(text: &Paragraph<'_>, width: u16) -> u16 {
    // A paragraph does not tell how high it is: it is tried.
    let tried = Rect::new(0, 0, width.max(1), 40);
    let mut picture = ratatui::buffer::Buffer::empty(tried);
    ratatui::widgets::Widget::render(text.clone(), tried, &mut picture);
    let is_used = |y: u16| (0..tried.width).any(|x| picture[(x, y)].symbol() != " ");
    (0..tried.height).rev().find(|y| is_used(*y)).map_or(1, |y| y + 1)
}

/// The title, and what will be done.
fn words(kind: &Kind) -> (&'static str, String) {
    let key = |target: &Target| cut(&text::key(&target.key), 120);
    let rule = |target: &Target| rule_name(&target.rule);
    match kind {
        Kind::Search => ("search", String::new()),
        Kind::Reset(of) => (
            "reset this key?",
            format!(
                "{} will be as good as new on the rule {}, and no longer blocked there.",
                key(of),
                rule(of)
            ),
        ),
        Kind::Block(of) => (
            "block this key?",
            format!("{} will be refused by the rule {}, whatever is left.", key(of), rule(of)),
        ),
        Kind::Lift(of) => (
            "lift the block?",
            format!(
                "{} will be counted by the rule {} as before it was blocked.",
                key(of),
                rule(of)
            ),
        ),
        Kind::Override(of) => (
            "numbers of its own?",
            format!(
                "{} will have this limit on the rule {}. What an override gives it already \
                 stays, unless it is changed here.",
                key(of),
                rule(of)
            ),
        ),
        Kind::RemoveOverride(of) => (
            "remove the override?",
            format!("{} returns to the policy's limits and tier.", key(of)),
        ),
    }
}

fn field_lines(field: &Field, has_focus: bool, width: usize) -> [Line<'static>; 2] {
    let label = format!("{:>7}: ", field.label);
    let typed = end_of(&harmless(&field.text), width.saturating_sub(label.width() + 1));
    let cursor = if has_focus { Span::styled(" ", Modifier::REVERSED) } else { Span::raw("") };
    let look = if has_focus { Style::new().bold() } else { Style::new() };
    let hint = format!("{:>9}{}", "", field.hint);
    [
        Line::from(vec![Span::styled(label, look), Span::styled(typed, look), cursor]),
        Line::from(Span::styled(hint, style(Tone::Quiet))),
    ]
}

/// The end of what is typed, which is where somebody looks.
fn end_of(text: &str, width: usize) -> String {
    let mut shown = text;
    while shown.width() > width {
        let mut rest = shown.chars();
        rest.next();
        shown = rest.as_str();
    }
    shown.to_owned()
}

pub(super) fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}
