//! Snapshots: the state written down, so that a restart does not hand everybody a fresh allowance.
//!
//! A snapshot holds fingerprints and the seed they were taken with, so that it works with names
//! off too; it is as confidential as the seed. Every number is little-endian:
//!
//! ```text
//! "tollgate" version:u16 taken_at:u64 seed:[16] shards:u32
//! limits:u32 (limiter:text limit:text)*
//! (1:u8 shard:u32 id:u64 limit:u32 name:text state)*
//! (2:u8 id:u64 place:u64 rule:text name:text until:u64 forgotten:u64 times:u32 by_hand:u8)*  0:u8
//! checksum:u64
//! text  = length:u16 bytes        state = 0:u8 words:[3 x u64] | 1:u8 entries:u32 (at:u64 units:u64)*
//! ```

use std::fmt;
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::sync::Arc;

use siphasher::sip::SipHasher13;

use super::blocks::Blocked;
use super::shard::{Call, NewKey, Reclaim};
use super::{Memory, Named, Settings, shards_for};
use crate::algorithm::{Log, State, StateRef};
use crate::key::{Fingerprint, KeyName};
use crate::limit::Limit;
use crate::time::Timestamp;

const MAGIC: [u8; 8] = *b"tollgate";
const VERSION: u16 = 1;

