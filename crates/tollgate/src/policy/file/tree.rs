//! Walking the tree of a TOML document: every value with its position, every mistake noted.

use std::collections::HashSet;
use std::fmt;

use smallvec::SmallVec;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::SettingSpec;
use crate::policy::PolicyLocation;
use crate::policy::check::closest;

/// A value and where it stands.
pub(super) type SpannedValue<'t> = Spanned<DeValue<'t>>;

/// Whose settings are read.
#[derive(Clone, Copy)]
pub(super) enum SettingSection<'t> {
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
pub(super) struct SettingRef<'t> {
    pub(super) owner: SettingSection<'t>,
    pub(super) setting: &'static str,
}

impl<'t> SettingSection<'t> {
    pub(super) fn at(self, setting: &'static str) -> SettingRef<'t> {
        SettingRef { owner: self, setting }
    }

    /// The rule that a finding names.
    pub(super) fn rule(self) -> Option<&'t str> {
        match self {
            SettingSection::Rule(_, rule) | SettingSection::Override(_, rule) => rule,
            SettingSection::Tier(_, rule) => Some(rule).filter(|rule| !rule.is_empty()),
            SettingSection::Policy | SettingSection::Allow(..) | SettingSection::Deny(..) => None,
        }
    }
}

/// What a message begins with, where the rule's name does not say it.
impl fmt::Display for SettingSection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SettingSection::Policy | SettingSection::Rule(_, Some(_)) => Ok(()),
            SettingSection::Rule(number, None) => write!(f, "rule {}: ", number + 1),
            SettingSection::Allow(_, Some(name)) => write!(f, "allow {name:?}: "),
            SettingSection::Allow(number, None) => write!(f, "allow {}: ", number + 1),
            SettingSection::Deny(_, Some(name)) => write!(f, "deny {name:?}: "),
            SettingSection::Deny(number, None) => write!(f, "deny {}: ", number + 1),
            SettingSection::Tier(tier, _) => write!(f, "tier {tier:?}: "),
            SettingSection::Override(number, _) => write!(f, "override {}: ", number + 1),
        }
    }
}

impl SettingRef<'_> {
    /// What the file calls the list.
    pub(super) fn list(self) -> &'static str {
        if let SettingSection::Allow(..) = self.owner { "allow" } else { "deny" }
    }

    fn place(self) -> PolicyLocation {
        let setting = self.setting;
        match self.owner {
            SettingSection::Policy => PolicyLocation::Policy(setting),
            SettingSection::Rule(number, _) => PolicyLocation::Rule(number, setting),
            SettingSection::Allow(number, _) => PolicyLocation::Allow(number, setting),
            SettingSection::Deny(number, _) => PolicyLocation::Deny(number, setting),
            SettingSection::Tier(tier, rule) => {
                PolicyLocation::Tier(tier.to_owned(), rule.to_owned())
            }
            SettingSection::Override(number, _) => PolicyLocation::Override(number, setting),
        }
    }
}

/// A finding whose line is not counted yet.
pub(super) struct PendingDiagnostic {
    pub(super) at: usize,
    pub(super) rule: Option<String>,
    pub(super) message: String,
}

/// What was found wrong so far.
#[derive(Default)]
pub(super) struct Diagnostics {
    pub(super) notes: Vec<PendingDiagnostic>,
    /// Settings that could not be read: what the check says of their stand-ins means nothing.
    broken: HashSet<PolicyLocation>,
}

impl Diagnostics {
    /// Notes a mistake that leaves every setting readable.
    pub(super) fn add(&mut self, owner: SettingSection<'_>, at: usize, message: &str) {
        let rule = owner.rule().map(str::to_owned);
        self.notes.push(PendingDiagnostic { at, rule, message: format!("{owner}{message}") });
    }

    /// Notes a mistake for which the setting could not be read.
    pub(super) fn error_at(&mut self, here: SettingRef<'_>, at: usize, message: &str) {
        self.add(here.owner, at, message);
        // Of every other setting the stand-in is one that the check has nothing against.
        if ["name", "client", "tier"].contains(&here.setting) {
            self.suppress(here);
        }
    }

    /// Notes a value of the wrong type; `what` has it, `wanted` says what would be right.
    pub(super) fn wrong_type(
        &mut self,
        here: SettingRef<'_>,
        what: &str,
        wanted: &str,
        value: &SpannedValue<'_>,
    ) {
        let found = type_name(value.get_ref());
        let message = format!("`{}` must be {wanted}, is {found}", shown(what));
        self.error_at(here, value.span().start, &message);
    }

    /// Leaves out what the check may say of a setting.
    pub(super) fn suppress(&mut self, here: SettingRef<'_>) {
        self.broken.insert(here.place());
    }

    pub(super) fn is_broken(&self, place: &PolicyLocation) -> bool {
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
pub(super) struct SettingFields<'t>(pub(super) SmallVec<[(&'static str, &'t SpannedValue<'t>); 8]>);

impl<'t> SettingFields<'t> {
    /// The keys of `table`. A key that nobody knows is noted, and taken for the one that was
    /// probably meant, so that its value is looked at as well and nothing is said to be missing.
    pub(super) fn read(
        report: &mut Diagnostics,
        owner: SettingSection<'_>,
        table: &'t DeTable<'t>,
        keys: &'static [SettingSpec],
    ) -> SettingFields<'t> {
        let mut fields = SmallVec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if let Some(known) = keys.iter().find(|known| known.name == name) {
                fields.push((known.name, value));
                continue;
            }
            let guess = closest(name, keys.iter().map(|known| known.name));
            report.add(owner, key.span().start, &unknown_key(name, guess, keys));
            if let Some(known) = keys.iter().find(|known| Some(known.name) == guess)
                && !table.contains_key(known.name)
                && !fields.iter().any(|(taken, _)| *taken == known.name)
            {
                fields.push((known.name, value));
            }
        }
        SettingFields(fields)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'t SpannedValue<'t>> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

fn unknown_key(name: &str, guess: Option<&str>, keys: &[SettingSpec]) -> String {
    let name = shown(name);
    match guess {
        Some(guess) => format!("unknown key `{name}`, did you mean `{guess}`?"),
        None => {
            let known = keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
            format!("unknown key `{name}`, use {known}")
        }
    }
}
