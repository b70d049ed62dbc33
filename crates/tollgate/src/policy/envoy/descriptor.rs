//! An Envoy descriptor as the attributes that imported rules match on.

use std::borrow::Cow;

use crate::policy::Request;

/// The attribute that holds the domain.
pub(super) const DOMAIN: &str = "domain";

/// The attribute that holds the keys of a descriptor's entries, in order.
pub(super) const DESCRIPTOR: &str = "descriptor";

/// A descriptor of an Envoy rate limit request as attributes: what
/// [`Policy::from_envoy`](crate::Policy::from_envoy) writes its rules for.
///
/// - `domain` is the request's domain.
/// - `descriptor` is the keys of the entries in order, joined by commas; a comma or a backslash
///   in a key has a backslash before it. It makes a rule apply to descriptors with just its
///   entries.
/// - Every entry is an attribute with the entry's key as its name. A key that was there before,
///   one with a `#`, and `domain` and `descriptor` are followed by `#` and the entry's position.
///
/// ```
/// use tollgate::EnvoyDescriptor;
///
/// let descriptor = EnvoyDescriptor::new("edge", [("path", "/login"), ("user", "42")]);
/// let request = descriptor.request();
/// assert_eq!(request.get("domain"), Some("edge"));
/// assert_eq!(request.get("descriptor"), Some("path,user"));
/// assert_eq!(request.get("user"), Some("42"));
/// ```
#[derive(Clone, Debug)]
pub struct EnvoyDescriptor<'a> {
    domain: &'a str,
    shape: String,
    entries: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> EnvoyDescriptor<'a> {
    /// The descriptor with these entries, keys and values, in this order. Takes time by the
    /// square of their number: a server bounds how many it accepts.
    pub fn new(
        domain: &'a str,
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> EnvoyDescriptor<'a> {
        let (keys, values): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let entries = attribute_names(&keys).into_iter().zip(values).collect();
        EnvoyDescriptor { domain, shape: shape(&keys), entries }
    }

    /// A request with its attributes, of one unit.
    pub fn request(&self) -> Request<'_> {
        let entries = self.entries.iter().map(|(name, value)| (&**name, *value));
        [(DOMAIN, self.domain), (DESCRIPTOR, self.shape.as_str())]
            .into_iter()
            .chain(entries)
            .collect()
    }
}

/// The value of [`DESCRIPTOR`] for entries with these keys.
pub(super) fn shape(keys: &[&str]) -> String {
    let mut shape = String::with_capacity(keys.iter().map(|key| key.len() + 1).sum());
    for (position, key) in keys.iter().enumerate() {
        if position > 0 {
            shape.push(',');
        }
        for c in key.chars() {
            if matches!(c, ',' | '\\') {
                shape.push('\\');
            }
            shape.push(c);
        }
    }
    shape
}

/// The attributes of entries with these keys. No two are the same: a name without `#` is a key
/// seen for the first time, one with `#` ends in the entry's position.
pub(super) fn attribute_names<'a>(keys: &[&'a str]) -> Vec<Cow<'a, str>> {
    let is_plain = |position: usize, key: &str| {
        !key.contains('#') && key != DOMAIN && key != DESCRIPTOR && !keys[..position].contains(&key)
    };
    let name = |(position, key): (usize, &&'a str)| match is_plain(position, key) {
        true => Cow::Borrowed(*key),
        false => Cow::Owned(format!("{key}#{}", position + 1)),
    };
    keys.iter().enumerate().map(name).collect()
}
