//! The fast search for the slot of a known key, from the key's home slot on.

use std::hint::select_unpredictable;

use super::home::NEAR;
use super::table::Slot;

/// The number of slots from home on that [`find_near`] looks at.
pub(super) const FAR: usize = 72;

/// The slot with this tagged id, at most [`FAR`] slots behind `start`. If it returns `None`, the key may
/// still be in the table, and the caller has to use the complete search.
#[inline(always)]
pub(super) fn find_near(slots: &mut [Slot], start: u32, tagged: u64) -> Option<&mut Slot> {
    let at = start as usize;
    if let Some(near) = slots.get(at..at + NEAR) {
        let steps = steps_to(near, tagged);
        if near[steps].tagged == tagged {
            return slots.get_mut(at..at + NEAR)?.get_mut(steps);
        }
    }
    let steps = position(slots.get(at..)?, tagged)?;
    slots.get_mut(at + steps)
}

/// The index of the first of the [`NEAR`] slots that is not below `tagged`, if there is one. Without
/// branches: the distance of a key from its home is random, and a branch on it would be mispredicted.
#[inline(always)]
fn steps_to(near: &[Slot], tagged: u64) -> usize {
    const { assert!(NEAR == 8) };
    let mut steps = select_unpredictable(near[3].tagged < tagged, 4, 0);
    steps += select_unpredictable(near[steps + 1].tagged < tagged, 2, 0);
    steps + usize::from(near[steps].tagged < tagged)
}

/// The index of the slot with this tagged id.
#[cold]
#[inline(never)]
fn position(slots: &[Slot], tagged: u64) -> Option<usize> {
    let at = slots.iter().take(FAR).position(|slot| slot.tagged >= tagged)?;
    (slots[at].tagged == tagged).then_some(at)
}
