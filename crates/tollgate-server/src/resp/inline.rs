//! Inline commands: a line of words, as typed into a terminal.

use super::parse::{Arguments, Parsed, ProtocolError};
use crate::resp::bounds::{MAX_ARGUMENTS, MAX_INLINE};

/// Reads the line at the front of `bytes` into `words`.
pub(super) fn parse<'a>(
    bytes: &'a [u8],
    words: &mut Arguments<'a>,
) -> Result<Parsed, ProtocolError> {
    let shown = &bytes[..bytes.len().min(MAX_INLINE)];
    let Some(end) = shown.iter().position(|byte| *byte == b'\n') else {
        return match shown.len() < MAX_INLINE {
            true => Ok(Parsed::Incomplete(bytes.len() + 1)),
            false => Err(ProtocolError::InlineTooLong),
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    split(line, words)?;
    // A browser that is led to this port must not have its request's body run as commands.
    match words.first() {
        Some(first) if first.eq_ignore_ascii_case(b"host:") || *first == b"POST" => {
            Err(ProtocolError::Http)
        }
        _ => Ok(Parsed::Command(end + 1)),
    }
}

fn split<'a>(mut line: &'a [u8], words: &mut Arguments<'a>) -> Result<(), ProtocolError> {
    loop {
        line = line.trim_ascii_start();
        let (word, rest) = match line.first() {
            None => return Ok(()),
            Some(quote @ (b'"' | b'\'')) => quoted(&line[1..], *quote)?,
            Some(_) => {
                let end = line.iter().position(u8::is_ascii_whitespace);
                line.split_at(end.unwrap_or(line.len()))
            }
        };
        if words.len() == MAX_ARGUMENTS {
            return Err(ProtocolError::ArrayLength);
        }
        words.push(word);
        line = rest;
    }
}

/// What stands before `quote`, and the rest of the line after it.
fn quoted(line: &[u8], quote: u8) -> Result<(&[u8], &[u8]), ProtocolError> {
    let end = line.iter().position(|byte| *byte == quote).ok_or(ProtocolError::Quotes)?;
    let (word, rest) = (&line[..end], &line[end + 1..]);
    if word.contains(&b'\\') {
        return Err(ProtocolError::Escape);
    }
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(ProtocolError::Quotes),
        _ => Ok((word, rest)),
    }
}
