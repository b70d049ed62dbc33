//! The keys with the most requests and the most denials of the last minutes, in bounded memory.
//!
//! A Space-Saving sketch keeps a bounded number of keys. A key that is not among them takes the
//! place of the smallest and inherits its count. So a count is never too small, and every key above
//! a share of the whole is there. Each rule has a sketch of its own, so that a rule with many keys
//! does not push out the keys of another; rules beyond the bound share one. Busy threads look at one
//! decision in several and count it for all of those. Two windows are kept: the current one and the
//! one before.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate::Timestamp;

use crate::active_names::ActiveNames;
use crate::bounds::{MAX_SHOWN_KEY, TOP_KEYS_OF_RULE, TOP_KEYS_SHARED, TOP_RULES, TOP_WINDOW};

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
    /// All requests that the rule of the key applied to.
    Traffic,
    /// Requests that an enforced rule or a list denied.
    Denials,
    /// Requests that a shadow rule would have denied.
    WouldDeny,
}

/// The keys that are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopQuery<'q> {
    pub(crate) by: By,
    /// `None`: the keys of all enforced rules by traffic and by denials, of all shadow rules by
    /// what these would have denied.
    pub(crate) rule: Option<&'q str>,
    pub(crate) most: usize,
    /// Keys of other rules are of rules that were removed.
    pub(crate) names: &'q ActiveNames,
}

/// A decision as far as one key is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeySample<'k> {
    pub(crate) rule: &'k str,
    pub(crate) is_shadow: bool,
    pub(crate) key: &'k [(&'k str, &'k str)],
}

/// A key that is among the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    pub(crate) rule: Box<str>,
    /// `true` if the rule was in shadow.
    pub(crate) is_shadow: bool,
    /// Attributes and values.
    pub(crate) key: ShownKey,
    /// Whether that is all of it.
    pub(crate) whole: bool,
    pub(crate) counts: KeyCounts,
}

/// The counts of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyCounts {
    /// About how many requests; never fewer than there were, but for chance.
    pub(crate) seen: u64,
    /// How many of those the rule denied, or would have denied in shadow.
    pub(crate) denied: u64,
    /// How many of those that the key is ordered by may be another key's.
    pub(crate) over: u64,
}

#[derive(Debug, Default)]
struct Windows {
    began: Timestamp,
    now: Sketches,
    before: Sketches,
}

#[derive(Debug)]
struct Sketches {
    of_rules: HashMap<Box<str>, RuleSketches>,
    shared: RuleSketches,
}

#[derive(Debug)]
struct RuleSketches {
    traffic: Sketch,
    denials: Sketch,
}

#[derive(Debug)]
struct Sketch {
    by: By,
    /// The most keys that it keeps.
    most: usize,
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

    /// Counts a decision that is [`due`](Self::due) for one key.
    pub(crate) fn count(&self, sample: KeySample<'_>, counts: KeyCounts, now: Timestamp) {
        let hash = self.hasher.hash_one(sample);
        // A thread that meets another here goes on: one decision more or less changes no order.
        let Some(mut windows) = self.windows.try_lock() else { return };
        if windows.turn(now) {
            self.window.fetch_add(1, Ordering::Relaxed);
        }
        let sketches = windows.now.of_rule(sample.rule);
        sketches.traffic.add(hash, sample, counts);
        if counts.denied > 0 {
            sketches.denials.add(hash, sample, counts);
        }
    }

    /// The largest keys, and the time they are of.
    pub(crate) fn list(&self, query: TopQuery<'_>, now: Timestamp) -> (Vec<Ranked>, Duration) {
        let mut windows = self.windows.lock();
        if windows.turn(now) {
            self.window.fetch_add(1, Ordering::Relaxed);
        }
        let mut merged: HashMap<u64, (KeyCounts, &Ranked)> = HashMap::new();
        for sketches in windows.all() {
            for (hash, ranked) in &sketches.of(query.by).entries {
                if query.wants(ranked) {
                    let known = merged.entry(*hash).or_insert((KeyCounts::default(), ranked));
                    known.0.add(ranked.counts);
                }
            }
        }
        let mut all: Vec<(u64, (KeyCounts, &Ranked))> = merged.into_iter().collect();
        all.sort_unstable_by(|(_, a), (_, b)| {
            let sizes = b.0.of(query.by).cmp(&a.0.of(query.by));
            sizes.then_with(|| (&a.1.rule, &a.1.key).cmp(&(&b.1.rule, &b.1.key)))
        });
        all.truncate(query.most);
        let listed = all.into_iter().map(|(hash, (counts, of))| {
            // A key that is among the most denied need not be among those with the most requests.
            let seen = windows.seen(hash).max(counts.seen);
            Ranked { counts: KeyCounts { seen, ..counts }, ..of.clone() }
        });
        (listed.collect(), now.saturating_since(windows.began) + TOP_WINDOW)
    }
}

