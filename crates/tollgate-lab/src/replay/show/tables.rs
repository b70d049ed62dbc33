//! The tables of a report, for a terminal and for a page.

use super::words::{count, key, refused, share};
use crate::picture::{Column, Table};
use crate::replay::report::{AgainstReport, ClientReport, Report, Smallest, Suggestion};

use Column::{Figures, Words};

pub(super) fn rules(report: &Report) -> Table {
    let mut table = Table::new([
        ("rule", Words),
        ("requests", Figures),
        ("refused", Figures),
        ("of its requests", Figures),
        ("", Words),
    ]);
    for rule in &report.rules {
        let mut notes = Vec::new();
        if rule.shadow {
            notes.push(format!("shadow: would refuse {}", count(rule.says_no)));
        } else if rule.says_no > rule.refused {
            let more = rule.says_no - rule.refused;
            notes.push(format!("{} more that another rule refuses", count(more)));
        }
        if rule.blocked > 0 {
            notes.push(format!("{} of them blocked", count(rule.blocked)));
        }
        let refused = if rule.shadow { rule.says_no } else { rule.refused };
        table.push([
            rule.rule.clone(),
            count(rule.requests),
            if rule.shadow { "-".to_owned() } else { count(rule.refused) },
            share(refused, rule.requests),
            notes.join(", "),
        ]);
    }
    table
}

pub(super) fn lists(report: &Report) -> Table {
    let mut table = Table::new([("list", Words), ("requests", Figures), ("", Words)]);
    for list in &report.lists {
        let passes = if list.passes { "pass" } else { "are refused" };
        table.push([list.list.clone(), count(list.requests), passes.to_owned()]);
    }
    table
}

pub(super) fn tiers(report: &Report) -> Table {
    let columns = [
        ("tier", Words),
        ("requests", Figures),
        ("refused", Figures),
        ("of its requests", Figures),
    ];
    let mut table = Table::new(columns);
    for tier in &report.tiers {
        table.push([
            tier.tier.clone().unwrap_or_else(|| "(none)".to_owned()),
            count(tier.requests),
            count(tier.refused),
            share(tier.refused, tier.requests),
        ]);
    }
    table
}

pub(super) fn suggestions(report: &Report) -> Table {
    let shares = report.suggestions.first().map_or(&[][..], |of| of.smallest.as_slice());
    let mut columns = vec![
        ("rule".to_owned(), Words),
        ("in force".to_owned(), Words),
        ("refuses alone".to_owned(), Figures),
    ];
    columns.extend(shares.iter().map(|of| (per_thousand(of.per_thousand), Words)));
    let mut table = Table::new(columns);
    for of in &report.suggestions {
        let mut cells = vec![of.rule.clone(), of.limit.clone(), share(of.refused, of.requests)];
        cells.extend(of.smallest.iter().map(|smallest| found(smallest, of)));
        table.push(cells);
    }
    table
}

/// `0.1%` of one in a thousand.
fn per_thousand(share: u64) -> String {
    match share % 10 {
        0 => format!("{}%", share / 10),
        tenths => format!("{}.{tenths}%", share / 10),
    }
}

fn found(smallest: &Smallest, of: &Suggestion) -> String {
    let largest = || of.tried.last().map(|tried| tried.limit.as_str()).unwrap_or_default();
    // Below a count of one there is nothing.
    let is_lowest = |limit: &str| {
        of.tried.first().is_some_and(|lowest| lowest.limit == limit && lowest.count > 1)
    };
    match &smallest.limit {
        Some(limit) if is_lowest(limit) => format!("{limit} or less"),
        Some(limit) => limit.clone(),
        None => format!("more than {}", largest()),
    }
}

/// Keys with the first line of each; `what` is what is counted.
pub(super) fn clients(clients: &[ClientReport], what: &str) -> Table {
    let mut table = Table::new([
        ("rule", Words),
        ("key", Words),
        (what, Figures),
        // Figures are not broken into lines.
        ("first", Figures),
        ("last", Figures),
        ("its first line", Words),
    ]);
    for client in clients {
        let example = &client.example;
        table.push([
            client.rule.clone(),
            key(client),
            refused(client),
            client.first.clone(),
            client.last.clone(),
            format!("{}:{}: {}", example.log, example.line, example.text),
        ]);
    }
    table
}

pub(super) fn differences(against: &AgainstReport) -> Table {
    let columns = [("rule", Words), ("newly refused", Figures), ("newly allowed", Figures)];
    let mut table = Table::new(columns);
    for rule in &against.rules {
        table.push([rule.rule.clone(), count(rule.newly_refused), count(rule.newly_allowed)]);
    }
    table
}

pub(super) fn malformed(report: &Report) -> Table {
    let mut table = Table::new([("line", Words), ("what is wrong", Words), ("text", Words)]);
    for line in &report.malformed.first {
        let place = format!("{}:{}", line.log, line.line);
        table.push([place, line.why.clone(), line.text.clone()]);
    }
    table
}
