//! Snapshots: the state as bytes, so that a restart does not give every key a fresh allowance.
//!
//! A snapshot holds ids of keys and the seed of their hash, so that it also works without names; it is as
//! confidential as the seed. Its content is in verified chunks ([`chunks`]). Every number is
//! little-endian:
//!
//! ```text
//! taken_at:u64 seed:[16] max_keys:u64 shards:u32
//! limits:u32 (limiter:text limit:text)*
//! (1:u8 shard:u32 id:u64 limit:u32 name:text state | 3:u8 limiter:text limit:text)*
//! (2:u8 id:u64 place:u64 rule:text name:text until:u64 forgotten:u64 times:u32 by_hand:u8)*
//! (4:u8 length:u32 override)*  0:u8
//! text  = length:u16 bytes        state = 0:u8 words:[3 x u64] | 1:u8 entries:u32 (at:u64 units:u64)*
//! ```
//!
//! A key names its limit by its place in the list, counted from one. A record of kind 3 adds a limit
//! to the list that was registered while the snapshot was written. An override is written as for a
//! shared store ([`write_override`]).

mod chunks;
mod listing;
mod pieces;
mod records;
mod summary;

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use self::chunks::{ChunkReader, ChunkWriter};
use self::listing::LimitListing;
use self::pieces::StateReader;
use self::records::{RecordReader, RecordWriter};
pub use self::summary::SnapshotSummary;
use super::blocks::BlockRecord;
use super::shard::{ChargeContext, NewEntry, ReclaimPolicy};
use super::{Memory, MemorySettings, RegisteredLimit};
use crate::algorithm::State;
use crate::bounds::KEYS_PER_SHARD;
use crate::key::{KeyId, KeyName};
use crate::limit::{Limit, LimitError, Plan};
use crate::policy::{OverrideRecord, RuleLimits, read_override, write_override};
use crate::time::Timestamp;

/// Why a snapshot could not be restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It could not be read.
    Io(io::Error),
    /// It is not a snapshot, or damaged: what was found and what would be right.
    Malformed(String),
    /// The store that it should be restored into is impossible.
    Store(LimitError),
    /// The store that it should be restored into is too small for the tables of the snapshot.
    #[non_exhaustive]
    StoreTooSmall {
        /// The `max_keys` of the store.
        max_keys: usize,
        /// The smallest `max_keys` that is enough.
        least: usize,
        /// The `max_keys` of the store that the snapshot was taken of.
        taken_with: u64,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(_) => f.write_str("the snapshot could not be read"),
            SnapshotError::Malformed(what) => write!(f, "the snapshot is not usable: {what}"),
            SnapshotError::Store(_) => {
                f.write_str("no such store can be built to restore the snapshot into")
            }
            SnapshotError::StoreTooSmall { max_keys, least, taken_with } => write!(
                f,
                "max_keys is {max_keys}, must be at least {least} for this snapshot, which was taken \
                 with {taken_with}"
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Io(error) => Some(error),
            SnapshotError::Malformed(_) | SnapshotError::StoreTooSmall { .. } => None,
            SnapshotError::Store(error) => Some(error),
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                malformed("it ends early, restore from a complete file")
            }
            io::ErrorKind::InvalidData => malformed(error.to_string()),
            _ => SnapshotError::Io(error),
        }
    }
}

fn malformed(what: impl Into<String>) -> SnapshotError {
    SnapshotError::Malformed(what.into())
}

