//! Many globs that are matched against one value in one pass.
//!
//! Each glob is filed under a text that every match has: the text that it begins with, or one of
//! its literals, which an Aho-Corasick automaton finds anywhere in the value. Only the globs whose
//! text was found are matched one by one. The automaton holds at most [`MAX_ANCHOR`] bytes of each
//! glob, which bounds its size by the number of globs.

use std::cmp::Reverse;
use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use smallvec::SmallVec;

use super::index::EntryId;
use super::prefixes::Prefixes;
use crate::policy::Glob;

/// How many bytes of a literal the automaton looks for.
const MAX_ANCHOR: usize = 16;

/// Up to this many globs with the same prefix are matched one by one.
const MAX_PER_PREFIX: usize = 8;

/// How many literals of a glob are considered as its anchor.
const MAX_LITERALS: usize = 16;

/// Owners of globs that matched.
pub(super) type GlobOwners = SmallVec<[EntryId; 8]>;

/// Globs, each with an owner: the entry of a rule or a list.
#[derive(Debug, Default)]
pub(super) struct GlobSet {
    globs: Box<[OwnedGlob]>,
    /// The globs that have no anchor, by the text that they begin with.
    prefixes: Prefixes,
    /// Finds the anchors of the other globs, if there are any.
    automaton: Option<AhoCorasick>,
    /// The globs of each anchor.
    anchored: Box<[Box<[u32]>]>,
}

#[derive(Debug)]
struct OwnedGlob {
    glob: Glob,
    owner: EntryId,
    /// Whether the glob is `*anchor*`, which matches wherever the anchor is found.
    is_anchor: bool,
}

/// One pass over a value.
struct GlobSearch<'s, F> {
    set: &'s GlobSet,
    value: &'s str,
    /// The owner that was found last: its other globs need not be matched.
    last: Option<EntryId>,
    found: F,
}

