//! Common and combined log format:
//! `203.0.113.9 - ana [16/Nov/2026:10:13:50 +0000] "GET /search?q=1 HTTP/1.1" 200 512 "referer" "agent"`.

use std::net::IpAddr;

use memchr::{memchr, memchr2, memrchr};

use super::Mistake;
use super::block::{Block, Span};
use super::fields::Wanted;
use super::line::{Line, Wrong};
use super::time::Times;

/// The parts of a line, by the names that attributes have.
const PIECES: [&str; 13] = [
    "ip", "ident", "user", "method", "path", "query", "url", "protocol", "status", "bytes",
    "referer", "agent", "host",
];
const IP: usize = 0;
const IDENT: usize = 1;
const USER: usize = 2;
const METHOD: usize = 3;
const PATH: usize = 4;
const QUERY: usize = 5;
const URL: usize = 6;
const PROTOCOL: usize = 7;
const STATUS: usize = 8;
const BYTES: usize = 9;
const REFERER: usize = 10;
const AGENT: usize = 11;
const HOST: usize = 12;

/// What is in no line of this format.
const NOTHING: usize = PIECES.len();

type Pieces = [Span; NOTHING + 1];

/// Reads common log lines.
#[derive(Debug)]
pub(super) struct Common {
    /// Of each slot, which piece it is.
    slots: Vec<usize>,
    times: Times,
}

impl Common {
    pub(super) fn new(wanted: &Wanted) -> Result<Common, Mistake> {
        let piece = |field: &str| {
            PIECES.iter().position(|piece| *piece == field.strip_prefix('.').unwrap_or(field))
        };
        for (name, field) in wanted.slots.iter().filter_map(|slot| slot.mapped()) {
            if piece(field).is_none() {
                return Err(Mistake::new(format!(
                    "--field {name}={field}: a common log has no {field:?}, it has {}",
                    PIECES.join(", ")
                )));
            }
        }
        let slots = wanted.slots.iter();
        let slots = slots.map(|slot| slot.candidates().find_map(piece).unwrap_or(NOTHING));
        Ok(Common { slots: slots.collect(), times: Times::default() })
    }

    /// Reads a line: its time, and its values into `out`.
    #[inline]
    pub(super) fn read(&mut self, line: &Line<'_>, out: &mut Block) -> Result<u64, Wrong> {
        let mut pieces = [Span::ABSENT; NOTHING + 1];
        let time = self.pieces(line, &mut pieces, out)?;
        out.spans.push(line.span());
        out.spans.extend(self.slots.iter().map(|piece| pieces[*piece]));
        Ok(time)
    }

    #[inline]
    fn pieces(
        &mut self,
        line: &Line<'_>,
        pieces: &mut Pieces,
        out: &mut Block,
    ) -> Result<u64, Wrong> {
        let mut rest = Rest { line, bytes: line.bytes(), at: 0 };
        pieces[IP] = rest.until(b' ').ok_or(Wrong::Common)?;
        pieces[IDENT] = rest.until(b' ').ok_or(Wrong::Common)?;
        pieces[USER] = rest.user().ok_or(Wrong::Common)?;
        if line.get(pieces[USER]).is_some_and(|user| user.contains(' ')) {
            take_host(line, pieces);
        }
        let time = rest.time().ok_or(Wrong::Common)?;
        let time = self.times.common(time).ok_or(Wrong::Time)?;
        let (start, end, escaped) = rest.quoted().ok_or(Wrong::Common)?;
        request(line, (start, end), pieces);
        if escaped {
            for piece in [METHOD, PATH, QUERY, URL, PROTOCOL] {
                self.unescape(piece, pieces, line, out);
            }
        }
        rest.skip(b' ').ok_or(Wrong::Common)?;
        if !rest.bytes.get(rest.at).is_some_and(|digit| digit.is_ascii_digit() || *digit == b'-') {
            return Err(Wrong::Common);
        }
        pieces[STATUS] = rest.word().ok_or(Wrong::Common)?;
        pieces[BYTES] = rest.word().ok_or(Wrong::Common)?;
        for piece in [REFERER, AGENT] {
            let Some((start, end, escaped)) = rest.quoted() else { break };
            pieces[piece] = line.part(start, end);
            rest.skip(b' ');
            if escaped {
                self.unescape(piece, pieces, line, out);
            }
        }
        Ok(time)
    }

    /// Replaces a wanted piece by what it was before it was written down.
    #[cold]
    fn unescape(&self, piece: usize, pieces: &mut Pieces, line: &Line<'_>, out: &mut Block) {
        let Some(text) = line.get(pieces[piece]) else { return };
        if self.slots.contains(&piece) && text.contains('\\') {
            pieces[piece] = out.put_aside(|to| unescape(text.as_bytes(), to));
        }
    }
}

