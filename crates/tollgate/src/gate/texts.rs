//! Texts that a policy chose, by number: what a request says is looked up in them.
//!
//! A text is found by three numbers, which are compared faster than texts are. Clients cannot make
//! a lookup slow: what they send is only looked up.

use xxhash_rust::xxh3::xxh3_64;

/// Texts by number, and where to find them.
#[derive(Debug, Default)]
pub(super) struct TextTable {
    texts: Box<[Box<str>]>,
    /// By sketch, each in the first free place from its own on; at least half are free. A power of
    /// two, or none at all.
    places: Box<[TextSlot]>,
}

#[derive(Clone, Copy, Debug)]
struct TextSlot {
    sketch: TextTableBuilder,
    number: u32,
}

/// A place without a text: none is so long.
const FREE: TextSlot =
    TextSlot { sketch: TextTableBuilder { first: 0, last: 0, length: usize::MAX }, number: 0 };

impl TextTable {
    /// These texts, of which no two are alike, numbered as they come.
    pub(super) fn new(texts: impl IntoIterator<Item = Box<str>>) -> TextTable {
        let texts: Box<[Box<str>]> = texts.into_iter().collect();
        let count = (2 * texts.len()).next_power_of_two();
        let mut places = vec![FREE; count].into_boxed_slice();
        for (text, number) in texts.iter().zip(0..) {
            let sketch = TextTableBuilder::of(text);
            let mut at = sketch.place(count);
            while !places[at].is_free() {
                at = (at + 1) & (count - 1);
            }
            places[at] = TextSlot { sketch, number };
        }
        TextTable { texts, places }
    }

    /// The number of a text.
    #[inline(always)]
    pub(super) fn number(&self, text: &str) -> Option<u32> {
        if text.len() > WHOLE {
            return self.number_of_long(text);
        }
        self.find(TextTableBuilder::of_short(text.as_bytes()), |_| true)
    }

    #[inline(never)]
    fn number_of_long(&self, text: &str) -> Option<u32> {
        let sketch = TextTableBuilder::of_long(text.as_bytes());
        self.find(sketch, |number| *self.texts[number as usize] == *text)
    }

    /// The number of the text of this sketch that is the one.
    #[inline(always)]
    fn find(&self, sketch: TextTableBuilder, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = sketch.place(self.places.len());
        while let Some(place) = self.places.get(at) {
            if place.sketch == sketch && is_it(place.number) {
                return Some(place.number);
            }
            if place.is_free() {
                break;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        None
    }

    /// The text of this number.
    pub(super) fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }
}

impl TextSlot {
    #[inline]
    fn is_free(&self) -> bool {
        self.sketch.length == FREE.sketch.length
    }
}

/// A short text whole, of a long one its hash: and the length of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextTableBuilder {
    first: u64,
    last: u64,
    length: usize,
}

/// Texts up to this long are their sketch.
const WHOLE: usize = 2 * size_of::<u64>();

impl TextTableBuilder {
    fn of(text: &str) -> TextTableBuilder {
        match text.as_bytes() {
            short if short.len() <= WHOLE => TextTableBuilder::of_short(short),
            long => TextTableBuilder::of_long(long),
        }
    }

    #[inline(always)]
    fn of_short(bytes: &[u8]) -> TextTableBuilder {
        let (first, last) =
            if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
                (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
            } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
                (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
            } else {
                let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
                (byte(0), byte(1) | byte(2) << 8)
            };
        TextTableBuilder { first, last, length: bytes.len() }
    }

    fn of_long(bytes: &[u8]) -> TextTableBuilder {
        TextTableBuilder { first: xxh3_64(bytes), last: 0, length: bytes.len() }
    }

    /// Its place among so many, which are a power of two.
    #[inline]
    fn place(&self, places: usize) -> usize {
        // A multiplication carries every bit to the upper ones; the constant is that of the golden
        // ratio.
        let mixed = (self.first ^ self.last.rotate_left(29) ^ self.length as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize & places.wrapping_sub(1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_is_found_and_no_other(
            texts in prop::collection::btree_set("(the same beginning)?[a-c]{0,20}(the same end)?", 0..40),
            other in "(the same beginning)?[a-c]{0,20}(the same end)?",
        ) {
            let numbered = TextTable::new(texts.iter().map(|text| text.as_str().into()));
            for text in &texts {
                let number = numbered.number(text);
                prop_assert_eq!(number.map(|number| numbered.text(number)), Some(text.as_str()));
            }
            prop_assert_eq!(numbered.number(&other).is_some(), texts.contains(&other));
        }
    }

    #[test]
    fn an_empty_text_is_found_only_where_it_is() {
        assert_eq!(TextTable::default().number(""), None);
        assert_eq!(TextTable::new(["a".into()]).number(""), None);
        assert_eq!(TextTable::new(["a".into(), "".into()]).number(""), Some(1));
    }

    #[test]
    fn long_texts_that_begin_and_end_alike_lie_apart() {
        let text = |number: u32| format!("/api/v1/{number:05}/the-same-end").into_boxed_str();
        let places: BTreeSet<usize> =
            (0..10_000).map(|number| TextTableBuilder::of(&text(number)).place(1 << 15)).collect();
        // By chance about 8,600 of 32,768 are taken.
        assert!(places.len() > 8000, "{} places", places.len());
    }
}
