//! The attributes a policy asks about, by number, so that a request's values are looked up by
//! name once.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::canonical::{CanonicalForms, CanonicalTexts, received_name};
use super::index::MatchedEntries;
use super::texts::TextTable;
use crate::policy::{AddressAttributes, Policy, Request};

/// The number of an attribute.
pub(super) type AttributeId = u32;

/// How many attributes' values are held without an allocation.
const INLINE: usize = 16;

/// The names of the attributes.
#[derive(Debug, Default)]
pub(super) struct AttributeTable {
    names: TextTable,
    forms: CanonicalForms,
}

impl AttributeTable {
    /// The attributes with these names, which are those that `policy` reads.
    pub(super) fn new<'a>(
        names: impl IntoIterator<Item = Cow<'a, str>>,
        policy: &Policy,
        addresses: &AddressAttributes,
    ) -> AttributeTable {
        let names: BTreeSet<Cow<'_, str>> = names.into_iter().collect();
        let names = TextTable::new(names.into_iter().map(|name| Box::from(&*name)));
        let forms = CanonicalForms::new(policy, addresses, |name| names.number(name));
        AttributeTable { names, forms }
    }

    pub(super) fn number(&self, name: &str) -> Option<AttributeId> {
        self.names.number(name)
    }

    /// The name of the attribute of a request that `attribute` stands for.
    pub(super) fn name(&self, attribute: AttributeId) -> &str {
        received_name(self.names.text(attribute))
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// What `request` says of each, in `room`, which is empty; and the rest of it.
    #[inline]
    pub(super) fn values<'v, 'r: 'v>(
        &self,
        request: &'r Request<'_>,
        texts: &'r mut CanonicalTexts,
        room: &'v mut RequestScratch<'r>,
    ) -> (AttributeValues<'v>, &'v mut MatchedEntries) {
        let (values, found) = room.of(self.len());
        for (name, value) in request.attributes() {
            if let Some(attribute) = self.names.number(name) {
                values[attribute as usize] = Some(value);
            }
        }
        self.forms.apply(values, texts);
        (AttributeValues(values), found)
    }
}

/// Room for the values of a request, and for the entries they find. The caller's, since it is large:
/// moving it would cost more than reading the values.
pub(super) struct RequestScratch<'r> {
    few: [Option<&'r str>; INLINE],
    many: Vec<Option<&'r str>>,
    found: MatchedEntries,
}

impl<'r> RequestScratch<'r> {
    #[inline]
    pub(super) fn new() -> RequestScratch<'r> {
        RequestScratch { few: [None; INLINE], many: Vec::new(), found: MatchedEntries::new() }
    }

    /// So many values, none of which is known yet, and no entries.
    #[inline]
    fn of(&mut self, values: usize) -> (&mut [Option<&'r str>], &mut MatchedEntries) {
        if values > INLINE {
            self.many.resize(values, None);
            return (&mut self.many, &mut self.found);
        }
        (&mut self.few[..values], &mut self.found)
    }
}

/// What a request says of each attribute.
#[derive(Clone, Copy)]
pub(super) struct AttributeValues<'v>(&'v [Option<&'v str>]);

impl<'v> AttributeValues<'v> {
    #[inline]
    pub(super) fn get(&self, attribute: AttributeId) -> Option<&'v str> {
        self.0[attribute as usize]
    }

    /// What it says of every attribute, by number.
    #[inline]
    pub(super) fn all(&self) -> &'v [Option<&'v str>] {
        self.0
    }
}
