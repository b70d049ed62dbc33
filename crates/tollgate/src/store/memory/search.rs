//! The fast search for the slot of a known key, from the key's home slot on.

use std::cell::Cell;
use std::hint::select_unpredictable;

use super::home::NEAR;
use super::table::Slot;

/// The number of slots from home on that [`find_near`] looks at.
pub(super) const FAR: usize = 72;

/// Finds the slot with this tagged id, at most [`FAR`] slots behind `start`. If it returns `None`, the key may
/// still be in the table, and the caller has to use the complete search.
#[inline(always)]
pub(super) fn find_near(slots: &[Cell<Slot>], start: u32, tagged: u64) -> Option<&Cell<Slot>> {
    let at = start as usize;
    if let Some(near) = slots.get(at..at + NEAR) {
        let steps = steps_to(near, tagged);
        if near[steps].get().tagged == tagged {
            return near.get(steps);
        }
    }
    let slots = slots.get(at..)?;
    slots.get(position(slots, tagged)?)
}

/// The index of the first of the [`NEAR`] slots that is not below `tagged`, if there is one. Without
/// branches: the distance of a key from its home is random, and a branch on it would be mispredicted.
#[inline(always)]
fn steps_to(near: &[Cell<Slot>], tagged: u64) -> usize {
    const { assert!(NEAR == 8) };
    let mut steps = select_unpredictable(near[3].get().tagged < tagged, 4, 0);
    steps += select_unpredictable(near[steps + 1].get().tagged < tagged, 2, 0);
    steps + usize::from(near[steps].get().tagged < tagged)
}

/// The index of the slot with this tagged id.
#[cold]
#[inline(never)]
fn position(slots: &[Cell<Slot>], tagged: u64) -> Option<usize> {
    let at = slots.iter().take(FAR).position(|slot| slot.get().tagged >= tagged)?;
    (slots[at].get().tagged == tagged).then_some(at)
}
