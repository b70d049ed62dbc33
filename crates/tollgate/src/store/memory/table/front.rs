//! The words of slots: how who is in a hurry comes by them, and those of one slot in front, on the line of
//! the lock, so that one line goes from core to core and not two.

use super::Table;
use crate::algorithm::Packed;
use crate::store::memory::tagged::Tagged;

/// No slot.
pub(super) const NOWHERE: u32 = u32::MAX;

impl Table {
    /// The words of a key, if they were made under the limit that asks and are not far behind
    /// `start`. That is the key's home, or was a moment ago: should the table have been laid out anew
    /// meanwhile, the key may not be found, and no other is. Less work than [`find`](Self::find): the
    /// less there is to do for one key after its slot has come, the sooner the processor asks for the
    /// next key's, while it still waits for this one.
    #[inline(always)]
    pub(in crate::store::memory) fn known(
        &mut self,
        tagged: Tagged,
        start: u32,
    ) -> Option<&mut Packed> {
        let (index, slot) = self.slots.seek_mut(start, tagged.get())?;
        if index == self.front_at {
            return Some(in_front(&mut self.front));
        }
        Some(&mut slot.words)
    }

    #[inline]
    pub(in crate::store::memory) fn words(&self, index: usize) -> Packed {
        if index == self.front_at as usize { self.front } else { self.slots[index].words }
    }

    #[inline]
    pub(in crate::store::memory) fn words_mut(&mut self, index: usize) -> &mut Packed {
        if index == self.front_at as usize {
            return &mut self.front;
        }
        &mut self.slots[index].words
    }

    /// Keeps the words of this slot in front.
    #[cold]
    pub(in crate::store::memory) fn bring_to_front(&mut self, index: usize) {
        // Not the one that is there already: to settle would write to the line that is to rest.
        if index != self.front_at as usize {
            self.settle();
            self.front = self.slots[index].words;
            // Past the last number that fits, slots stay where they are.
            self.front_at = u32::try_from(index).unwrap_or(NOWHERE);
        }
    }

    /// Puts the words in front back, ahead of a change to where slots are.
    pub(super) fn settle(&mut self) {
        if let Some(slot) = self.slots.get_mut(self.front_at as usize) {
            slot.words = self.front;
        }
        self.front_at = NOWHERE;
    }
}

/// What stands in front. Few keys do, and a choice between two places without a branch would be
/// waited for by all others.
#[cold]
#[inline(never)]
fn in_front(front: &mut Packed) -> &mut Packed {
    front
}
