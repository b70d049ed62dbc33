//! The attributes a policy asks about, by number, so that a request's values are looked up by
//! name once.

use smallvec::SmallVec;

use crate::policy::Request;

/// The number of an attribute.
pub(super) type Attribute = u32;

/// How many attributes' values are held without an allocation.
const INLINE: usize = 16;

/// The names of the attributes, by number, and where to find them.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    names: Box<[Box<str>]>,
    /// By sketch, each in the first free place from its own on; at least half are free, and none
    /// is asked for without a free one after it.
    places: Box<[Option<(Sketch, Attribute)>]>,
}

impl Attributes {
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Attributes {
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let mut places = vec![None; (2 * names.len() + 1).next_power_of_two()].into_boxed_slice();
        for (name, number) in names.iter().zip(0..) {
            let sketch = Sketch::of(name);
            let mut place = sketch.place(places.len());
            while places[place].is_some() {
                place = (place + 1) % places.len();
            }
            places[place] = Some((sketch, number));
        }
        Attributes { names: names.into_iter().map(Box::from).collect(), places }
    }

    #[inline(always)]
    pub(super) fn number(&self, name: &str) -> Option<Attribute> {
        let wanted = Sketch::of(name);
        let mut place = wanted.place(self.places.len());
        while let Some((sketch, number)) = &self.places[place] {
            let is_it = || wanted.is_whole() || *self.names[*number as usize] == *name;
            if *sketch == wanted && is_it() {
                return Some(*number);
            }
            place = (place + 1) % self.places.len();
        }
        None
    }

    pub(super) fn name(&self, attribute: Attribute) -> &str {
        &self.names[attribute as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// What `request` says of each, in `room`, which is empty.
    #[inline]
    pub(super) fn values<'v, 'r: 'v>(
        &self,
        request: &'r Request<'_>,
        room: &'v mut Room<'r>,
    ) -> Values<'v> {
        room.resize(self.names.len(), None);
        for (name, value) in request.attributes() {
            if let Some(attribute) = self.number(name) {
                room[attribute as usize] = Some(value);
            }
        }
        Values(room)
    }
}

/// The beginning, the end and the length of a name: of a short one that is all of it, and three
/// numbers are compared faster than a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sketch {
    first: u64,
    last: u64,
    length: usize,
}

impl Sketch {
    #[inline(always)]
    fn of(name: &str) -> Sketch {
        let (bytes, length) = (name.as_bytes(), name.len());
        let (first, last) =
            if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
                (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
            } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
                (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
            } else {
                let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
                (byte(0), byte(1) | byte(2) << 8)
            };
        Sketch { first, last, length }
    }

    /// Whether it says the whole name.
    #[inline]
    fn is_whole(&self) -> bool {
        self.length <= 2 * size_of::<u64>()
    }

    /// Its place among so many, which are a power of two.
    #[inline]
    fn place(&self, places: usize) -> usize {
        // A multiplication carries every bit to the upper ones; the constant is that of the golden
        // ratio.
        let mixed = (self.first ^ self.last.rotate_left(29) ^ self.length as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize & (places - 1)
    }
}

/// Room for the values of a request. The caller's, since it is large: moving it would cost more
/// than reading the values.
pub(super) type Room<'r> = SmallVec<[Option<&'r str>; INLINE]>;

/// What a request says of each attribute.
#[derive(Clone, Copy)]
pub(super) struct Values<'v>(&'v [Option<&'v str>]);

impl<'v> Values<'v> {
    #[inline]
    pub(super) fn get(&self, attribute: Attribute) -> Option<&'v str> {
        self.0[attribute as usize]
    }

    /// What it says of every attribute, by number.
    #[inline]
    pub(super) fn all(&self) -> &'v [Option<&'v str>] {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_name_is_found_and_no_other(
            names in prop::collection::vec("[a-c]{0,20}", 0..40),
            other in "[a-c]{0,20}",
        ) {
            let attributes = Attributes::new(names.iter().map(String::as_str));
            for name in &names {
                let number = attributes.number(name);
                prop_assert_eq!(number.map(|number| attributes.name(number)), Some(name.as_str()));
            }
            prop_assert_eq!(attributes.number(&other).is_some(), names.contains(&other));
        }
    }
}
