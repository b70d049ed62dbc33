//! What lies over the tables: how a client stands, and what was found.

use super::{Found, Key, Target};
use crate::top::client::Problem;
use crate::top::told::{FoundKey, RuleStanding, Standing};

#[derive(Clone, Debug)]
pub(in crate::top) enum Page {
    Key(KeyPage),
    Found(FoundPage),
}

/// A client on every rule.
#[derive(Clone, Debug)]
pub(in crate::top) struct KeyPage {
    pub(in crate::top) key: Key,
    /// The rule that it was found by.
    pub(in crate::top) rule: Option<String>,
    pub(in crate::top) standing: Option<Standing>,
    pub(in crate::top) problem: Option<Problem>,
    pub(in crate::top) told_ms: u64,
    pub(super) at: usize,
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
        KeyPage { key, rule, standing: None, problem: None, told_ms: 0, at: 0 }
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

    fn rules(&self) -> &[RuleStanding] {
        self.standing.as_ref().map(|standing| standing.rules.as_slice()).unwrap_or_default()
    }

    /// Which rule is selected.
    pub(in crate::top) fn selected(&self) -> Option<usize> {
        Some(self.at.min(self.rules().len().checked_sub(1)?))
    }

    pub(super) fn selected_rule(&self) -> Option<&RuleStanding> {
        self.rules().get(self.selected()?)
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
        let (at, last) = match self {
            Page::Key(page) => (page.selected(), &mut page.at),
            Page::Found(page) => (page.selected(), &mut page.at),
        };
        // What is past the end is brought back when it is asked for.
        *last = at.unwrap_or_default().saturating_add_signed(rows);
    }
}

impl RuleStanding {
    pub(super) fn target(&self) -> Target {
        Target { rule: self.rule.clone(), key: self.key.clone() }
    }
}
