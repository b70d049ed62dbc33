//! One log: its lines in order of time, as far as its order says.

use std::collections::VecDeque;
use std::io::Read;

use super::block::{Block, Blocks, Raw, Span};
use super::bounds::{SHOWN_LINE, SHOWN_MALFORMED, Share};
use super::doubts::{Doubts, Judged};
use super::fields::Wanted;
use super::format::{Format, Reader, lines};
use super::line::{Line, Wrong};
use super::order::{Entry, Order, Queue};
use super::progress::Account;
use super::report::{MalformedLine, cut};
use super::{Failure, Settings};

pub(super) struct Stream<'w> {
    pub(super) name: String,
    from: Blocks<Box<dyn Read>>,
    wanted: &'w Wanted,
    reader: Option<Reader>,
    pub(super) format: Option<Format>,
    order: Order,
    strict: bool,
    queue: Queue,
    /// Blocks that hold lines still to come, and how many each.
    held: VecDeque<(Block, usize)>,
    /// The number of the first of them.
    first: u32,
    held_size: usize,
    /// How many lines were read.
    pub(super) lines: u64,
    /// How many lines at the beginning are a header.
    header: u64,
    doubts: Doubts,
    ended: bool,
    most_held: usize,
    /// How many lines had to go ahead because too much was waiting.
    pub(super) hurried: u64,
}

