//! What a shard keeps aside of its slots.

use super::beside::OverflowStates;
use super::names::KeyNames;

#[derive(Debug, Default)]
pub(super) struct ColdColumns {
    /// Which limit each slot's state was made under, where its tag does not say; empty until then.
    pub(super) limits: Vec<u32>,
    /// Where each slot's name is; empty while no key has one.
    pub(super) places: Vec<u32>,
    pub(super) names: KeyNames,
    /// The states that do not fit a slot.
    pub(super) states: OverflowStates,
}

impl ColdColumns {
    pub(super) fn clear_columns(&mut self) {
        self.limits = Vec::new();
        self.places = Vec::new();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let columns = (self.limits.capacity() + self.places.capacity()) * size_of::<u32>();
        size_of::<ColdColumns>() + columns + self.names.heap_bytes() + self.states.heap_bytes()
    }
}
