//! The outcome: for people, for machines, and in files.

use std::io::{self, Write};
use std::path::Path;

use tollgate_lab::picture::{Screen, Table, panels, printable};
use tollgate_lab::simulate::{Picture, Simulated};

use crate::paint::{Paint, Tone};

/// How wide a table is where nobody says.
const WIDTH: usize = 80;

/// How high a chart is: alone, and beside others.
const ROWS: usize = 12;
pub(super) const ROWS_OF_MANY: usize = 5;

pub(super) fn text(
    out: &mut impl Write,
    paint: Paint,
    simulated: &Simulated,
    pictures: &[Picture],
) -> io::Result<()> {
    writeln!(out, "{}\n", printable(&simulated.lead()))?;
    write_table(out, paint, &simulated.table())?;
    for note in &simulated.notes {
        writeln!(out, "\n{}", paint.text(Tone::Bad, &format!("note: {}", printable(note))))?;
    }
    let screen = screen(paint);
    for picture in pictures {
        let charts = simulated.charts(*picture);
        let rows = if charts.len() > 1 { ROWS_OF_MANY } else { ROWS };
        for chart in charts {
            write!(out, "\n{}", chart.terminal(screen.rows(rows)))?;
        }
    }
    if let Some(ranking) = simulated.ranking() {
        write!(out, "\n{}", ranking.terminal(screen))?;
    }
    Ok(())
}

pub(super) fn write_table(out: &mut impl Write, paint: Paint, table: &Table) -> io::Result<()> {
    for (number, line) in table.text().lines().enumerate() {
        match number {
            0 => writeln!(out, "{}", paint.text(Tone::Quiet, line))?,
            _ => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}

/// As wide as the terminal, or as `COLUMNS` says.
pub(super) fn screen(paint: Paint) -> Screen {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || console::Term::stdout().size_checked().map(|(_, columns)| columns.into());
    let columns = said.or_else(seen).unwrap_or(WIDTH);
    match paint {
        Paint::Plain => Screen::plain(columns),
        Paint::Coloured => Screen::coloured(columns),
    }
}

pub(super) fn json(out: &mut impl Write, simulated: &Simulated) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, simulated)?;
    writeln!(out)
}

pub(super) fn svg(path: &Path, simulated: &Simulated, pictures: &[Picture]) -> io::Result<()> {
    let charts: Vec<_> = pictures.iter().flat_map(|kind| simulated.charts(*kind)).collect();
    let columns = if charts.len() > 4 { 3 } else { 2 };
    write_file(path, &panels(&simulated.lead(), &charts, columns))
}

pub(super) fn html(path: &Path, simulated: &Simulated, pictures: &[Picture]) -> io::Result<()> {
    write_file(path, &simulated.report(&command(), pictures).html())
}

/// The command as it was given, to be given again.
pub(super) fn command() -> String {
    let quoted = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            return word;
        }
        format!("'{}'", word.replace('\'', r"'\''"))
    };
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    format!("tollgate {}", words.map(quoted).collect::<Vec<_>>().join(" "))
}

pub(super) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", printable(&path.to_string_lossy())))
    };
    std::fs::write(path, text).map_err(named)
}
