//! Text in blocks of whole lines, and where in it the fields of each line are.

use std::io::{self, ErrorKind, Read};

use memchr::{memchr, memrchr};

use super::bounds::MAX_LINE;

/// Where a value is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// Of `Span::start`: in the text beside, where what had to be unescaped is.
const ASIDE: u32 = 1 << 31;

impl Span {
    /// No value.
    pub(super) const ABSENT: Span = Span { start: u32::MAX, end: 0 };

    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Span {
        let place = |at: usize| u32::try_from(at).unwrap_or(ASIDE - 1);
        Span { start: place(start), end: place(end) }
    }

    #[inline]
    pub(super) fn is_absent(self) -> bool {
        self == Span::ABSENT
    }

    /// The text it is of, where that is not aside.
    pub(super) fn within(self, text: &str) -> Option<&str> {
        text.get(self.start as usize..self.end as usize)
    }

    /// The part of it before `length`.
    pub(super) fn cut(self, length: usize) -> Span {
        let end = (self.start & !ASIDE).saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        Span { start: self.start, end: self.end.min(end) }
    }
}

/// Whole lines, and what was read in them.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) text: String,
    aside: String,
    /// Of each entry its line and then its values.
    pub(super) spans: Vec<Span>,
    /// How many spans an entry has.
    pub(super) stride: usize,
}

impl Block {
    pub(super) fn new(text: String, stride: usize) -> Block {
        Block { text, aside: String::new(), spans: Vec::new(), stride }
    }

    #[inline]
    pub(super) fn get(&self, span: Span) -> Option<&str> {
        if span.is_absent() {
            return None;
        }
        let (text, start) = match span.start & ASIDE {
            0 => (&self.text, span.start),
            _ => (&self.aside, span.start & !ASIDE),
        };
        text.get(start as usize..span.end as usize)
    }

    /// The spans of an entry.
    #[inline]
    pub(super) fn entry(&self, index: u32) -> &[Span] {
        &self.spans[index as usize * self.stride..][..self.stride]
    }

    /// Keeps a value that is not in the text as it is.
    pub(super) fn put_aside(&mut self, write: impl FnOnce(&mut String)) -> Span {
        let start = self.aside.len();
        write(&mut self.aside);
        let Span { start, end } = Span::new(start, self.aside.len());
        Span { start: start | ASIDE, end }
    }

    /// How much memory it holds.
    pub(super) fn size(&self) -> usize {
        self.text.len() + self.aside.len() + self.spans.len() * size_of::<Span>()
    }
}

/// Cuts what it reads into blocks of whole lines.
pub(super) struct Blocks<R> {
    from: R,
    /// How large a block is about.
    size: usize,
    /// The beginning of a line whose end is not read yet.
    rest: Vec<u8>,
    ended: bool,
    /// Room for what is read next.
    spare: Vec<u8>,
}

/// What was read at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Raw {
    /// Whole lines, the last perhaps without its end.
    pub(super) text: String,
    /// Whether a line follows that is too long to be looked at.
    pub(super) overlong: bool,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(from: R, size: usize) -> Blocks<R> {
        Blocks { from, size, rest: Vec::new(), ended: false, spare: Vec::new() }
    }

    /// The next lines; `None` when there are no more.
    pub(super) fn next(&mut self) -> io::Result<Option<Raw>> {
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.append(&mut self.rest);
        let mut searched = 0;
        while !self.ended {
            let cut = memrchr(b'\n', &bytes[searched..]).map(|at| searched + at + 1);
            if let (Some(cut), true) = (cut, bytes.len() >= self.size / 2) {
                self.rest.extend_from_slice(&bytes[cut..]);
                bytes.truncate(cut);
                break;
            }
            if cut.is_none() {
                searched = bytes.len();
            }
            if searched > MAX_LINE {
                self.skip()?;
                return Ok(Some(Raw { text: String::new(), overlong: true }));
            }
            let want = self.size.saturating_sub(bytes.len()).max(self.size / 2);
            self.ended = self.read(&mut bytes, want)? == 0;
        }
        let text = String::from_utf8(bytes);
        let text =
            text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok((!text.is_empty()).then_some(Raw { text, overlong: false }))
    }

    /// Gives back the room of a block that is done with.
    pub(super) fn recycle(&mut self, text: String) {
        self.spare = text.into_bytes();
        self.spare.clear();
    }

    fn read(&mut self, to: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        let length = to.len();
        to.resize(length + most, 0);
        let read = loop {
            match self.from.read(&mut to[length..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        to.truncate(length + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Reads over the rest of a line.
    fn skip(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if self.read(&mut bytes, self.size)? == 0 {
                self.ended = true;
                return Ok(());
            }
            if let Some(end) = memchr(b'\n', &bytes) {
                self.rest = bytes.split_off(end + 1);
                return Ok(());
            }
        }
    }
}
