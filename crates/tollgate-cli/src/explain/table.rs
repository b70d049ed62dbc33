//! The answer for people.

use std::io::{self, Write};

use tollgate::{Reason, RuleExplanation, RuleMatch, Ruling};

use super::json::{source, tier_source};
use super::{Explained, why};
use crate::duration::human;
use crate::paint::{Paint, Tone, printable};
use crate::{moment, words};

const HEADINGS: [&str; 7] = ["rule", "applies", "key", "cost", "limit", "from", "why"];

pub(super) fn write(
    out: &mut impl Write,
    paint: Paint,
    explained: &Explained<'_>,
) -> io::Result<()> {
    let lines =
        [("request", request(explained)), ("tier", tier(explained)), ("list", list(explained))];
    for (label, text) in lines {
        let label = paint.text(Tone::Quiet, &format!("{label:<8}"));
        writeln!(out, "{label}  {}", printable(&text))?;
    }
    writeln!(out)?;
    rules(out, paint, &explained.explanation.rules)?;
    let (tone, words) = decision(&explained.ruling);
    let label = paint.text(Tone::Quiet, "decision");
    writeln!(out, "\n{label}  {}", paint.text(tone, &printable(&words)))
}

fn request(explained: &Explained<'_>) -> String {
    let attributes = explained.request.attributes().iter();
    let known: Vec<_> = attributes.map(|(name, value)| format!("{name}={value}")).collect();
    let known = if known.is_empty() { "nothing is known".to_owned() } else { known.join(" ") };
    format!("{known}, cost {}, at {}", explained.request.units(), moment::write(explained.at))
}

fn tier(explained: &Explained<'_>) -> String {
    let explanation = &explained.explanation;
    match (&explanation.tier, tier_source(explanation.tier_source)) {
        (Some(tier), Some("default")) => format!("{tier}, the policy's default"),
        (Some(tier), Some("override")) => format!("{tier}, from an override of the policy file"),
        (Some(tier), _) => format!("{tier}, from the request"),
        (None, _) => "none".to_owned(),
    }
}

fn list(explained: &Explained<'_>) -> String {
    match &explained.explanation.list {
        Some((name, true)) => format!("{name}, which passes whatever the limits say"),
        Some((name, false)) => format!("{name}, which never passes"),
        None => "none holds it".to_owned(),
    }
}

fn rules(out: &mut impl Write, paint: Paint, reports: &[RuleExplanation]) -> io::Result<()> {
    if reports.is_empty() {
        return writeln!(out, "the policy has no rules");
    }
    let rows: Vec<[String; 7]> = reports.iter().map(cells).collect();
    let mut widths = HEADINGS.map(|heading| heading.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let headings = HEADINGS.map(str::to_owned);
    writeln!(out, "{}", paint.text(Tone::Heading, &line(&headings, &widths)))?;
    for (row, report) in rows.iter().zip(reports) {
        let tone = if report.verdict == RuleMatch::Applies { Tone::Good } else { Tone::Quiet };
        writeln!(out, "{}", paint.text(tone, &line(row, &widths)))?;
    }
    Ok(())
}

fn cells(report: &RuleExplanation) -> [String; 7] {
    let applies = report.verdict == RuleMatch::Applies;
    let key: Vec<_> = report.key.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let key = match applies {
        true if key.is_empty() => "everybody".to_owned(),
        true => key.join(" "),
        false => "-".to_owned(),
    };
    let note = match (report.shadow, report.leased) {
        (true, _) => "only reports (shadow)",
        (false, true) => "leased: nodes with a shared store spend units that they borrow",
        (false, false) => "",
    };
    [
        report.rule.clone(),
        if applies { "yes" } else { "no" }.to_owned(),
        key,
        report.cost.map_or("-".to_owned(), |cost| cost.to_string()),
        words::numbers(&report.numbers),
        source(report.source).to_owned(),
        why(&report.verdict).unwrap_or_else(|| note.to_owned()),
    ]
    .map(|cell| printable(&cell.replace('\n', "\\n")))
}

fn line(cells: &[String; 7], widths: &[usize; 7]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line += &format!("{cell:<width$}  ");
    }
    line.truncate(line.trim_end().len());
    line
}

fn decision(ruling: &Ruling) -> (Tone, String) {
    let rule = ruling.decided_by_name().unwrap_or_default();
    let tone = if ruling.is_allowed() { Tone::Good } else { Tone::Bad };
    let words = match ruling.reason() {
        Reason::NoRule => "allowed, no rule limits it".to_owned(),
        Reason::AllowList => format!("allowed by the list {rule:?}"),
        Reason::DenyList => format!("denied by the list {rule:?}"),
        Reason::InvalidRequest => {
            let error = ruling.error().map(|error| error.to_string());
            format!("an error: {}", error.unwrap_or_default())
        }
        _ if ruling.is_allowed() => {
            let delay = match ruling.delay() {
                none if none.is_zero() => String::new(),
                delay => format!(", after a delay of {}", human(delay)),
            };
            let left = format!("{} of {} remain", ruling.remaining(), ruling.limit());
            let new = human(ruling.reset_after());
            format!("allowed{delay}; {rule:?} decides: {left}, as good as new after {new}")
        }
        _ => {
            let retry = ruling.retry_after().map_or("never".to_owned(), human);
            format!("denied by {rule:?}, retry after {retry}")
        }
    };
    (tone, words)
}
