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

use super::aside::Aside;
use crate::algorithm::Packed;

/// What a check reads of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The fingerprint's id and, in its last byte, the number of the limit if that is below 256;
    /// all 0 is a free slot.
    tagged: u64,
    /// The state, or where beside the table it is.
    pub(super) words: Packed,
}

/// How much smaller a table gets at once when it is laid out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shrink {
    /// By a quarter at most.
    Slowly,
    /// To what its rows need.
    Fully,
}

/// All that is kept of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) id: u64,
    pub(super) words: Packed,
    /// Which limit the state was made under, as the registry numbers them.
    pub(super) limit: u32,
    /// Where its name is, as [`Names`](super::names::Names) numbers them.
    pub(super) place: u32,
}

const FREE: Slot = Slot { tagged: 0, words: [0; 2] };

/// The last byte of a tagged id.
const TAG: u64 = 0xff;

impl Slot {
    fn new(row: &Row) -> Slot {
        let tag = u8::try_from(row.limit).unwrap_or(0);
        Slot { tagged: row.id | u64::from(tag), words: row.words }
    }

    #[inline]
    fn id(&self) -> u64 {
        self.tagged & !TAG
    }

    fn is_free(&self) -> bool {
        self.tagged == 0
    }
}

/// Free slots past the last home, for the run that ends there.
const TAIL: usize = 8;

#[derive(Debug)]
pub(super) struct Table {
    slots: Box<[Slot]>,
    /// How many slots are homes; the rest are the tail.
    homes: u32,
    len: u32,
    pub(super) aside: Option<Box<Aside>>,
    /// The words of one slot that threads meet at: on the line of the lock, so that one line goes
    /// from core to core and not two. What the slot itself says is then out of date.
    front: Packed,
    /// Which slot that is.
    front_at: u32,
    /// Whether the state of a key that may be remembered as refused was changed, since this was
    /// last asked: see `refused.rs`.
    pub(super) disturbed: bool,
}

/// No slot.
const NOWHERE: u32 = u32::MAX;

impl Default for Table {
    fn default() -> Table {
        let (slots, aside) = (Box::default(), None);
        let front = [0; 2];
        Table { slots, homes: 0, len: 0, aside, front, front_at: NOWHERE, disturbed: false }
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let aside = self.aside.as_ref().map_or(0, |aside| aside.heap_bytes());
        self.slots.len() * size_of::<Slot>() + aside
    }

