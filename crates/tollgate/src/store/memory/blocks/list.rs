//! All blocks, a few at a time: a check of a blocked key never waits for a whole list.

use super::{BlockRecord, BlockShard, Blocks};
use crate::bounds::SNAPSHOT_PIECE_BLOCKS;
use crate::key::KeyId;
use crate::sync::{Mutex, lock};
use crate::time::Timestamp;

impl Blocks {
    /// All records that count at `now`: keys that are blocked, or whose next block is longer.
    pub(crate) fn list(&self, now: Timestamp) -> Vec<(KeyId, BlockRecord)> {
        self.list_in_pieces(now).flatten().collect()
    }

    /// The same in pieces, for each of which a shard is locked. A record that is there all the time
    /// is in one of them, also if it is replaced meanwhile.
    pub(crate) fn list_in_pieces(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = Vec<(KeyId, BlockRecord)>> {
        self.used_shards().flat_map(move |shard| {
            let mut rest = lock(shard).fingerprints().into_iter();
            std::iter::from_fn(move || {
                let some: Vec<_> = rest.by_ref().take(SNAPSHOT_PIECE_BLOCKS).collect();
                (!some.is_empty()).then(|| piece(shard, &some, now))
            })
        })
    }
}

fn piece(
    shard: &Mutex<BlockShard>,
    fingerprints: &[KeyId],
    now: Timestamp,
) -> Vec<(KeyId, BlockRecord)> {
    let shard = lock(shard);
    let records = fingerprints.iter().filter_map(|fingerprint| {
        let blocked = shard.get(fingerprint).filter(|blocked| now < blocked.forgotten)?;
        Some((*fingerprint, blocked.clone()))
    });
    records.collect()
}

impl BlockShard {
    /// All keys with a record.
    fn fingerprints(&self) -> Vec<KeyId> {
        self.manual.keys().chain(self.automatic.keys()).copied().collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::BlockTarget;
    use super::*;

    #[test]
    fn blocks_that_are_replaced_while_they_are_listed_are_in_the_list_once() {
        let blocks = Blocks::new(100_000);
        let (rule, now) = (Arc::from("login"), Timestamp::from_nanos(0));
        let block = |id: u64, seconds| {
            let fingerprint = KeyId { id, place: 0 };
            let culprit = BlockTarget { fingerprint, rule: &rule, key: &"ana" };
            let length = Duration::from_secs(seconds);
            blocks.set(&[culprit], length, now).expect("there are few");
        };
        (0..1000).for_each(|id| block(id << 8, 10));
        let mut listed = Vec::new();
        for piece in blocks.list_in_pieces(now) {
            assert!(piece.len() <= SNAPSHOT_PIECE_BLOCKS);
            listed.extend(piece.into_iter().map(|(fingerprint, _)| fingerprint.id >> 8));
            // All of them move to other places, as each is removed and inserted at the end.
            (0..1000).for_each(|id| block(id << 8, 20));
        }
        assert_eq!(listed.len(), 1000);
        assert_eq!(listed.into_iter().collect::<BTreeSet<u64>>(), (0..1000).collect());
    }
}
