//! A shard's table: slots sorted by fingerprint with gaps between, so that a lookup goes straight
//! to where its slot must be and touches one cache line or the next.
//!
//! A slot's home is its fingerprint scaled to the table. It stands there or, where its neighbours
//! have taken that place, in the run of slots that follows without a gap. Since homes rise with
//! fingerprints, the whole table is in order whatever its size, and any other size is laid out in
//! one pass.
//!
//! A fingerprint's last byte is free: there a slot says which limit its state was made under. A
//! store of more than 255 limits keeps the numbers of the others aside, as it does all names: what
//! a check does not need stays out of its way.

use std::cell::Cell;
use std::num::NonZeroU8;

use super::aside::ColdColumns;
use super::home::{NEAR, home, homes_for, rows_for};
use super::search::find_near;
use crate::algorithm::PackedState;

/// The last byte of a tagged id.
const TAG: u64 = 0xff;

/// A key's id with its limit's number in the last byte, as in a slot whose state was made under that
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaggedId(u64);

impl TaggedId {
    #[inline(always)]
    pub(super) fn new(id: u64, tag: NonZeroU8) -> TaggedId {
        TaggedId(id | u64::from(tag.get()))
    }

    /// `true` if both are of one id, of whatever limits: in one store, of one key of one limiter.
    #[inline(always)]
    pub(super) fn is_same_key(self, other: TaggedId) -> bool {
        (self.0 ^ other.0) <= TAG
    }
}

/// What a check reads of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The fingerprint's id and, in its last byte, the number of the limit if that is below 256. A
    /// free slot has all ones: no id has, and so it is after all others.
    pub(super) tagged: u64,
    /// The state, or where beside the table it is.
    pub(super) words: PackedState,
}

/// Finds the slot of a known key among the [`cells`](Table::cells) of its table, if its state was made
/// under the limit of `id` and it is close behind `start`. `start` is the key's home slot, or was before
/// the table was laid out anew: the key may then not be found, but no other key is. Does less work than
/// [`Table::find`]: the fewer instructions follow the load of a slot, the sooner the processor loads the
/// next key's slot.
#[inline(always)]
pub(super) fn find_known(slots: &[Cell<Slot>], id: TaggedId, start: u32) -> Option<&Cell<Slot>> {
    find_near(slots, start, id.0)
}

/// How much smaller a table gets at once when it is laid out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shrink {
    /// By a quarter at most.
    Gradual,
    /// To what its rows need.
    ToFit,
}

/// All that is kept of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableRow {
    pub(super) id: u64,
    pub(super) words: PackedState,
    /// Which limit the state was made under, as the registry numbers them.
    pub(super) limit: u32,
    /// Where its name is, as [`KeyNames`](super::names::Names) numbers them.
    pub(super) place: u32,
}

pub(super) const FREE: Slot = Slot { tagged: u64::MAX, words: [u64::MAX; 2] };

impl Slot {
    pub(super) fn new(row: &TableRow) -> Slot {
        let tag = u8::try_from(row.limit).unwrap_or(0);
        Slot { tagged: row.id | u64::from(tag), words: row.words }
    }

    #[inline]
    fn id(&self) -> u64 {
        self.tagged & !TAG
    }

    pub(super) fn is_free(&self) -> bool {
        self.tagged == FREE.tagged
    }
}

/// Rows of a table that may have more room than it needs: of a shard of a large store that is far
/// from full.
const SMALL: usize = 1024;

/// Free slots past the last home: for the run that ends there, and so that [`NEAR`] slots can be searched
/// from the last home on.
const TAIL: usize = NEAR;

