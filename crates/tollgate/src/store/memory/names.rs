//! The names of a shard's keys: written once when a key is new, read by lists, never by a check.

use crate::key::KeyName;

/// A heap of names. A name is found by where it begins, plus one; 0 is no name.
#[derive(Debug, Default)]
pub(super) struct KeyNames {
    bytes: Vec<u8>,
    /// Bytes of names whose keys are gone.
    dead: usize,
}

/// The length of a name comes before it.
const HEADER: usize = 2;

/// What is reserved at least, so that a small heap does not grow name by name.
const LEAST_SLACK: usize = 256;

/// Below this, dead names are not worth copying the others.
const WORTH_COMPACTING: usize = 4096;

impl KeyNames {
    pub(super) fn with_room_for(bytes: usize) -> KeyNames {
        KeyNames { bytes: Vec::with_capacity(bytes + bytes / 16), dead: 0 }
    }

    /// Gives back what was reserved for names that are gone.
    pub(super) fn trim(&mut self) {
        self.bytes.shrink_to(self.bytes.len() + self.bytes.len() / 16);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.bytes.len() - self.dead
    }

    /// Whether so much is dead that a fresh heap would be half as large.
    pub(super) fn wants_compacting(&self) -> bool {
        self.dead > WORTH_COMPACTING && self.dead > self.bytes.len() / 2
    }

    pub(super) fn add(&mut self, name: &[u8]) -> u32 {
        // A name is at most `MAX_NAME` long and a shard's heap far below 4 GiB.
        let (Ok(length), Ok(place)) =
            (u16::try_from(name.len()), u32::try_from(self.bytes.len() + 1))
        else {
            return 0;
        };
        let needed = HEADER + name.len();
        if self.bytes.capacity() - self.bytes.len() < needed {
            // Not doubled: a sixteenth of slack keeps the bytes per key low.
            self.bytes.reserve_exact(needed + (self.bytes.len() / 16).max(LEAST_SLACK));
        }
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(name);
        place
    }

    pub(super) fn remove(&mut self, place: u32) {
        if place != 0 {
            self.dead += HEADER + self.get(place).len();
        }
    }

    pub(super) fn get(&self, place: u32) -> &[u8] {
        let Some(start) = (place as usize).checked_sub(1) else {
            return &[];
        };
        let length = u16::from_le_bytes([self.bytes[start], self.bytes[start + 1]]);
        &self.bytes[start + HEADER..start + HEADER + usize::from(length)]
    }

    pub(super) fn name(&self, place: u32) -> Option<KeyName> {
        (place != 0).then(|| KeyName::from_bytes(self.get(place)))
    }
}
