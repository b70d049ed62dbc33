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
    /// The columns of the time, best first.
    time: Vec<usize>,
    /// Of each slot its columns, best first, and whether it is a path.
    slots: Vec<(Vec<usize>, bool)>,
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
        let places = |slot: &Slot| -> Vec<usize> {
            let by_name = |name: &str| {
                let name = name.strip_prefix('.').unwrap_or(name);
                names.iter().position(|column| *column == name)
            };
            slot.candidates().filter_map(by_name).collect()
        };
        let missing = |name: &str, field: &str| {
            Mistake::new(format!(
                "--field {name}={field}: there is no column {field:?}, there are {}",
                cut(&names.join(", "), SHOWN_LINE)
            ))
        };
        for slot in std::iter::once(&wanted.time).chain(&wanted.slots) {
            if let (Some((name, field)), true) = (slot.mapped(), places(slot).is_empty()) {
                return Err(missing(name, field));
            }
        }
        let time = places(&wanted.time);
        if time.is_empty() {
            return Err(Mistake::new(format!(
                "no column is known to be the time, say which with --field time=COLUMN; there are {}",
                cut(&names.join(", "), SHOWN_LINE)
            )));
        }
        let slots = wanted.slots.iter().map(|slot| (places(slot), slot.is_path())).collect();
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
        // A column that is empty hides no other.
        let first = |columns: &[usize]| {
            let spans = columns.iter().map(|column| self.found[*column]);
            let mut filled = spans.filter(|span| !matches!(text(*span), "" | "-"));
            filled.next()
        };
        let time = text(first(&self.time).ok_or(Wrong::NoTime)?);
        let time = self.times.any(time.as_bytes()).ok_or(Wrong::Time)?;
        let value = |(columns, is_path): &(Vec<usize>, bool)| {
            let Some(span) = first(columns) else { return Span::ABSENT };
            text(span).find('?').filter(|_| *is_path).map_or(span, |query| span.cut(query))
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
