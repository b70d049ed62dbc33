//! Resets, which a node reports to the others: what they have borrowed of such keys is not charged any
//! more.
//!
//! Resets are told as blocks by hand are, in the hash that all nodes read when it has changed. A node
//! that hears of none, as when the store is away, spends what it has to its end, which is soon.

use std::collections::HashMap;
use std::sync::PoisonError;

use tollgate::KeyName;

use super::RedisGate;
use super::names::KeyPartList;
use crate::bounds::{MAX_LIMITS, TOLD_RESETS};
use crate::error::StoreError;
use crate::layout::key_of;
use crate::operate::begins_with;

/// What a field of the shared hash begins with that tells of a reset.
const RESET: u8 = b'r';

/// Which keys were made new.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResetScope<'a> {
    /// A rule's key, by its values.
    Key(&'a str, &'a [&'a str]),
    /// A rule's keys whose first value begins so.
    Prefix(&'a str, &'a str),
    /// All of a rule.
    Rule(&'a str),
    All,
}

impl ResetScope<'_> {
    /// What it is and its texts, each with its length in front.
    fn field(self) -> Vec<u8> {
        let (kind, texts) = match self {
            ResetScope::Key(rule, values) => (b'k', [&[rule], values].concat()),
            ResetScope::Prefix(rule, prefix) => (b'p', vec![rule, prefix]),
            ResetScope::Rule(rule) => (b'r', vec![rule]),
            ResetScope::All => (b'a', Vec::new()),
        };
        let mut field = vec![RESET, kind];
        for text in texts {
            field.extend_from_slice(&u32::try_from(text.len()).unwrap_or(0).to_be_bytes());
            field.extend_from_slice(text.as_bytes());
        }
        field
    }

    /// The inverse; what a later version may tell, and this one does not know, is taken for everything.
    fn read<'a>(kind: u8, texts: &'a [&'a str]) -> ResetScope<'a> {
        match (kind, texts) {
            (b'k', [rule, values @ ..]) => ResetScope::Key(rule, values),
            (b'p', [rule, prefix]) => ResetScope::Prefix(rule, prefix),
            (b'r', [rule]) => ResetScope::Rule(rule),
            _ => ResetScope::All,
        }
    }
}

fn texts(mut bytes: &[u8]) -> Vec<&str> {
    let mut texts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some((text, rest)) = rest.split_at_checked(length) else { break };
        texts.push(std::str::from_utf8(text).unwrap_or_default());
        bytes = rest;
    }
    texts
}

impl RedisGate {
    /// Drops what this node has borrowed of keys that were made new, and tells the others.
    pub(super) async fn revoke(&self, reset: ResetScope<'_>) -> Result<(), StoreError> {
        let names = self.names(&self.policy());
        if names.shortest_lease().is_none() {
            return Ok(());
        }
        self.drop_leases(reset);
        let now = match self.0.store.clock() {
            Some(_) => self.0.store.now_micros(),
            None => self.server_time().await?,
        };
        // No two resets of a key look alike.
        let ticket = self.0.store.unique_number().to_be_bytes();
        self.share(&reset.field(), &[now.to_be_bytes(), ticket].concat()).await?;
        self.tidy(RESET, now.saturating_sub(micros(TOLD_RESETS))).await
    }

    fn drop_leases(&self, reset: ResetScope<'_>) {
        let Some(leases) = self.0.leases.get() else { return };
        match reset {
            ResetScope::Key(rule, values) => {
                let (names, bytes) = (self.names(&self.policy()), KeyPartList(values).bytes());
                let Some((_, of_rule)) = names.find(rule) else { return };
                let all = (0..MAX_LIMITS).map(|position| of_rule.prefix(position));
                all.for_each(|prefix| leases.forget(&prefix.written(&bytes)));
            }
            ResetScope::Prefix(rule, prefix) => leases.forget_where(|name| {
                let begins = |key: KeyName| begins_with(&key, prefix.as_bytes());
                self.is_of_rule(name, rule) && key_of(name).is_some_and(begins)
            }),
            ResetScope::Rule(rule) => leases.forget_where(|name| self.is_of_rule(name, rule)),
            ResetScope::All => leases.forget_where(|_| true),
        }
    }

    /// Drops what other nodes tell of that was not known yet.
    pub(super) fn heed_resets(&self, fields: &HashMap<Vec<u8>, Vec<u8>>) {
        let told = fields.iter().filter(|(field, _)| field.first() == Some(&RESET));
        let told: HashMap<Vec<u8>, Vec<u8>> =
            told.map(|(field, value)| (field.clone(), value.clone())).collect();
        let mut known = self.0.shared.resets.lock().unwrap_or_else(PoisonError::into_inner);
        for (field, value) in &told {
            let [_, kind, rest @ ..] = field.as_slice() else { continue };
            if known.get(field) != Some(value) {
                self.drop_leases(ResetScope::read(*kind, &texts(rest)));
            }
        }
        *known = told;
    }
}

fn micros(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
