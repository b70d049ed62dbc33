//! What a request asks for: read, and within bounds.

use std::fmt;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{EnvoyDescriptor, Key, KeyPart};

use super::rate_limit_descriptor::{Entry, RateLimitOverride};
use super::rate_limit_response::rate_limit::Unit;
use super::{RateLimitDescriptor, RateLimitRequest};
use crate::bounds::{Bound, Bounds};

/// How many descriptors are read without an allocation: requests have few.
const INLINE: usize = 2;

/// What is asked for each descriptor, in their order.
pub(super) type Asks<'r> = SmallVec<[Ask<'r>; INLINE]>;

/// What is wrong with a request, and what would be right.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) text: String,
    /// The bound that was gone over, if that is it.
    pub(crate) over: Option<Bound>,
}

impl Wrong {
    pub(super) fn new(text: impl Into<String>) -> Wrong {
        Wrong { text: text.into(), over: None }
    }

    fn over(bound: Bound, text: String) -> Wrong {
        Wrong { text, over: Some(bound) }
    }
}

/// What one descriptor asks for.
pub(super) struct Ask<'r> {
    pub(super) descriptor: EnvoyDescriptor<'r>,
    pub(super) act: Act,
    /// Whether the descriptor itself says how much, as for costs that are known afterwards.
    pub(super) says_hits: bool,
    /// A limit that stands in for those of the policy.
    pub(super) sent: Option<Sent<'r>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Take(u64),
    Look,
    GiveBack(u64),
}

/// A limit that the client sends.
#[derive(Clone, Copy)]
pub(super) struct Sent<'r> {
    pub(super) numbers: Numbers,
    pub(super) key: SentKey<'r>,
}

/// So many units per unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbers {
    pub(super) count: u32,
    pub(super) unit: Unit,
}

/// What a limit that the client sends counts by: the domain and every entry.
#[derive(Clone, Copy)]
pub(super) struct SentKey<'r> {
    domain: &'r str,
    entries: &'r [Entry],
}

impl SentKey<'_> {
    /// As operators are told it.
    pub(super) fn shown(&self) -> SmallVec<[(&str, &str); 8]> {
        let entries = self.entries.iter().map(|entry| (&*entry.key, &*entry.value));
        std::iter::once(("domain", self.domain)).chain(entries).collect()
    }
}

impl Key for SentKey<'_> {
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        part(KeyPart::Bytes(self.domain.as_bytes()));
        for entry in self.entries {
            part(KeyPart::Bytes(entry.key.as_bytes()));
            part(KeyPart::Bytes(entry.value.as_bytes()));
        }
    }
}

/// What `request` asks for, or what is wrong with it.
pub(super) fn read<'r>(request: &'r RateLimitRequest, bounds: &Bounds) -> Result<Asks<'r>, Wrong> {
    let RateLimitRequest { domain, descriptors, hits_addend } = request;
    if domain.is_empty() {
        let message = "the domain is empty, must be the one that the limits are for, such as edge";
        return Err(Wrong::new(message));
    }
    short(domain, bounds, || "the domain".to_owned())?;
    if descriptors.is_empty() {
        let message = "there are no descriptors, must be at least one, such as entries {key: \"user\", value: \"42\"}";
        return Err(Wrong::new(message));
    }
    if descriptors.len() > bounds.descriptors {
        let (given, most) = (descriptors.len(), bounds.descriptors);
        let message = format!("{given} descriptors, must be at most {most}");
        return Err(Wrong::over(Bound::Descriptors, message));
    }
    let hits = u64::from(*hits_addend).max(1);
    let asks = descriptors.iter().enumerate();
    asks.map(|(place, descriptor)| {
        check_entries(&descriptor.entries, place + 1, bounds)?;
        ask(domain, descriptor, (place + 1, hits))
    })
    .collect()
}

fn ask<'r>(
    domain: &'r str,
    descriptor: &'r RateLimitDescriptor,
    (place, hits): (usize, u64),
) -> Result<Ask<'r>, Wrong> {
    let RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits } = descriptor;
    let act = match hits_addend.unwrap_or(hits) {
        0 => Act::Look,
        units if *is_negative_hits => Act::GiveBack(units),
        units => Act::Take(units),
    };
    let numbers = limit.as_ref().map(|limit| numbers(limit, place)).transpose()?;
    let sent = numbers.map(|numbers| Sent { numbers, key: SentKey { domain, entries } });
    let entries = entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()));
    let (descriptor, says_hits) = (EnvoyDescriptor::new(domain, entries), hits_addend.is_some());
    Ok(Ask { descriptor, act, says_hits, sent })
}

fn check_entries(entries: &[Entry], place: usize, bounds: &Bounds) -> Result<(), Wrong> {
    if entries.is_empty() {
        let message = format!("descriptor {place} has no entries, must have at least one");
        return Err(Wrong::new(message));
    }
    // They are attributes beside the domain and the descriptor itself.
    let most = bounds.attributes.saturating_sub(2).max(1);
    if entries.len() > most {
        let given = entries.len();
        let message = format!("descriptor {place} has {given} entries, must be at most {most}");
        return Err(Wrong::over(Bound::Attributes, message));
    }
    for (number, entry) in entries.iter().enumerate() {
        let of = |what| format!("the {what} of entry {} of descriptor {place}", number + 1);
        if entry.key.is_empty() {
            return Err(Wrong::new(format!("{} is empty, must name the entry", of("key"))));
        }
        short(&entry.key, bounds, || of("key"))?;
        short(&entry.value, bounds, || of("value"))?;
    }
    Ok(())
}

fn short(text: &str, bounds: &Bounds, what: impl FnOnce() -> String) -> Result<(), Wrong> {
    let (long, most) = (text.len(), bounds.key_length);
    if long <= most {
        return Ok(());
    }
    let message = format!("{} is {long} bytes, must be at most {most}", what());
    Err(Wrong::over(Bound::KeyLength, message))
}

fn numbers(limit: &RateLimitOverride, place: usize) -> Result<Numbers, Wrong> {
    // The numbers of the two enumerations are the same; only one of them has weeks.
    match Unit::try_from(limit.unit) {
        Ok(unit) if unit != Unit::Unknown => Ok(Numbers { count: limit.requests_per_unit, unit }),
        _ => Err(Wrong::new(format!(
            "the unit of the limit of descriptor {place} is {}, must be one of SECOND (1), \
             MINUTE (2), HOUR (3), DAY (4), MONTH (5), YEAR (6), WEEK (7)",
            limit.unit
        ))),
    }
}

/// How long a unit is.
pub(super) fn length(unit: Unit) -> Duration {
    let known = UNITS.iter().find(|(known, _)| *known == unit);
    // Every unit but none is in the table, and none is refused when a request is read.
    known.map_or(Duration::from_secs(1), |(_, length)| *length)
}

/// The units of time with their lengths, as the reference server has them.
pub(super) const UNITS: [(Unit, Duration); 7] = {
    const DAY: u64 = 24 * 60 * 60;
    [
        (Unit::Second, Duration::from_secs(1)),
        (Unit::Minute, Duration::from_secs(60)),
        (Unit::Hour, Duration::from_secs(60 * 60)),
        (Unit::Day, Duration::from_secs(DAY)),
        (Unit::Week, Duration::from_secs(7 * DAY)),
        (Unit::Month, Duration::from_secs(30 * DAY)),
        (Unit::Year, Duration::from_secs(365 * DAY)),
    ]
};

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
