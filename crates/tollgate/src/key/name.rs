//! A key written down: what lists show, and what composite keys are hashed from.
//!
//! Each part is a header (length and kind in one variable-length number) and its bytes, so that
//! no two lists of parts are written alike.

use std::fmt;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::{Key, KeyPart};
use crate::bounds::MAX_NAME;

const BYTES: u64 = 0;
const NUMBER: u64 = 1;
const NEGATIVE: u64 = 2;
/// Of the length of an address; of `LIST_BYTES`, the length of a list; of one byte, a truth value.
const IP: u64 = 3;
const LIST_BYTES: usize = 8;

/// A key as lists show it.
///
/// It is the key itself again, to be given to `reset` or `status`, unless the key was longer than
/// 256 bytes: of those only the beginning is kept, shown with `…` at its end.
///
/// What it shows is for people, and does not tell 42 and `"42"` apart, which the name itself does. A
/// list inside a list is shown by its length and its items: `([2], a, b, c)`.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_hour(10))?;
/// assert!(limiter.check(("acme", 42)).is_allowed());
/// let (name, status) = limiter.keys().next().unwrap();
/// assert_eq!(name.to_string(), "(acme, 42)");
/// assert_eq!(status.used(), 1);
/// limiter.reset(&name);
/// assert!(limiter.status(("acme", 42)).is_fresh());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName(SmallVec<[u8; INLINE]>);

/// Names up to this long need no allocation.
const INLINE: usize = 40;

impl KeyName {
    /// The name of `key`.
    pub fn new(key: &(impl Key + ?Sized)) -> KeyName {
        let mut name = SmallVec::new();
        key.parts(&mut |part| {
            write_part(part, &mut |bytes| {
                // One more than is kept tells that there was more.
                let room = MAX_NAME + 1 - name.len();
                name.extend_from_slice(&bytes[..bytes.len().min(room)]);
            });
        });
        KeyName(name)
    }

    /// Whether it is the whole key, and not only the beginning of a long one.
    pub fn is_whole(&self) -> bool {
        self.0.len() <= MAX_NAME
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> KeyName {
        KeyName(bytes.into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Writes a part so that it is unmistakable, in pieces.
#[inline]
pub(crate) fn write_part(part: KeyPart<'_>, piece: &mut impl FnMut(&[u8])) {
    match part {
        KeyPart::Bytes(bytes) => framed(BYTES, bytes, piece),
        KeyPart::Number(number) => {
            let (kind, magnitude) = if number < 0 { (NEGATIVE, !number) } else { (NUMBER, number) };
            let bytes = magnitude.to_le_bytes();
            let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
            framed(kind, &bytes[..bytes.len() - zeros], piece);
        }
        KeyPart::Large(number) => framed(NUMBER, &number.to_le_bytes(), piece),
        KeyPart::Ip(IpAddr::V4(ip)) => framed(IP, &ip.octets(), piece),
        KeyPart::Ip(IpAddr::V6(ip)) => framed(IP, &ip.octets(), piece),
        KeyPart::Bool(truth) => framed(IP, &[truth.into()], piece),
        KeyPart::List(length) => {
            let bytes: [u8; LIST_BYTES] = length.to_le_bytes();
            framed(IP, &bytes, piece);
        }
    }
}

/// The octets of an address as [`write_part`] writes them: `W` is one more than they are.
#[inline]
pub(super) fn written_ip<const N: usize, const W: usize>(octets: [u8; N]) -> [u8; W] {
    let mut written = [0; W];
    // A length below 32 and the kind fit one byte.
    written[0] = N.to_le_bytes()[0] << 2 | IP.to_le_bytes()[0];
    written[1..].copy_from_slice(&octets);
    written
}

fn framed(kind: u64, bytes: &[u8], piece: &mut impl FnMut(&[u8])) {
    // In 64 bits also where a `usize` has 32: the kind needs two of them. No slice is longer than
    // half of the address space.
    let mut header = u64::try_from(bytes.len()).unwrap_or(u64::MAX >> 2) << 2 | kind;
    while header > 0x7f {
        piece(&[header.to_le_bytes()[0] | 0x80]);
        header >>= 7;
    }
    piece(&[header.to_le_bytes()[0]]);
    piece(bytes);
}

/// Takes the first part off `bytes`, which may end before it does.
fn split_part(bytes: &[u8]) -> Option<(DisplayKeyParts<'_>, &[u8])> {
    let mut header = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        header |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let rest = &bytes[index + 1..];
            let length = usize::try_from(header >> 2).unwrap_or(usize::MAX);
            let (body, rest) = rest.split_at(length.min(rest.len()));
            return Some((DisplayKeyParts { kind: header & 3, body }, rest));
        }
    }
    None
}

/// A part as it was written.
struct DisplayKeyParts<'a> {
    kind: u64,
    body: &'a [u8],
}

impl<'a> DisplayKeyParts<'a> {
    fn part(&self) -> KeyPart<'a> {
        let number = || {
            let mut bytes = [0; 16];
            let length = self.body.len().min(16);
            bytes[..length].copy_from_slice(&self.body[..length]);
            u128::from_le_bytes(bytes)
        };
        match self.kind {
            NUMBER => {
                i128::try_from(number()).map_or_else(|_| KeyPart::Large(number()), KeyPart::Number)
            }
            NEGATIVE => {
                KeyPart::Number(i128::try_from(number()).map_or(i128::MIN, |number| !number))
            }
            IP if self.body.len() == 1 => KeyPart::Bool(self.body != [0]),
            IP => match (<[u8; 4]>::try_from(self.body), <[u8; 16]>::try_from(self.body)) {
                (Ok(octets), _) => KeyPart::Ip(octets.into()),
                (_, Ok(octets)) => KeyPart::Ip(octets.into()),
                _ => match <[u8; LIST_BYTES]>::try_from(self.body) {
                    Ok(length) => KeyPart::List(u64::from_le_bytes(length)),
                    Err(_) => KeyPart::Bytes(self.body),
                },
            },
            _ => KeyPart::Bytes(self.body),
        }
    }
}

fn written(mut bytes: &[u8]) -> impl Iterator<Item = DisplayKeyParts<'_>> {
    std::iter::from_fn(move || {
        let (part, rest) = split_part(bytes)?;
        bytes = rest;
        Some(part)
    })
}

impl Key for KeyName {
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        written(&self.0).for_each(|written| part(written.part()));
    }

    /// One part is that part, several are a list.
    fn nested(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        let mut all = written(&self.0).map(|written| written.part());
        if let (Some(only), None) = (all.next(), all.next())
            && !matches!(only, KeyPart::List(_))
        {
            return part(only);
        }
        part(KeyPart::List(written(&self.0).map(|_| 1).sum()));
        self.parts(part);
    }
}

impl fmt::Display for KeyName {
    /// One part as it is; several as a list in parentheses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = written(&self.0).nth(1).is_some();
        f.write_str(if several { "(" } else { "" })?;
        for (index, part) in written(&self.0).enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            match part.part() {
                KeyPart::Bytes(bytes) => {
                    write!(f, "{}", String::from_utf8_lossy(bytes).escape_debug())?
                }
                KeyPart::Number(number) => write!(f, "{number}")?,
                KeyPart::Large(number) => write!(f, "{number}")?,
                KeyPart::Ip(ip) => write!(f, "{ip}")?,
                KeyPart::Bool(truth) => write!(f, "{truth}")?,
                KeyPart::List(length) => write!(f, "[{length}]")?,
            }
        }
        f.write_str(if self.is_whole() { "" } else { "…" })?;
        f.write_str(if several { ")" } else { "" })
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyName({self})")
    }
}
