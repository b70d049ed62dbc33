//! A table with a title and perhaps a selected row, scrolled to where that is seen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::style;
use crate::top::table::{SPACE, Table, Tone, cut, fitted};

pub(super) struct Grid<'a> {
    pub(super) title: &'a str,
    /// What is said where there is no row.
    pub(super) empty: &'a str,
    pub(super) table: &'a Table,
    pub(super) selected: Option<usize>,
    pub(super) has_focus: bool,
}

impl Grid<'_> {
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut lines = area.rows();
        if let Some(line) = lines.next() {
            frame.render_widget(self.title_line(line.width), line);
        }
        if self.table.rows.is_empty() {
            if let Some(line) = lines.next() {
                let text = cut(self.empty, usize::from(line.width));
                frame.render_widget(Span::styled(text, style(Tone::Quiet)), line);
            }
            return;
        }
        let columns = self.table.fit(usize::from(area.width));
        if let Some(line) = lines.next() {
            let titles = columns.iter().map(|(at, width)| {
                let column = self.table.columns[*at];
                fitted(column.title, *width, column.is_number)
            });
            let titles = titles.collect::<Vec<_>>().join(&" ".repeat(SPACE));
            frame.render_widget(Span::styled(titles, style(Tone::Quiet)), line);
        }
        let visible = usize::from(area.height.saturating_sub(2)).max(1);
        let selected = self.selected.unwrap_or_default();
        let first = (selected + 1).saturating_sub(visible);
        let rows = self.table.rows.iter().enumerate().skip(first);
        for ((at, row), line) in rows.zip(lines) {
            let mut spans = Vec::new();
            for (place, (column, width)) in columns.iter().enumerate() {
                if place > 0 {
                    spans.push(Span::raw(" ".repeat(SPACE)));
                }
                let (cell, is_number) = (&row[*column], self.table.columns[*column].is_number);
                let text = fitted(&cell.text, *width, is_number);
                spans.push(Span::styled(text, style(cell.tone)));
            }
            frame.render_widget(Line::from(spans), line);
            if self.selected == Some(at) {
                frame.buffer_mut().set_style(line, Modifier::REVERSED);
            }
        }
    }

    /// `── title ─────`, with `▸` at the table that keys move in.
    fn title_line(&self, width: u16) -> Line<'static> {
        let mark = if self.has_focus { "▸" } else { "─" };
        let title = cut(self.title, usize::from(width).saturating_sub(4));
        let used = title.chars().count() + 4;
        let line = "─".repeat(usize::from(width).saturating_sub(used));
        let bold = if self.has_focus { Style::new().bold() } else { Style::new() };
        Line::from(vec![
            Span::styled(format!("─{mark} "), bold),
            Span::styled(title, bold),
            Span::styled(format!(" {line}"), style(Tone::Quiet)),
        ])
    }
}
