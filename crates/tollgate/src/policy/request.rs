//! A request: what is known of it, and what it costs.

use std::fmt;

use smallvec::SmallVec;

/// How many attributes are held without an allocation.
const INLINE: usize = 8;

/// What is known of a request: attributes, and how many units it takes.
///
/// ```
/// use tollgate::Request;
///
/// let request = Request::new().with("user", "42").with("route", "/search").cost(3);
/// assert_eq!(request.get("user"), Some("42"));
/// ```
#[derive(Clone)]
pub struct Request<'a> {
    attributes: SmallVec<[(&'a str, &'a str); INLINE]>,
    cost: Option<u64>,
}

impl<'a> Request<'a> {
    /// A request of which nothing is known, of one unit.
    pub fn new() -> Request<'a> {
        Request { attributes: SmallVec::new(), cost: None }
    }

    /// With an attribute; the last value given for a name counts.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &'a str) -> Request<'a> {
        self.set(name, value);
        self
    }

    /// Adds an attribute; the last value given for a name counts.
    pub fn set(&mut self, name: &'a str, value: &'a str) {
        match self.attributes.iter_mut().find(|(known, _)| *known == name) {
            Some(attribute) => attribute.1 = value,
            None => self.attributes.push((name, value)),
        }
    }

    /// How many units it takes; one if not said.
    #[must_use]
    pub fn cost(mut self, units: u64) -> Request<'a> {
        self.cost = Some(units);
        self
    }

    /// How many units it takes.
    pub fn units(&self) -> u64 {
        self.cost.unwrap_or(1)
    }

    /// How many units it says it takes.
    pub(crate) fn said(&self) -> Option<u64> {
        self.cost
    }

    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// All attributes, in the order in which they were given.
    pub fn attributes(&self) -> &[(&'a str, &'a str)] {
        &self.attributes
    }
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request::new()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Request<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(attributes: I) -> Request<'a> {
        let mut request = Request::new();
        attributes.into_iter().for_each(|(name, value)| request.set(name, value));
        request
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes = self.attributes.iter().map(|(name, value)| (name, value));
        f.debug_map().entries(attributes).entry(&"cost", &self.units()).finish()
    }
}
