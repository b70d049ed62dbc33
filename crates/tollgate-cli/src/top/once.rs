//! What goes on, printed: once as tables, or as JSON for programs.

use std::io::Write;

use tokio::sync::mpsc::channel;

use super::client::Client;
use super::state::{Command, HottestOf, Link, Message, State};
use super::table::{SPACE, Table, Tone, fitted};
use super::text::{counted, harmless, lasted, micros, rate};
use super::{Clock, history, json, tables, watch, work};
use crate::paint::{self, Paint};
use crate::signals::Signals;
use crate::{Failure, say};

/// Longer keys are cut in tables.
const WIDEST: usize = 160;

#[derive(Clone, Copy)]
pub(super) enum Form {
    Tables(Paint),
    Json,
}

#[derive(Clone, Copy)]
pub(super) struct Printing {
    pub(super) form: Form,
    /// Until it is told to end.
    pub(super) repeats: bool,
}

/// Prints what goes on after an interval, since rates are of two events; again and again if asked.
pub(super) async fn print(
    client: Client,
    mut state: State,
    clock: &Clock,
    (printing, out): (Printing, &mut impl Write),
) -> Result<(), Failure> {
    if let Some(notice) = state.notice() {
        say(format_args!("{}", notice.text));
    }
    let (tell, mut told) = channel(16);
    let watching = tokio::spawn(watch::watch(client.clone(), tell));
    let mut signals = Signals::new()?;
    let ended = loop {
        let message = tokio::select! {
            Some(message) = told.recv() => message,
            () = signals.next() => break Ok(()),
        };
        let commands = state.update(message, clock.now_ms());
        if let Link::Lost { why, .. } = &state.link {
            let why = format!("{}: {}", state.settings.server, harmless(&why.detail));
            if !printing.repeats {
                break Err(Failure::Start(why));
            }
            say(format_args!("{why}"));
        }
        // It is asked for with each event that counts, and for nothing else.
        if !commands.contains(&Command::Hottest(HottestOf::AllRules)) {
            continue;
        }
        let hottest = work::hottest(&client, &HottestOf::AllRules).await;
        state.update(Message::Hottest(hottest), clock.now_ms());
        if !state.view().history.has_rates() {
            continue;
        }
        match printing.form {
            Form::Tables(paint) => write_tables(&state, out, paint)?,
            Form::Json => json::write(&state, out)?,
        }
        out.flush()?;
        if !printing.repeats {
            break Ok(());
        }
    };
    watching.abort();
    ended
}

fn write_tables(state: &State, out: &mut impl Write, paint: Paint) -> std::io::Result<()> {
    let history = &state.view().history;
    let Some(last) = history.last() else { return Ok(()) };
    let name = harmless(&state.settings.server);
    writeln!(
        out,
        "tollgate {} at {name}: {}, up {}",
        harmless(&last.version),
        harmless(&last.health),
        lasted(last.uptime_ms)
    )?;
    let refused = if last.policy.last_refused { ", the last change was refused" } else { "" };
    let rules = counted(last.policy.rules, "rule");
    writeln!(out, "policy v{}, {rules}{refused}", last.policy.version)?;
    let keys = last.store.live_keys.map(|keys| format!(", {}", counted(keys, "key")));
    write!(out, "store {}{}", harmless(&last.store.kind), keys.unwrap_or_default())?;
    match &last.store.outage {
        Some(outage) => {
            let (address, why) = (harmless(&outage.address), harmless(&outage.why));
            writeln!(out, ", {address} away for {}: {why}", lasted(outage.lasted_ms))?;
        }
        None => writeln!(out)?,
    }
    let rates = history.rates(None);
    writeln!(
        out,
        "{} allowed/s, {} refused/s, {} degraded/s",
        rate(rates.allowed),
        rate(rates.refused),
        rate(rates.degraded)
    )?;
    for (of, name) in history::TRANSPORTS {
        if let Some(latency) = history.latency(of) {
            let (p50, p99) = (micros(latency.p50_us), micros(latency.p99_us));
            writeln!(out, "latency of {name}: p50 {p50}, p99 {p99}")?;
        }
    }
    let all = [
        ("most refused keys", tables::refused_keys(Some(last), 0)),
        ("hottest keys", tables::hottest_keys(state)),
        ("rules", tables::rules(state)),
    ];
    for (title, table) in all {
        writeln!(out, "\n{}", paint.text(paint::Tone::Heading, title))?;
        write_table(&table, out, paint)?;
    }
    Ok(())
}

fn write_table(table: &Table, out: &mut impl Write, paint: Paint) -> std::io::Result<()> {
    if table.rows.is_empty() {
        return writeln!(out, "none");
    }
    let columns = table.fit(table.natural_width().clamp(80, WIDEST));
    let space = " ".repeat(SPACE);
    let titles = columns
        .iter()
        .map(|(at, width)| fitted(table.columns[*at].title, *width, table.columns[*at].is_number));
    writeln!(out, "{}", titles.collect::<Vec<_>>().join(&space).trim_end())?;
    for row in &table.rows {
        let cells = columns.iter().map(|(at, width)| {
            let text = fitted(&row[*at].text, *width, table.columns[*at].is_number);
            match row[*at].tone {
                Tone::Good => paint.text(paint::Tone::Good, &text),
                Tone::Bad => paint.text(paint::Tone::Bad, &text),
                Tone::Quiet => paint.text(paint::Tone::Quiet, &text),
                Tone::Plain | Tone::Warning => text,
            }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(&space).trim_end())?;
    }
    Ok(())
}
