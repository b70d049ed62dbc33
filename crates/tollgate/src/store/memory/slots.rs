//! Where a table's slots are: in one piece, or, where a store has many large tables, in pages of
//! memory that is quicker to reach.

use std::hint::select_unpredictable;
use std::ops::{Index, IndexMut};

use super::home::NEAR;
use super::page::{PAGE_SLOTS, Page};
use super::table::{FREE, Slot};

/// The most pages of a table: twice what a shard's share of a full store needs. Larger tables,
/// should there ever be one, are in one piece.
pub(super) const MOST_PAGES: usize = 16;

#[derive(Debug)]
pub(super) enum Slots {
    Plain(Box<[Slot]>),
    /// As many pages as there are slots for, then none.
    Paged(Box<Pages>),
}

pub(super) type Pages = [Option<Page>; MOST_PAGES];

/// How a table is to be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Paged,
}

/// How far a slot is looked for by who is in a hurry.
pub(super) const FAR: usize = 72;

/// How far the first of the [`NEAR`] slots that is not before `tagged` is, if one of them is not: those
/// before it come first. Without branches: how far a key is from its home is another for each, and would
/// take the processor by surprise.
#[inline(always)]
fn steps_to(near: &[Slot], tagged: u64) -> usize {
    const { assert!(NEAR == 8) };
    let mut steps = select_unpredictable(near[3].tagged < tagged, 4, 0);
    steps += select_unpredictable(near[steps + 1].tagged < tagged, 2, 0);
    steps + usize::from(near[steps].tagged < tagged)
}

/// Where the slot is that says `tagged`.
#[cold]
#[inline(never)]
fn position(slots: &[Slot], tagged: u64) -> Option<usize> {
    let at = slots.iter().take(FAR).position(|slot| slot.tagged >= tagged)?;
    (slots[at].tagged == tagged).then_some(at)
}

/// A table of so many slots is large: 48 KiB, four pages.
const LARGE: usize = (48 << 10) / size_of::<Slot>();

/// Where all tables of so many are large, at least 5 MiB, a block for pages that is not full yet adds
/// little to what there is; where they are fewer, caches reach most of them without its help.
const CROWD: usize = 112;

impl Form {
    /// What suits the large ones of so many tables: the same for all, since a check that finds now
    /// this and now the other takes the processor by surprise. Only Linux is asked for huge pages, and
    /// loom's models are too small for them.
    pub(super) fn of_large(tables: usize) -> Form {
        let can_be = cfg!(all(target_os = "linux", not(loom)));
        if can_be && tables >= CROWD { Form::Paged } else { Form::Plain }
    }

    /// What suits a table of `slots`, if this suits large ones.
    pub(super) fn of(self, slots: usize) -> Form {
        let is_large = (LARGE..=MOST_PAGES * PAGE_SLOTS).contains(&slots);
        if is_large { self } else { Form::Plain }
    }
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::Plain(Box::default())
    }
}

impl Slots {
    /// Free slots, as many or, in pages, some more. What was in these is gone, and their pages are
    /// used again.
    pub(super) fn cleared(mut self, slots: usize, form: Form) -> Slots {
        let mut pages = Box::default();
        match &mut self {
            Slots::Paged(old) => std::mem::swap(old, &mut pages),
            // Given back first: the new ones may be where these were.
            Slots::Plain(old) => drop(std::mem::take(old)),
        }
        match form {
            Form::Plain => Slots::Plain(vec![FREE; slots].into_boxed_slice()),
            Form::Paged => {
                let (used, rest) = pages.split_at_mut(slots.div_ceil(PAGE_SLOTS).min(MOST_PAGES));
                used.iter_mut().flatten().for_each(|page| page.fill(FREE));
                used.iter_mut().for_each(|page| _ = page.get_or_insert_with(Page::new));
                rest.fill_with(|| None);
                Slots::Paged(pages)
            }
        }
    }

    pub(super) fn form(&self) -> Form {
        match self {
            Slots::Plain(_) => Form::Plain,
            Slots::Paged(_) => Form::Paged,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Slots::Plain(slots) => slots.len(),
            Slots::Paged(pages) => pages.iter().flatten().count() * PAGE_SLOTS,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let pages = if self.form() == Form::Paged { size_of::<Pages>() } else { 0 };
        self.len() * size_of::<Slot>() + pages
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Slot> {
        match self {
            Slots::Plain(slots) => slots.get(index),
            Slots::Paged(pages) => pages.get(index / PAGE_SLOTS)?.as_ref()?.get(index % PAGE_SLOTS),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Slot> {
        match self {
            Slots::Plain(slots) => slots.get_mut(index),
            Slots::Paged(pages) => {
                pages.get_mut(index / PAGE_SLOTS)?.as_mut()?.get_mut(index % PAGE_SLOTS)
            }
        }
    }

    /// The slot with this tagged id. Searches neither past the end of a page nor [`FAR`] from `start` on:
    /// if it finds none, the caller has to use the complete search.
    #[inline(always)]
    pub(super) fn seek_mut(&mut self, start: u32, tagged: u64) -> Option<&mut Slot> {
        let (slots, at): (&mut [Slot], usize) = match self {
            Slots::Plain(slots) => (slots, start as usize),
            Slots::Paged(pages) => {
                let (page, at) = (start as usize / PAGE_SLOTS, start as usize % PAGE_SLOTS);
                (pages.get_mut(page)?.as_deref_mut()?, at)
            }
        };
        if let Some(near) = slots.get(at..at + NEAR) {
            let steps = steps_to(near, tagged);
            if near[steps].tagged == tagged {
                return slots.get_mut(at..at + NEAR)?.get_mut(steps);
            }
        }
        let steps = position(slots.get(at..)?, tagged)?;
        slots.get_mut(at + steps)
    }
}

impl Index<usize> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, index: usize) -> &Slot {
        self.get(index).expect("the slot is in the table")
    }
}

impl IndexMut<usize> for Slots {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Slot {
        self.get_mut(index).expect("the slot is in the table")
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
