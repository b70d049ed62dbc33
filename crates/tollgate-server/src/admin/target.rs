//! Whose state is meant: a key of a rule, or all keys of a request.

use serde_json::{Value, json};
use tollgate::{Policy, Request, Rule};

use super::call::{Call, object, rule, wrong};
use crate::http::{Attributes, Problem, cut};
use crate::operate::RuleKey;

/// Whose state is meant.
pub(super) enum Target<'a> {
    /// One key of one rule.
    Key(RuleKey, Value),
    /// The keys of a request in every rule that applies to it.
    Request(&'a Attributes<'a>),
}

impl<'a> Target<'a> {
    /// A rule and a key of it, or attributes of a request, and never both.
    pub(super) fn read(
        call: &Call,
        (name, key): (Option<&str>, Option<&Attributes<'_>>),
        attributes: Option<&'a Attributes<'a>>,
    ) -> Result<Target<'a>, Problem> {
        for given in key.into_iter().chain(attributes) {
            given.check(call.bounds())?;
        }
        let policy = call.app.backend.policy();
        match (name, key, attributes) {
            (Some(name), Some(key), None) => {
                let key = rule_key(rule(&policy, name)?, key)?;
                let target = json!({"rule": key.0.rule, "key": key.1});
                Ok(Target::Key(key.0, target))
            }
            (None, None, Some(attributes)) => Ok(Target::Request(attributes)),
            _ => Err(wrong("it must have \"rule\" and \"key\", or else \"attributes\"")),
        }
    }

    /// As the answer and the audit log name it.
    pub(super) fn shown(&self) -> Value {
        match self {
            Target::Key(_, shown) => shown.clone(),
            Target::Request(attributes) => json!({"attributes": object(attributes.iter())}),
        }
    }
}

/// The request that attributes are of.
pub(super) fn request<'a>(attributes: &'a Attributes<'a>) -> Request<'a> {
    attributes.iter().collect()
}

/// A key as it was given by the names of its attributes.
fn rule_key(rule: &Rule, given: &Attributes<'_>) -> Result<(RuleKey, Value), Problem> {
    let names: Vec<_> = rule.key.iter().map(|part| part.attribute.as_str()).collect();
    let counts_by = || match names.as_slice() {
        [] => format!("rule {:?} counts all requests together, its \"key\" is {{}}", rule.name),
        names => format!("rule {:?} counts by {}", rule.name, names.join(", ")),
    };
    if let Some((other, _)) = given.iter().find(|(name, _)| !names.contains(name)) {
        return Err(wrong(format!("\"key\" has {:?}, but {}", cut(other), counts_by())));
    }
    let mut values = Vec::with_capacity(names.len());
    for name in &names {
        match given.iter().find(|(known, _)| known == name) {
            Some((_, value)) => values.push(value.to_owned()),
            None => return Err(wrong(format!("\"key\" lacks {name:?}, {}", counts_by()))),
        }
    }
    let shown = object(names.iter().zip(&values));
    Ok((RuleKey { rule: rule.name.clone(), values }, shown))
}

/// A key of a list, with the names of its attributes.
pub(super) fn named<'a>(
    policy: &'a Policy,
    name: &str,
    values: &'a [String],
) -> impl Iterator<Item = (&'a String, &'a String)> {
    let rule = policy.rules.iter().find(|rule| rule.name == name);
    let names = rule.map(|rule| rule.key.as_slice()).unwrap_or_default();
    names.iter().map(|part| &part.attribute).zip(values)
}
