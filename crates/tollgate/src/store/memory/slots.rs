//! Where a table's slots are: in one piece, or, where a store has many large tables, in pages of
//! memory that is quicker to reach.

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

/// How much further than [`NEAR`] a slot is looked for by who is in a hurry.
pub(super) const FAR: usize = 64;

/// Where the first is that is not `before` the one sought.
#[cold]
#[inline(never)]
fn position(slots: &[Slot], before: impl Fn(&Slot) -> bool) -> Option<usize> {
    slots.iter().take(FAR).position(|slot| !before(slot))
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

    /// The first slot from `index` on that is not `before` the one sought, and where it is. Not past
    /// the end of a page, and only [`FAR`] past the near ones: who finds none has to look again.
    #[inline(always)]
    pub(super) fn seek_mut(
        &mut self,
        index: u32,
        before: impl Fn(&Slot) -> bool,
    ) -> Option<(u32, &mut Slot)> {
        let (slots, start): (&mut [Slot], usize) = match self {
            Slots::Plain(slots) => (slots, index as usize),
            Slots::Paged(pages) => {
                let (page, start) = (index as usize / PAGE_SLOTS, index as usize % PAGE_SLOTS);
                (pages.get_mut(page)?.as_deref_mut()?, start)
            }
        };
        // Without branches: how far a key is from its home is another for each, and would take the
        // processor by surprise.
        let near = slots.get(start..start + NEAR)?;
        let at: usize = near.iter().map(|slot| usize::from(before(slot))).sum();
        let (at, slot) = if at < NEAR {
            (at, slots.get_mut(start..start + NEAR)?.get_mut(at)?)
        } else {
            let further = slots.get_mut(start + NEAR..)?;
            let at = position(further, before)?;
            (NEAR + at, further.get_mut(at)?)
        };
        #[allow(clippy::cast_possible_truncation, reason = "it is at most NEAR and FAR")]
        Some((index + at as u32, slot))
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
