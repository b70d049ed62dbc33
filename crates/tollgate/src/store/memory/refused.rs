//! Keys that were just refused: each thread remembers the states of a few, and answers a flood on
//! one of them without a lock.
//!
//! Only buckets with less than a whole unit left at their own moment are remembered. Whoever changes
//! such a state **disturbs** its shard, and shards count that: as long as the count is the same, what
//! a thread has seen is what it would find. Being refused changes nothing, so that under a flood
//! the count goes up only as fast as units come back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::algorithm::Packed;
use crate::key::Fingerprint;
#[cfg(loom)]
use loom::thread_local;

/// How many keys a thread remembers, each in the place that its fingerprint says.
const PLACES: usize = 16;

/// How often a key is refused before it is remembered, with no other of its place in between: most
/// keys do not insist, and to meet one that did among many others takes the processor by surprise.
const INSISTS: u32 = 8;

/// A key, of this store, under the limit of this number. By value: what is lent is kept in memory.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) store: u64,
    pub(super) limit: u32,
    pub(super) fingerprint: Fingerprint,
}

/// A key's state, as of when its shard had been disturbed so often. Each in a cell of its own, so
/// that mostly no more than the first is read.
struct Refused {
    id: Cell<u64>,
    /// Who was refused last in this place, and how often in a row.
    last: Cell<u64>,
    times: Cell<u32>,
    place: Cell<u64>,
    store: Cell<u64>,
    limit: Cell<u32>,
    disturbed: Cell<u64>,
    words: Cell<Packed>,
}

impl Refused {
    const fn nobody() -> Refused {
        Refused {
            id: Cell::new(0),
            last: Cell::new(0),
            times: Cell::new(0),
            place: Cell::new(0),
            store: Cell::new(0),
            limit: Cell::new(0),
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

/// The number of a new store: no other of this process has it, nor had it.
pub(super) fn new_store() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number alone is wanted.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// The state of a key under the limit that asks, if this thread remembers it and its shard has not
/// been disturbed since.
#[inline(always)]
pub(super) fn recall(who: Who, disturbed: u64) -> Option<Packed> {
    REFUSED.with(|places| {
        let refused = &places[place(who.fingerprint)];
        if refused.id.get() != who.fingerprint.id {
            return None;
        }
        let holds = refused.place.get() == who.fingerprint.place
            && refused.store.get() == who.store
            && refused.limit.get() == who.limit
            && refused.disturbed.get() == disturbed;
        holds.then(|| refused.words.get())
    })
}

/// Remembers the state of a key that was refused; its shard is locked, and had been disturbed so
/// often before. At first only that it was, which is all that most come to.
#[inline(always)]
pub(super) fn remember(who: Who, disturbed: u64, words: Packed) {
    let is_again = REFUSED.with(|places| {
        let refused = &places[place(who.fingerprint)];
        let is_again = refused.last.get() == who.fingerprint.id;
        if !is_again {
            refused.last.set(who.fingerprint.id);
            refused.times.set(1);
        }
        is_again
    });
    if is_again {
        remember_again(who, disturbed, words);
    }
}

/// [`remember`] of a key that was the last to be refused in its place.
#[inline(never)]
fn remember_again(who: Who, disturbed: u64, words: Packed) {
    REFUSED.with(|places| {
        let refused = &places[place(who.fingerprint)];
        let times = refused.times.get() + 1;
        if times < INSISTS {
            refused.times.set(times);
            return;
        }
        refused.id.set(who.fingerprint.id);
        refused.place.set(who.fingerprint.place);
        refused.store.set(who.store);
        refused.limit.set(who.limit);
        refused.disturbed.set(disturbed);
        refused.words.set(words);
    });
}

#[inline(always)]
fn place(fingerprint: Fingerprint) -> usize {
    // The last byte of the id is not the fingerprint's.
    usize::from(fingerprint.id.to_le_bytes()[1]) % PLACES
}
