//! The keys with the most traffic and the most denials of the last minutes, in bounded memory.
//!
//! A Space-Saving sketch keeps so many keys; one that is not among them takes the place of the
//! smallest and inherits its count, so that a key is never told smaller than it is and every key
//! above a share of the whole is there. Busy threads look at one decision in so many and count it
//! for all of those. Two windows are kept, the current one and the one before.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate::Timestamp;

use crate::bounds::{MAX_SHOWN_KEY, TOP_KEYS, TOP_WINDOW};

/// How many decisions of a window a thread looks at one by one, before it looks at half as many.
const PER_GAP: u32 = 1024;

/// A thread that has very much to do looks at one decision in so many.
const MAX_GAP: u32 = 64;

/// Which keys have the most traffic and the most denials.
#[derive(Debug, Default)]
pub(crate) struct Top {
    windows: Mutex<Windows>,
    /// Counts the windows, so that threads know when to look closely again.
    window: AtomicU32,
    hasher: RandomState,
}

/// The attributes of a key and their values.
pub(crate) type Key<'w> = SmallVec<[(&'w str, &'w str); 8]>;

/// What keys are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Traffic,
    Denials,
}

/// A key that is among the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    pub(crate) rule: Box<str>,
    /// Attributes and values.
    pub(crate) key: ShownKey,
    /// Whether that is all of it.
    pub(crate) whole: bool,
    /// About how many decisions; never fewer than there were, but for chance.
    pub(crate) seen: u64,
    pub(crate) denied: u64,
    /// How many of those that it is ordered by may be another key's.
    pub(crate) over: u64,
}

#[derive(Debug, Default)]
struct Windows {
    began: Timestamp,
    now: Sketches,
    before: Sketches,
}

#[derive(Debug, Default)]
struct Sketches {
    traffic: Sketch,
    denials: Sketch,
}

#[derive(Debug, Default)]
struct Sketch {
    entries: Vec<(u64, Ranked)>,
    places: HashMap<u64, usize>,
}

/// How closely a thread looks, at decisions that allow and at those that deny.
#[derive(Clone, Copy)]
struct Sampling {
    /// Until it looks again.
    left: u32,
    gap: u32,
    looked: u32,
    window: u32,
}

thread_local! {
    static SAMPLING: [Cell<Sampling>; 2] = const {
        let closely = Sampling { left: 1, gap: 1, looked: 0, window: 0 };
        [Cell::new(closely), Cell::new(closely)]
    };
}

impl Top {
    /// For how many decisions this one is to be counted; 0 where it is not to be looked at.
    #[inline]
    pub(crate) fn due(&self, allowed: bool) -> u64 {
        SAMPLING.with(|both| {
            let cell = &both[usize::from(allowed)];
            let mut sampling = cell.get();
            sampling.left -= 1;
            if sampling.left > 0 {
                cell.set(sampling);
                return 0;
            }
            let weight = sampling.gap;
            cell.set(sampling.next(self.window.load(Ordering::Relaxed)));
            u64::from(weight)
        })
    }

    /// Counts a decision that is [`due`](Self::due).
    pub(crate) fn count(
        &self,
        weight: u64,
        allowed: bool,
        now: Timestamp,
        who: (&str, &[(&str, &str)]),
    ) {
        let hash = self.hasher.hash_one(who);
        // Who meets another here goes on: one decision more or less changes no order.
        let Some(mut windows) = self.windows.try_lock() else { return };
        if windows.turn(now) {
            self.window.fetch_add(1, Ordering::Relaxed);
        }
        let denied = if allowed { 0 } else { weight };
        windows.now.traffic.add(hash, who, [weight, denied], By::Traffic);
        if !allowed {
            windows.now.denials.add(hash, who, [weight, denied], By::Denials);
        }
    }

    /// The largest `most` keys, and the time they are of.
    pub(crate) fn list(&self, by: By, most: usize, now: Timestamp) -> (Vec<Ranked>, Duration) {
        let mut windows = self.windows.lock();
        if windows.turn(now) {
            self.window.fetch_add(1, Ordering::Relaxed);
        }
        let mut merged: HashMap<u64, Ranked> = HashMap::new();
        for (hash, ranked) in
            windows.before.of(by).entries.iter().chain(&windows.now.of(by).entries)
        {
            merged.entry(*hash).and_modify(|known| known.add(ranked)).or_insert(ranked.clone());
        }
        let since = now.since(windows.began) + TOP_WINDOW;
        drop(windows);
        let mut all: Vec<Ranked> = merged.into_values().collect();
        let order = |a: &Ranked, b: &Ranked| {
            b.of(by).cmp(&a.of(by)).then_with(|| (&a.rule, &a.key).cmp(&(&b.rule, &b.key)))
        };
        all.sort_unstable_by(order);
        all.truncate(most);
        (all, since)
    }
}

