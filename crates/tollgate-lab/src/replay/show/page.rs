//! A report as a page.

use super::pictures::{clients, over_time, suggestion};
use super::tables;
use super::words::{count, keys_refused, lead, notes, share};
use crate::picture::{Figure, Report as Page, Table, Tone};
use crate::replay::report::{AgainstReport, Report};

/// How many limits have a picture of their own: more would bury the rest.
const PICTURED: usize = 8;

pub(super) fn page(report: &Report) -> String {
    let mut page =
        Page::new("What the policy would have done", lead(report)).figures(figures(report));
    for note in notes(report) {
        page = page.text(&note);
    }
    page = page.charts([over_time(report)]);
    page = section(page, "Rules", &tables::rules(report));
    page = section(page, "Lists", &tables::lists(report));
    page = section(page, "Tiers", &tables::tiers(report));
    if !report.clients.top.is_empty() {
        page = page
            .heading("Refused most")
            .rankings([clients("keys refused most", ("refused", Tone::Bad), &report.clients.top)])
            .table(&tables::clients(&report.clients.top, "refused"));
    }
    page = suggestions(page, report);
    if let Some(of) = &report.against {
        page = against(page, of);
    }
    page = section(page, "Malformed lines", &tables::malformed(report));
    page.html()
}

fn figures(report: &Report) -> Vec<Figure> {
    let of_all = |number| share(number, report.requests);
    let mut figures = vec![
        Figure::new("requests", count(report.requests)),
        Figure::new("allowed", count(report.allowed)).note(of_all(report.allowed)),
        Figure::new("refused", count(report.refused)).note(of_all(report.refused)),
        Figure::new("keys refused", keys_refused(report).replace(" keys", "").replace(" key", "")),
    ];
    if report.wrong > 0 {
        figures.push(Figure::new("never allowed", count(report.wrong)).note("by their cost"));
    }
    if report.malformed.lines > 0 {
        let of_lines = share(report.malformed.lines, report.lines);
        figures.push(Figure::new("malformed", count(report.malformed.lines)).note(of_lines));
    }
    figures
}

fn section(page: Page, title: &str, table: &Table) -> Page {
    if table.is_empty() { page } else { page.heading(title).table(table) }
}

fn suggestions(page: Page, report: &Report) -> Page {
    if report.suggestions.is_empty() {
        return page;
    }
    page.heading("Other numbers")
        .text(
            "The smallest round limit that would have refused at most 0.1, 1 or 5 % of the requests \
             that its rule applies to, were it the only limit.",
        )
        .table(&tables::suggestions(report))
        .charts(report.suggestions.iter().take(PICTURED).map(suggestion))
}

fn against(page: Page, of: &AgainstReport) -> Page {
    let mut page = page.heading("Compared with the other policy").figures([
        Figure::new("newly refused", count(of.newly_refused)),
        Figure::new("newly allowed", count(of.newly_allowed)),
        Figure::new("refused by the other", count(of.refused_before)),
    ]);
    if !of.rules.is_empty() {
        page = page.table(&tables::differences(of));
    }
    let most = [
        ("newly refused most", ("refused", Tone::Bad), &of.refused_clients),
        ("newly allowed most", ("allowed", Tone::Good), &of.allowed_clients),
    ];
    for (title, part, of) in most {
        if !of.is_empty() {
            page = page.rankings([clients(title, part, of)]).table(&tables::clients(of, part.0));
        }
    }
    page
}
