//! Lines of values with a separator between, named by a header: CSV and TSV.

use memchr::{memchr, memchr_iter};

use super::Mistake;
use super::block::{Block, Span};
use super::bounds::SHOWN_LINE;
use super::fields::{Slot, Wanted};
use super::line::{Line, Wrong};
use super::report::cut;
use super::time::Times;

/// Reads separated values.
#[derive(Debug)]
pub(super) struct Separated {
    separator: u8,
    columns: usize,
    /// The column of the time.
    time: usize,
    /// Of each slot its column, and whether it is a path.
    slots: Vec<(Option<usize>, bool)>,
    times: Times,
    /// The columns of a line.
    found: Vec<Span>,
}

impl Separated {
    /// Reads lines under this header.
    pub(super) fn new(header: &str, separator: u8, wanted: &Wanted) -> Result<Separated, Mistake> {
        let mut out = Block::default();
        let line = Line::new(header, 0, header.len());
        let mut spans = Vec::new();
        split(&line, separator, &mut spans, &mut out)
            .map_err(|wrong| Mistake::new(format!("the header {wrong}")))?;
        let text = |span: &Span| line.get(*span).or_else(|| out.get(*span)).unwrap_or_default();
        let names: Vec<&str> = spans.iter().map(|span| text(span).trim()).collect();
        let place = |slot: &Slot| {
            let by_name = |name: &str| {
                let name = name.strip_prefix('.').unwrap_or(name);
                names.iter().position(|column| *column == name)
            };
            slot.candidates().find_map(by_name)
        };
        let missing = |name: &str, field: &str| {
            Mistake::new(format!(
                "--field {name}={field}: there is no column {field:?}, there are {}",
                cut(&names.join(", "), SHOWN_LINE)
            ))
        };
        for slot in std::iter::once(&wanted.time).chain(&wanted.slots) {
            if let (Some((name, field)), None) = (slot.mapped(), place(slot)) {
                return Err(missing(name, field));
            }
        }
        let time = place(&wanted.time).ok_or_else(|| {
            Mistake::new(format!(
                "no column is known to be the time, say which with --field time=COLUMN; there are {}",
                cut(&names.join(", "), SHOWN_LINE)
            ))
        })?;
        let slots = wanted.slots.iter().map(|slot| (place(slot), slot.is_path())).collect();
        let columns = names.len();
        Ok(Separated {
            separator,
            columns,
            time,
            slots,
            times: Times::default(),
            found: Vec::new(),
        })
    }

    /// Whether the time is in a column of this header, so that it may be one.
    pub(super) fn is_header(header: &str, separator: u8, wanted: &Wanted) -> bool {
        memchr(separator, header.as_bytes()).is_some()
            && Separated::new(header, separator, wanted).is_ok()
    }

    /// Reads a line: its time, and its values into `out`.
    pub(super) fn read(&mut self, line: &Line<'_>, out: &mut Block) -> Result<u64, Wrong> {
        self.found.clear();
        split(line, self.separator, &mut self.found, out)?;
        if self.found.len() != self.columns {
            return Err(Wrong::Columns { has: self.found.len(), wanted: self.columns });
        }
        let text = |span: Span| line.get(span).or_else(|| out.get(span)).unwrap_or_default();
        let time = text(self.found[self.time]);
        if time.is_empty() {
            return Err(Wrong::NoTime);
        }
        let time = self.times.any(time.as_bytes()).ok_or(Wrong::Time)?;
        let value = |(column, is_path): &(Option<usize>, bool)| {
            let span = column.map_or(Span::ABSENT, |column| self.found[column]);
            match text(span) {
                "" | "-" => Span::ABSENT,
                text => text.find('?').filter(|_| *is_path).map_or(span, |query| span.cut(query)),
            }
        };
        let values: smallvec::SmallVec<[Span; 8]> = self.slots.iter().map(value).collect();
        out.spans.push(line.span());
        out.spans.extend(values);
        Ok(time)
    }
}

/// Where the columns of a line are. A column in quotes may hold separators, and doubled quotes.
fn split(
    line: &Line<'_>,
    separator: u8,
    columns: &mut Vec<Span>,
    out: &mut Block,
) -> Result<(), Wrong> {
    let bytes = line.bytes();
    let begin = line.start();
    if memchr(b'"', bytes).is_none() {
        let mut start = 0;
        for end in memchr_iter(separator, bytes).chain([bytes.len()]) {
            columns.push(Span::new(begin + start, begin + end));
            start = end + 1;
        }
        return Ok(());
    }
    let mut at = 0;
    loop {
        let end = if bytes.get(at) == Some(&b'"') {
            let end = closing(bytes, at + 1).ok_or(Wrong::Quotes)?;
            let text = &line.text()[at + 1..end];
            columns.push(if text.contains('"') {
                out.put_aside(|to| to.push_str(&text.replace("\"\"", "\"")))
            } else {
                Span::new(begin + at + 1, begin + end)
            });
            end + 1
        } else {
            let end = memchr(separator, &bytes[at..]).map_or(bytes.len(), |length| at + length);
            columns.push(Span::new(begin + at, begin + end));
            end
        };
        match bytes.get(end) {
            None => return Ok(()),
            Some(byte) if *byte == separator => at = end + 1,
            Some(_) => return Err(Wrong::Quotes),
        }
    }
}

/// The quote that ends a column, which is not doubled.
fn closing(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = from + memchr(b'"', bytes.get(from..)?)?;
        if bytes.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}
