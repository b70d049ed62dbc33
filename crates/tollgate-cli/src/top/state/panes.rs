//! The three tables, and which of their rows is selected.

use super::{State, Target};

/// What the server calls the limits that clients bring, whose keys it does not keep.
const CLIENT_LIMITS: &str = "(client limits)";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum Pane {
    Rules,
    Refused,
    Hottest,
}

/// A row of a table of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) struct Row {
    pub(in crate::top) target: Target,
    /// Whether that is all of the key.
    pub(in crate::top) whole: bool,
}

impl Row {
    /// Whether the server can say how it stands.
    pub(super) fn has_state(&self) -> bool {
        self.whole && !matches!(self.target.rule.as_str(), "" | CLIENT_LIMITS)
    }

    /// Why nothing can be asked about it, nor changed.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        match self.target.rule.as_str() {
            CLIENT_LIMITS => Some(
                "clients bring this limit themselves: the server has no list of its keys, and \
                 nothing to reset",
            ),
            "" => Some("no rule has decided this, there is nothing to reset"),
            _ if !self.whole => Some(
                "this key is too long to be shown whole: ask for it by its attributes, press /",
            ),
            _ => None,
        }
    }
}

/// Which row is selected: the same key as before wherever it stands now.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    /// Nothing before anybody has chosen: then the first row is meant.
    name: Option<Name>,
    at: usize,
}

/// What tells a row from others.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Rule(String),
    Key(Target),
}

impl State {
    /// The rows of the two tables of keys.
    pub(in crate::top) fn rows(&self, pane: Pane) -> Vec<Row> {
        let view = self.view();
        let row = |rule: &String, key: &super::Key, whole| Row {
            target: Target { rule: rule.clone(), key: key.clone() },
            whole,
        };
        match pane {
            Pane::Rules => Vec::new(),
            Pane::Refused => {
                let keys = view.history.last().map(|last| last.refused.keys.as_slice());
                let keys = keys.unwrap_or_default().iter();
                keys.map(|of| row(&of.rule, &of.key, of.whole)).collect()
            }
            Pane::Hottest => {
                view.hottest.keys.iter().map(|of| row(&of.rule, &of.key, of.whole)).collect()
            }
        }
    }

    fn names(&self, pane: Pane) -> Vec<Name> {
        match pane {
            Pane::Rules => {
                let rules = self.view().history.last().map(|last| last.rules.as_slice());
                let rules = rules.unwrap_or_default().iter();
                rules.map(|of| Name::Rule(of.rule.clone())).collect()
            }
            _ => self.rows(pane).into_iter().map(|row| Name::Key(row.target)).collect(),
        }
    }

    /// Which row of a table is selected.
    pub(in crate::top) fn selected(&self, pane: Pane) -> Option<usize> {
        let (names, cursor) = (self.names(pane), &self.cursors[pane as usize]);
        let same = cursor.name.as_ref().and_then(|name| names.iter().position(|of| of == name));
        same.or_else(|| Some(cursor.at.min(names.len().checked_sub(1)?)))
    }

    /// The selected key of the table that has the focus.
    pub(in crate::top) fn selected_row(&self) -> Option<Row> {
        let at = self.selected(self.focus)?;
        self.rows(self.focus).into_iter().nth(at)
    }

    pub(super) fn selected_rule(&self) -> Option<String> {
        let at = self.selected(Pane::Rules)?;
        match self.names(Pane::Rules).into_iter().nth(at)? {
            Name::Rule(rule) => Some(rule),
            Name::Key(_) => None,
        }
    }

    /// Selects the row that stands so many rows below.
    pub(super) fn move_by(&mut self, rows: isize) {
        let Some(at) = self.selected(self.focus) else { return };
        let names = self.names(self.focus);
        let at = at.saturating_add_signed(rows).min(names.len().saturating_sub(1));
        self.cursors[self.focus as usize] = Cursor { name: names.into_iter().nth(at), at };
    }
}

impl Pane {
    pub(super) fn next(self) -> Pane {
        match self {
            Pane::Refused => Pane::Hottest,
            Pane::Hottest => Pane::Rules,
            Pane::Rules => Pane::Refused,
        }
    }

    pub(super) fn previous(self) -> Pane {
        self.next().next()
    }
}
