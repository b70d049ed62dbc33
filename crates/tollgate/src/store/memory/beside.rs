//! States that do not fit a slot: sliding logs, and the rare limits whose numbers need three
//! words. A slot holds their number here.

use crate::algorithm::State;

#[derive(Debug, Default)]
pub(super) struct OverflowStates {
    states: Vec<Option<State>>,
    free: Vec<u32>,
}

impl OverflowStates {
    pub(super) fn add(&mut self, state: State) -> u64 {
        if let Some(index) = self.free.pop() {
            self.states[index as usize] = Some(state);
            return u64::from(index);
        }
        self.states.push(Some(state));
        self.states.len() as u64 - 1
    }

    pub(super) fn get(&self, index: u64) -> Option<&State> {
        self.states.get(usize::try_from(index).ok()?)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u64) -> Option<&mut State> {
        self.states.get_mut(usize::try_from(index).ok()?)?.as_mut()
    }

    pub(super) fn remove(&mut self, index: u64) -> Option<State> {
        let state = self.states.get_mut(usize::try_from(index).ok()?)?.take()?;
        self.free.extend(u32::try_from(index));
        Some(state)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let logs: usize = self.states.iter().flatten().map(State::heap_bytes).sum();
        logs + self.states.capacity() * size_of::<Option<State>>()
            + self.free.capacity() * size_of::<u32>()
    }
}