impl Memory {
    /// Writes all live state, a few keys at a time: each key is consistent, checks go on meanwhile.
    pub(crate) fn snapshot(&self, to: &mut dyn Write) -> io::Result<SnapshotSummary> {
        let mut out = RecordWriter(ChunkWriter::new(to)?);
        let now = self.now();
        let mut summary = SnapshotSummary::new(now);
        out.u64(now.as_nanos())?;
        out.bytes(&self.settings.seed)?;
        out.u64(self.settings.max_keys as u64)?;
        out.length(self.shards.len())?;
        let mut limits = LimitListing::new(self.registry.all());
        out.length(limits.all().len())?;
        for named in limits.all() {
            out.limit(named)?;
        }
        // Encoded into memory first: no check waits for the disk of the writer.
        let mut states = StateReader::new(self, &mut limits, now.as_nanos());
        while let Some(records) = states.next_piece()? {
            out.bytes(records)?;
        }
        summary.keys = states.keys();
        for (fingerprint, blocked) in self.blocks.list_in_pieces(now).flatten() {
            out.block(fingerprint, &blocked)?;
            summary.blocks += 1;
        }
        for set in self.overrides.list(now).values() {
            let mut record = Vec::new();
            write_override(set, &mut record);
            out.bytes(&[4])?;
            out.long_bytes(&record)?;
            summary.overrides += 1;
        }
        out.bytes(&[0])?;
        summary.content = out.0.finish()?;
        Ok(summary)
    }

    /// A store with the state of a snapshot. `settings` say all but the seed and the shards.
    pub(crate) fn restore(
        settings: MemorySettings,
        from: &mut dyn Read,
    ) -> Result<Memory, SnapshotError> {
        let mut input = RecordReader(ChunkReader::new(from)?);
        let (taken_at, seed) = (input.u64()?, input.array()?);
        let (taken_with, shards) = (input.u64()?, input.length()?);
        let least = least_max_keys(shards);
        if settings.max_keys < least {
            let max_keys = settings.max_keys;
            return Err(SnapshotError::StoreTooSmall { max_keys, least, taken_with });
        }
        if shards == 0 {
            return Err(malformed("it has no shards"));
        }
        let mut memory = Memory::new(MemorySettings { seed, shards, ..settings });
        let mut summary = SnapshotSummary::new(Timestamp::from_nanos(taken_at));
        let mut limits = Vec::new();
        for _ in 0..input.length()? {
            limits.push(memory.restore_limit(&mut input)?);
        }
        let ahead = taken_at.saturating_sub(memory.now().as_nanos());
        loop {
            match input.array::<1>()? {
                [0] => break,
                [1] => {
                    memory.restore_key(&mut input, &limits, ahead)?;
                    summary.keys += 1;
                }
                [2] => memory.restore_block(&mut input, ahead)?,
                [3] => limits.push(memory.restore_limit(&mut input)?),
                [4] => memory.restore_override(&mut input)?,
                [kind] => return Err(malformed(format!("a record is of kind {kind}"))),
            }
        }
        summary.content = input.0.finish()?;
        // A limit without a state need not be remembered.
        memory.forget(&limits.iter().collect::<Vec<_>>());
        let now = memory.now();
        summary.blocks = memory.blocks.list_in_pieces(now).map(|blocks| blocks.len()).sum();
        summary.overrides = memory.overrides.list(now).len();
        memory.restored = Some(summary);
        Ok(memory)
    }

    fn restore_limit(
        &self,
        input: &mut RecordReader<ChunkReader<'_>>,
    ) -> Result<Arc<RegisteredLimit>, SnapshotError> {
        let (limiter, text) = (input.string()?, input.string()?);
        let limit: Limit = text.parse().map_err(|error| malformed(format!("{text:?}: {error}")))?;
        let named = self.register(&limiter, &limit);
        named.map_err(|error| malformed(format!("{text:?}: {error}")))
    }