/// Why a snapshot could not be restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It could not be read.
    Io(io::Error),
    /// It is not a snapshot, or damaged: what was found and what would be right.
    Malformed(String),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(_) => f.write_str("the snapshot could not be read"),
            SnapshotError::Malformed(what) => write!(f, "the snapshot is not usable: {what}"),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Io(error) => Some(error),
            SnapshotError::Malformed(_) => None,
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
        let mut out = Writer { to, sum: SipHasher13::new() };
        let now = self.now().as_nanos();
        out.bytes(&MAGIC)?;
        out.bytes(&VERSION.to_le_bytes())?;
        out.u64(now)?;
        out.bytes(&self.settings.seed)?;
        out.length(self.shards.len())?;
        let limits = self.registry.all();
        out.length(limits.len())?;
        for named in &limits {
            out.text(named.limiter.as_bytes())?;
            out.text(named.limit.to_string().as_bytes())?;
        }
        for index in 0..self.shards.len() {
            // Copied out first: nobody waits for the writer's disk.
            out.bytes(&self.shard_bytes(index, &limits, now)?)?;
        }
        for (fingerprint, blocked) in self.blocks.list(Timestamp::from_nanos(now)) {
            out.block(fingerprint, &blocked)?;
        }
        out.bytes(&[0])?;
        let sum = out.sum.finish();
        out.u64(sum)
    }

    fn shard_bytes(&self, index: usize, limits: &[Arc<Named>], now: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut out = Writer { to: &mut bytes, sum: SipHasher13::new() };
        let shard = self.shards.lock(index);
        for place in shard.table.taken() {
            let row = shard.table.row(place);
            // A limit registered since the list was written is not in it. One that is in it is held
            // by it, so that no other has its number.
            let Ok(listed) = limits.binary_search_by_key(&row.limit, |named| named.number) else {
                continue;
            };
            let named = &limits[listed];
            if shard.is_worthless(place, named, now) {
                continue;
            }
            out.bytes(&[1])?;
            out.length(index)?;
            out.u64(row.id)?;
            out.length(listed + 1)?;
            out.text(shard.name(place).unwrap_or_default().as_bytes())?;
            out.state(shard.state(place, named))?;
        }
        Ok(bytes)
    }

    /// A store with the state of a snapshot. `settings` say all but the seed and the shards.
    pub(crate) fn restore(
        settings: Settings,
        from: &mut dyn Read,
    ) -> Result<Memory, SnapshotError> {
        let mut input = Reader { from, sum: SipHasher13::new() };
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
        let limits = memory.restore_limits(&mut input)?;
        let ahead = taken_at.saturating_sub(memory.now().as_nanos());
        loop {
            match input.array::<1>()? {
                [0] => break,
                [1] => memory.restore_key(&mut input, &limits, ahead)?,
                [2] => memory.restore_block(&mut input, ahead)?,
                [kind] => return Err(malformed(format!("a record is of kind {kind}"))),
            }
        }
        let sum = input.sum.finish();
        if input.u64()? != sum {
            return Err(malformed("its checksum is wrong, restore from an undamaged file"));
        }
        // Who has no state any more need not be remembered either.
        memory.forget(&limits.iter().collect::<Vec<_>>());
        Ok(memory)
    }

    fn restore_limits(&self, input: &mut Reader<'_>) -> Result<Vec<Arc<Named>>, SnapshotError> {
        let count = input.length()?;
        let mut limits = Vec::new();
        for _ in 0..count {
            let (limiter, text) = (input.string()?, input.string()?);
            let limit: Limit =
                text.parse().map_err(|error| malformed(format!("{text:?}: {error}")))?;
            let named = self.register(&limiter, &limit);
            limits.push(named.map_err(|error| malformed(format!("{text:?}: {error}")))?);
        }
        Ok(limits)
    }

    /// Reads one key; `ahead` is how far the snapshot's clock was ahead of this one.
    fn restore_key(
        &self,
        input: &mut Reader<'_>,
        limits: &[Arc<Named>],
        ahead: u64,
    ) -> Result<(), SnapshotError> {
        let (shard, id) = (input.length()?, Fingerprint::usable(input.u64()?));
        let number = input.length()?;
        let name = input.text()?;
        let named = number.checked_sub(1).and_then(|index| limits.get(index));
        let (Some(named), true) = (named, shard < self.shards.len()) else {
            return Err(malformed(format!(
                "a key has shard {shard} and limit {number}, neither may exceed the list"
            )));
        };
        let mut state = input.state()?;
        if matches!(state, State::Log(_)) != matches!(named.plan.fresh(), State::Log(_)) {
            return Err(malformed(format!("a key's state does not fit its limit {}", named.limit)));
        }
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

/// Writes, and sums what it writes.
struct Writer<'a> {
    to: &'a mut dyn Write,
    sum: SipHasher13,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.write(bytes);
        self.to.write_all(bytes)
    }

    fn u64(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    fn length(&mut self, length: usize) -> io::Result<()> {
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.bytes(&length.to_le_bytes())
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        let length = u16::try_from(text.len()).map_err(io::Error::other)?;
        self.bytes(&length.to_le_bytes())?;
        self.bytes(text)
    }

    fn block(&mut self, fingerprint: Fingerprint, blocked: &Blocked) -> io::Result<()> {
        self.bytes(&[2])?;
        self.u64(fingerprint.id)?;
        self.u64(fingerprint.place)?;
        self.text(blocked.rule.as_bytes())?;
        self.text(blocked.key.as_bytes())?;
        self.u64(blocked.until.as_nanos())?;
        self.u64(blocked.forgotten.as_nanos())?;
        self.bytes(&blocked.times.to_le_bytes())?;
        self.bytes(&[u8::from(blocked.by_hand)])
    }

    fn state(&mut self, state: StateRef<'_>) -> io::Result<()> {
        match state {
            StateRef::Words(words) => {
                self.bytes(&[0])?;
                words.into_iter().try_for_each(|word| self.u64(word))
            }
            StateRef::Log(log) => {
                self.bytes(&[1])?;
                self.length(log.entries().len())?;
                log.entries().try_for_each(|(at, units)| {
                    self.u64(at)?;
                    self.u64(units)
                })
            }
        }
    }
}

/// Reads, and sums what it reads.
struct Reader<'a> {
    from: &'a mut dyn Read,
    sum: SipHasher13,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        self.sum.write(&bytes);
        Ok(bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn length(&mut self) -> io::Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn text(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(u16::from_le_bytes(self.array()?))];
        self.from.read_exact(&mut bytes)?;
        self.sum.write(&bytes);
        Ok(bytes)
    }

    fn string(&mut self) -> Result<String, SnapshotError> {
        String::from_utf8(self.text()?).map_err(|_| malformed("a name is not UTF-8"))
    }

    fn state(&mut self) -> Result<State, SnapshotError> {
        let moment = |nanos| Timestamp::from_nanos(nanos).as_nanos();
        match self.array::<1>()? {
            [0] => Ok(State::Words([self.u64()?, self.u64()?, self.u64()?])),
            [1] => {
                let count = self.length()?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    entries.push((moment(self.u64()?), self.u64()?));
                }
                Ok(State::Log(Log::from_entries(entries)))
            }
            [kind] => Err(malformed(format!("a state is of kind {kind}, must be 0 or 1"))),
        }
    }
}
