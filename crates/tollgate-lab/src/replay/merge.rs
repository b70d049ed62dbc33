//! Several logs as one: the lines of all, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::block::{Block, Span};
use super::bounds::Share;
use super::fields::Wanted;
use super::input::Log;
use super::order::Entry;
use super::progress::Account;
use super::stream::Stream;
use super::{Failure, Settings};

/// All logs.
pub(super) struct Logs<'w, 'p> {
    streams: Vec<Stream<'w>>,
    /// The next line of each that has one: the earliest first, and of one time
    /// that of the log that was named first.
    heads: BinaryHeap<Reverse<Head>>,
    /// Logs that have no more lines, and go when the last are done with.
    ended: Vec<usize>,
    pub(super) account: Account<'p>,
}

/// How many lines are taken at once: enough that what their requests need of memory is on its way
/// while those before are decided, and few enough that it is still near then.
const BATCH: usize = 32;

/// Lines that are decided together, each with the number of its log.
pub(super) type Batch = Vec<(usize, Entry)>;

/// When a log goes on, which it is, and with which line.
type Head = (u64, usize, Entry);

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

impl<'w, 'p> Logs<'w, 'p> {
    pub(super) fn open(
        logs: &[Log],
        wanted: &'w Wanted,
        settings: &Settings,
        mut account: Account<'p>,
    ) -> Result<Logs<'w, 'p>, Failure> {
        let share = Share::of(logs.len());
        let (mut streams, mut heads) = (Vec::new(), BinaryHeap::new());
        for (at, log) in logs.iter().enumerate() {
            let name = log.name();
            let from = log.open(&account.read, share);
            let from = from.map_err(|error| Failure::Log(name.clone(), error))?;
            let mut stream = Stream::new(name, from, wanted, (settings, share));
            match stream.next(&mut account)? {
                Some(entry) => heads.push(Reverse((entry.time, at, entry))),
                None => stream.close(),
            }
            streams.push(stream);
        }
        Ok(Logs { streams, heads, ended: Vec::new(), account })
    }

    /// Lets go of the lines of a batch and takes the earliest that follow; none at the end.
    pub(super) fn next(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        for (at, entry) in batch.drain(..) {
            self.streams[at].release(&entry);
        }
        self.ended.drain(..).for_each(|at| self.streams[at].close());
        while batch.len() < BATCH {
            let Some(Reverse((_, at, entry))) = self.heads.pop() else { break };
            batch.push((at, entry));
            self.account.decide();
            match self.streams[at].next(&mut self.account)? {
                Some(entry) => self.heads.push(Reverse((entry.time, at, entry))),
                None => self.ended.push(at),
            }
        }
        if batch.is_empty() {
            self.account.tell();
        }
        Ok(())
    }

    /// A line of a batch.
    #[inline]
    pub(super) fn line(&self, (at, entry): (usize, Entry)) -> Taken<'_> {
        let stream = &self.streams[at];
        let (block, spans) = stream.values(&entry);
        Taken { entry, log: &stream.name, block, spans }
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