impl GlobSet {
    pub(super) fn new(globs: impl IntoIterator<Item = (Glob, EntryId)>) -> GlobSet {
        let globs: Box<[(Glob, EntryId)]> = globs.into_iter().collect();
        let anchors = anchors(&globs);
        let mut by_anchor: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut of_prefixes = Vec::new();
        for (number, ((glob, _), anchor)) in (0..).zip(globs.iter().zip(&anchors)) {
            match anchor {
                Some(anchor) => by_anchor.entry(anchor).or_default().push(number),
                None => of_prefixes.push((glob.literal_prefix().into(), number)),
            }
        }
        let (texts, anchored): (Vec<&str>, Vec<_>) =
            by_anchor.into_iter().map(|(text, globs)| (text, globs.into_boxed_slice())).unzip();
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let automaton = match texts.is_empty() {
            true => Ok(None),
            false => AhoCorasick::builder().kind(kind).build(&texts).map(Some),
        };
        // An automaton has a largest size. Beyond it all globs are matched one by one.
        let is_too_large = automaton.is_err();
        if is_too_large {
            of_prefixes = (0..).zip(&globs).map(|(number, _)| ("".into(), number)).collect();
        }
        let is_anchor = |(glob, _): &(Glob, EntryId), anchor: &Option<&str>| {
            anchor.is_some_and(|anchor| {
                let inner = glob.as_str().strip_prefix('*').and_then(|of| of.strip_suffix('*'));
                inner == Some(anchor) && !is_too_large
            })
        };
        let all_anchors: Vec<bool> =
            globs.iter().zip(&anchors).map(|(glob, anchor)| is_anchor(glob, anchor)).collect();
        let anchored = anchored.into_boxed_slice();
        let owned = globs.into_iter().zip(all_anchors);
        GlobSet {
            globs: owned
                .map(|((glob, owner), is_anchor)| OwnedGlob { glob, owner, is_anchor })
                .collect(),
            prefixes: Prefixes::new(of_prefixes),
            automaton: automaton.ok().flatten(),
            anchored,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Whether `value` matches any of the globs.
    pub(super) fn is_match(&self, value: &str) -> bool {
        let mut is_match = false;
        let found = |_| {
            is_match = true;
            false
        };
        GlobSearch { set: self, value, last: None, found }.run();
        is_match
    }

    /// Returns the owners of all globs that `value` matches, in order.
    pub(super) fn owners(&self, value: &str) -> GlobOwners {
        let mut owners = GlobOwners::new();
        let found = |owner| {
            owners.push(owner);
            true
        };
        GlobSearch { set: self, value, last: None, found }.run();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

impl<F: FnMut(EntryId) -> bool> GlobSearch<'_, F> {
    /// Calls `found` with the owners of the globs that match, until it returns `false`.
    fn run(mut self) {
        let mut goes_on = true;
        self.set.prefixes.each(self.value, &mut |globs| {
            goes_on = goes_on && self.match_all(globs);
        });
        let Some(automaton) = self.set.automaton.as_ref().filter(|_| goes_on) else { return };
        let words = self.set.anchored.len().div_ceil(64);
        let mut seen: SmallVec<[u64; 32]> = SmallVec::from_elem(0, words);
        for occurrence in automaton.find_overlapping_iter(self.value) {
            let anchor = occurrence.pattern().as_usize();
            let (word, bit) = (&mut seen[anchor / 64], 1 << (anchor % 64));
            let is_seen = *word & bit != 0;
            *word |= bit;
            if !is_seen && !self.match_all(&self.set.anchored[anchor]) {
                return;
            }
        }
    }

    /// Matches globs one by one. Returns `false` once `found` does.
    fn match_all(&mut self, globs: &[u32]) -> bool {
        globs.iter().all(|number| {
            let OwnedGlob { glob, owner, is_anchor } = &self.set.globs[*number as usize];
            let matches = self.last != Some(*owner) && (*is_anchor || glob.matches(self.value));
            if !matches {
                return true;
            }
            self.last = Some(*owner);
            (self.found)(*owner)
        })
    }
}

/// The anchor of each glob: the part of a literal that the fewest other globs have, of equal ones
/// the longest. `None` for globs without one, and if few globs begin with the same text.
fn anchors(globs: &[(Glob, EntryId)]) -> Vec<Option<&str>> {
    let mut prefixes: HashMap<&str, usize> = HashMap::new();
    for (glob, _) in globs {
        *prefixes.entry(glob.literal_prefix()).or_default() += 1;
    }
    let is_crowded = |glob: &Glob| prefixes[glob.literal_prefix()] > MAX_PER_PREFIX;
    let mut crowd: HashMap<&str, usize> = HashMap::new();
    let crowded = globs.iter().map(|(glob, _)| glob).filter(|glob| is_crowded(glob));
    for part in crowded.flat_map(parts_of_literals) {
        *crowd.entry(part).or_default() += 1;
    }
    let anchor = |glob| {
        let rank = |part: &&str| (crowd[*part], Reverse(part.len()));
        parts_of_literals(glob).min_by_key(rank)
    };
    globs.iter().map(|(glob, _)| if is_crowded(glob) { anchor(glob) } else { None }).collect()
}

/// The start and the end of each literal of a glob, of at most [`MAX_ANCHOR`] bytes, without the
/// text that the glob begins with.
fn parts_of_literals(glob: &Glob) -> impl Iterator<Item = &str> {
    let literals = glob.literals().filter(|(at, _)| *at > 0).take(MAX_LITERALS);
    literals.flat_map(|(_, literal)| {
        let is_boundary = |at: &usize| literal.is_char_boundary(*at);
        let end = (0..=literal.len().min(MAX_ANCHOR)).rev().find(is_boundary);
        let start = (literal.len().saturating_sub(MAX_ANCHOR)..=literal.len()).find(is_boundary);
        let (start, end) = (start.unwrap_or(0), end.unwrap_or(literal.len()));
        let parts = [&literal[..end], &literal[start..]];
        parts.into_iter().take(if start == 0 { 1 } else { 2 })
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn glob_set_finds_what_each_glob_matches(
            globs in prop::collection::vec(("[*?]?[abé]{0,3}[*?][ab*?é]{0,5}(long enough to be cut)?[*a]?", 0..6_u32), 0..40),
            value in "[abé]{0,12}(long enough to be cut)?[ab]{0,2}",
        ) {
            let globs: Vec<(Glob, u32)> =
                globs.into_iter().map(|(text, owner)| (Glob::new(text), owner)).collect();
            let set = GlobSet::new(globs.clone());
            let matching = globs.iter().filter(|(glob, _)| glob.matches(&value));
            let mut wanted: Vec<u32> = matching.map(|(_, owner)| *owner).collect();
            wanted.sort_unstable();
            wanted.dedup();
            prop_assert_eq!(set.is_match(&value), !wanted.is_empty());
            prop_assert_eq!(set.owners(&value).to_vec(), wanted);
        }
    }

    /// Loading takes no time and no memory that grows with more than the bytes of the globs.
    #[test]
    fn ten_thousand_long_globs_make_a_small_automaton() {
        let text = |number: usize| {
            let parts = (0..100).map(|part| format!("{:07}", number * 101 + part));
            parts.collect::<Vec<_>>().join("*")
        };
        let globs = (0..10_000).map(|number| (Glob::new(format!("*{}*", text(number))), 0));
        let set = GlobSet::new(globs);
        let automaton = set.automaton.as_ref().expect("the globs have anchors");
        assert!(automaton.memory_usage() < 16 << 20, "{} bytes", automaton.memory_usage());
        assert!(set.is_match(&text(7).replace('*', "-")));
        assert!(!set.is_match(&text(7).replace('*', "-")[1..]));
    }
}
