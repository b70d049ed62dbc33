//! Snapshots: the state written down, so that a restart does not hand everybody a fresh allowance.
//!
//! A snapshot holds fingerprints and the seed they were taken with, so that it works with names
//! off too; it is as confidential as the seed. Every number is little-endian:
//!
//! ```text
//! "tollgate" version:u16 taken_at:u64 seed:[16] shards:u32
//! limits:u32 (limiter:text limit:text)*
//! (1:u8 shard:u32 id:u64 limit:u32 name:text state | 3:u8 limiter:text limit:text)*
//! (2:u8 id:u64 place:u64 rule:text name:text until:u64 forgotten:u64 times:u32 by_hand:u8)*  0:u8
//! checksum:u64
//! text  = length:u16 bytes        state = 0:u8 words:[3 x u64] | 1:u8 entries:u32 (at:u64 units:u64)*
//! ```
//!
//! A key says its limit by its place in the list, counted from one. A record of kind 3 adds a limit
//! to the list that was registered while the snapshot was written.

mod frame;
mod listing;

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use self::frame::{Reader, Writer};
use self::listing::Listing;
use super::blocks::Blocked;
use super::shard::{Call, NewKey, Reclaim};
use super::{Memory, Named, Settings, shards_for};
use crate::algorithm::State;
use crate::key::{Fingerprint, KeyName};
use crate::limit::{Limit, LimitError};
use crate::time::Timestamp;

const MAGIC: [u8; 8] = *b"tollgate";
const VERSION: u16 = 5;

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
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(_) => f.write_str("the snapshot could not be read"),
            SnapshotError::Malformed(what) => write!(f, "the snapshot is not usable: {what}"),
            SnapshotError::Store(_) => {
                f.write_str("no such store can be built to restore the snapshot into")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Io(error) => Some(error),
            SnapshotError::Malformed(_) => None,
            SnapshotError::Store(error) => Some(error),
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return malformed("it ends early, restore from a complete file");
        }
        SnapshotError::Io(error)
    }
}

fn malformed(what: impl Into<String>) -> SnapshotError {
    SnapshotError::Malformed(what.into())
}

impl Memory {
    /// Writes all live state, one shard at a time: each key is consistent, checks go on meanwhile.
    pub(crate) fn snapshot(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut out = Writer::new(to);
        let now = self.now().as_nanos();
        out.bytes(&MAGIC)?;
        out.bytes(&VERSION.to_le_bytes())?;
        out.u64(now)?;
        out.bytes(&self.settings.seed)?;
        out.length(self.shards.len())?;
        let mut limits = Listing::new(self.registry.all());
        out.length(limits.all().len())?;
        for named in limits.all() {
            out.limit(named)?;
        }
        for index in 0..self.shards.len() {
            // Copied out first: nobody waits for the writer's disk.
            out.bytes(&self.shard_bytes(index, &mut limits, now)?)?;
        }
        for (fingerprint, blocked) in self.blocks.list(Timestamp::from_nanos(now)) {
            out.block(fingerprint, &blocked)?;
        }
        out.bytes(&[0])?;
        let sum = out.sum();
        out.u64(sum)
    }

    fn shard_bytes(&self, index: usize, limits: &mut Listing, now: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        let shard = self.shards.lock(index);
        self.registry.with(|registered| {
            for place in shard.table.taken() {
                let row = shard.table.row(place);
                let Some(named) = registered.get(row.limit) else { continue };
                if shard.is_worthless(place, named, now) {
                    continue;
                }
                let number = match limits.number(named) {
                    Some(number) => number,
                    None => {
                        out.bytes(&[3])?;
                        out.limit(named)?;
                        limits.add(named)
                    }
                };
                out.bytes(&[1])?;
                out.length(index)?;
                out.u64(row.id)?;
                out.length(number)?;
                out.text(shard.name(place).unwrap_or_default().as_bytes())?;
                out.state(shard.state(place, named))?;
            }
            io::Result::Ok(())
        })?;
        Ok(bytes)
    }

