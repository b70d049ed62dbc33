//! The states of a store, a few at a time, so that no check waits for a whole shard to be encoded.

use std::io;

use super::super::Memory;
use super::listing::LimitListing;
use super::records::RecordWriter;
use crate::bounds::{SNAPSHOT_PIECE_BYTES, SNAPSHOT_PIECE_KEYS};

/// Reads the live states of a store as records, in the order of shards and ids.
///
/// A shard is locked for one piece and unlocked before the piece is written. Ids do not change when
/// a table is laid out anew: a key that is there all the time is in exactly one piece.
pub(super) struct StateReader<'a> {
    memory: &'a Memory,
    limits: &'a mut LimitListing,
    now: u64,
    shard: usize,
    /// The lowest id that was not read yet.
    id: u64,
    records: Vec<u8>,
    keys: usize,
}

impl<'a> StateReader<'a> {
    pub(super) fn new(
        memory: &'a Memory,
        limits: &'a mut LimitListing,
        now: u64,
    ) -> StateReader<'a> {
        let records = Vec::with_capacity(2 * SNAPSHOT_PIECE_BYTES);
        StateReader { memory, limits, now, shard: 0, id: 0, records, keys: 0 }
    }

    /// The number of keys in all pieces so far.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// The records of the next keys, perhaps of none; `None` after the last shard.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<&[u8]>> {
        if self.shard >= self.memory.shards.len() {
            return Ok(None);
        }
        self.records.clear();
        match self.read_piece()? {
            Some(next) => self.id = next,
            None => (self.shard, self.id) = (self.shard + 1, 0),
        }
        Ok(Some(&self.records))
    }

    /// Reads some keys of the shard. Returns the lowest id that was not read, if there may be more.
    fn read_piece(&mut self) -> io::Result<Option<u64>> {
        let StateReader { memory, limits, now, .. } = self;
        let Some(shard) = memory.shards.lock_used(self.shard) else { return Ok(None) };
        let mut out = RecordWriter(&mut self.records);
        memory.registry.with(|registered| {
            for (read, place) in shard.table.taken_from(self.id).enumerate() {
                let row = shard.table.row(place);
                if read >= SNAPSHOT_PIECE_KEYS || out.0.len() >= SNAPSHOT_PIECE_BYTES {
                    return Ok(Some(row.id));
                }
                let Some(named) = registered.get(row.limit) else { continue };
                if shard.is_fresh(place, named, *now) {
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
                out.length(self.shard)?;
                out.u64(row.id)?;
                out.length(number)?;
                out.text(shard.name_bytes(place))?;
                out.state(shard.state(place, named))?;
                self.keys += 1;
            }
            Ok(None)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::limit::Limit;
    use crate::store::memory::{MemorySettings, MemoryStore};

    /// The number of keys in each piece.
    fn sizes(store: &MemoryStore) -> Vec<usize> {
        let mut limits = LimitListing::new(store.0.registry.all());
        let now = store.0.now().as_nanos();
        let mut reader = StateReader::new(&store.0, &mut limits, now);
        let (mut sizes, mut before) = (Vec::new(), 0);
        while reader.next_piece().expect("memory can be written to").is_some() {
            sizes.push(reader.keys() - before);
            before = reader.keys();
        }
        sizes
    }

    /// A store of one shard.
    fn store(keys: u32) -> MemoryStore {
        let store = MemoryStore::builder().max_keys(100_000).build().expect("the bound is valid");
        let settings = MemorySettings { shards: 1, ..store.0.settings.clone() };
        let store = MemoryStore(Arc::new(Memory::new(settings)));
        let limiter = store.limiter("api", Limit::per_day(10)).expect("the limit is valid");
        assert!((0..keys).all(|key| limiter.check(key).is_allowed()));
        store
    }

    #[test]
    fn a_shard_is_locked_for_a_few_keys_at_a_time() {
        let sizes = sizes(&store(1000));
        assert_eq!(sizes.iter().sum::<usize>(), 1000);
        assert!(sizes.iter().all(|size| *size <= SNAPSHOT_PIECE_KEYS), "{sizes:?}");
    }

    #[test]
    fn large_states_end_a_piece_early() {
        let store = store(0);
        let log = Limit::sliding_log(1000, Duration::from_secs(3600));
        let limiter = store.limiter("log", log).expect("the limit is valid");
        for key in 0..20 {
            (0..500).for_each(|_| assert!(limiter.check(key).is_allowed()));
        }
        let sizes = sizes(&store);
        assert_eq!(sizes.iter().sum::<usize>(), 20);
        let most = SNAPSHOT_PIECE_BYTES.div_ceil(500 * 16) + 1;
        assert!(sizes.iter().all(|size| *size <= most), "{sizes:?}");
    }

    #[test]
    fn keys_that_stay_are_read_once_while_a_table_is_laid_out_anew() {
        // Long names, so that no other bytes of a record look like one.
        let name = |key: u32| format!("a key of the test, {key:05}");
        let store = store(0);
        let limiter = store.limiter("api", Limit::per_day(10)).expect("the limit is valid");
        assert!((0..1000).all(|key| limiter.check(name(key)).is_allowed()));
        let mut limits = LimitListing::new(store.0.registry.all());
        let mut reader = StateReader::new(&store.0, &mut limits, store.0.now().as_nanos());
        let (mut records, mut other) = (Vec::new(), 10_000);
        while let Some(piece) = reader.next_piece().expect("memory can be written to") {
            records.extend_from_slice(piece);
            // Three new keys for each that was read, and some of them removed again.
            for key in other..other + 200 {
                assert!(limiter.check(name(key)).is_allowed());
            }
            assert!((other..other + 50).all(|key| limiter.reset(name(key))));
            other += 200;
        }
        for key in 0..1000 {
            let name = name(key);
            let found = records.windows(name.len()).filter(|window| *window == name.as_bytes());
            assert_eq!(found.count(), 1, "{name}");
        }
    }
}
