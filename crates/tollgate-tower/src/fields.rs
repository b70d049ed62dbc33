//! Header fields, from text into an answer.

use bytes::Bytes;
use http::header::{Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::HeaderFields;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What the client is told of a request that is being served, small until it is written.
#[derive(Default)]
pub(crate) enum Told {
    #[default]
    Nothing,
    /// The limit, what remains and the reset, in fields of their own.
    Numbers([u64; 3]),
    Fields(Box<HeaderFields>),
}

impl Told {
    pub(crate) fn fields(fields: HeaderFields) -> Told {
        if fields.is_empty() { Told::Nothing } else { Told::Fields(Box::new(fields)) }
    }

    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Told::Nothing)
    }

    /// Tells it.
    pub(crate) fn add(&self, headers: &mut HeaderMap) {
        match self {
            Told::Nothing => {}
            Told::Fields(fields) => add(headers, fields),
            Told::Numbers(numbers) => {
                // A map that is empty has nothing that must stay.
                let is_new = headers.is_empty();
                for (name, told) in [X_LIMIT, X_REMAINING, X_RESET].into_iter().zip(numbers) {
                    if is_new || !headers.contains_key(&name) {
                        headers.insert(name, number(*told));
                    }
                }
            }
        }
    }
}

/// Adds what is told. Lists of limits go on where a layer beneath has begun them; of anything else
/// what is there stays, since that layer is nearer to the request.
pub(crate) fn add(headers: &mut HeaderMap, fields: &HeaderFields) {
    for (name, text) in fields.iter_bytes() {
        let Some(name) = known(name) else { continue };
        // Names in quotes are a list's.
        let is_list = text.first() == Some(&b'"');
        let Ok(told) = HeaderValue::from_bytes(text) else { continue };
        match headers.entry(name) {
            Entry::Vacant(entry) => drop(entry.insert(told)),
            Entry::Occupied(mut entry) if is_list => entry.append(told),
            Entry::Occupied(_) => {}
        }
    }
}

/// The numbers below a thousand, three digits each.
static SMALL: [u8; 3000] = {
    let mut digits = [b'0'; 3000];
    let (mut number, mut at) = (0, 0);
    while number < 1000 {
        (digits[at], digits[at + 1]) = (digit(number / 100), digit(number / 10 % 10));
        digits[at + 2] = digit(number % 10);
        (number, at) = (number + 1, at + 3);
    }
    digits
};

#[allow(clippy::cast_possible_truncation, reason = "a digit is below 10")]
const fn digit(value: usize) -> u8 {
    b'0' + value as u8
}

/// A number; a small one, as most waits are and much of what remains, without an allocation.
fn number(value: u64) -> HeaderValue {
    let mut digits = [b'0'; 20];
    let (mut left, mut begin) = (value, digits.len());
    while left >= 1000 {
        begin -= 3;
        digits[begin..begin + 3].copy_from_slice(&three(left % 1000));
        left /= 1000;
    }
    // The first group, without the zeros in front of it.
    let length = match left {
        0..10 => 1,
        10..100 => 2,
        _ => 3,
    };
    if begin == digits.len() {
        let at = usize::try_from(left).unwrap_or(0) * 3 + 3;
        let known = SMALL.get(at - length..at).unwrap_or_default();
        return HeaderValue::from_maybe_shared(Bytes::from_static(known)).unwrap_or(ZERO);
    }
    digits[begin - length..begin].copy_from_slice(&three(left)[3 - length..]);
    HeaderValue::from_bytes(&digits[begin - length..]).unwrap_or(ZERO)
}

/// What digits never come to.
const ZERO: HeaderValue = HeaderValue::from_static("0");

#[inline]
fn three(number: u64) -> [u8; 3] {
    let at = usize::try_from(number).unwrap_or(0) * 3;
    SMALL.get(at..at + 3).and_then(|digits| digits.try_into().ok()).unwrap_or([b'0'; 3])
}

fn known(name: &str) -> Option<HeaderName> {
    Some(match name {
        "ratelimit-policy" => POLICY,
        "ratelimit" => RATE_LIMIT,
        "ratelimit-limit" => LIMIT,
        "ratelimit-remaining" => REMAINING,
        "ratelimit-reset" => RESET,
        "x-ratelimit-limit" => X_LIMIT,
        "x-ratelimit-remaining" => X_REMAINING,
        "x-ratelimit-reset" => X_RESET,
        "retry-after" => RETRY_AFTER,
        _ => return HeaderName::from_bytes(name.as_bytes()).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_reads_as_the_standard_library_writes_it(bits in 0_u32..64, random: u64) {
            let value = random >> bits;
            prop_assert_eq!(number(value).as_bytes().to_vec(), value.to_string().into_bytes());
        }
    }

    #[test]
    fn numbers_around_every_length_read_right() {
        for power in 0..20 {
            for value in [10_u64.pow(power) - 1, 10_u64.pow(power), 10_u64.pow(power) + 1] {
                assert_eq!(number(value).as_bytes(), value.to_string().as_bytes());
            }
        }
        assert_eq!(number(u64::MAX).as_bytes(), u64::MAX.to_string().as_bytes());
    }
}
