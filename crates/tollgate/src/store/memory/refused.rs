//! Keys that were just refused: each thread remembers the states of a few, and answers a flood on
//! one of them without a lock.
//!
//! Only buckets with less than a whole unit left at their own moment are remembered. Whoever changes
//! such a state **disturbs** its shard, and shards count that: as long as the count is the same, what
//! a thread has seen is what it would find. Being refused changes nothing, so that under a flood
//! the count goes up only as fast as units come back.

use std::cell::Cell;

use crate::algorithm::Packed;
#[cfg(loom)]
use loom::thread_local;

/// How many keys a thread remembers, each in the place that its fingerprint says.
const PLACES: usize = 16;

/// How often a key is refused before it is remembered, with no other of its place in between: most
/// keys do not insist, and to meet one that did among many others takes the processor by surprise.
/// In loom's models, at once: they are too short to insist.
const INSISTS: u32 = if cfg!(loom) { 1 } else { 8 };

/// A key: in which shard, under which limit.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) id: u64,
    /// Where the shard is, which may be where another was that is gone.
    pub(super) shard: usize,
    /// The limit's, which no other has or had.
    pub(super) serial: u64,
}

/// A key's state, as of when its shard had been disturbed so often. Each in a cell of its own, so
/// that mostly no more than the first is read.
struct Refused {
    id: Cell<u64>,
    /// Who was refused last in this place, and how often in a row.
    last: Cell<u64>,
    times: Cell<u32>,
    shard: Cell<usize>,
    serial: Cell<u64>,
    disturbed: Cell<u64>,
    words: Cell<Packed>,
}

impl Refused {
    const fn nobody() -> Refused {
        Refused {
            id: Cell::new(0),
            last: Cell::new(0),
            times: Cell::new(0),
            shard: Cell::new(0),
            serial: Cell::new(0),
            disturbed: Cell::new(0),
            words: Cell::new([0; 2]),
        }
    }
}

#[cfg(not(loom))]
thread_local! {
    static REFUSED: [Refused; PLACES] = const { [const { Refused::nobody() }; PLACES] };
}

#[cfg(loom)]
thread_local! {
    static REFUSED: [Refused; PLACES] = [const { Refused::nobody() }; PLACES];
}

/// Whether this thread may remember a key of this id: what every check asks first.
#[inline(always)]
pub(super) fn knows(id: u64) -> bool {
    REFUSED.with(|places| places[place(id)].id.get() == id)
}

/// The state of a key under the limit that asks, if this thread remembers it and its shard has not
/// been disturbed since.
pub(super) fn recall(who: Who, disturbed: u64) -> Option<Packed> {
    REFUSED.with(|places| {
        let refused = &places[place(who.id)];
        let holds = refused.id.get() == who.id
            && refused.shard.get() == who.shard
            && refused.serial.get() == who.serial
            && refused.disturbed.get() == disturbed;
        holds.then(|| refused.words.get())
    })
}

/// Counts that a key was refused; whether so often that it is to be remembered.
#[inline(always)]
pub(super) fn insists(id: u64) -> bool {
    REFUSED.with(|places| {
        let refused = &places[place(id)];
        let times = if refused.last.get() == id { refused.times.get() + 1 } else { 1 };
        refused.last.set(id);
        // No more than it takes: the count cannot wrap.
        refused.times.set(times.min(INSISTS));
        times >= INSISTS
    })
}

/// Remembers the state of a key that was refused; its shard is locked, and had been disturbed so
/// often before.
pub(super) fn remember(who: Who, disturbed: u64, words: Packed) {
    REFUSED.with(|places| {
        let refused = &places[place(who.id)];
        // To be counted anew, should it be remembered in vain.
        refused.times.set(0);
        refused.id.set(who.id);
        refused.shard.set(who.shard);
        refused.serial.set(who.serial);
        refused.disturbed.set(disturbed);
        refused.words.set(words);
    });
}

#[inline(always)]
fn place(id: u64) -> usize {
    // Its last nine bits are not the hash's, and in the next two neighbours differ.
    (id >> 9) as usize % PLACES
}