impl Sampling {
    /// How it goes on after a look.
    #[cold]
    fn next(mut self, window: u32) -> Sampling {
        if self.window != window {
            self = Sampling { left: 1, gap: 1, looked: 0, window };
        }
        self.looked += 1;
        if self.looked == PER_GAP && self.gap < MAX_GAP {
            (self.gap, self.looked) = (self.gap * 2, 0);
        }
        self.left = around(self.gap, self.looked);
        self
    }
}

/// A number whose mean is `gap`: a steady beat would see only some of clients that take turns.
fn around(gap: u32, look: u32) -> u32 {
    // Multiplying by an odd number with bits all over scatters consecutive numbers.
    let scattered = look.wrapping_mul(0x9E37_79B9) >> 16;
    1 + scattered % (2 * gap - 1)
}

impl Windows {
    /// Begins another window where it is time; whether it was.
    fn turn(&mut self, now: Timestamp) -> bool {
        let age = now.since(self.began);
        if age < TOP_WINDOW {
            return false;
        }
        let current = std::mem::take(&mut self.now);
        self.before = if age < 2 * TOP_WINDOW { current } else { Sketches::default() };
        self.began = now;
        true
    }
}

impl Sketches {
    fn of(&self, by: By) -> &Sketch {
        match by {
            By::Traffic => &self.traffic,
            By::Denials => &self.denials,
        }
    }
}

impl Sketch {
    fn add(
        &mut self,
        hash: u64,
        (rule, key): (&str, &[(&str, &str)]),
        [seen, denied]: [u64; 2],
        by: By,
    ) {
        if let Some(place) = self.places.get(&hash) {
            let known = &mut self.entries[*place].1;
            known.seen = known.seen.saturating_add(seen);
            known.denied = known.denied.saturating_add(denied);
            return;
        }
        let (rule, (key, whole)) = (rule.into(), shown(key));
        let mut ranked = Ranked { rule, key, whole, seen, denied, over: 0 };
        if self.entries.len() < TOP_KEYS {
            self.places.insert(hash, self.entries.len());
            self.entries.push((hash, ranked));
            return;
        }
        let of = |(_, entry): &(usize, &(u64, Ranked))| entry.1.of(by);
        let Some((place, _)) = self.entries.iter().enumerate().min_by_key(of) else { return };
        let (gone, smallest) = &self.entries[place];
        ranked.over = smallest.of(by);
        ranked.seen = ranked.seen.saturating_add(smallest.seen);
        ranked.denied = ranked.denied.saturating_add(smallest.denied);
        self.places.remove(gone);
        self.places.insert(hash, place);
        self.entries[place] = (hash, ranked);
    }
}

impl Ranked {
    /// What it is ordered by.
    pub(crate) fn of(&self, by: By) -> u64 {
        match by {
            By::Traffic => self.seen,
            By::Denials => self.denied,
        }
    }

    fn add(&mut self, other: &Ranked) {
        self.seen = self.seen.saturating_add(other.seen);
        self.denied = self.denied.saturating_add(other.denied);
        self.over = self.over.saturating_add(other.over);
    }
}

/// Attributes and values of a key, as they are kept.
pub(crate) type ShownKey = Box<[(Box<str>, Box<str>)]>;

/// A key as it is kept: long values are cut, and end with `…`; and whether none was.
pub(crate) fn shown(key: &[(&str, &str)]) -> (ShownKey, bool) {
    let most = MAX_SHOWN_KEY / key.len().max(1);
    let part = |(name, value): &(&str, &str)| (cut(name, most), cut(value, most));
    let whole = key.iter().all(|(name, value)| name.len() <= most && value.len() <= most);
    (key.iter().map(part).collect(), whole)
}

fn cut(text: &str, most: usize) -> Box<str> {
    if text.len() <= most {
        return text.into();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end]).into()
}

#[cfg(test)]
mod tests;
