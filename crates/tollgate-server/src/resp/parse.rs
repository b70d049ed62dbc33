//! Commands out of bytes: arrays of bulk strings or integers, and inline commands.
//!
//! A command borrows from the buffer it was read from. What is not whole yet says how many bytes
//! it takes at least, so that nobody reads it again before they are there.

use std::fmt;

use smallvec::SmallVec;

use super::inline;
use crate::resp::bounds::{MAX_ARGUMENTS, MAX_BULK, MAX_COMMAND, MAX_NUMBER};

/// How many arguments are held without an allocation: a request with seven attributes fits.
const INLINE: usize = 16;

/// The words of a command; the first is its name. None for an empty line.
pub(super) type Arguments<'a> = SmallVec<[&'a [u8]; INLINE]>;

/// As many digits fit 64 bits whatever they are.
const SURELY_FITS: usize = 18;

/// What the front of a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A command, and how many bytes it took.
    Command(usize),
    /// Part of a command that takes at least this many bytes.
    Incomplete(usize),
}

/// Why nothing that follows can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolError {
    ArrayLength,
    BulkLength,
    Number,
    NotAnArgument(u8),
    NoLineEnd,
    TooLong,
    InlineTooLong,
    Quotes,
    Escape,
    Http,
}

/// Reads the command at the front of `bytes` into `arguments`, which are its words if it is whole.
/// They are the caller's, so that a pipeline is read without moving them.
#[inline]
pub(super) fn parse<'a>(
    bytes: &'a [u8],
    arguments: &mut Arguments<'a>,
) -> Result<Parsed, ProtocolError> {
    arguments.clear();
    match bytes.first() {
        None => Ok(Parsed::Incomplete(1)),
        Some(b'*') => array(bytes, arguments),
        Some(_) => inline::parse(bytes, arguments),
    }
}

fn array<'a>(bytes: &'a [u8], arguments: &mut Arguments<'a>) -> Result<Parsed, ProtocolError> {
    let (count, mut at) = match short(bytes, 1) {
        Some(short) => short,
        None => match line(bytes, 1)? {
            Line::Incomplete => return Ok(Parsed::Incomplete(bytes.len() + 1)),
            Line::Whole(text, end) => {
                // An array of nothing, also the null array, is a command of no words: nobody is
                // answered.
                let count = number(text).ok_or(ProtocolError::ArrayLength)?.max(0);
                (usize::try_from(count).map_err(|_| ProtocolError::ArrayLength)?, end)
            }
        },
    };
    if count > MAX_ARGUMENTS {
        return Err(ProtocolError::ArrayLength);
    }
    for _ in 0..count {
        match argument(bytes, at)? {
            Ok((argument, end)) => {
                arguments.push(argument);
                at = end;
            }
            Err(needed) if needed > MAX_COMMAND => return Err(ProtocolError::TooLong),
            Err(needed) => return Ok(Parsed::Incomplete(needed)),
        }
    }
    if at > MAX_COMMAND {
        return Err(ProtocolError::TooLong);
    }
    Ok(Parsed::Command(at))
}

/// An argument and where it ends; or how many bytes there must be to say.
type Argument<'a> = Result<(&'a [u8], usize), usize>;

#[inline(always)]
fn argument(bytes: &[u8], at: usize) -> Result<Argument<'_>, ProtocolError> {
    if bytes.get(at) == Some(&b'$')
        && let Some((length, start)) = short(bytes, at + 1)
    {
        return bulk(bytes, start, length);
    }
    any_argument(bytes, at)
}

/// An argument that is no short bulk string, or not whole, or wrong.
#[inline(never)]
fn any_argument(bytes: &[u8], at: usize) -> Result<Argument<'_>, ProtocolError> {
    match bytes.get(at) {
        None => return Ok(Err(at + 1)),
        Some(b'$' | b':') => {}
        Some(other) => return Err(ProtocolError::NotAnArgument(*other)),
    }
    let (text, start) = match line(bytes, at + 1)? {
        Line::Incomplete => return Ok(Err(bytes.len() + 1)),
        Line::Whole(text, end) => (text, end),
    };
    if bytes[at] == b':' {
        return number(text).map(|_| Ok((text, start))).ok_or(ProtocolError::Number);
    }
    let length = number(text).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| *length <= MAX_BULK).ok_or(ProtocolError::BulkLength)?;
    bulk(bytes, start, length)
}