    /// Reads one key; `ahead` is how far the snapshot's clock was ahead of this one.
    fn restore_key(
        &self,
        input: &mut RecordReader<ChunkReader<'_>>,
        limits: &[Arc<RegisteredLimit>],
        ahead: u64,
    ) -> Result<(), SnapshotError> {
        let (shard, id) = (input.length()?, input.u64()?);
        let number = input.length()?;
        let name = input.text()?;
        let listed = number.checked_sub(1).and_then(|index| limits.get(index));
        let (Some(named), true) = (listed, shard < self.shards.len()) else {
            return Err(malformed(format!(
                "a key has shard {shard} and limit {number}, neither may exceed the list"
            )));
        };
        let id = KeyId::usable(id);
        let mut state = input.state()?;
        if matches!(state, State::Log(_)) != matches!(named.plan.fresh(), State::Log(_)) {
            return Err(malformed(format!("a key's state does not fit its limit {}", named.limit)));
        }
        named.plan.cut_moment(&mut state);
        let now = self.now();
        if ahead > 0 {
            named.plan.set_back(&mut state, now.as_nanos(), ahead);
        }
        let call = ChargeContext { named, registry: &self.registry, now: now.as_nanos() };
        if !self.claim() && !self.make_room(KeyId { id, place: 0 }, &call) {
            return Ok(());
        }
        let name = (self.settings.names && !name.is_empty()).then(|| KeyName::from_bytes(&name));
        let mut shard = self.shards.lock(shard);
        if shard.table.find(id).is_ok() {
            self.release(1);
            return Err(malformed("a key is there twice"));
        }
        self.release(shard.insert(NewEntry { id, name, state }, &call, ReclaimPolicy::DropFresh));
        Ok(())
    }
}

impl Memory {
    /// Reads one block; `ahead` is how far the snapshot's clock was ahead of this one.
    fn restore_block(
        &self,
        input: &mut RecordReader<ChunkReader<'_>>,
        ahead: u64,
    ) -> Result<(), SnapshotError> {
        let fingerprint = KeyId { id: KeyId::usable(input.u64()?), place: input.u64()? };
        let (rule, key) = (input.string()?.into(), KeyName::from_bytes(&input.text()?));
        let moment = |nanos: u64| Timestamp::from_nanos(nanos.saturating_sub(ahead));
        let (until, forgotten) = (moment(input.u64()?), moment(input.u64()?));
        let (times, by_hand) = (u32::from_le_bytes(input.array()?), input.array()? == [1]);
        let blocked = BlockRecord { rule, key, until, times, forgotten, by_hand };
        let restored = self.blocks.restore(fingerprint, blocked, self.now());
        restored.map_err(|error| malformed(error.to_string()))
    }

    /// Reads one override that was set at run time. Its end is a date, which a clock that is behind does
    /// not move.
    fn restore_override(
        &self,
        input: &mut RecordReader<ChunkReader<'_>>,
    ) -> Result<(), SnapshotError> {
        let record = input.long_bytes()?;
        let record =
            read_override(&record).ok_or_else(|| malformed("an override cannot be read"))?;
        let OverrideRecord::Set(set) = record else { return Ok(()) };
        let limits = set.change.limits.values();
        for limit in limits.flat_map(RuleLimits::limits) {
            Plan::new(limit).map_err(|error| malformed(format!("an override: {error}")))?;
        }
        self.overrides.set(set);
        Ok(())
    }
}

/// How many times as many shards as suit a store it may have after a restore.
const MOST_TIMES_SHARDS: usize = 64;

/// The smallest `max_keys` of a store that may have this many shards.
fn least_max_keys(shards: usize) -> usize {
    let suits = shards.div_ceil(MOST_TIMES_SHARDS);
    match suits {
        0 | 1 => 1,
        2..=64 => suits * 64,
        _ => suits.saturating_mul(KEYS_PER_SHARD),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::store::memory::shards_for;

    #[test]
    fn least_max_keys_is_the_smallest_that_suits() {
        // On 32-bit targets the number of keys for more shards is cut to the largest `usize`.
        let most = if usize::BITS >= 64 { 1 << 26 } else { 1 << 20 };
        for shards in (1..20_000).chain([most]) {
            let least = least_max_keys(shards);
            assert!(shards_for(least) * MOST_TIMES_SHARDS >= shards, "{shards}");
            assert!(least == 1 || shards_for(least - 1) * MOST_TIMES_SHARDS < shards, "{shards}");
        }
    }
}
