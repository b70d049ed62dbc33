//! The text of the fields, in one small buffer.

use std::fmt;
use std::time::Duration;

use smallvec::SmallVec;

pub(super) const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The largest integer of a structured field.
pub(super) const MOST: u64 = 999_999_999_999_999;

/// Values up to this long together need no allocation: those of one rule, mostly.
const INLINE: usize = 96;

/// The bytes that are asked for where values are longer: two rules with names of some length.
const ROOM: usize = 192;

/// The most fields an answer has: those of draft 6, and Retry-After.
const FIELDS: usize = 5;

/// Two digits at a time.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let (mut tens, mut pair) = (b'0', 0);
    while pair < 100 {
        let mut ones = b'0';
        while ones <= b'9' {
            pairs[pair] = [tens, ones];
            ones += 1;
            pair += 1;
        }
        tens += 1;
    }
    pairs
};

/// A field that tells of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldName {
    Policy,
    RateLimit,
    Limit,
    Remaining,
    Reset,
    XLimit,
    XRemaining,
    XReset,
    RetryAfter,
}

impl FieldName {
    fn name(self) -> &'static str {
        match self {
            FieldName::Policy => "ratelimit-policy",
            FieldName::RateLimit => "ratelimit",
            FieldName::Limit => "ratelimit-limit",
            FieldName::Remaining => "ratelimit-remaining",
            FieldName::Reset => "ratelimit-reset",
            FieldName::XLimit => "x-ratelimit-limit",
            FieldName::XRemaining => "x-ratelimit-remaining",
            FieldName::XReset => "x-ratelimit-reset",
            FieldName::RetryAfter => "retry-after",
        }
    }
}

/// Header fields, each a name in lower case and a value of printable ASCII.
#[derive(Clone)]
pub struct HeaderFields {
    text: SmallVec<[u8; INLINE]>,
    /// Each field, and where its value ends; the first begins at zero.
    ends: [(FieldName, u16); FIELDS],
    count: u8,
}

impl HeaderFields {
    /// None.
    pub fn new() -> HeaderFields {
        let ends = [(FieldName::RetryAfter, 0); FIELDS];
        HeaderFields { text: SmallVec::new(), ends, count: 0 }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Each field's name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let text = |value| std::str::from_utf8(value).unwrap_or_default();
        self.iter_bytes().map(move |(name, value)| (name, text(value)))
    }

    /// Each field's name and the bytes of its value, for those who read them as bytes.
    pub fn iter_bytes(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let mut begin = 0;
        self.ends[..self.len()].iter().map(move |(field, end)| {
            let value = &self.text[begin..usize::from(*end)];
            begin = usize::from(*end);
            (field.name(), value)
        })
    }

    /// Makes room for what answers with names and several parameters tell.
    pub(super) fn reserve(&mut self) {
        self.text.reserve(ROOM);
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn text(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// A name as a string of a structured field: what it cannot carry becomes a question mark.
    pub(super) fn quoted(&mut self, name: &str) {
        self.text.push(b'"');
        if name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
            self.text(name);
        } else {
            for character in name.chars() {
                match character {
                    '"' | '\\' => self.text.extend_from_slice(&[b'\\', character as u8]),
                    ' '..='~' => self.text.push(character as u8),
                    _ => self.text.push(b'?'),
                }
            }
        }
        self.text.push(b'"');
    }

    /// `name` and a number, cut to the largest that a structured field can carry.
    pub(super) fn parameter(&mut self, name: &str, value: u64) {
        // Put together first: each time something is added there is room to be looked for.
        let mut text = [b'0'; 32];
        let (mut left, mut begin) = (value.min(MOST), text.len());
        while left > 0 {
            begin -= 2;
            let pair = usize::try_from(left % 100).unwrap_or(0);
            text[begin..begin + 2].copy_from_slice(&PAIRS[pair]);
            left /= 100;
        }
        // Without the zero in front that an odd number of digits has; zero itself is one digit.
        let odd = text.get(begin).is_none_or(|first| *first == b'0');
        let begin = if begin == text.len() { begin - 1 } else { begin + usize::from(odd) };
        match begin.checked_sub(name.len()) {
            Some(start) => {
                text[start..begin].copy_from_slice(name.as_bytes());
                self.text.extend_from_slice(&text[start..]);
            }
            None => {
                self.text(name);
                self.text.extend_from_slice(&text[begin..]);
            }
        }
    }

    /// A field that is a number.
    pub(super) fn number(&mut self, field: FieldName, value: u64) {
        self.parameter("", value);
        self.end(field);
    }

    /// What was written since the last end is the value of `field`; no field where that is nothing.
    pub(super) fn end(&mut self, field: FieldName) {
        let begin = self.count.checked_sub(1).map_or(0, |last| self.ends[usize::from(last)].1);
        let Ok(end) = u16::try_from(self.text.len()) else {
            // Rules and their names are bounded: this cannot be, and were it so, nothing is told.
            self.text.truncate(usize::from(begin));
            return;
        };
        if end > begin && usize::from(self.count) < FIELDS {
            self.ends[usize::from(self.count)] = (field, end);
            self.count += 1;
        }
    }
}

impl Default for HeaderFields {
    fn default() -> HeaderFields {
        HeaderFields::new()
    }
}

impl fmt::Debug for HeaderFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Whole seconds, rounded up.
pub(super) fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}
