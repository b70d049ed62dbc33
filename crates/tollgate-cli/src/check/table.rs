//! The answer for people.

use std::io::{self, Write};

use super::lines::{Line, Shown, lines};
use super::meaning::Meaning;
use super::play::{Played, Request};
use crate::duration::human;
use crate::moment;
use crate::paint::{Paint, Tone};

pub(super) fn write_meanings(
    out: &mut impl Write,
    paint: Paint,
    meanings: &[Meaning],
) -> io::Result<()> {
    for (index, meaning) in meanings.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", paint.text(Tone::Heading, &one_line(&meaning.given)))?;
        let lines = [
            ("algorithm", Some(meaning.how.to_owned())),
            ("sustained", Some(meaning.sustained.clone())),
            ("at once", Some(meaning.at_once.clone())),
            ("as good as new", Some(meaning.as_new.say())),
            ("note", meaning.note.clone()),
            ("canonical", Some(meaning.limit.to_string())),
        ];
        for (label, text) in lines {
            if let Some(text) = text {
                writeln!(out, "  {}  {text}", paint.text(Tone::Quiet, &format!("{label:<14}")))?;
            }
        }
    }
    Ok(())
}

pub(super) fn write_played(
    out: &mut impl Write,
    paint: Paint,
    played: &Played,
    shown: Shown,
) -> io::Result<()> {
    writeln!(out, "\n{}", paint.text(Tone::Heading, &title(played)))?;
    let columns = Columns::new(played);
    let lines = lines(&played.requests, shown);
    let requests = lines.iter().filter_map(|line| match line {
        Line::Request(request) => Some(columns.cells(request)),
        Line::Gap(_) => None,
    });
    let widths = columns.widths(requests);
    writeln!(out, "{}", paint.text(Tone::Quiet, &columns.row(columns.names(), &widths)))?;
    for line in lines {
        match line {
            Line::Request(request) => {
                let row = columns.row(columns.cells(request), &widths);
                let answer = answer(request);
                let tone = if request.allowed { Tone::Good } else { Tone::Bad };
                writeln!(out, "{}", row.replacen(answer, &paint.text(tone, answer), 1))?;
            }
            Line::Gap(hidden) => {
                writeln!(out, "{}", paint.text(Tone::Quiet, &format!("  ⋮ {}", more(hidden))))?;
            }
        }
    }
    writeln!(out, "\n{}", summary(played))
}

/// Which columns the table has, and what stands in them.
struct Columns<'a> {
    played: &'a Played,
    /// Whether times are told by the clock, or from the start.
    by_the_clock: bool,
}

impl<'a> Columns<'a> {
    fn new(played: &'a Played) -> Columns<'a> {
        Columns { played, by_the_clock: played.play.start.is_some() }
    }

    fn names(&self) -> Vec<String> {
        let names = ["time", "answer", "remaining", "retry after", "reset after"];
        let mut names = names.map(str::to_owned).to_vec();
        if self.played.has_delays {
            names.push("delay".to_owned());
        }
        if self.played.limits.len() > 1 {
            names.push("decided by".to_owned());
        }
        names
    }

    fn cells(&self, request: &Request) -> Vec<String> {
        let time = match self.by_the_clock {
            true => moment::write(request.at),
            false => human(request.at.saturating_since(self.played.start)),
        };
        let retry_after = match request.allowed {
            true => "-".to_owned(),
            false => human(request.retry_after),
        };
        let mut cells = vec![
            time,
            answer(request).to_owned(),
            request.remaining.to_string(),
            retry_after,
            human(request.reset_after),
        ];
        if self.played.has_delays {
            cells.push(if request.allowed { human(request.delay) } else { "-".to_owned() });
        }
        if self.played.limits.len() > 1 {
            let limit = self.played.limits.get(request.decided_by);
            cells.push(limit.map(|text| one_line(text)).unwrap_or_default());
        }
        cells
    }

    fn widths(&self, rows: impl Iterator<Item = Vec<String>>) -> Vec<usize> {
        let mut widths = vec![0; self.names().len()];
        for cells in std::iter::once(self.names()).chain(rows) {
            for (width, cell) in widths.iter_mut().zip(&cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    /// Words to the left, figures to the right.
    fn row(&self, cells: Vec<String>, widths: &[usize]) -> String {
        let last_is_words = self.played.limits.len() > 1;
        let mut row = String::new();
        for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let is_words = index == 1 || (last_is_words && index + 1 == cells.len());
            row += "  ";
            row += &if is_words { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
        }
        row.truncate(row.trim_end().len());
        row
    }
}

fn answer(request: &Request) -> &'static str {
    if request.allowed { "allowed" } else { "denied" }
}

fn title(played: &Played) -> String {
    let play = played.play;
    let requests = if play.requests == 1 { "request" } else { "requests" };
    let cost = if play.cost == 1 { String::new() } else { format!(" of {} units", play.cost) };
    let apart = match play.every {
        _ if play.requests == 1 => String::new(),
        every if every.is_zero() => ", all at the same time".to_owned(),
        every => format!(", {} apart", human(every)),
    };
    format!(
        "{} {requests}{cost}{apart}, one key, from {}",
        play.requests,
        moment::write(played.start)
    )
}

/// What is hidden, by answer.
fn more(hidden: &[Request]) -> String {
    let allowed = hidden.iter().filter(|request| request.allowed).count();
    match (allowed, hidden.len() - allowed) {
        (allowed, 0) => format!("{allowed} more allowed"),
        (0, denied) => format!("{denied} more denied"),
        (allowed, denied) => format!("{allowed} more allowed and {denied} denied, in turn"),
    }
}

fn summary(played: &Played) -> String {
    let (allowed, denied) = (played.allowed(), played.denied());
    let first = played.requests.iter().find(|request| !request.allowed);
    let first = first.map(|request| {
        format!(", the first at {}", human(request.at.saturating_since(played.start)))
    });
    format!("{allowed} allowed, {denied} denied{}", first.unwrap_or_default())
}

/// A limit as it was given, whose spaces may have been line ends.
fn one_line(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}
