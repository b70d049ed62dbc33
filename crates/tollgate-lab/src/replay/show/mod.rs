//! A report as people see it: sections of text with a chart of characters, or a page of HTML.

mod page;
mod pictures;
mod tables;
mod words;

use super::report::Report;
use crate::picture::Screen;

/// A part of a report, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it is about; empty for the first.
    pub title: String,
    /// Its lines. Nothing in them is a control character but the ends of lines, and the colours of
    /// a chart on a screen that has them.
    pub text: String,
}

impl Report {
    /// The report in sections of text, for a screen.
    pub fn sections(&self, screen: Screen) -> Vec<Section> {
        let mut sections = Vec::new();
        let mut add = |title: &str, text: String| {
            if !text.is_empty() {
                sections.push(Section { title: title.to_owned(), text });
            }
        };
        let table = |table: crate::picture::Table| match table.is_empty() {
            true => String::new(),
            false => table.text(),
        };
        add("", words::summary(self));
        if self.refused > 0 {
            add("when", pictures::over_time(self).terminal(screen.rows(8)));
        }
        add("rules", table(tables::rules(self)));
        add("lists", table(tables::lists(self)));
        add("tiers", table(tables::tiers(self)));
        add("refused most", words::clients(&self.clients.top, "refused"));
        add("limits that refuse at most", suggestions(self));
        if let Some(against) = &self.against {
            add("compared with the other policy", words::against(against));
            add("newly refused most", words::clients(&against.refused_clients, "refused"));
            add("newly allowed most", words::clients(&against.allowed_clients, "allowed"));
        }
        add("malformed lines", words::malformed(&self.malformed));
        add("notes", words::notes(self).iter().map(|note| format!("- {note}\n")).collect());
        sections
    }

    /// The report as one page of HTML, with pictures.
    pub fn html(&self) -> String {
        page::page(self)
    }
}

fn suggestions(report: &Report) -> String {
    let table = tables::suggestions(report);
    if table.is_empty() { String::new() } else { table.text() }
}