/// The bulk string of so many bytes that begins at `start`.
#[inline(always)]
fn bulk(bytes: &[u8], start: usize, length: usize) -> Result<Argument<'_>, ProtocolError> {
    let end = start + length;
    match bytes.get(end..end + 2) {
        Some(b"\r\n") => Ok(Ok((&bytes[start..end], end + 2))),
        Some(_) => Err(ProtocolError::NoLineEnd),
        // Also where its first byte is there and wrong: what is said must not depend on the pieces
        // in which it comes, and nobody looks again before both are there.
        None => Ok(Err(end + 2)),
    }
}

/// A length of one or two digits and where its line ends, which is what nearly every line is.
#[inline(always)]
fn short(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    match *bytes.get(at..at + 4)? {
        [one, b'\r', b'\n', _] => Some((digit(one)?, at + 3)),
        [ten, one, b'\r', b'\n'] => Some((digit(ten)? * 10 + digit(one)?, at + 4)),
        _ => None,
    }
}

enum Line<'a> {
    /// What stands before the line's end, and where the next begins.
    Whole(&'a [u8], usize),
    Incomplete,
}

/// The line from `at` on, which holds no more than a number.
fn line(bytes: &[u8], at: usize) -> Result<Line<'_>, ProtocolError> {
    let rest = &bytes[at..];
    let shown = &rest[..rest.len().min(MAX_NUMBER + 1)];
    match shown.iter().position(|byte| *byte == b'\r') {
        Some(length) => match rest.get(length + 1) {
            Some(b'\n') => Ok(Line::Whole(&rest[..length], at + length + 2)),
            Some(_) => Err(ProtocolError::NoLineEnd),
            None => Ok(Line::Incomplete),
        },
        None if shown.len() > MAX_NUMBER => Err(ProtocolError::Number),
        None => Ok(Line::Incomplete),
    }
}

/// A whole decimal number of 64 bits, with nothing around it.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > MAX_NUMBER {
        return None;
    }
    if !negative && digits.len() <= SURELY_FITS {
        return digits.iter().try_fold(0, |value, digit| {
            digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
        });
    }
    let mut value = 0_i64;
    for digit in digits {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        let next = value.checked_mul(10)?;
        value = if negative { next.checked_sub(digit)? } else { next.checked_add(digit)? };
    }
    Some(value)
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::ArrayLength => {
                write!(f, "invalid multibulk length, must be a number of at most {MAX_ARGUMENTS}")
            }
            ProtocolError::BulkLength => {
                write!(f, "invalid bulk length, must be a number from 0 to {MAX_BULK}")
            }
            ProtocolError::Number => {
                f.write_str("invalid number, must be a whole number of 64 bits")
            }
            ProtocolError::NotAnArgument(byte) => write!(
                f,
                "expected '$', got '{}': a command is an array of bulk strings or integers",
                byte.escape_ascii()
            ),
            ProtocolError::NoLineEnd => f.write_str("expected CR LF where the length says"),
            ProtocolError::TooLong => {
                write!(f, "too big request, a command must be at most {MAX_COMMAND} bytes")
            }
            ProtocolError::InlineTooLong => f.write_str("too big inline request, send an array"),
            ProtocolError::Quotes => f.write_str("unbalanced quotes in request"),
            ProtocolError::Escape => {
                f.write_str("escapes in an inline request are not read, send an array")
            }
            ProtocolError::Http => {
                f.write_str("this looks like HTTP, the Redis protocol is spoken here")
            }
        }
    }
}

#[cfg(test)]
mod tests;