#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Box<[Slot]>,
    /// How many slots are homes; the rest are the tail.
    homes: u32,
    len: u32,
    pub(super) aside: Option<Box<ColdColumns>>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let aside = self.aside.as_ref().map_or(0, |aside| aside.heap_bytes());
        size_of_val(&*self.slots) + aside
    }

    /// Where the slot of `id` is, or where it would be inserted.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Result<usize, usize> {
        let mut index = self.home(id);
        while let Some(slot) = self.slots.get(index) {
            if (slot.tagged ^ id) <= TAG {
                return Ok(index);
            }
            // A later key's slot, or a free one.
            if slot.tagged >= id {
                break;
            }
            index += 1;
        }
        Err(index)
    }

    /// Returns the slots for [`find_known`], as cells: several can then be held and changed at once.
    #[inline(always)]
    pub(super) fn cells(&mut self) -> &[Cell<Slot>] {
        Cell::from_mut(&mut *self.slots).as_slice_of_cells()
    }

    #[inline]
    pub(super) fn words(&self, index: usize) -> PackedState {
        self.slots[index].words
    }

    #[inline]
    pub(super) fn words_mut(&mut self, index: usize) -> &mut PackedState {
        &mut self.slots[index].words
    }

    /// Where the slot of `id` would be if it had no neighbours.
    #[inline(always)]
    pub(super) fn home(&self, id: u64) -> usize {
        home(id, self.homes) as usize
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a tag is a byte")]
    pub(super) fn limit(&self, index: usize) -> u32 {
        match (self.slots[index].tagged & TAG) as u32 {
            0 => self
                .aside
                .as_ref()
                .and_then(|aside| aside.limits.get(index))
                .map_or(0, |limit| *limit),
            tag => tag,
        }
    }

    pub(super) fn row(&self, index: usize) -> TableRow {
        let slot = &self.slots[index];
        let place = self.aside.as_ref().and_then(|aside| aside.places.get(index).copied());
        TableRow {
            id: slot.id(),
            words: self.words(index),
            limit: self.limit(index),
            place: place.unwrap_or(0),
        }
    }

    /// Where its slots are and how many of them are homes: enough to fetch one ahead of its lookup.
    pub(super) fn extent(&self) -> (&[Slot], u32) {
        (&self.slots, self.homes)
    }

    /// Whether one more slot would make runs long; then the table is to be laid out anew.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= rows_for(self.homes as usize)
    }

    /// Puts a row where `find` said it belongs; false if the run there reaches the end.
    pub(super) fn insert(&mut self, at: usize, row: TableRow) -> bool {
        let Some(free) = (at..self.slots.len()).position(|index| self.slots[index].is_free())
        else {
            return false;
        };
        self.prepare_columns(&row);
        for index in (at..at + free).rev() {
            self.slots[index + 1] = self.slots[index];
        }
        self.slots[at] = Slot::new(&row);
        for (column, value) in self.columns().zip([row.limit, row.place]) {
            if !column.is_empty() {
                column.copy_within(at..at + free, at + 1);
                column[at] = value;
            }
        }
        self.len += 1;
        true
    }

    /// Puts a state of another limit into a slot.
    pub(super) fn replace(&mut self, index: usize, limit: u32, words: PackedState) {
        let row = TableRow { limit, words, ..self.row(index) };
        self.prepare_columns(&row);
        self.slots[index] = Slot::new(&row);
        if let Some(old) = self.columns().next().and_then(|limits| limits.get_mut(index)) {
            *old = limit;
        }
    }

    /// Takes a row out and lets those move up that stand away from home because of it.
    pub(super) fn remove(&mut self, index: usize) -> TableRow {
        let removed = self.row(index);
        let mut last = index;
        while let Some(slot) = self.slots.get(last + 1)
            && !slot.is_free()
            && self.home(slot.id()) <= last
        {
            self.slots[last] = *slot;
            last += 1;
        }
        self.slots[last] = FREE;
        let moved = index + 1..last + 1;
        for column in self.columns() {
            if !column.is_empty() {
                column.copy_within(moved.clone(), index);
            }
        }
        self.len -= 1;
        removed
    }

    /// Where the rows are, in order.
    pub(super) fn taken(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|index| !self.slots[*index].is_free())
    }

    /// Where the rows with this id and higher ones are, in order.
    pub(super) fn taken_from(&self, id: u64) -> impl Iterator<Item = usize> {
        let (Ok(start) | Err(start)) = self.find(id);
        (start..self.slots.len()).filter(|index| !self.slots[*index].is_free())
    }

    /// Where up to `most` rows are, from where `id` belongs onwards, around the end.
    pub(super) fn sample(&self, id: u64, most: usize) -> impl Iterator<Item = usize> {
        // Not from its home: two keys of one run would each be in the sample of the other, and two limiters
        // that count one key could evict each other's state with every check.
        let (Ok(start) | Err(start)) = self.find(id);
        (start..self.slots.len())
            .chain(0..start)
            .filter(|index| !self.slots[*index].is_free())
            .take(most)
    }

    /// The table laid out anew with these rows, which are in order, and room for a sixteenth more,
    /// or a quarter where it is small. Where keys come and go there is room for up to half: else it
    /// would be laid out whenever a sixteenth of them have gone.
    pub(super) fn laid_out(self, rows: &[TableRow], shrink: Shrink) -> Table {
        let (least, gone) = match shrink {
            Shrink::Gradual => (self.homes as usize / 4 * 3, self.len().saturating_sub(rows.len())),
            Shrink::ToFit => (0, 0),
        };
        let part = if rows.len() < SMALL && shrink == Shrink::Gradual { 4 } else { 16 };
        let more = (rows.len() / part).max(gone.saturating_mul(8).min(rows.len() / 2));
        let room = rows.len() + more.max(2);
        self.with_homes(rows, homes_for(room).max(least))
    }

    /// The table laid out anew with this many homes.
    fn with_homes(self, rows: &[TableRow], homes: usize) -> Table {
        let homes_u32 = u32::try_from(homes).unwrap_or(u32::MAX);
        let mut end = 0;
        let place = |row: &TableRow| {
            end = (home(row.id, homes_u32) as usize).max(end) + 1;
            end - 1
        };
        let taken: Vec<usize> = rows.iter().map(place).collect();
        // The old slots are freed first, so that the new ones can take their memory.
        let Table { slots: old, mut aside, .. } = self;
        drop(old);
        let mut slots = vec![FREE; homes.max(end) + TAIL].into_boxed_slice();
        for (index, row) in taken.iter().zip(rows) {
            slots[*index] = Slot::new(row);
        }
        if let Some(aside) = &mut aside {
            aside.clear_columns();
        }
        let len = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let homes = homes_u32;
        let mut table = Table { slots, homes, len, aside };
        rows.iter().for_each(|row| table.prepare_columns(row));
        for (column, value) in
            table.columns().zip([|row: &TableRow| row.limit, |row: &TableRow| row.place])
        {
            if !column.is_empty() {
                taken.iter().zip(rows).for_each(|(index, row)| column[*index] = value(row));
            }
        }
        table
    }

    /// Makes the columns that a row needs aside.
    #[inline]
    fn prepare_columns(&mut self, row: &TableRow) {
        let needs_limits = row.limit > u32::from(u8::MAX);
        if !needs_limits && row.place == 0 {
            return;
        }
        let aside = self.aside.get_or_insert_default();
        for (column, needed) in
            [(&mut aside.limits, needs_limits), (&mut aside.places, row.place != 0)]
        {
            if needed && column.is_empty() {
                *column = vec![0; self.slots.len()];
            }
        }
    }

    /// The columns of limits and of places, each as long as the slots or empty.
    fn columns(&mut self) -> impl Iterator<Item = &mut Vec<u32>> {
        let aside = self.aside.as_mut();
        aside.into_iter().flat_map(|aside| [&mut aside.limits, &mut aside.places])
    }
}

// What a check reads of a key: two or three to a cache line.
const _: () = assert!(size_of::<Slot>() == 24);

#[cfg(all(test, not(loom)))]
mod tests;