    /// A store with the state of a snapshot. `settings` say all but the seed and the shards.
    pub(crate) fn restore(
        settings: Settings,
        from: &mut dyn Read,
    ) -> Result<Memory, SnapshotError> {
        let mut input = Reader::new(from);
        if input.array::<8>()? != MAGIC {
            return Err(malformed(
                "it does not begin with \"tollgate\", give a file written by snapshot",
            ));
        }
        let version = u16::from_le_bytes(input.array()?);
        if version != VERSION {
            return Err(malformed(format!("its version is {version}, this build reads {VERSION}")));
        }
        let taken_at = input.u64()?;
        let seed = input.array()?;
        let shards = input.length()?;
        if shards == 0 || shards > shards_for(settings.max_keys).saturating_mul(64) {
            return Err(malformed(format!(
                "it has {shards} shards, raise max_keys near to what it was taken with"
            )));
        }
        let memory = Memory::new(Settings { seed, shards, ..settings });
        let mut limits = Vec::new();
        for _ in 0..input.length()? {
            limits.push(memory.restore_limit(&mut input)?);
        }
        let ahead = taken_at.saturating_sub(memory.now().as_nanos());
        loop {
            match input.array::<1>()? {
                [0] => break,
                [1] => memory.restore_key(&mut input, &limits, ahead)?,
                [2] => memory.restore_block(&mut input, ahead)?,
                [3] => limits.push(memory.restore_limit(&mut input)?),
                [kind] => return Err(malformed(format!("a record is of kind {kind}"))),
            }
        }
        let sum = input.sum();
        if input.u64()? != sum {
            return Err(malformed("its checksum is wrong, restore from an undamaged file"));
        }
        // Who has no state any more need not be remembered either.
        memory.forget(&limits.iter().collect::<Vec<_>>());
        Ok(memory)
    }

    fn restore_limit(&self, input: &mut Reader<'_>) -> Result<Arc<Named>, SnapshotError> {
        let (limiter, text) = (input.string()?, input.string()?);
        let limit: Limit = text.parse().map_err(|error| malformed(format!("{text:?}: {error}")))?;
        let named = self.register(&limiter, &limit);
        named.map_err(|error| malformed(format!("{text:?}: {error}")))
    }

    /// Reads one key; `ahead` is how far the snapshot's clock was ahead of this one.
    fn restore_key(
        &self,
        input: &mut Reader<'_>,
        limits: &[Arc<Named>],
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
        let id = Fingerprint::usable(id);
        let mut state = input.state()?;
        if matches!(state, State::Log(_)) != matches!(named.plan.fresh(), State::Log(_)) {
            return Err(malformed(format!("a key's state does not fit its limit {}", named.limit)));
        }
        named.plan.cut_moment(&mut state);
        let now = self.now();
        if ahead > 0 {
            named.plan.set_back(&mut state, now.as_nanos(), ahead);
        }
        let call = Call { named, registry: &self.registry, now: now.as_nanos() };
        if !self.claim() && !self.make_room(Fingerprint { id, place: 0 }, &call) {
            return Ok(());
        }
        let name = (self.settings.names && !name.is_empty()).then(|| KeyName::from_bytes(&name));
        let mut shard = self.shards.lock(shard);
        if shard.table.find(id).is_ok() {
            self.release(1);
            return Err(malformed("a key is there twice"));
        }
        self.release(shard.insert(NewKey { id, name, state }, &call, Reclaim::Worthless));
        Ok(())
    }
}

impl Memory {
    /// Reads one block; `ahead` is how far the snapshot's clock was ahead of this one.
    fn restore_block(&self, input: &mut Reader<'_>, ahead: u64) -> Result<(), SnapshotError> {
        let fingerprint =
            Fingerprint { id: Fingerprint::usable(input.u64()?), place: input.u64()? };
        let (rule, key) = (input.string()?.into(), KeyName::from_bytes(&input.text()?));
        let moment = |nanos: u64| Timestamp::from_nanos(nanos.saturating_sub(ahead));
        let (until, forgotten) = (moment(input.u64()?), moment(input.u64()?));
        let (times, by_hand) = (u32::from_le_bytes(input.array()?), input.array()? == [1]);
        let blocked = Blocked { rule, key, until, times, forgotten, by_hand };
        self.blocks.restore(fingerprint, blocked);
        Ok(())
    }
}
