//! Keys that hold attributes of a client.

use std::borrow::Cow;

use tollgate::Rule;

/// Attributes of a client whose keys are searched for: a key holds at least one of them, and none
/// with another value.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientAttributes(Vec<(String, String)>);

/// The values that a key of one rule must have, in the form in which the rule counts them, with
/// their positions in the key.
pub(crate) type HeldValues<'a> = Vec<(usize, Cow<'a, str>)>;

impl ClientAttributes {
    pub(crate) fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> ClientAttributes {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        ClientAttributes(pairs.into_iter().map(owned).collect())
    }

    /// The values of the key of `rule` that are given; empty if it has none of the attributes.
    pub(crate) fn of_rule(&self, rule: &Rule) -> HeldValues<'_> {
        let parts = rule.key.iter().enumerate();
        let given = parts.filter_map(|(position, part)| {
            let value = self.get(&part.attribute)?;
            Some((position, Cow::Owned(part.counted(value).into_owned())))
        });
        given.collect()
    }

    /// `true` if a key, of which names and values are known, is searched for. The key may be of a
    /// rule that the policy no longer has, or of a list.
    pub(crate) fn are_held<'k>(
        &self,
        rule: Option<&Rule>,
        key: impl IntoIterator<Item = (&'k str, &'k str)>,
        whole: bool,
    ) -> bool {
        let mut is_held = false;
        for (name, value) in key {
            let Some(wanted) = self.get(name) else { continue };
            let part = rule.and_then(|rule| rule.key.iter().find(|part| part.attribute == name));
            let wanted = part.map_or(Cow::Borrowed(wanted), |part| part.counted(wanted));
            if !is_value(value, &wanted, whole) {
                return false;
            }
            is_held = true;
        }
        is_held
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter();
        all.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// `true` if a key's values are those. Of a key that is not whole, only the beginning is known.
pub(crate) fn holds(held: &HeldValues<'_>, values: &[String], whole: bool) -> bool {
    let is_held = |(position, wanted): &(usize, Cow<'_, str>)| {
        values.get(*position).is_some_and(|value| is_value(value, wanted, whole))
    };
    !held.is_empty() && held.iter().all(is_held)
}

fn is_value(value: &str, wanted: &str, whole: bool) -> bool {
    value == wanted || (!whole && wanted.starts_with(value))
}
