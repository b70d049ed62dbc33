//! A run-time override written down: for a file, and for a store that a fleet shares.
//!
//! ```text
//! record  = 2:u8 client replaces details
//! client  = attributes:u32 (name:text value:text)*
//! replaces = 0:u8 | 1:u8 fingerprint:u64
//! details = until:u64 tiers:u32 tier:text* rules:u32 (rule:text limits:u32 limit:text*)*
//! text = length:u32 bytes, numbers little-endian; 2^32 - 1 limits are no limit
//! ```
//!
//! Records of version 1 have `1:u8` in place of `replaces`, or end with `0:u8`: an entry of the policy
//! that was removed at run time, which is not possible any more.

use super::overrides::{EntryFingerprint, RunTimeOverride};
use super::{Client, Override, RuleLimits};
use crate::limit::Limit;
use crate::time::Timestamp;

const VERSION: u8 = 2;
const UNLIMITED: u32 = u32::MAX;

/// Writes an override that was set at run time.
pub fn write_override(set: &RunTimeOverride, to: &mut Vec<u8>) {
    to.push(VERSION);
    write_client(&set.change.client, to);
    to.push(u8::from(set.replaces.is_some()));
    set.replaces.iter().for_each(|replaces| to.extend_from_slice(&replaces.to_bytes()));
    write_details(&set.change, to);
}

/// Writes a client.
pub fn write_client(client: &Client, to: &mut Vec<u8>) {
    number(client.len(), to);
    for (name, value) in client {
        text(name, to);
        text(value, to);
    }
}

/// Writes an override without its client.
pub(super) fn write_details(change: &Override, to: &mut Vec<u8>) {
    to.extend_from_slice(&change.until.map_or(0, Timestamp::as_nanos).to_le_bytes());
    number(usize::from(change.tier.is_some()), to);
    change.tier.iter().for_each(|tier| text(tier, to));
    number(change.limits.len(), to);
    for (rule, numbers) in &change.limits {
        text(rule, to);
        match numbers {
            RuleLimits::Unlimited => to.extend_from_slice(&UNLIMITED.to_le_bytes()),
            RuleLimits::All(limits) => {
                number(limits.len(), to);
                limits.iter().for_each(|limit| text(&limit.to_string(), to));
            }
        }
    }
}

/// A record of a run-time override.
#[derive(Clone, Debug, PartialEq)]
pub enum OverrideRecord {
    /// An override that is set.
    Set(RunTimeOverride),
    /// An entry of the policy that an earlier version removed at run time. It applies again.
    Obsolete,
}

/// Reads what [`write_override`] wrote.
pub fn read_override(bytes: &[u8]) -> Option<OverrideRecord> {
    let mut from = ByteReader(bytes);
    let version = from.byte()?;
    let mut client = Client::new();
    for _ in 0..from.number()? {
        client.insert(from.text()?, from.text()?);
    }
    let replaces = match (version, from.byte()?) {
        (1, 0) => return from.0.is_empty().then_some(OverrideRecord::Obsolete),
        (1, 1) | (VERSION, 0) => None,
        (VERSION, 1) => Some(EntryFingerprint::from_bytes(from.array()?)),
        _ => return None,
    };
    let mut change = Override::of(client);
    let until = u64::from_le_bytes(from.array()?);
    change.until = (until > 0).then_some(Timestamp::from_nanos(until));
    for _ in 0..from.number()? {
        change.tier = Some(from.text()?);
    }
    for _ in 0..from.number()? {
        change.limits.insert(from.text()?, from.numbers()?);
    }
    from.0.is_empty().then_some(OverrideRecord::Set(RunTimeOverride { change, replaces }))
}

fn number(number: usize, to: &mut Vec<u8>) {
    // What is longer was refused when the override was made: nothing holds four billion of these.
    to.extend_from_slice(&u32::try_from(number).unwrap_or(0).to_le_bytes());
}

fn text(text: &str, to: &mut Vec<u8>) {
    number(text.len(), to);
    to.extend_from_slice(text.as_bytes());
}

struct ByteReader<'a>(&'a [u8]);

impl ByteReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }

    fn numbers(&mut self) -> Option<RuleLimits> {
        let count = self.number()?;
        if count == UNLIMITED {
            return Some(RuleLimits::Unlimited);
        }
        let mut limits: Vec<Limit> = Vec::new();
        for _ in 0..count {
            limits.push(self.text()?.parse().ok()?);
        }
        Some(RuleLimits::All(limits))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn written(set: &RunTimeOverride) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_override(set, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_reads_back_and_what_is_cut_does_not() {
        let limits =
            vec![Limit::per_minute(7).burst(3), "5/day calendar Europe/Paris".parse().unwrap()];
        let change = Override::new("user", "ana")
            .tier("pro")
            .limits("api", limits)
            .limits("search", RuleLimits::Unlimited)
            .until(Timestamp::from_secs(2_000_000_000));
        for replaces in [None, Some(EntryFingerprint::of(Some(&change)))] {
            let set = RunTimeOverride { change: change.clone(), replaces };
            let bytes = written(&set);
            assert_eq!(read_override(&bytes), Some(OverrideRecord::Set(set)));
            for length in 0..bytes.len() {
                assert_eq!(read_override(&bytes[..length]), None, "{length} bytes");
            }
        }
    }

    #[test]
    fn records_of_version_1_are_read() {
        let change = Override::new("user", "ana").tier("pro");
        let record = |is_set: bool| {
            let mut bytes = vec![1];
            write_client(&change.client, &mut bytes);
            bytes.push(u8::from(is_set));
            bytes
        };
        assert_eq!(read_override(&record(false)), Some(OverrideRecord::Obsolete));
        let mut bytes = record(true);
        write_details(&change, &mut bytes);
        let set = RunTimeOverride { change, replaces: None };
        assert_eq!(read_override(&bytes), Some(OverrideRecord::Set(set)));
    }

    #[test]
    fn fingerprint_of_an_entry_covers_everything_but_its_client() {
        let entry = Override::new("user", "ana").tier("pro").limits("api", Limit::per_hour(7));
        let of = |entry: &Override| EntryFingerprint::of(Some(entry));
        let changed = [
            entry.clone().tier("free"),
            entry.clone().limits("api", Limit::per_hour(8)),
            entry.clone().limits("other", Limit::per_hour(7)),
            entry.clone().until(Timestamp::from_secs(1)),
        ];
        assert!(changed.iter().all(|other| of(other) != of(&entry)));
        assert_ne!(of(&entry), EntryFingerprint::of(None));
        let spelled = Override { client: Client::new(), ..entry.clone() };
        assert_eq!(of(&spelled), of(&entry));
    }
}
