//! Numbers and sentences.

use crate::picture::{Column, Table, printable};
use crate::replay::report::{AgainstReport, ClientReport, Malformed, Report};

/// How many limits are named that nothing is suggested for.
const SHOWN_NOT_SUGGESTED: usize = 10;

/// A number with a comma every three digits.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of a whole, with two decimals. What is not nothing is not told as nothing, nor what is
/// not all as all.
pub(super) fn share(part: u64, whole: u64) -> String {
    let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
    let hundredths = (part * 10_000 + whole / 2) / whole;
    match hundredths {
        0 if part > 0 => "<0.01%".to_owned(),
        10_000.. if part < whole => ">99.99%".to_owned(),
        _ => format!("{}.{:02}%", hundredths / 100, hundredths % 100),
    }
}

pub(super) fn plural(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// What was read, and from when to when.
pub(super) fn lead(report: &Report) -> String {
    let logs = match report.logs.as_slice() {
        [log] => log.clone(),
        logs => format!("{} logs", logs.len()),
    };
    let formats = report.formats.join(" and ");
    let formats = if formats.is_empty() { formats } else { format!(" ({formats})") };
    let lines = plural(report.lines, "line");
    match (&report.from, &report.to) {
        (Some(from), Some(to)) => format!("{logs}{formats}: {lines}, {from} to {to}"),
        _ => format!("{logs}{formats}: {lines}, no requests"),
    }
}

/// How many of how many keys are refused.
pub(super) fn keys_refused(report: &Report) -> String {
    let least = if report.clients.exact { "" } else { "at least " };
    format!("{least}{}", plural(report.clients.refused, "key"))
}

pub(super) fn summary(report: &Report) -> String {
    let columns =
        [("", Column::Words), ("", Column::Figures), ("", Column::Figures), ("", Column::Words)];
    let mut table = Table::new(columns);
    let mut row = |name: &str, number: u64, note: String| {
        table.push([name.to_owned(), count(number), share(number, report.requests), note]);
    };
    let unlimited = match report.unlimited {
        0 => String::new(),
        some => format!("{} with no rule for them", count(some)),
    };
    row("requests", report.requests, String::new());
    row("allowed", report.allowed, unlimited);
    row(
        "refused",
        report.refused,
        if report.refused > 0 { keys_refused(report) } else { String::new() },
    );
    if report.wrong > 0 {
        row(
            "never",
            report.wrong,
            "their cost is more than a limit holds, or makes no sense".into(),
        );
    }
    let mut text =
        format!("{}\n\n{}", printable(&lead(report)), table.text().trim_start_matches('\n'));
    if report.malformed.lines > 0 {
        text += &format!("{}, see below\n", plural(report.malformed.lines, "malformed line"));
    }
    text
}

pub(super) fn key(client: &ClientReport) -> String {
    if client.key.is_empty() {
        return "everybody".to_owned();
    }
    let parts = client.key.iter().map(|(name, value)| format!("{name}={value}"));
    parts.collect::<Vec<_>>().join(" ")
}

/// About how many, where some may be another key's.
pub(super) fn refused(client: &ClientReport) -> String {
    match client.over {
        0 => count(client.refused),
        over => format!("{} to {}", count(client.refused - over), count(client.refused)),
    }
}

/// Keys with the first line of each; `what` is what is counted.
pub(super) fn clients(clients: &[ClientReport], what: &str) -> String {
    if clients.is_empty() {
        return String::new();
    }
    let columns = [("rule", Column::Words), ("key", Column::Words), (what, Column::Figures)];
    let columns = columns.into_iter().chain([("first", Column::Words), ("last", Column::Words)]);
    let mut table = Table::new(columns);
    for client in clients {
        let (first, last) = (client.first.clone(), client.last.clone());
        table.push([client.rule.clone(), key(client), refused(client), first, last]);
    }
    // The table has a line for the names, and then one for each client.
    let mut text = String::new();
    for (at, line) in table.text().lines().enumerate() {
        text += &format!("{line}\n");
        if let Some(client) = at.checked_sub(1).and_then(|at| clients.get(at)) {
            let example = &client.example;
            let line = format!("{}:{}: {}", example.log, example.line, example.text);
            text += &format!("    {}\n", printable(&line));
        }
    }
    text
}

pub(super) fn against(against: &AgainstReport) -> String {
    let mut text = format!(
        "newly refused  {}\nnewly allowed  {}\nit refuses     {}\n",
        count(against.newly_refused),
        count(against.newly_allowed),
        count(against.refused_before)
    );
    if !against.rules.is_empty() {
        text += &format!("\n{}", super::tables::differences(against).text());
    }
    text
}

pub(super) fn malformed(malformed: &Malformed) -> String {
    let lines = malformed.first.iter().map(|line| {
        printable(&format!("{}:{}: {}: {}", line.log, line.line, line.why, line.text)) + "\n"
    });
    let shown: String = lines.collect();
    let rest = malformed.lines.saturating_sub(malformed.first.len() as u64);
    if rest > 0 { format!("{shown}and {} more\n", count(rest)) } else { shown }
}

/// What should be known before the figures are believed.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if !report.absent.is_empty() {
        notes.push(format!(
            "no line has {}, which the policy asks about: name the fields with --field",
            report.absent.join(", ")
        ));
    }
    let order = &report.order;
    if order.late > 0 {
        let micros = std::time::Duration::from_micros(order.latest_micros);
        notes.push(format!(
            "{} came too late to be put in order (up to {micros:?}) and were decided at the time then reached: use --reorder with a longer time, or --sort",
            plural(order.late, "line")
        ));
    }
    if order.hurried > 0 {
        notes.push(format!(
            "{} did not wait for others as long as asked, since too much was waiting",
            plural(order.hurried, "line")
        ));
    }
    if report.evictions > 0 {
        notes.push(format!(
            "{} made room for others: more would have been refused, use --max-keys with more",
            plural(report.evictions, "live key")
        ));
    }
    for of in report.suggestions.iter().filter(|of| of.one_key_in > 1) {
        notes.push(format!(
            "the limits suggested for {} of {:?} rest on one key in {}",
            of.limit, of.rule, of.one_key_in
        ));
    }
    let not_suggested = &report.not_suggested;
    for of in not_suggested.iter().take(SHOWN_NOT_SUGGESTED) {
        notes.push(format!("nothing is suggested for {} of {:?}: {}", of.limit, of.rule, of.why));
    }
    if not_suggested.len() > SHOWN_NOT_SUGGESTED {
        let rest = not_suggested.len() - SHOWN_NOT_SUGGESTED;
        notes.push(format!("nothing is suggested for {}", plural(rest as u64, "more limit")));
    }
    notes.iter().map(|note| printable(note)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_easy_to_read() {
        let written = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in written {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn a_share_is_never_told_as_nothing_or_all_where_it_is_not() {
        let written = [
            ((0, 0), "0.00%"),
            ((0, 10), "0.00%"),
            ((1, 3), "33.33%"),
            ((2, 3), "66.67%"),
            ((3, 3), "100.00%"),
            ((1, 1_000_000), "<0.01%"),
            ((999_999, 1_000_000), ">99.99%"),
            ((u64::MAX, u64::MAX), "100.00%"),
        ];
        for ((part, whole), text) in written {
            assert_eq!(share(part, whole), text);
        }
    }
}
