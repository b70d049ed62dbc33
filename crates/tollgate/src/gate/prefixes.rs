//! Which of many beginnings a text has.

use super::index::Entry;

/// Beginnings in order, each knowing the longest other that it begins with itself.
#[derive(Debug, Default)]
pub(super) struct Prefixes(Box<[Prefix]>);

#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    entries: Vec<Entry>,
    shorter: Option<usize>,
}

impl Prefixes {
    pub(super) fn new(mut filed: Vec<(Box<str>, Entry)>) -> Prefixes {
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
        Prefixes(prefixes.into_boxed_slice())
    }

    /// Calls `found` with the entries of every beginning that `text` has.
    ///
    /// All of them are among the last one in order before `text`, and those it begins with: what
    /// lies in order between a beginning of a text and the text has the same beginning.
    #[inline]
    pub(super) fn each(&self, text: &str, found: &mut impl FnMut(&[Entry])) {
        let before = self.0.partition_point(|prefix| *prefix.text <= *text);
        let mut next = begins(&self.0, before.checked_sub(1), text);
        while let Some(prefix) = next.and_then(|place| self.0.get(place)) {
            found(&prefix.entries);
            next = prefix.shorter;
        }
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
            prefixes in prop::collection::vec("[ab/]{0,4}", 0..20),
            text in "[ab/]{0,6}",
        ) {
            let filed = prefixes.iter().zip(0..).map(|(prefix, entry)| (prefix.as_str().into(), entry));
            let mut found = Vec::new();
            Prefixes::new(filed.collect()).each(&text, &mut |entries| found.extend_from_slice(entries));
            found.sort_unstable();
            let wanted: Vec<Entry> = prefixes
                .iter()
                .zip(0..)
                .filter(|(prefix, _)| text.starts_with(prefix.as_str()))
                .map(|(_, entry)| entry)
                .collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
