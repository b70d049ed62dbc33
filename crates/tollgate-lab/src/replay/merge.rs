//! Several logs as one: the lines of all, in order of time.

use std::cell::Cell;
use std::rc::Rc;

use super::block::{Block, Span};
use super::fields::Wanted;
use super::input::Log;
use super::order::Entry;
use super::report::Malformed;
use super::stream::Stream;
use super::{Failure, Settings};

/// All logs.
pub(super) struct Logs<'w> {
    streams: Vec<Stream<'w>>,
    /// The next line of each.
    heads: Vec<Option<Entry>>,
    /// Which of them the last line was of.
    current: Option<usize>,
    read: Rc<Cell<u64>>,
    pub(super) malformed: Malformed,
}

/// A line and where it is from.
pub(super) struct Taken<'s> {
    pub(super) entry: Entry,
    pub(super) log: &'s str,
    pub(super) block: &'s Block,
    /// Its line, and then its values.
    pub(super) spans: &'s [Span],
}

impl<'s> Taken<'s> {
    /// What it says of a slot.
    #[inline]
    pub(super) fn value(&self, slot: usize) -> Option<&'s str> {
        self.block.get(self.spans[slot + 1])
    }

    /// The whole line.
    pub(super) fn text(&self) -> &'s str {
        self.block.get(self.spans[0]).unwrap_or_default()
    }
}

impl<'w> Logs<'w> {
    pub(super) fn open(
        logs: &[Log],
        wanted: &'w Wanted,
        settings: &Settings,
    ) -> Result<Logs<'w>, Failure> {
        let read = Rc::new(Cell::new(0));
        let mut streams = Vec::new();
        for log in logs {
            let name = log.name();
            let from = log.open(&read).map_err(|error| Failure::Log(name.clone(), error))?;
            streams.push(Stream::new(name, from, wanted, settings));
        }
        let mut malformed = Malformed::default();
        let mut heads = Vec::new();
        for stream in &mut streams {
            heads.push(stream.next(&mut malformed)?);
        }
        Ok(Logs { streams, heads, current: None, read, malformed })
    }

    /// The earliest line of all that has not been taken.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Taken<'_>>, Failure> {
        if let Some(last) = self.current.take() {
            if let Some(entry) = self.heads[last].take() {
                self.streams[last].release(&entry);
            }
            self.heads[last] = self.streams[last].next(&mut self.malformed)?;
        }
        let times = self.heads.iter().enumerate();
        let earliest = times.filter_map(|(at, head)| Some((head.as_ref()?.time, at))).min();
        let Some((_, at)) = earliest else { return Ok(None) };
        self.current = Some(at);
        let Some(entry) = self.heads[at] else { return Ok(None) };
        let stream = &self.streams[at];
        let (block, spans) = stream.values(&entry);
        Ok(Some(Taken { entry, log: &stream.name, block, spans }))
    }

    /// How many bytes were read of all, as they are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.read.get()
    }

    /// How many lines were read of all.
    pub(super) fn lines(&self) -> u64 {
        self.streams.iter().map(|stream| stream.lines).sum()
    }

    pub(super) fn hurried(&self) -> u64 {
        self.streams.iter().map(|stream| stream.hurried).sum()
    }

    /// The formats of those that have any lines, each once.
    pub(super) fn formats(&self) -> Vec<String> {
        let mut formats: Vec<String> = Vec::new();
        for format in self.streams.iter().filter_map(|of| of.format).map(|of| of.to_string()) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }
}
