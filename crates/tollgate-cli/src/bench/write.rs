//! What was measured, for people.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::HumanCount;
use tollgate_lab::picture::{Column, Ranking, Screen, Table, Tone as Part, Unit, printable};

use super::report::{Latency, Rate, Report};
use crate::duration::human;
use crate::paint::{Paint, Tone};

pub(super) fn text(out: &mut impl Write, paint: Paint, report: &Report) -> io::Result<()> {
    write_lead(out, paint, report)?;
    write!(out, "\n{}", counts(report).text())?;
    for kind in &report.errors.kinds {
        let said = if kind.first.is_empty() { "" } else { ", the first: " };
        let line =
            format!("{} {}{said}{}", HumanCount(kind.count), kind.kind, printable(&kind.first));
        writeln!(out, "{}", paint.text(Tone::Bad, &line))?;
    }
    if let Some(rate) = &report.rate {
        write_rate(out, paint, rate)?;
    }
    if report.decisions == 0 {
        return writeln!(out, "\n{}", paint.text(Tone::Bad, "no request got a decision"));
    }
    write!(out, "\n{}", latencies(report).text())?;
    write!(out, "\n{}", distribution(report).terminal(screen(paint)))
}

fn write_lead(out: &mut impl Write, paint: Paint, report: &Report) -> io::Result<()> {
    let many = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{} {more}", HumanCount(count as u64)),
    };
    let connections = many(report.connections, "connection", "connections");
    let at_once = match report.pipeline {
        1 => String::new(),
        pipeline => format!(", {} requests at once on each", HumanCount(pipeline as u64)),
    };
    let (kind, target) = (report.kind, &report.target);
    let lead = format!("{target}, {kind} loop, {connections}{at_once}");
    writeln!(out, "{}", paint.text(Tone::Heading, &printable(&lead)))?;
    let law = report.zipf.as_ref().map(|zipf| format!(" by zipf {zipf}")).unwrap_or_default();
    let keys = many(report.keys as usize, "key", "keys");
    let early = if report.interrupted { ", ended early" } else { "" };
    let warm = match report.warmup_requests {
        0 => String::new(),
        warm => format!(", after {} requests to warm up", HumanCount(warm)),
    };
    let time = short(report.measured_nanos);
    writeln!(out, "measured {time}{warm}{early}; {keys}{law}, seed {}", report.seed)
}

fn counts(report: &Report) -> Table {
    let rate = format!("{}/s", HumanCount(report.decisions_per_second));
    let share = |many: u64| percent(many, report.requests);
    let count = |many: u64| HumanCount(many).to_string();
    let mut table =
        Table::new([("", Column::Words), ("requests", Column::Figures), ("", Column::Figures)])
            .row(["decisions".to_owned(), count(report.decisions), rate])
            .row(["allowed".to_owned(), count(report.allowed), share(report.allowed)])
            .row(["refused".to_owned(), count(report.refused), share(report.refused)])
            .row(["errors".to_owned(), count(report.errors.total), share(report.errors.total)]);
    for (name, many) in [
        ("connections lost", report.connections_lost),
        ("connections given up", report.connections_given_up),
    ] {
        if many > 0 {
            table.push([name.to_owned(), count(many)]);
        }
    }
    table
}

fn write_rate(out: &mut impl Write, paint: Paint, rate: &Rate) -> io::Result<()> {
    let (achieved, asked) = (HumanCount(rate.achieved), HumanCount(rate.asked));
    let latest = short(rate.latest_nanos);
    if rate.kept {
        return writeln!(
            out,
            "\nthe rate was kept: {achieved}/s of {asked}/s, none sent more than {latest} late"
        );
    }
    let never = match rate.never_sent {
        0 => String::new(),
        never => format!(", {} were due and never sent", HumanCount(never)),
    };
    let last = short(rate.last_nanos);
    let line = format!(
        "THE RATE WAS NOT KEPT: {achieved}/s of {asked}/s{never}, the last was sent {last} late"
    );
    writeln!(out, "\n{}", paint.text(Tone::Bad, &line))
}

fn latencies(report: &Report) -> Table {
    let names = ["p50", "p90", "p99", "p99.9", "max", "mean"].map(|name| (name, Column::Figures));
    let mut table = Table::new([("latency", Column::Words)].into_iter().chain(names));
    let mut row = |name: &str, of: &Latency| {
        let figures = [of.p50, of.p90, of.p99, of.p99_9, of.max, of.mean].map(short);
        table.push([name.to_owned()].into_iter().chain(figures));
    };
    match report.rate {
        Some(_) => {
            row("from when due", &report.latency_nanos);
            row("from when sent", &report.latency_from_sent_nanos);
        }
        None => row("from when sent", &report.latency_nanos),
    }
    table
}

fn distribution(report: &Report) -> Ranking {
    let title = match report.rate {
        Some(_) => "answers by the time since they were due",
        None => "answers by the time since they were sent",
    };
    let empty = Ranking::new(title, Unit::Count).part("answers", Part::Nth(0));
    report.distribution.iter().fold(empty, |ranking, bucket| {
        let name = format!("up to {}", human(Duration::from_nanos(bucket.to_nanos)));
        ranking.row(name, [bucket.count as f64])
    })
}

/// Hundredths of a percent, rounded down.
fn percent(part: u64, of: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(of.max(1));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

/// A duration to three digits.
fn short(nanos: u64) -> String {
    let digits = nanos.checked_ilog10().unwrap_or(0);
    let unit = 10u64.pow(digits.saturating_sub(2));
    human(Duration::from_nanos(nanos / unit * unit))
}

fn screen(paint: Paint) -> Screen {
    let (_, columns) = console::Term::stdout().size();
    match paint {
        Paint::Plain => Screen::plain(columns.into()),
        Paint::Coloured => Screen::coloured(columns.into()),
    }
}
