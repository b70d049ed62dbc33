//! Answers of the Redis protocol, as far as a decision needs them.

use bytes::{Buf, BytesMut};

use super::records::Outcome;
use super::trouble::Trouble;

/// No line, no text and no list of an answer is longer.
const LONGEST: usize = 64 * 1024;

/// No answer as a whole is longer.
const MOST_WAITING: usize = 1024 * 1024;

/// An answer to one command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A map or list that begins with `allowed`.
    Decision {
        allowed: bool,
    },
    Error(String),
    Other,
}

impl Reply {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Reply::Decision { allowed: true } => Outcome::Allowed,
            Reply::Decision { allowed: false } => Outcome::Refused,
            Reply::Error(said) => Outcome::Failed(Trouble::answered("an error", said.as_bytes())),
            Reply::Other => {
                Outcome::Failed(Trouble::not_understood("an answer without a decision"))
            }
        }
    }

    pub(super) fn said(&self) -> &str {
        match self {
            Reply::Error(said) => said,
            _ => "an answer of another kind",
        }
    }
}

/// Takes the answer at the front, if it is whole.
pub(super) fn read_reply(input: &mut BytesMut) -> Result<Option<Reply>, Trouble> {
    let Some((reply, length)) = whole(input)? else {
        let is_endless = input.len() > MOST_WAITING;
        return if is_endless {
            Err(Trouble::not_understood("an endless answer"))
        } else {
            Ok(None)
        };
    };
    input.advance(length);
    Ok(Some(reply))
}

/// The answer at the front and how long it is.
fn whole(input: &[u8]) -> Result<Option<(Reply, usize)>, Trouble> {
    let mut at = 0;
    // Elements that are still to come, of lists in lists, too.
    let mut left: usize = 1;
    let mut reply = Reply::Other;
    let mut element = 0;
    let mut names_it = false;
    while left > 0 {
        let Some((kind, line)) = line(&input[at..])? else { return Ok(None) };
        at += line.len() + 3;
        left -= 1;
        match kind {
            b'*' | b'~' | b'>' => left = more(left, number(line)?)?,
            b'%' => left = more(left, number(line)? * 2)?,
            b'$' | b'=' => {
                let Ok(length) = usize::try_from(number(line)?) else { continue };
                let Some(text) = input.get(at..at + length) else { return Ok(None) };
                if input.len() < at + length + 2 {
                    return Ok(None);
                }
                names_it = element == 1 && text == b"allowed";
                at += length + 2;
            }
            b'-' | b'!' if element == 0 => {
                reply = Reply::Error(String::from_utf8_lossy(line).into_owned());
            }
            b':' if element == 2 && names_it => reply = Reply::Decision { allowed: line == b"1" },
            b'+' | b'-' | b':' | b'_' | b'#' | b',' => {}
            _ => return Err(not_resp(input)),
        }
        element += 1;
    }
    Ok(Some((reply, at)))
}

/// The first byte of a line, and what follows up to its end.
fn line(input: &[u8]) -> Result<Option<(u8, &[u8])>, Trouble> {
    let Some((kind, rest)) = input.split_first() else { return Ok(None) };
    if !b"*~>%$=-!:+_#,".contains(kind) {
        return Err(not_resp(input));
    }
    let end = rest.iter().take(LONGEST).position(|byte| *byte == b'\r');
    match end {
        Some(end) if rest.len() > end + 1 => Ok(Some((*kind, &rest[..end]))),
        None if rest.len() >= LONGEST => Err(not_resp(input)),
        _ => Ok(None),
    }
}

/// A length; -1 is of nothing.
fn number(line: &[u8]) -> Result<i64, Trouble> {
    let number = std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok());
    match number {
        Some(number) if number >= -1 && number <= LONGEST as i64 => Ok(number),
        _ => Err(not_resp(line)),
    }
}

fn more(left: usize, elements: i64) -> Result<usize, Trouble> {
    let all = left + usize::try_from(elements).unwrap_or(0);
    if all <= LONGEST { Ok(all) } else { Err(Trouble::not_understood("an endless list")) }
}

fn not_resp(input: &[u8]) -> Trouble {
    let start = &input[..input.len().min(40)];
    Trouble::not_understood(format!("it says \"{}\"", start.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECISION: &[u8] = b"*4\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n$-1\r\n";

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        for cut in 0..DECISION.len() {
            let mut input = BytesMut::from(&DECISION[..cut]);
            assert_eq!(read_reply(&mut input).expect("a part of one"), None, "{cut}");
            assert_eq!(input.len(), cut, "nothing is taken");
        }
        let mut input = BytesMut::from(&[DECISION, DECISION, b"-ERR no\r\n+OK\r\n"].concat()[..]);
        let mut next = || read_reply(&mut input).expect("an answer");
        assert_eq!(next(), Some(Reply::Decision { allowed: true }));
        assert_eq!(next(), Some(Reply::Decision { allowed: true }));
        assert_eq!(next(), Some(Reply::Error("ERR no".to_owned())));
        assert_eq!(next(), Some(Reply::Other));
        assert_eq!(next(), None);
    }

    #[test]
    fn both_versions_of_the_protocol_tell_a_decision() {
        let map = b"%2\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n_\r\n";
        let reply = read_reply(&mut BytesMut::from(&map[..])).expect("an answer");
        assert_eq!(reply, Some(Reply::Decision { allowed: false }));
    }

    #[test]
    fn what_is_no_answer_is_refused_at_once_and_never_waited_for() {
        let long = [b"+", &vec![b'x'; LONGEST + 1][..]].concat();
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\x00\x00\x12\x04",
            b"*99999999\r\n",
            b"$99999999999999999999\r\n",
            b"$-7\r\n",
            &long,
        ] {
            let read = read_reply(&mut BytesMut::from(bytes));
            assert!(read.is_err(), "{}", bytes[..bytes.len().min(20)].escape_ascii());
        }
        // One that is right so far, and never ends.
        let element = [&b"$60000\r\n"[..], &vec![b'x'; 60_000], b"\r\n"].concat();
        let part = |elements: usize| [&b"*65000\r\n"[..], &element.repeat(elements)].concat();
        assert!(read_reply(&mut BytesMut::from(&part(2)[..])).is_ok_and(|reply| reply.is_none()));
        assert!(read_reply(&mut BytesMut::from(&part(18)[..])).is_err());
        // Lists in lists are bounded together.
        let nested = b"*65536\r\n".repeat(3);
        assert!(read_reply(&mut BytesMut::from(&nested[..])).is_err());
    }
}
