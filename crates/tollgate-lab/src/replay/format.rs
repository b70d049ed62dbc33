//! The formats of logs, and which of them a log has.

use std::fmt;
use std::str::FromStr;

use memchr::memchr_iter;

use super::Mistake;
use super::block::Block;
use super::bounds::MAX_LINE;
use super::common::Common;
use super::fields::Wanted;
use super::json::Json;
use super::line::{Line, Wrong};
use super::separated::Separated;

/// How the lines of a log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Common or combined log format.
    Common,
    /// An object a line.
    Json,
    /// Values with commas or semicolons between, named by a header.
    Csv,
    /// Values with tabs between, named by a header.
    Tsv,
}

impl Format {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Common => "common",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
        }
    }
}

impl FromStr for Format {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Format, Mistake> {
        Ok(match text {
            "common" | "combined" => Format::Common,
            "json" => Format::Json,
            "csv" => Format::Csv,
            "tsv" => Format::Tsv,
            _ => {
                return Err(Mistake::new(format!(
                    "unknown format {text:?}, use common, combined, json, csv or tsv"
                )));
            }
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads the lines of one log.
#[derive(Debug)]
pub(super) enum Reader {
    Common(Common),
    Json(Json),
    Separated(Separated),
}

impl Reader {
    /// What reads a log that begins with `text`, and how many lines of it are a header.
    pub(super) fn new(
        text: &str,
        format: Option<Format>,
        wanted: &Wanted,
    ) -> Result<(Reader, Format, u64), Mistake> {
        let format = match format {
            Some(format) => format,
            None => sniff(text, wanted)?,
        };
        let first = || (0..).zip(text.lines()).find(|(_, line)| !line.trim().is_empty());
        let separated = |separator| {
            let (before, header) = first().unwrap_or_default();
            Ok((Reader::Separated(Separated::new(header, separator, wanted)?), format, before + 1))
        };
        match format {
            Format::Common => Ok((Reader::Common(Common::new(wanted)?), format, 0)),
            Format::Json => Ok((Reader::Json(Json::new(wanted)), format, 0)),
            Format::Tsv => separated(b'\t'),
            Format::Csv => separated(comma(first().unwrap_or_default().1)),
        }
    }

    /// Reads a line; `None` where there is nothing in it.
    #[inline]
    pub(super) fn read(&mut self, line: &Line<'_>, out: &mut Block) -> Result<Option<u64>, Wrong> {
        if line.bytes().len() > MAX_LINE {
            return Err(Wrong::TooLong);
        }
        if line.bytes().trim_ascii_start().is_empty() {
            return Ok(None);
        }
        match self {
            Reader::Common(common) => common.read(line, out),
            Reader::Json(json) => json.read(line, out),
            Reader::Separated(separated) => separated.read(line, out),
        }
        .map(Some)
    }
}

fn comma(header: &str) -> u8 {
    if header.contains(',') || !header.contains(';') { b',' } else { b';' }
}

/// Finds out the format by the first line that can be read, of all that the first block has:
/// whatever comes before is malformed, and no reason not to go on.
fn sniff(text: &str, wanted: &Wanted) -> Result<Format, Mistake> {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let reads = |mut reader: Reader| {
        lines().any(|line| {
            let read = reader.read(&Line::new(line, 0, line.len()), &mut Block::default());
            matches!(read, Ok(Some(_)))
        })
    };
    if lines().any(|line| line.trim_start().starts_with('{'))
        && reads(Reader::Json(Json::new(wanted)))
    {
        return Ok(Format::Json);
    }
    if Common::new(wanted).is_ok_and(|common| reads(Reader::Common(common))) {
        return Ok(Format::Common);
    }
    let header = lines().next().unwrap_or_default();
    if Separated::is_header(header, b'\t', wanted) {
        return Ok(Format::Tsv);
    }
    if Separated::is_header(header, comma(header), wanted) {
        return Ok(Format::Csv);
    }
    Err(unknown(header, lines().count(), wanted))
}

/// Says what could be meant by a log that is none of what is known.
fn unknown(first: &str, lines: usize, wanted: &Wanted) -> Mistake {
    // What is wrong with a field is worth more than that no format was found.
    let is_common = || {
        let mut common = Common::new(&wanted.without_fields()).ok()?;
        common.read(&Line::new(first, 0, first.len()), &mut Block::default()).ok()
    };
    if let (Some(_), Err(mistake)) = (is_common(), Common::new(wanted)) {
        return mistake;
    }
    for separator in [b'\t', comma(first)] {
        let is_header = Separated::is_header(first, separator, &wanted.without_fields());
        if let (true, Err(mistake)) = (is_header, Separated::new(first, separator, wanted)) {
            return mistake;
        }
    }
    let shown: String = first.chars().take(80).collect();
    Mistake::new(format!(
        "cannot tell the format: none of the first {lines} lines can be read in any; say it with --format common, json, csv or tsv, to go on with what can be read. The first is {shown:?}"
    ))
}

/// Where the lines of a text begin and end, without what ends them.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = text.as_bytes();
    let mut start = 0;
    let last = (!bytes.is_empty() && !bytes.ends_with(b"\n")).then_some(bytes.len());
    memchr_iter(b'\n', bytes).chain(last).map(move |end| {
        let line = (start, end - usize::from(end > start && bytes[end - 1] == b'\r'));
        start = end + 1;
        line
    })
}
