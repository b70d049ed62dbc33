//! An override written down: for a file, and for a store that a fleet shares.
//!
//! ```text
//! 1:u8  attributes:u32 (name:text value:text)*
//! 0:u8  | 1:u8 until:u64 tiers:u32 tier:text* rules:u32 (rule:text limits:u32 limit:text*)*
//! text = length:u32 bytes, numbers little-endian; 2^32 - 1 limits are no limit
//! ```

use std::collections::BTreeMap;

use super::{Client, Numbers, Override};
use crate::limit::Limit;
use crate::time::Timestamp;

const VERSION: u8 = 1;
const UNLIMITED: u32 = u32::MAX;

/// Writes what is different for a client; `None` where nothing is any more.
pub fn write_override(client: &Client, change: Option<&Override>, to: &mut Vec<u8>) {
    to.push(VERSION);
    number(client.len(), to);
    for (name, value) in client {
        text(name, to);
        text(value, to);
    }
    to.push(u8::from(change.is_some()));
    let Some(change) = change else { return };
    to.extend_from_slice(&change.until.map_or(0, Timestamp::as_nanos).to_le_bytes());
    number(usize::from(change.tier.is_some()), to);
    change.tier.iter().for_each(|tier| text(tier, to));
    number(change.numbers.len(), to);
    for (rule, numbers) in &change.numbers {
        text(rule, to);
        match numbers {
            Numbers::Unlimited => to.extend_from_slice(&UNLIMITED.to_le_bytes()),
            Numbers::Limits(limits) => {
                number(limits.len(), to);
                limits.iter().for_each(|limit| text(&limit.to_string(), to));
            }
        }
    }
}

/// Reads what [`write_override`] wrote.
pub fn read_override(bytes: &[u8]) -> Option<(Client, Option<Override>)> {
    let mut from = Reading(bytes);
    if from.byte()? != VERSION {
        return None;
    }
    let mut client = Client::new();
    for _ in 0..from.number()? {
        client.insert(from.text()?, from.text()?);
    }
    if from.byte()? == 0 {
        return from.0.is_empty().then_some((client, None));
    }
    let mut change = Override::of(client.clone());
    let until = u64::from_le_bytes(from.array()?);
    change.until = (until > 0).then_some(Timestamp::from_nanos(until));
    for _ in 0..from.number()? {
        change.tier = Some(from.text()?);
    }
    let mut numbers = BTreeMap::new();
    for _ in 0..from.number()? {
        numbers.insert(from.text()?, from.numbers()?);
    }
    change.numbers = numbers;
    from.0.is_empty().then_some((client, Some(change)))
}

fn number(number: usize, to: &mut Vec<u8>) {
    // What is longer was refused when the override was made: nothing holds four billion of these.
    to.extend_from_slice(&u32::try_from(number).unwrap_or(0).to_le_bytes());
}

fn text(text: &str, to: &mut Vec<u8>) {
    number(text.len(), to);
    to.extend_from_slice(text.as_bytes());
}

struct Reading<'a>(&'a [u8]);

impl Reading<'_> {
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

    fn numbers(&mut self) -> Option<Numbers> {
        let count = self.number()?;
        if count == UNLIMITED {
            return Some(Numbers::Unlimited);
        }
        let mut limits: Vec<Limit> = Vec::new();
        for _ in 0..count {
            limits.push(self.text()?.parse().ok()?);
        }
        Some(Numbers::Limits(limits))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn written(change: &Override) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_override(&change.client, Some(change), &mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_reads_back_and_what_is_cut_does_not() {
        let limits =
            vec![Limit::per_minute(7).burst(3), "5/day calendar Europe/Paris".parse().unwrap()];
        let change = Override::new("user", "ana")
            .tier("pro")
            .numbers("api", limits)
            .numbers("search", Numbers::Unlimited)
            .until(Timestamp::from_secs(2_000_000_000));
        let bytes = written(&change);
        assert_eq!(read_override(&bytes), Some((change.client.clone(), Some(change))));
        for length in 0..bytes.len() {
            assert_eq!(read_override(&bytes[..length]), None, "{length} bytes");
        }
        let mut taken_back = Vec::new();
        write_override(&Client::new(), None, &mut taken_back);
        assert_eq!(read_override(&taken_back), Some((Client::new(), None)));
    }
}
