//! Values of a request in the one form that rules match and count: paths and addresses.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::attributes::AttributeId;
use crate::policy::{
    AddressAttributes, AddressPrefix, CanonicalAddress, Client, KeyAttribute, Policy, Request,
    canonical_address, normalize_path, parse_address, uri_path,
};

pub(super) use crate::policy::PATH;

pub(super) const RAW_PATH: &str = "raw_path";

/// The end of the name that attribute has which the policy makes itself: the part of an address that
/// a key counts.
const MADE: char = '\u{0}';

/// The values that a policy makes of those of a request.
#[derive(Debug, Default)]
pub(super) struct CanonicalForms {
    path: Option<AttributeId>,
    raw_path: Option<AttributeId>,
    addresses: Box<[AddressForms]>,
}

/// An attribute that is an address, and the parts of it that keys count.
#[derive(Debug)]
struct AddressForms {
    attribute: AttributeId,
    parts: Box<[(AddressPrefix, AttributeId)]>,
}

/// The texts that a policy has made of the values of a request: none for most requests.
pub(super) type CanonicalTexts = SmallVec<[(AttributeId, CanonicalText); 2]>;

/// A text that a policy has made of a value.
#[derive(Debug)]
pub(super) enum CanonicalText {
    Path(String),
    Address(CanonicalAddress),
}

impl CanonicalForms {
    /// The forms that `policy` needs, with the number of each attribute.
    pub(super) fn new(
        policy: &Policy,
        known: &AddressAttributes,
        number: impl Fn(&str) -> Option<AttributeId>,
    ) -> CanonicalForms {
        let mut addresses: Vec<AddressForms> = Vec::new();
        for attribute in known.keys() {
            let Some(of) = number(attribute) else { continue };
            let parts = prefixes(policy, attribute);
            let parts = parts
                .into_iter()
                .filter_map(|prefix| Some((prefix, number(&part_name(attribute, prefix))?)));
            addresses.push(AddressForms { attribute: of, parts: parts.collect() });
        }
        let raw_path = number(RAW_PATH);
        CanonicalForms { path: number(PATH), raw_path, addresses: addresses.into() }
    }

    /// Puts the canonical form of each value in its place. Values that have it are not copied.
    #[inline]
    pub(super) fn apply<'r>(&self, values: &mut [Option<&'r str>], texts: &'r mut CanonicalTexts) {
        if self.path.is_none() && self.addresses.is_empty() {
            return;
        }
        self.make(values, texts);
        let texts: &'r CanonicalTexts = texts;
        for (attribute, text) in texts {
            values[*attribute as usize] = Some(match text {
                CanonicalText::Path(path) => path,
                CanonicalText::Address(address) => address.as_str(),
            });
        }
    }

    fn make(&self, values: &mut [Option<&str>], texts: &mut CanonicalTexts) {
        if let Some(path) = self.path
            && let Some(received) = values[path as usize]
        {
            if let Some(raw_path) = self.raw_path
                && values[raw_path as usize].is_none()
            {
                values[raw_path as usize] = Some(uri_path(received));
            }
            match normalize_path(received) {
                Cow::Borrowed(normal) => values[path as usize] = Some(normal),
                Cow::Owned(normal) => texts.push((path, CanonicalText::Path(normal))),
            }
        }
        for AddressForms { attribute, parts } in &self.addresses {
            let received = values[*attribute as usize];
            let address = received.and_then(parse_address);
            for (prefix, part) in parts {
                // Whatever the request says of a name that only the policy uses.
                values[*part as usize] = received;
                if let (Some(address), Some(received)) = (address, received) {
                    set_address(texts, *part, prefix.key_text(address), received);
                }
            }
            if let (Some(address), Some(received)) = (address, received) {
                set_address(texts, *attribute, CanonicalAddress::new(address), received);
            }
        }
    }
}

/// Adds a text for the attribute, unless it is the received one.
fn set_address(
    texts: &mut CanonicalTexts,
    attribute: AttributeId,
    text: CanonicalAddress,
    received: &str,
) {
    if text.as_str() != received {
        texts.push((attribute, CanonicalText::Address(text)));
    }
}

/// The name of the attribute that a key part counts: that of an address is made by the policy.
pub(super) fn counted_name(part: &KeyAttribute) -> Cow<'_, str> {
    match part.address_prefix() {
        Some(prefix) => Cow::Owned(part_name(&part.attribute, prefix)),
        None => Cow::Borrowed(&part.attribute),
    }
}

fn part_name(attribute: &str, prefix: AddressPrefix) -> String {
    format!("{attribute}{MADE}{}/{}", prefix.v4(), prefix.v6())
}

/// The attribute of a request that a name stands for.
pub(super) fn received_name(name: &str) -> &str {
    name.split(MADE).next().unwrap_or(name)
}

/// The parts of an address that keys of the policy count.
fn prefixes(policy: &Policy, attribute: &str) -> Vec<AddressPrefix> {
    let parts = policy.rules.iter().flat_map(|rule| &rule.key);
    let parts = parts.filter(|part| part.attribute == attribute);
    let mut prefixes: Vec<AddressPrefix> = Vec::new();
    for prefix in parts.filter_map(KeyAttribute::address_prefix) {
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

/// The value of an attribute of `request` in the form that lists and `match` read.
pub(super) fn whole<'r>(
    addresses: &AddressAttributes,
    request: &Request<'r>,
    attribute: &str,
) -> Option<Cow<'r, str>> {
    let value = received(request, attribute)?;
    Some(match attribute {
        PATH => normalize_path(value),
        _ if addresses.contains_key(attribute) => canonical_address(value),
        _ => Cow::Borrowed(value),
    })
}

/// The value of an attribute of `request` as it was received.
pub(super) fn received<'r>(request: &Request<'r>, attribute: &str) -> Option<&'r str> {
    let of_path = || request.get(PATH).filter(|_| attribute == RAW_PATH).map(uri_path);
    request.get(attribute).or_else(of_path)
}

/// The value of a key part of `request`, in the form that the key counts.
pub(super) fn counted<'r>(
    addresses: &AddressAttributes,
    request: &Request<'r>,
    part: &KeyAttribute,
) -> Option<Cow<'r, str>> {
    match part.address_prefix() {
        Some(prefix) => request.get(&part.attribute).map(|value| prefix.key(value)),
        None => whole(addresses, request, &part.attribute),
    }
}

/// The form of a value of an attribute by which an override or a look-up finds its client.
pub(super) fn of_client<'v>(
    attribute: &str,
    value: &'v str,
    prefix: Option<AddressPrefix>,
) -> Cow<'v, str> {
    match prefix {
        Some(prefix) => prefix.key(value),
        None if attribute == PATH => normalize_path(value),
        None => Cow::Borrowed(value),
    }
}

/// The client of an override in the form by which it is found.
pub(super) fn client<'c>(addresses: &AddressAttributes, client: &'c Client) -> Cow<'c, Client> {
    let value = |attribute: &str, value: &'c str| {
        of_client(attribute, value, addresses.get(attribute).copied())
    };
    if client.iter().all(|(attribute, text)| matches!(value(attribute, text), Cow::Borrowed(form) if form.len() == text.len())) {
        return Cow::Borrowed(client);
    }
    let forms = client
        .iter()
        .map(|(attribute, text)| (attribute.clone(), value(attribute, text).into_owned()));
    Cow::Owned(forms.collect())
}
