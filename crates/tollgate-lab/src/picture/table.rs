//! Tables, for a terminal and for a page.

use super::escape::escape;
use super::terminal::printable;

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// To the left.
    Words,
    /// To the right.
    Figures,
}

/// Rows of cells under names.
///
/// ```
/// use tollgate_lab::picture::{Column, Table};
///
/// let table = Table::new([("limit", Column::Words), ("admitted", Column::Figures)])
///     .row(["100/min", "100"])
///     .row(["5/s", "7"]);
/// assert_eq!(table.text(), "limit    admitted\n100/min       100\n5/s             7\n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    caption: String,
    columns: Vec<(String, Column)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Column)>) -> Table {
        let columns = columns.into_iter().map(|(name, column)| (name.into(), column)).collect();
        Table { caption: String::new(), columns, rows: Vec::new() }
    }

    /// What stands above it on a page.
    #[must_use]
    pub fn caption(mut self, text: impl Into<String>) -> Table {
        self.caption = text.into();
        self
    }

    /// One more row; cells without a column are left out.
    #[must_use]
    pub fn row<C: Into<String>>(mut self, cells: impl IntoIterator<Item = C>) -> Table {
        self.push(cells);
        self
    }

    /// Adds a row.
    pub fn push<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).take(self.columns.len()).collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in lines of text, the names first, two spaces between columns.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let lines: Vec<Vec<String>> = std::iter::once(&names)
            .chain(&self.rows)
            .map(|cells| cells.iter().map(|cell| printable(cell)).collect())
            .collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|cells| cells.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for cells in &lines {
            let each = cells.iter().zip(&widths).zip(&self.columns);
            let line: Vec<String> = each
                .map(|((cell, width), (_, column))| match column {
                    Column::Words => format!("{cell:<width$}"),
                    Column::Figures => format!("{cell:>width$}"),
                })
                .collect();
            text.push_str(line.join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// The table as HTML.
    pub(super) fn html(&self) -> String {
        let mut html = String::from("<div class=\"wide\"><table>");
        if !self.caption.is_empty() {
            html += &format!("<caption>{}</caption>", escape(&self.caption));
        }
        html += "<thead><tr>";
        for (name, column) in &self.columns {
            html += &format!("<th scope=\"col\"{}>{}</th>", class(*column), escape(name));
        }
        html += "</tr></thead>\n<tbody>\n";
        for cells in &self.rows {
            html += "<tr>";
            for (cell, (_, column)) in cells.iter().zip(&self.columns) {
                html += &format!("<td{}>{}</td>", class(*column), escape(cell));
            }
            html += "</tr>\n";
        }
        html + "</tbody></table></div>\n"
    }
}

fn class(column: Column) -> &'static str {
    match column {
        Column::Words => "",
        Column::Figures => " class=\"figure\"",
    }
}
