//! The attributes a policy asks about, by number, so that a request's values are looked up by
//! name once.

use smallvec::SmallVec;

use crate::policy::Request;

/// The number of an attribute.
pub(super) type Attribute = u32;

/// How many attributes' values are held without an allocation.
const INLINE: usize = 16;

/// The names of the attributes, each number being its place in order.
#[derive(Debug, Default)]
pub(super) struct Attributes(Box<[Box<str>]>);

impl Attributes {
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Attributes {
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable_by_key(|name| order(name));
        names.dedup();
        Attributes(names.into_iter().map(Box::from).collect())
    }

    #[inline]
    pub(super) fn number(&self, name: &str) -> Option<Attribute> {
        let found = self.0.binary_search_by(|known| {
            // Most differ in length: their texts are not compared then.
            let length = known.len().cmp(&name.len());
            if length.is_eq() { (**known).cmp(name) } else { length }
        });
        u32::try_from(found.ok()?).ok()
    }

    pub(super) fn name(&self, attribute: Attribute) -> &str {
        &self.0[attribute as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What `request` says of each.
    #[inline]
    pub(super) fn values<'r>(&self, request: &'r Request<'_>) -> Values<'r> {
        let mut values: SmallVec<[Option<&'r str>; INLINE]> = SmallVec::new();
        values.resize(self.0.len(), None);
        for (name, value) in request.attributes() {
            if let Some(attribute) = self.number(name) {
                values[attribute as usize] = Some(value);
            }
        }
        Values(values)
    }
}

/// By length first: most names differ there, and it costs one comparison.
fn order(name: &str) -> (usize, &str) {
    (name.len(), name)
}

/// What a request says of each attribute.
pub(super) struct Values<'r>(SmallVec<[Option<&'r str>; INLINE]>);

impl<'r> Values<'r> {
    #[inline]
    pub(super) fn get(&self, attribute: Attribute) -> Option<&'r str> {
        self.0[attribute as usize]
    }

    /// What it says of every attribute, by number.
    #[inline]
    pub(super) fn all(&self) -> &[Option<&'r str>] {
        &self.0
    }

    /// What it says of those it has, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Attribute, &'r str)> {
        (0..).zip(&self.0).filter_map(|(attribute, value)| Some((attribute, (*value)?)))
    }
}