/// What is still to be read of a line.
struct Rest<'l, 't> {
    line: &'l Line<'t>,
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Rest<'_, 't> {
    /// The part until `end`, which is read over; absent where it is `-`.
    #[inline]
    fn until(&mut self, end: u8) -> Option<Span> {
        let length = memchr(end, &self.bytes[self.at..])?;
        let span = self.line.part(self.at, self.at + length);
        self.at += length + 1;
        (length > 0).then_some(span)
    }

    /// The user: until the time, since it may have spaces in it.
    #[inline]
    fn user(&mut self) -> Option<Span> {
        let start = self.at;
        loop {
            self.at += memchr(b'[', &self.bytes[self.at..])? + 1;
            if self.at >= start + 2 && self.bytes[self.at - 2] == b' ' {
                return (self.at > start + 2).then(|| self.line.part(start, self.at - 2));
            }
        }
    }

    #[inline]
    fn time(&mut self) -> Option<&'t [u8]> {
        let end = self.at + memchr(b']', &self.bytes[self.at..])?;
        let time = &self.bytes[self.at..end];
        self.at = end + 1;
        self.skip(b' ')?;
        Some(time)
    }

    #[inline]
    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    /// Where a text in quotes begins and ends, and whether anything in it is escaped.
    #[inline]
    fn quoted(&mut self) -> Option<(usize, usize, bool)> {
        self.skip(b'"')?;
        let (start, mut escaped) = (self.at, false);
        loop {
            let at = self.at + memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return Some((start, at, escaped));
            }
            (self.at, escaped) = (at + 2, true);
        }
    }

    /// The next word, and the space after it.
    #[inline]
    fn word(&mut self) -> Option<Span> {
        let rest = &self.bytes[self.at..];
        let length = memchr(b' ', rest).unwrap_or(rest.len());
        let span = self.line.part(self.at, self.at + length);
        self.at += (length + 1).min(rest.len());
        (length > 0).then_some(span)
    }
}

/// A line that begins with the virtual host, as Debian's `vhost_combined` does, and then goes on as
/// others: `www.example.com:443 203.0.113.9 - ana [`. Anything else is left as it is, since a user
/// may have spaces.
#[cold]
fn take_host(line: &Line<'_>, pieces: &mut Pieces) {
    let text = |piece: usize| line.get(pieces[piece]).unwrap_or_default();
    let (first, second, rest) = (text(IP), text(IDENT), text(USER));
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    let with_port = first.rsplit_once(':').filter(|(_, port)| is_port(port));
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let is_name =
        |(name, _): (&str, &str)| !second.is_empty() && !is_address(first) && !is_address(name);
    let (Some(space), true) =
        (rest.find(' '), is_address(second) || with_port.is_some_and(is_name))
    else {
        return;
    };
    let host = if is_address(first) { None } else { with_port };
    let ident = &rest[..space];
    let user = &rest[space + 1..];
    let part = |text: &str| match text {
        "" | "-" => Span::ABSENT,
        text => line.part_of(text),
    };
    let parts = [(HOST, part(host.map_or(first, |(name, _)| name))), (IP, pieces[IDENT])];
    for (piece, span) in parts.into_iter().chain([(IDENT, part(ident)), (USER, part(user))]) {
        pieces[piece] = span;
    }
}

/// `GET /search?q=1 HTTP/1.1`. Anything else is a request of which nothing is known.
#[inline]
fn request(line: &Line<'_>, (start, end): (usize, usize), pieces: &mut Pieces) {
    let text = &line.bytes()[start..end];
    let Some(space) = memchr(b' ', text) else { return };
    let (url_start, rest) = (start + space + 1, &text[space + 1..]);
    let protocol = memrchr(b' ', rest).filter(|at| rest[at + 1..].starts_with(b"HTTP/"));
    let url = &rest[..protocol.unwrap_or(rest.len())];
    let url_end = url_start + url.len();
    if space == 0 || url.is_empty() {
        return;
    }
    pieces[METHOD] = line.part(start, start + space);
    pieces[URL] = line.part(url_start, url_end);
    let path = memchr(b'?', url).unwrap_or(url.len());
    pieces[PATH] = line.part(url_start, url_start + path);
    if path < url.len() {
        pieces[QUERY] = line.part(url_start + path + 1, url_end);
    }
    if protocol.is_some() {
        pieces[PROTOCOL] = line.part(url_end + 1, end);
    }
}

/// Undoes what Apache and nginx do to bytes that would end or break the line.
fn unescape(text: &[u8], to: &mut String) {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let (byte, length) = match (first, after) {
            (b'\\', [b'x', high, low, ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => (b'\\', 1),
            },
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'b', ..]) => (8, 2),
            (b'\\', [b'f', ..]) => (12, 2),
            (b'\\', [b'v', ..]) => (11, 2),
            (b'\\', [byte @ (b'"' | b'\\'), ..]) => (*byte, 2),
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    to.push_str(&String::from_utf8_lossy(&bytes));
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