impl TopQuery<'_> {
    fn wants(&self, ranked: &Ranked) -> bool {
        let of_rule = match (self.rule, self.by) {
            (Some(rule), By::Traffic) => *ranked.rule == *rule,
            (rule, by) => {
                let is_meant = rule.is_none_or(|rule| *ranked.rule == *rule);
                is_meant && ranked.is_shadow == (by == By::WouldDeny)
            }
        };
        // A rule that came into shadow or out of it is another rule for this.
        let names = self.names;
        of_rule
            && names.has_counts(&ranked.rule)
            && names.is_shadow(&ranked.rule) == ranked.is_shadow
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
        let age = now.saturating_since(self.began);
        if age < TOP_WINDOW {
            return false;
        }
        let current = std::mem::take(&mut self.now);
        self.before = if age < 2 * TOP_WINDOW { current } else { Sketches::default() };
        self.began = now;
        true
    }

    fn all(&self) -> impl Iterator<Item = &RuleSketches> {
        self.before.all().chain(self.now.all())
    }

    /// All requests of a key that are known, also those that were allowed.
    fn seen(&self, hash: u64) -> u64 {
        let known = self.all().filter_map(|sketches| {
            let place = sketches.traffic.places.get(&hash)?;
            Some(sketches.traffic.entries[*place].1.counts.seen)
        });
        known.fold(0, u64::saturating_add)
    }
}

impl Default for Sketches {
    fn default() -> Sketches {
        Sketches { of_rules: HashMap::new(), shared: RuleSketches::with_room(TOP_KEYS_SHARED) }
    }
}

impl Sketches {
    /// The sketches that count the keys of a rule.
    fn of_rule(&mut self, rule: &str) -> &mut RuleSketches {
        let is_known = self.of_rules.contains_key(rule);
        if !is_known && self.of_rules.len() < TOP_RULES {
            self.of_rules.insert(rule.into(), RuleSketches::with_room(TOP_KEYS_OF_RULE));
        }
        self.of_rules.get_mut(rule).unwrap_or(&mut self.shared)
    }

    fn all(&self) -> impl Iterator<Item = &RuleSketches> {
        self.of_rules.values().chain([&self.shared])
    }
}

impl RuleSketches {
    /// Empty sketches that keep up to this number of keys each.
    fn with_room(most: usize) -> RuleSketches {
        let sketch = |by| Sketch { by, most, entries: Vec::new(), places: HashMap::new() };
        RuleSketches { traffic: sketch(By::Traffic), denials: sketch(By::Denials) }
    }

    fn of(&self, by: By) -> &Sketch {
        match by {
            By::Traffic => &self.traffic,
            By::Denials | By::WouldDeny => &self.denials,
        }
    }
}

impl Sketch {
    fn add(&mut self, hash: u64, sample: KeySample<'_>, counts: KeyCounts) {
        if let Some(place) = self.places.get(&hash) {
            self.entries[*place].1.counts.add(counts);
            return;
        }
        let (key, whole) = shown(sample.key);
        let (rule, is_shadow) = (sample.rule.into(), sample.is_shadow);
        let mut ranked = Ranked { rule, is_shadow, key, whole, counts };
        if self.entries.len() < self.most {
            self.places.insert(hash, self.entries.len());
            self.entries.push((hash, ranked));
            return;
        }
        let of = |(_, entry): &(usize, &(u64, Ranked))| entry.1.counts.of(self.by);
        let Some((place, _)) = self.entries.iter().enumerate().min_by_key(of) else { return };
        let (gone, smallest) = &self.entries[place];
        ranked.counts.add(KeyCounts { over: smallest.counts.of(self.by), ..smallest.counts });
        self.places.remove(gone);
        self.places.insert(hash, place);
        self.entries[place] = (hash, ranked);
    }
}

impl KeyCounts {
    /// What keys are ordered by.
    pub(crate) fn of(&self, by: By) -> u64 {
        match by {
            By::Traffic => self.seen,
            By::Denials | By::WouldDeny => self.denied,
        }
    }

    fn add(&mut self, other: KeyCounts) {
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
