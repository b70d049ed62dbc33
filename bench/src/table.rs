//! The tables, a hundred columns wide at most.

use std::fmt::Write;

use crate::peers::Who;
use crate::report::{Bytes, Pair, Ratio, Report, Row, Section, keys_name};

/// How many peers fit beside each other.
const ACROSS: usize = 5;

pub(crate) fn print(report: &Report) {
    let of = |section| report.rows.iter().filter(move |row| row.section == section);
    let decisions: Vec<&Row> = of(Section::Decisions).collect();
    let (hot, keyed): (Vec<&Row>, Vec<&Row>) =
        decisions.into_iter().partition(|row| row.scenario.keys == 1);
    section("One decision, one hot key: peer / ours, above 1 ours is faster", &across(&hot));
    section("One decision, many keys: peer / ours, above 1 ours is faster", &across(&keyed));
    section("Batches of 256: single calls / ours with check_many", &down(of(Section::Batch)));
    section("Three limits at once (same key, one store)", &down(of(Section::Three)));
    let tails: Vec<&Row> = of(Section::Tails).collect();
    section("Single calls on a hot key, timer included: peer / ours", &across(&tails));
    section("Bytes per key, keys of 16 bytes", &bytes(&report.bytes));
    section("Notes", &report.notes.join("\n"));
}

fn section(title: &str, body: &str) {
    if !body.is_empty() {
        println!("{title}\n{}\n", body.trim_end());
    }
}

/// A line for each row, the peers beside each other.
fn across(rows: &[&Row]) -> String {
    let mut peers: Vec<&str> = Vec::new();
    for pair in rows.iter().flat_map(|row| &row.pairs) {
        if !peers.contains(&pair.peer) {
            peers.push(pair.peer);
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for peers in peers.chunks(ACROSS) {
        let short = format!("{:.3}.", peers[0]);
        let names: String = peers.iter().map(|peer| format!("  {peer:<12}")).collect();
        lines.push(format!("{:<18} {:>5} {short:>5}{names}", "", "ours"));
        let titles = format!("  {:<4} {:<7}", "x", "p10-90").repeat(peers.len());
        lines.push(format!("{:<18} {:>5} {:>5}{titles}", "keys", "ns", "ns"));
        lines.extend(rows.iter().map(|row| line_across(row, peers)));
        lines.push(String::new());
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn line_across(row: &Row, peers: &[&str]) -> String {
    let find = |peer: &str| row.pairs.iter().find(|pair| pair.peer == peer);
    let (ours, first) = match find(peers[0]) {
        Some(pair) => (nanos(pair.ours_median()), nanos(pair.peer_median())),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let mut line = format!("{:<18} {ours:>5} {first:>5}", label(row));
    for peer in peers {
        let cell = find(peer).map_or("-".to_owned(), |pair| cell(pair.ratio()));
        let _ = write!(line, "  {cell:<12}");
    }
    line
}

fn label(row: &Row) -> String {
    let at = &row.scenario;
    let (keys, traffic) = (at.keys_name(), at.traffic.name());
    match row.quantile {
        Some(quantile) => format!("{keys} {traffic:<5} {}t {quantile}", at.threads),
        None => format!("{keys:<4} {:<4} {traffic:<5} {}t", at.spread_name(), at.threads),
    }
}

/// A line for each pair.
fn down<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut text = String::new();
    for row in rows {
        for (index, pair) in row.pairs.iter().enumerate() {
            if text.is_empty() {
                text = format!("{:<19} {:<23} {:>13}   x    p10-90\n", "keys", "", "ns / ns");
            }
            let label = if index == 0 { label(row) } else { String::new() };
            let who = format!("{} / {}", pair.peer, pair.ours);
            let both = format!("{} / {}", nanos(pair.peer_median()), nanos(pair.ours_median()));
            let (ratio, note) = (cell(pair.ratio()), per_limit(pair));
            let _ = writeln!(text, "{label:<19} {who:<23} {both:>13}   {ratio:<12}{note}");
        }
    }
    text
}

/// Three limits beside one: what each costs.
fn per_limit(pair: &Pair) -> String {
    if pair.peer != Who::OursThree.name() || pair.ours == Who::OursApart.name() {
        return String::new();
    }
    format!("   {:.2} per limit", pair.ratio().median / 3.0)
}

fn bytes(all: &[Bytes]) -> String {
    let mut text = String::new();
    for bytes in all {
        if text.is_empty() {
            text = format!("{:<5} {:<15} {:>10} {:>10}\n", "keys", "", "allocated", "resident");
        }
        let resident = bytes.resident.map_or("-".to_owned(), |bytes| format!("{bytes:.1}"));
        let (keys, who, heap) = (keys_name(bytes.keys), bytes.who, bytes.heap);
        let _ = writeln!(text, "{keys:<5} {who:<15} {heap:>10.1} {resident:>10}");
    }
    text
}

/// Three digits for the median, two for the spread.
fn cell(ratio: Ratio) -> String {
    let median = match ratio.median {
        ..10.0 => format!("{:.2}", ratio.median),
        10.0..100.0 => format!("{:.1}", ratio.median),
        _ => format!("{:.0}", ratio.median),
    };
    let end = |ratio: f64| if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") };
    format!("{median:<4} {}-{}", end(ratio.p10), end(ratio.p90))
}

fn nanos(nanos: f64) -> String {
    match nanos {
        ..100.0 => format!("{nanos:.1}"),
        100.0..100_000.0 => format!("{nanos:.0}"),
        _ => format!("{:.0}k", nanos / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Traffic;
    use crate::report::Scenario;
    use crate::stream::Spread;

    #[test]
    fn the_widest_line_fits_into_a_hundred_columns() {
        let (keys, spread, traffic) = (10_000_000, Spread::Zipf, Traffic::Allowed);
        let mut row = Row::new(Section::Decisions, Scenario { keys, spread, traffic, threads: 2 });
        for peer in ["governor", "governor u64", "throttlecrab", "limitador", "naive", "more"] {
            let (peer_nanos, ours_nanos) = (vec![90_000.0, 99_000.0, 99_999.0], vec![101.0; 3]);
            row.pairs.push(Pair { peer, ours: "ours", peer_nanos, ours_nanos });
        }
        let text = across(&[&row]) + &down(std::iter::once(&row));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{widest:?}\n{text}");
    }

    #[test]
    fn a_cell_keeps_three_digits() {
        let cell = |median| cell(Ratio { median, p10: 9.0, p90: 11.0 });
        assert_eq!([1.234, 12.34, 123.4].map(cell), ["1.23 9.0-11", "12.3 9.0-11", "123  9.0-11"]);
    }
}