    /// Where the slot of `id` is, or where it would be inserted.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Result<usize, usize> {
        let mut index = home(id, self.homes);
        while let Some(slot) = self.slots.get(index) {
            if (slot.tagged ^ id) <= TAG {
                return Ok(index);
            }
            // A later key's slot, or, since 0 wraps to the largest number, a free one.
            if slot.tagged.wrapping_sub(1) >= id {
                break;
            }
            index += 1;
        }
        Err(index)
    }

    /// Whether the slot of `id` is at `index`.
    #[inline]
    pub(super) fn is_at(&self, index: usize, id: u64) -> bool {
        self.slots[index].id() == id
    }

    #[inline]
    pub(super) fn words(&self, index: usize) -> Packed {
        if index == self.front_at as usize { self.front } else { self.slots[index].words }
    }

    #[inline]
    pub(super) fn words_mut(&mut self, index: usize) -> &mut Packed {
        if index == self.front_at as usize {
            return &mut self.front;
        }
        &mut self.slots[index].words
    }

    /// Keeps the words of this slot in front.
    #[cold]
    pub(super) fn bring_to_front(&mut self, index: usize) {
        // Not the one that is there already: to settle would write to the line that is to rest.
        if index != self.front_at as usize {
            self.settle();
            self.front = self.slots[index].words;
            // Past the last number that fits, slots stay where they are.
            self.front_at = u32::try_from(index).unwrap_or(NOWHERE);
        }
    }

    /// Puts the words in front back, ahead of a change to where slots are.
    fn settle(&mut self) {
        if let Some(slot) = self.slots.get_mut(self.front_at as usize) {
            slot.words = self.front;
        }
        self.front_at = NOWHERE;
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

    pub(super) fn row(&self, index: usize) -> Row {
        let slot = &self.slots[index];
        let place = self.aside.as_ref().and_then(|aside| aside.places.get(index).copied());
        Row {
            id: slot.id(),
            words: self.words(index),
            limit: self.limit(index),
            place: place.unwrap_or(0),
        }
    }

    /// Where it begins and how many homes it has: enough to fetch a slot ahead of its lookup.
    pub(super) fn extent(&self) -> (usize, u32) {
        (self.slots.as_ptr().addr(), self.homes)
    }

    /// Whether one more slot would make runs long; then the table is to be laid out anew.
    pub(super) fn is_full(&self) -> bool {
        (self.len() + 1) * 10 > self.homes as usize * 7
    }

    /// Puts a row where `find` said it belongs; false if the run there reaches the end.
    pub(super) fn insert(&mut self, at: usize, row: Row) -> bool {
        let Some(free) = self.slots.iter().skip(at).position(Slot::is_free) else {
            return false;
        };
        self.prepare_columns(&row);
        self.settle();
        self.slots.copy_within(at..at + free, at + 1);
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
    pub(super) fn replace(&mut self, index: usize, limit: u32, words: Packed) {
        self.settle();
        let row = Row { limit, words, ..self.row(index) };
        self.prepare_columns(&row);
        self.slots[index] = Slot::new(&row);
        if let Some(old) = self.columns().next().and_then(|limits| limits.get_mut(index)) {
            *old = limit;
        }
    }

    /// Takes a row out and lets those move up that stand away from home because of it.
    pub(super) fn remove(&mut self, index: usize) -> Row {
        self.settle();
        let removed = self.row(index);
        let after = &self.slots[index + 1..];
        let displaced = after
            .iter()
            .zip(index + 1..)
            .position(|(slot, place)| slot.is_free() || home(slot.id(), self.homes) >= place)
            .unwrap_or(after.len());
        let moved = index + 1..index + 1 + displaced;
        self.slots.copy_within(moved.clone(), index);
        self.slots[index + displaced] = FREE;
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
        self.slots.iter().zip(0..).filter(|(slot, _)| !slot.is_free()).map(|(_, index)| index)
    }

    /// Where up to `most` rows are, from where `id` belongs onwards, around the end.
    pub(super) fn sample(&self, id: u64, most: usize) -> impl Iterator<Item = usize> {
        let start = home(id, self.homes);
        (start..self.slots.len())
            .chain(0..start)
            .filter(|index| !self.slots[*index].is_free())
            .take(most)
    }

    /// The table laid out anew with these rows, which are in order, and room for a sixteenth more.
    pub(super) fn laid_out(self, rows: &[Row], shrink: Shrink) -> Table {
        let room = rows.len() + (rows.len() / 16).max(3);
        let least = if shrink == Shrink::Slowly { self.homes as usize / 4 * 3 } else { 0 };
        let homes = (room * 10).div_ceil(7).max(least);
        let (mut aside, disturbed) = (self.aside, self.disturbed);
        let homes_u32 = u32::try_from(homes).unwrap_or(u32::MAX);
        let mut slots = Vec::with_capacity(homes + TAIL);
        for row in rows {
            slots.resize(slots.len().max(home(row.id, homes_u32)), FREE);
            slots.push(Slot::new(row));
        }
        slots.resize((slots.len() + TAIL).max(homes + TAIL), FREE);
        if let Some(aside) = &mut aside {
            aside.clear_columns();
        }
        let slots = slots.into_boxed_slice();
        let mut table = Table { slots, homes: homes_u32, aside, disturbed, ..Table::default() };
        rows.iter().for_each(|row| table.prepare_columns(row));
        let taken: Vec<usize> = table.taken().collect();
        for (index, row) in taken.into_iter().zip(rows) {
            for (column, value) in table.columns().zip([row.limit, row.place]) {
                if let Some(cell) = column.get_mut(index) {
                    *cell = value;
                }
            }
            table.len += 1;
        }
        table
    }

    /// Makes the columns that a row needs aside.
    fn prepare_columns(&mut self, row: &Row) {
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

/// The fingerprint scaled to the number of homes.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the shifted product is below `homes`")]
pub(super) fn home(id: u64, homes: u32) -> usize {
    ((u128::from(id) * u128::from(homes)) >> 64) as usize
}

// What a check reads of a key: two or three to a cache line.
const _: () = assert!(size_of::<Slot>() == 24);

#[cfg(all(test, not(loom)))]
mod tests;
