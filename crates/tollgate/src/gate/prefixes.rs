//! Which of many beginnings a text has.

use super::index::EntryId;

/// Beginnings in order, each knowing the longest other that it begins with itself.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// What all of them begin with.
    shared: Box<str>,
    /// Of each, the bytes after that: mostly enough to tell them apart, and compared at once.
    heads: Box<[u64]>,
    prefixes: Box<[Prefix]>,
}

#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    entries: Vec<EntryId>,
    shorter: Option<usize>,
}

impl Prefixes {
    pub(super) fn new(mut filed: Vec<(Box<str>, EntryId)>) -> Prefixes {
        filed.sort_unstable();
        let mut prefixes: Vec<Prefix> = Vec::new();
        for (text, entry) in filed {
            match prefixes.last_mut() {
                Some(last) if last.text == text => last.entries.push(entry),
                _ => {
                    let shorter = begins(&prefixes, prefixes.len().checked_sub(1), &text);
                    prefixes.push(Prefix { text, entries: vec![entry], shorter });
                }
            }
        }
        // What the first and the last in order share, all between them do.
        let shared = match (prefixes.first(), prefixes.last()) {
            (Some(first), Some(last)) => shared(&first.text, &last.text),
            _ => "",
        };
        let head = |prefix: &Prefix| head(&prefix.text.as_bytes()[shared.len()..]);
        let heads = prefixes.iter().map(head).collect();
        Prefixes { shared: shared.into(), heads, prefixes: prefixes.into_boxed_slice() }
    }

    /// Calls `found` with the entries of every beginning that `text` has.
    ///
    /// All of them are among the last one in order before `text`, and those it begins with: what
    /// lies in order between a beginning of a text and the text has the same beginning.
    #[inline]
    pub(super) fn each(&self, text: &str, found: &mut impl FnMut(&[EntryId])) {
        if self.prefixes.is_empty() {
            return;
        }
        let Some(rest) = text.strip_prefix(&*self.shared) else {
            return;
        };
        let head = head(rest.as_bytes());
        let from = self.heads.partition_point(|other| *other < head);
        let alike = self.heads[from..].partition_point(|other| *other == head);
        let alike = &self.prefixes[from..from + alike];
        let before = from + alike.partition_point(|prefix| *prefix.text <= *text);
        let mut next = begins(&self.prefixes, before.checked_sub(1), text);
        while let Some(prefix) = next.and_then(|place| self.prefixes.get(place)) {
            found(&prefix.entries);
            next = prefix.shorter;
        }
    }
}

/// The first bytes of a text as a number: of two texts in order, the later one's is not smaller.
#[inline]
fn head(text: &[u8]) -> u64 {
    let short = || std::array::from_fn(|at| text.get(at).copied().unwrap_or(0));
    u64::from_be_bytes(text.first_chunk().copied().unwrap_or_else(short))
}

/// What both begin with.
fn shared<'a>(a: &'a str, b: &str) -> &'a str {
    let alike = a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b);
    match alike {
        Some(((at, _), _)) => &a[..at],
        None => &a[..a.len().min(b.len())],
    }
}

/// From the prefix at `from` along the shorter ones, the first that `text` begins with.
fn begins(prefixes: &[Prefix], from: Option<usize>, text: &str) -> Option<usize> {
    let mut place = from;
    while let Some(at) = place {
        if text.starts_with(&*prefixes[at].text) {
            return Some(at);
        }
        place = prefixes[at].shorter;
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exactly_the_beginnings_of_a_text_are_found(
            prefixes in prop::collection::vec("(/apiß/v1)?[ab/]{0,4}(longer than a head)?[ab]?", 0..20),
            text in "(/apiß/v1)?[ab/]{0,6}(longer than a head)?[ab]{0,2}",
        ) {
            let filed = prefixes.iter().zip(0..).map(|(prefix, entry)| (prefix.as_str().into(), entry));
            let mut found = Vec::new();
            Prefixes::new(filed.collect()).each(&text, &mut |entries| found.extend_from_slice(entries));
            found.sort_unstable();
            let wanted: Vec<EntryId> = prefixes
                .iter()
                .zip(0..)
                .filter(|(prefix, _)| text.starts_with(prefix.as_str()))
                .map(|(_, entry)| entry)
                .collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
