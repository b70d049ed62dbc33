//! What lies over the tables: how a client stands, and what was found.

use super::{Found, Key, Target};
use crate::top::client::Problem;
use crate::top::told::{FoundKey, RuleStanding, Standing};

#[derive(Clone, Debug)]
pub(in crate::top) enum Page {
    Key(Box<KeyPage>),
    Found(FoundPage),
}

/// The age in milliseconds at which the other keys of a client are searched for again.
const OTHERS_EVERY: u64 = 10_000;

/// The status of a client under every rule, and its other keys.
#[derive(Clone, Debug)]
pub(in crate::top) struct KeyPage {
    pub(in crate::top) key: Key,
    /// The rule that it was found by.
    pub(in crate::top) rule: Option<String>,
    pub(in crate::top) standing: Option<Standing>,
    pub(in crate::top) problem: Option<Problem>,
    pub(in crate::top) told_ms: u64,
    others: Option<OtherKeys>,
    /// The time of the last report of the other keys.
    pub(in crate::top) others_ms: Option<u64>,
    /// The selected key; nothing before anybody has chosen.
    chosen: Option<Target>,
}

/// Active keys that hold an attribute of a client.
#[derive(Clone, Debug, Default)]
pub(in crate::top) struct OtherKeys {
    pub(in crate::top) keys: Vec<RuleStanding>,
    pub(in crate::top) more: bool,
}

/// What came of a search.
#[derive(Clone, Debug)]
pub(in crate::top) struct FoundPage {
    pub(in crate::top) text: String,
    /// Nothing while it is searched for.
    pub(in crate::top) found: Option<Result<Found, Problem>>,
    pub(super) at: usize,
}

impl KeyPage {
    pub(super) fn new(key: Key, rule: Option<String>) -> KeyPage {
        KeyPage {
            key,
            rule,
            standing: None,
            problem: None,
            told_ms: 0,
            others: None,
            others_ms: None,
            chosen: None,
        }
    }

    /// What was known stays while there is no answer.
    pub(super) fn told(&mut self, told: Result<Standing, Problem>, told_ms: u64) {
        match told {
            Ok(standing) => {
                (self.standing, self.problem, self.told_ms) = (Some(standing), None, told_ms);
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    pub(super) fn told_others(&mut self, told: Result<OtherKeys, Problem>, now_ms: u64) {
        // An error here is an error of the status, too, which is shown.
        if let Ok(others) = told {
            (self.others, self.others_ms) = (Some(others), Some(now_ms));
        }
    }

    pub(super) fn wants_others(&self, now_ms: u64) -> bool {
        self.others_ms.is_none_or(|at| now_ms.saturating_sub(at) >= OTHERS_EVERY)
    }

    pub(super) fn forget_others_age(&mut self) {
        self.others_ms = None;
    }

    pub(in crate::top) fn rules(&self) -> &[RuleStanding] {
        self.standing.as_ref().map(|standing| standing.rules.as_slice()).unwrap_or_default()
    }

    /// The other keys, without those that are among the rules: their figures are of another moment.
    pub(in crate::top) fn others(&self) -> impl Iterator<Item = &RuleStanding> {
        let others = self.others.as_ref().map(|others| others.keys.as_slice()).unwrap_or_default();
        let is_shown = |of: &RuleStanding| {
            self.rules().iter().any(|known| known.rule == of.rule && known.key == of.key)
        };
        others.iter().filter(move |of| !is_shown(of))
    }

    pub(in crate::top) fn has_more(&self) -> bool {
        self.others.as_ref().is_some_and(|others| others.more)
    }

    fn keys(&self) -> impl Iterator<Item = &RuleStanding> {
        self.rules().iter().chain(self.others())
    }

    /// The selected key, counted through the rules and the other keys. Before anybody has
    /// chosen: the rule that denies, which is the first, or else the key that the page was opened for.
    pub(in crate::top) fn selected(&self) -> Option<usize> {
        let place = |wanted: &Target| self.keys().position(|of| of.is_of(wanted));
        if let Some(place) = self.chosen.as_ref().and_then(place) {
            return Some(place);
        }
        let is_denied = self.standing.as_ref().is_some_and(|standing| !standing.allowed);
        let opened = self.rule.as_ref().filter(|_| !is_denied || self.rules().is_empty());
        let opened = opened.map(|rule| Target { rule: rule.clone(), key: self.key.clone() });
        let opened = opened.as_ref().and_then(place);
        opened.or_else(|| self.keys().next().map(|_| 0))
    }

    pub(super) fn selected_rule(&self) -> Option<&RuleStanding> {
        self.keys().nth(self.selected()?)
    }

    fn move_by(&mut self, rows: isize) {
        let Some(last) = self.keys().count().checked_sub(1) else { return };
        let place = self.selected().unwrap_or_default().saturating_add_signed(rows).min(last);
        let chosen = self.keys().nth(place).map(RuleStanding::target);
        self.chosen = chosen;
    }
}

impl FoundPage {
    pub(super) fn new(text: String) -> FoundPage {
        FoundPage { text, found: None, at: 0 }
    }

    fn keys(&self) -> &[FoundKey] {
        match &self.found {
            Some(Ok(found)) => &found.keys,
            _ => &[],
        }
    }

    pub(in crate::top) fn selected(&self) -> Option<usize> {
        Some(self.at.min(self.keys().len().checked_sub(1)?))
    }

    pub(super) fn selected_key(&self) -> Option<&FoundKey> {
        self.keys().get(self.selected()?)
    }
}

impl Page {
    pub(super) fn move_by(&mut self, rows: isize) {
        match self {
            Page::Key(page) => page.move_by(rows),
            // What is past the end is brought back when it is asked for.
            Page::Found(page) => {
                page.at = page.selected().unwrap_or_default().saturating_add_signed(rows);
            }
        }
    }
}

impl RuleStanding {
    pub(super) fn target(&self) -> Target {
        Target { rule: self.rule.clone(), key: self.key.clone() }
    }

    fn is_of(&self, target: &Target) -> bool {
        self.rule == target.rule && self.key == target.key
    }
}
