//! Walking the tree of a TOML document: every value with its position, every mistake noted.

use std::collections::HashSet;
use std::fmt;

use smallvec::SmallVec;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::Key;
use crate::policy::Place;
use crate::policy::check::closest;

/// A value and where it stands.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// Whose settings are read.
#[derive(Clone, Copy)]
pub(super) enum Owner<'t> {
    Policy,
    Rule(usize, Option<&'t str>),
    Allow(usize, Option<&'t str>),
    Deny(usize, Option<&'t str>),
    /// A tier, and the rule whose limits it replaces.
    Tier(&'t str, &'t str),
    /// An override, and the rule whose limits it replaces.
    Override(usize, Option<&'t str>),
}

/// The setting that is read.
#[derive(Clone, Copy)]
pub(super) struct Here<'t> {
    pub(super) owner: Owner<'t>,
    pub(super) setting: &'static str,
}

impl<'t> Owner<'t> {
    pub(super) fn at(self, setting: &'static str) -> Here<'t> {
        Here { owner: self, setting }
    }

    /// The rule that a finding names.
    pub(super) fn rule(self) -> Option<&'t str> {
        match self {
            Owner::Rule(_, rule) | Owner::Override(_, rule) => rule,
            Owner::Tier(_, rule) => Some(rule).filter(|rule| !rule.is_empty()),
            Owner::Policy | Owner::Allow(..) | Owner::Deny(..) => None,
        }
    }
}

/// What a message begins with, where the rule's name does not say it.
impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Owner::Policy | Owner::Rule(_, Some(_)) => Ok(()),
            Owner::Rule(number, None) => write!(f, "rule {}: ", number + 1),
            Owner::Allow(_, Some(name)) => write!(f, "allow {name:?}: "),
            Owner::Allow(number, None) => write!(f, "allow {}: ", number + 1),
            Owner::Deny(_, Some(name)) => write!(f, "deny {name:?}: "),
            Owner::Deny(number, None) => write!(f, "deny {}: ", number + 1),
            Owner::Tier(tier, _) => write!(f, "tier {tier:?}: "),
            Owner::Override(number, _) => write!(f, "override {}: ", number + 1),
        }
    }
}

impl Here<'_> {
    /// What the file calls the list.
    pub(super) fn list(self) -> &'static str {
        if let Owner::Allow(..) = self.owner { "allow" } else { "deny" }
    }

    fn place(self) -> Place {
        let setting = self.setting;
        match self.owner {
            Owner::Policy => Place::Policy(setting),
            Owner::Rule(number, _) => Place::Rule(number, setting),
            Owner::Allow(number, _) => Place::Allow(number, setting),
            Owner::Deny(number, _) => Place::Deny(number, setting),
            Owner::Tier(tier, rule) => Place::Tier(tier.to_owned(), rule.to_owned()),
            Owner::Override(number, _) => Place::Override(number, setting),
        }
    }
}

/// A finding whose line is not counted yet.
pub(super) struct Note {
    pub(super) at: usize,
    pub(super) rule: Option<String>,
    pub(super) message: String,
}

/// What was found wrong so far.
#[derive(Default)]
pub(super) struct Report {
    pub(super) notes: Vec<Note>,
    /// Settings that could not be read: what the check says of their stand-ins means nothing.
    broken: HashSet<Place>,
}

impl Report {
    /// Notes a mistake that leaves every setting readable.
    pub(super) fn note(&mut self, owner: Owner<'_>, at: usize, message: &str) {
        let rule = owner.rule().map(str::to_owned);
        self.notes.push(Note { at, rule, message: format!("{owner}{message}") });
    }

    /// Notes a mistake for which the setting could not be read.
    pub(super) fn wrong(&mut self, here: Here<'_>, at: usize, message: &str) {
        self.note(here.owner, at, message);
        // Of every other setting the stand-in is one that the check has nothing against.
        if ["name", "client", "tier"].contains(&here.setting) {
            self.skip(here);
        }
    }

    /// Notes a value of the wrong type; `what` has it, `wanted` says what would be right.
    pub(super) fn wrong_type(
        &mut self,
        here: Here<'_>,
        what: &str,
        wanted: &str,
        value: &Value<'_>,
    ) {
        let found = type_name(value.get_ref());
        let message = format!("`{}` must be {wanted}, is {found}", shown(what));
        self.wrong(here, value.span().start, &message);
    }

    /// Leaves out what the check may say of a setting.
    pub(super) fn skip(&mut self, here: Here<'_>) {
        self.broken.insert(here.place());
    }

    pub(super) fn is_broken(&self, place: &Place) -> bool {
        self.broken.contains(place)
    }
}

/// What a message calls the value's type.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a decimal",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A name from the file as messages show it: on one line, and not longer than one.
pub(super) fn shown(name: &str) -> String {
    let short = name.chars().take(64).flat_map(char::escape_debug).collect::<String>();
    if name.chars().nth(64).is_some() { short + "…" } else { short }
}

/// The known keys of a table, in the order of the file.
pub(super) struct Fields<'t>(pub(super) SmallVec<[(&'static str, &'t Value<'t>); 8]>);

impl<'t> Fields<'t> {
    /// The keys of `table`. A key that nobody knows is noted, and taken for the one that was
    /// probably meant, so that its value is looked at as well and nothing is said to be missing.
    pub(super) fn read(
        report: &mut Report,
        owner: Owner<'_>,
        table: &'t DeTable<'t>,
        keys: &'static [Key],
    ) -> Fields<'t> {
        let mut fields = SmallVec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if let Some(known) = keys.iter().find(|known| known.name == name) {
                fields.push((known.name, value));
                continue;
            }
            let guess = closest(name, keys.iter().map(|known| known.name));
            report.note(owner, key.span().start, &unknown_key(name, guess, keys));
            if let Some(known) = keys.iter().find(|known| Some(known.name) == guess)
                && !table.contains_key(known.name)
                && !fields.iter().any(|(taken, _)| *taken == known.name)
            {
                fields.push((known.name, value));
            }
        }
        Fields(fields)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'t Value<'t>> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

fn unknown_key(name: &str, guess: Option<&str>, keys: &[Key]) -> String {
    let name = shown(name);
    match guess {
        Some(guess) => format!("unknown key `{name}`, did you mean `{guess}`?"),
        None => {
            let known = keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
            format!("unknown key `{name}`, use {known}")
        }
    }
}