impl<'w> Stream<'w> {
    pub(super) fn new(
        name: String,
        from: Box<dyn Read>,
        wanted: &'w Wanted,
        (settings, share): (&Settings, Share),
    ) -> Stream<'w> {
        Stream {
            name,
            from: Blocks::new(from, share.block),
            wanted,
            reader: None,
            format: settings.format,
            order: settings.order,
            strict: settings.strict,
            queue: Queue::default(),
            held: VecDeque::new(),
            first: 0,
            held_size: 0,
            lines: 0,
            header: 0,
            doubts: Doubts::default(),
            ended: false,
            most_held: share.held,
            hurried: 0,
        }
    }

    /// The next line in order.
    #[inline]
    pub(super) fn next(&mut self, account: &mut Account<'_>) -> Result<Option<Entry>, Failure> {
        loop {
            if let Some(entry) = self.queue.pop(self.until()) {
                return Ok(Some(entry));
            }
            if self.ended {
                return Ok(None);
            }
            if self.held_size > self.most_held
                && self.order != Order::Sorted
                && let Some(entry) = self.queue.pop(u64::MAX)
            {
                self.hurried += 1;
                return Ok(Some(entry));
            }
            self.fill(account)?;
            account.tell();
        }
    }

    /// Which lines nothing can come before any more.
    #[inline]
    fn until(&self) -> u64 {
        match self.order {
            _ if self.ended => u64::MAX,
            Order::Within(window) => {
                let micros = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
                // What is of the newest time itself is in the order of its lines.
                self.doubts.newest().saturating_sub(micros)
            }
            // None: no time is before 1970 began, but a line may be of that very moment.
            Order::Sorted => 0,
        }
    }

    /// The line of an entry and its values.
    #[inline]
    pub(super) fn values(&self, entry: &Entry) -> (&Block, &[Span]) {
        let block = &self.held[(entry.block - self.first) as usize].0;
        (block, block.entry(entry.index))
    }

    /// Lets go of an entry.
    #[inline]
    pub(super) fn release(&mut self, entry: &Entry) {
        let (block, left) = &mut self.held[(entry.block - self.first) as usize];
        *left -= 1;
        if *left > 0 {
            return;
        }
        // At once, and not when it is the first: a line from the far future may keep that for long.
        let block = std::mem::take(block);
        self.held_size -= block.size();
        self.from.recycle(block.text);
        while let Some((_, 0)) = self.held.front() {
            self.held.pop_front();
            self.first += 1;
        }
    }

    fn fill(&mut self, account: &mut Account<'_>) -> Result<(), Failure> {
        let raw = self.from.next().map_err(|error| Failure::Log(self.name.clone(), error))?;
        let Some(Raw { mut text, overlong }) = raw else {
            self.ended = true;
            let judged = self.doubts.settle();
            return self.judge(judged, None, account).map(|_| ());
        };
        if self.lines == 0 && text.starts_with('\u{feff}') {
            text.remove(0);
        }
        if self.reader.is_none() && !text.trim().is_empty() {
            let (reader, format, header) = Reader::new(&text, self.format, self.wanted)
                .map_err(|mistake| Failure::Mistake(format!("{}: {mistake}", self.name)))?;
            (self.reader, self.format) = (Some(reader), Some(format));
            self.header = self.lines + header;
        }
        self.read_lines(text, account)?;
        if overlong {
            self.lines += 1;
            account.lines += 1;
            self.complain(self.lines, &Wrong::TooLong, "", account)?;
        }
        Ok(())
    }

    fn read_lines(&mut self, text: String, account: &mut Account<'_>) -> Result<(), Failure> {
        let mut block = Block::new(String::new(), self.wanted.slots.len() + 1);
        let (mut index, number) = (0, self.first + u32::try_from(self.held.len()).unwrap_or(0));
        // Lines of this block that nobody waits for.
        let mut dropped = 0;
        let before = self.lines;
        for (start, end) in lines(&text) {
            self.lines += 1;
            let Some(reader) = self.reader.as_mut().filter(|_| self.lines > self.header) else {
                continue;
            };
            let line = Line::new(&text, start, end);
            let read = reader.read(&line, &mut block);
            match read.and_then(|time| self.with_cost(time, &line, &mut block)) {
                Ok(Some(time)) => {
                    let entry = Entry { time, line: self.lines, block: number, index };
                    index += 1;
                    if self.order == Order::Sorted || self.doubts.believes(time) {
                        self.queue.push(entry);
                    } else {
                        let judged = self.doubts.hear(entry);
                        dropped += self.judge(judged, Some((number, &block, &text)), account)?;
                    }
                }
                Ok(None) => {}
                Err(wrong) => self.complain(self.lines, &wrong, line.text(), account)?,
            }
        }
        account.lines += self.lines - before;
        block.text = text;
        let kept = index as usize - dropped;
        if kept == 0 {
            self.from.recycle(block.text);
            return Ok(());
        }
        self.held_size += block.size();
        self.held.push_back((block, kept));
        Ok(())
    }

    /// Does as was judged about lines that were doubted; how many of the block that is being read
    /// are wrong.
    #[cold]
    fn judge(
        &mut self,
        judged: Judged,
        reading: Option<(u32, &Block, &str)>,
        account: &mut Account<'_>,
    ) -> Result<usize, Failure> {
        let mut dropped = 0;
        judged.believed.into_iter().for_each(|entry| self.queue.push(entry));
        for entry in judged.wrong {
            match reading.filter(|(number, ..)| *number == entry.block) {
                Some((_, block, text)) => {
                    let line = block.entry(entry.index)[0].within(text).unwrap_or_default();
                    self.complain(entry.line, &Wrong::FarAhead, line, account)?;
                    dropped += 1;
                }
                None => {
                    let (block, spans) = self.values(&entry);
                    let line = block.get(spans[0]).unwrap_or_default();
                    self.complain(entry.line, &Wrong::FarAhead, line, account)?;
                    self.release(&entry);
                }
            }
        }
        Ok(dropped)
    }

    /// Makes sure that a line that says its cost says a number.
    #[inline]
    fn with_cost(
        &self,
        time: Option<u64>,
        line: &Line<'_>,
        block: &mut Block,
    ) -> Result<Option<u64>, Wrong> {
        let (Some(slot), Some(_)) = (self.wanted.cost, time) else { return Ok(time) };
        let first = block.spans.len() - block.stride;
        let span = block.spans[first + 1 + slot];
        let text = line.get(span).or_else(|| block.get(span));
        if text.is_some_and(|text| text.parse::<u64>().is_err()) {
            block.spans.truncate(first);
            return Err(Wrong::Cost);
        }
        Ok(time)
    }

    #[cold]
    fn complain(
        &self,
        number: u64,
        wrong: &Wrong,
        text: &str,
        account: &mut Account<'_>,
    ) -> Result<(), Failure> {
        if self.strict {
            return Err(Failure::Malformed(format!("{}:{number}: {wrong}", self.name)));
        }
        let malformed = &mut account.malformed;
        malformed.lines += 1;
        if malformed.first.len() < SHOWN_MALFORMED {
            malformed.first.push(MalformedLine {
                log: self.name.clone(),
                line: number,
                why: wrong.to_string(),
                text: cut(text, SHOWN_LINE),
            });
        }
        Ok(())
    }

    /// Gives back what it has taken, when its last line is done with.
    pub(super) fn close(&mut self) {
        self.from = Blocks::new(Box::new(std::io::empty()), 0);
        (self.held, self.queue) = (VecDeque::new(), Queue::default());
    }
}
