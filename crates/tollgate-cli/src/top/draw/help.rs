//! The keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::dialog::centred;

const KEYS: [(&str, &str); 13] = [
    ("up down j k", "select; PgUp PgDn g G farther"),
    ("Tab", "next table: refused, hottest, rules"),
    ("Enter", "status of the key under every rule; on a rule: its rates"),
    ("/", "search: part of a key, or user=42 route=/search"),
    ("r", "reset: restore the full quota, remove the block"),
    ("b", "block for a time; unblock a blocked key"),
    ("u", "unblock"),
    ("o", "override: a custom limit or tier, for a time"),
    ("x", "remove the override"),
    ("p", "pause: freeze the display"),
    ("Esc", "back"),
    ("?", "this"),
    ("q Ctrl-C", "leave"),
];

const NOTE: &str = "r b u o x need a write token and ask for confirmation";

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect) {
    let mut lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, what)| {
            let key = Span::styled(format!(" {key:<12}"), Style::new().bold());
            Line::from(vec![key, Span::raw(*what)])
        })
        .collect();
    lines.push(Line::default());
    lines.push(Line::from(format!(" {NOTE}")));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let window = centred(area, 72, height);
    frame.render_widget(Clear, window);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), window);
}
