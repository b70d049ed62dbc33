//! A report: one page of HTML that asks nobody for anything and needs no scripts.

use super::chart::Chart;
use super::escape::escape;
use super::ranking::Ranking;
use super::svg::STYLE as CHART_STYLE;
use super::table::Table;

const STYLE: &str = include_str!("html.css");

/// One number that matters, with its name and a word on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    name: String,
    value: String,
    note: String,
}

/// A page, from top to bottom. Readable on a phone, in light and in dark.
///
/// ```
/// use tollgate_lab::picture::{Chart, Figure, Report};
///
/// let page = Report::new("What 100/min lets through", "Sixty seconds, 20 requests a second.")
///     .figures([Figure::new("admitted", "119"), Figure::new("refused", "1,081").note("90%")])
///     .charts([Chart::new("requests")])
///     .html();
/// assert!(page.starts_with("<!doctype html>"));
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    lead: String,
    body: String,
}

impl Figure {
    /// A number with its name.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Figure {
        Figure { name: name.into(), value: value.into(), note: String::new() }
    }

    /// A word on it, below.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Figure {
        self.note = text.into();
        self
    }
}

impl Report {
    /// A page with a title and a sentence below.
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Report {
        Report { title: title.into(), lead: lead.into(), body: String::new() }
    }

    /// The title of what follows.
    #[must_use]
    pub fn heading(self, text: &str) -> Report {
        self.add(&format!("<h2>{}</h2>\n", escape(text)))
    }

    /// A paragraph.
    #[must_use]
    pub fn text(self, text: &str) -> Report {
        self.add(&format!("<p>{}</p>\n", escape(text)))
    }

    /// Lines as they are: a command, a file.
    #[must_use]
    pub fn verbatim(self, text: &str) -> Report {
        let lines: Vec<String> = text.lines().map(escape).collect();
        self.add(&format!("<pre>{}</pre>\n", lines.join("\n")))
    }

    /// Numbers, large and side by side.
    #[must_use]
    pub fn figures(self, figures: impl IntoIterator<Item = Figure>) -> Report {
        let mut html = String::from("<dl class=\"tiles\">\n");
        for figure in figures {
            let note = match figure.note.as_str() {
                "" => String::new(),
                note => format!("<small>{}</small>", escape(note)),
            };
            html += &format!(
                "<div><dt>{}</dt><dd>{}{note}</dd></div>\n",
                escape(&figure.name),
                escape(&figure.value)
            );
        }
        self.add(&(html + "</dl>\n"))
    }

    /// Charts, side by side where there is room.
    #[must_use]
    pub fn charts(self, charts: impl IntoIterator<Item = Chart>) -> Report {
        let charts: Vec<String> = charts.into_iter().map(|chart| chart.svg_inline()).collect();
        self.pictures(&charts)
    }

    /// Rankings, side by side where there is room.
    #[must_use]
    pub fn rankings(self, rankings: impl IntoIterator<Item = Ranking>) -> Report {
        let rankings: Vec<String> =
            rankings.into_iter().map(|ranking| ranking.svg_inline()).collect();
        self.pictures(&rankings)
    }

    /// A table; on a small screen it can be moved sideways.
    #[must_use]
    pub fn table(self, table: &Table) -> Report {
        self.add(&table.html())
    }

    /// The page.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}{CHART_STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class=\"lead\">{}</p>\n{}</main>\n\
             <footer>Made by tollgate {}.</footer>\n</body>\n</html>\n",
            escape(&self.lead),
            self.body,
            env!("CARGO_PKG_VERSION")
        )
    }

    fn pictures(self, pictures: &[String]) -> Report {
        self.add(&format!("<div class=\"pictures\">\n{}\n</div>\n", pictures.join("\n")))
    }

    fn add(mut self, html: &str) -> Report {
        self.body.push_str(html);
        self
    }
}
