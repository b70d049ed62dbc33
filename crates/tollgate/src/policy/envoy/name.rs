//! Names for rules whose file gives them none.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::tree::ValuePattern;
use crate::bounds::MAX_RULE_NAME;

/// `domain|key=value|key`: the way to a descriptor. What a name cannot carry, and what would make
/// two ways look alike, is written as `%` and two hexadecimal digits.
#[derive(Clone)]
pub(super) struct RulePath(String);

impl RulePath {
    pub(super) fn new(domain: &str) -> RulePath {
        let mut way = RulePath(String::new());
        way.write(domain, "|=");
        RulePath(short(way.0))
    }

    pub(super) fn then(&self, key: &str, value: &ValuePattern) -> RulePath {
        let mut way = self.clone();
        way.0.push('|');
        way.write(key, "|=");
        if let Some(value) = value.text() {
            way.0.push('=');
            way.write(value, "|");
        }
        // Also on the way, so that none grows with the depth.
        RulePath(short(way.0))
    }

    /// As a name.
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    fn write(&mut self, text: &str, separators: &str) {
        for byte in text.bytes() {
            let c = char::from(byte);
            if matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '%') && !separators.contains(c) {
                self.0.push(c);
            } else {
                write!(self.0, "%{byte:02X}").expect("a string takes everything");
            }
        }
    }
}

/// The text, or as much of it as a name holds and a hash of the whole.
fn short(text: String) -> String {
    if text.len() <= MAX_RULE_NAME {
        return text;
    }
    let hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    let mut end = MAX_RULE_NAME - 17;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{hash:016x}", &text[..end])
}

/// The names of a policy, each of which is given once.
pub(super) struct EnvoyRuleNames {
    /// How often the file gives each name.
    given: HashMap<String, usize>,
    taken: HashSet<String>,
}

impl EnvoyRuleNames {
    /// For a file that gives these names itself.
    pub(super) fn new<'a>(given: impl Iterator<Item = &'a str>) -> EnvoyRuleNames {
        let mut names = EnvoyRuleNames { given: HashMap::new(), taken: HashSet::new() };
        for name in given {
            *names.given.entry(name.to_owned()).or_default() += 1;
        }
        names
    }

    /// How often the file gives `name`.
    pub(super) fn times_given(&self, name: &str) -> usize {
        self.given.get(name).copied().unwrap_or(0)
    }

    /// A name for the rule at the end of `way`: the one the file gives if it gives it once.
    pub(super) fn take(&mut self, given: Option<&str>, way: &RulePath) -> String {
        let wanted = match given {
            Some(name) if self.times_given(name) == 1 => return name.to_owned(),
            Some(name) => short(format!("{name}|{}", way.0)),
            None => way.0.clone(),
        };
        let others = (2..).map(|number: usize| short(format!("{wanted}~{number}")));
        let mut candidates = std::iter::once(wanted.clone()).chain(others);
        let free = |name: &String| !self.given.contains_key(name) && !self.taken.contains(name);
        let name = candidates.find(free).unwrap_or(wanted);
        self.taken.insert(name.clone());
        name
    }
}
