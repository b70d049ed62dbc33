//! Replies as bytes, in RESP2 or RESP3.

use std::time::Duration;

use crate::resp::bounds::SHOWN_VALUE;

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Resp2,
    Resp3,
}

/// Appends replies to a connection's output.
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    pub(super) protocol: Protocol,
}

impl Writer<'_> {
    /// A short text of ours, such as OK.
    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error; `text` begins with its code, and its bytes are made fit for one line.
    pub(super) fn error(&mut self, text: &str) {
        self.out.push(b'-');
        self.out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn integer(&mut self, value: i64) {
        let mut text = [0; LONGEST];
        let at = before(&mut text, LONGEST, (b':', value < 0, value.unsigned_abs()));
        self.out.extend_from_slice(&text[at..]);
    }

    /// An array of five integers, added to the output in one piece.
    pub(super) fn five(&mut self, values: [i64; 5]) {
        let mut text = [0; LONGEST * 6];
        let mut at = text.len();
        for value in values.iter().rev() {
            at = before(&mut text, at, (b':', *value < 0, value.unsigned_abs()));
        }
        at = before(&mut text, at, (b'*', false, 5));
        self.out.extend_from_slice(&text[at..]);
    }

    pub(super) fn units(&mut self, value: u64) {
        self.integer(units(value));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n".as_slice(),
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// An array whose `length` elements follow.
    pub(super) fn array(&mut self, length: usize) {
        self.head(b'*', length);
    }

    /// A map whose `pairs` of names and values follow: a flat array in RESP2.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', pairs * 2),
            Protocol::Resp3 => self.head(b'%', pairs),
        }
    }

    fn head(&mut self, kind: u8, length: usize) {
        let mut text = [0; LONGEST];
        let at = before(&mut text, LONGEST, (kind, false, length as u64));
        self.out.extend_from_slice(&text[at..]);
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.out.push(kind);
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The longest line of a number: its kind, a sign, 20 digits and the line's end.
const LONGEST: usize = 24;

/// Writes the line of a number so that it ends before `end`, and says where it begins: digits come
/// from the last to the first.
#[inline(always)]
fn before(text: &mut [u8], end: usize, (kind, negative, mut value): (u8, bool, u64)) -> usize {
    let mut at = end - 2;
    text[at..end].copy_from_slice(b"\r\n");
    loop {
        at -= 1;
        text[at] = b'0' + (value % 10).to_le_bytes()[0];
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if negative {
        at -= 1;
        text[at] = b'-';
    }
    at -= 1;
    text[at] = kind;
    at
}

/// A number of units, at most what an integer of the protocol can say.
pub(super) fn units(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A wait in seconds, rounded up: who waits that long has waited long enough.
pub(super) fn seconds(wait: Duration) -> i64 {
    let whole = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// A wait in milliseconds, rounded up.
pub(super) fn millis(wait: Duration) -> i64 {
    i64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// A client's word as an error repeats it: quoted, escaped and cut.
pub(super) fn shown(word: &[u8]) -> String {
    let cut = &word[..word.len().min(SHOWN_VALUE)];
    let dots = if word.len() > cut.len() { "..." } else { "" };
    format!("'{}{dots}'", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Writer { out: &mut out, protocol });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind_of_reply_is_written_byte_for_byte() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert_eq!(written(protocol, |w| w.simple("OK")), "+OK\r\n");
            assert_eq!(written(protocol, |w| w.error("ERR a\r\nb")), "-ERR a  b\r\n");
            assert_eq!(written(protocol, |w| w.integer(0)), ":0\r\n");
            assert_eq!(written(protocol, |w| w.integer(i64::MAX)), ":9223372036854775807\r\n");
            assert_eq!(written(protocol, |w| w.integer(i64::MIN)), ":-9223372036854775808\r\n");
            assert_eq!(written(protocol, |w| w.units(u64::MAX)), ":9223372036854775807\r\n");
            assert_eq!(written(protocol, |w| w.bulk(b"")), "$0\r\n\r\n");
            assert_eq!(written(protocol, |w| w.bulk(b"a\r\nb")), "$4\r\na\r\nb\r\n");
            assert_eq!(written(protocol, |w| w.array(12)), "*12\r\n");
            assert_eq!(
                written(protocol, |w| w.five([0, -1, 10, i64::MIN, i64::MAX])),
                "*5\r\n:0\r\n:-1\r\n:10\r\n:-9223372036854775808\r\n:9223372036854775807\r\n"
            );
            assert_eq!(written(protocol, |w| w.five([i64::MIN; 5])).len(), 4 + 5 * 23);
        }
    }

    #[test]
    fn maps_and_nothing_are_written_as_the_protocol_has_them() {
        assert_eq!(written(Protocol::Resp2, |w| w.map(3)), "*6\r\n");
        assert_eq!(written(Protocol::Resp3, |w| w.map(3)), "%3\r\n");
        assert_eq!(written(Protocol::Resp2, |w| w.null()), "$-1\r\n");
        assert_eq!(written(Protocol::Resp3, |w| w.null()), "_\r\n");
    }

    #[test]
    fn waits_round_up() {
        assert_eq!(seconds(Duration::ZERO), 0);
        assert_eq!(seconds(Duration::from_nanos(1)), 1);
        assert_eq!(seconds(Duration::from_secs(2)), 2);
        assert_eq!(seconds(Duration::MAX), i64::MAX);
        assert_eq!(millis(Duration::from_nanos(1)), 1);
    }

    #[test]
    fn a_word_is_repeated_escaped_and_cut() {
        assert_eq!(shown(b"a\xff\r\n'"), r"'a\xff\r\n\''");
        assert_eq!(shown(&[b'x'; 100]).len(), SHOWN_VALUE + 5);
    }
}
