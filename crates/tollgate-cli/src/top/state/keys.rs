//! What is pressed.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::dialog::{Dialog, Kind};
use super::page::{FoundPage, KeyPage, Page};
use super::{Command, Pane, Row, State, Target, text};
use crate::top::told::RuleStanding;

/// Rows that a page's key moves by.
const PAGE: isize = 10;
const ALL: isize = isize::MAX / 2;

impl State {
    pub(super) fn pressed(&mut self, key: KeyEvent) -> Vec<Command> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if with_control && key.code == KeyCode::Char('c') {
            return vec![Command::Leave];
        }
        if self.dialog.is_some() {
            return self.pressed_in_dialog(key.code, with_control);
        }
        if with_control {
            return Vec::new();
        }
        if self.helps {
            self.helps = false;
            return Vec::new();
        }
        match key.code {
            KeyCode::Char('q') => return vec![Command::Leave],
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.helps = true,
            KeyCode::Char('/') => self.dialog = Some(Dialog::of(Kind::Search)),
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Down | KeyCode::Char('j') => return self.moved(1),
            KeyCode::Up | KeyCode::Char('k') => return self.moved(-1),
            KeyCode::PageDown => return self.moved(PAGE),
            KeyCode::PageUp => return self.moved(-PAGE),
            KeyCode::Home | KeyCode::Char('g') => return self.moved(-ALL),
            KeyCode::End | KeyCode::Char('G') => return self.moved(ALL),
            KeyCode::Tab | KeyCode::Right => return self.focused(self.focus.next()),
            KeyCode::BackTab | KeyCode::Left => return self.focused(self.focus.previous()),
            KeyCode::Enter => return self.entered(),
            KeyCode::Esc | KeyCode::Backspace => self.went_back(),
            KeyCode::Char(c @ ('r' | 'b' | 'u' | 'o' | 'x')) => self.wants_change(c),
            _ => {}
        }
        Vec::new()
    }

    /// A text is taken only where a text is typed, and presses nothing.
    pub(super) fn pasted(&mut self, text: &str) {
        match &mut self.dialog {
            Some(dialog) if !dialog.fields.is_empty() && !dialog.busy => {
                text.trim().chars().for_each(|c| dialog.typed(c));
            }
            _ => self.complain("pasted where nothing is typed: press / to search"),
        }
    }

    fn pressed_in_dialog(&mut self, code: KeyCode, with_control: bool) -> Vec<Command> {
        let Some(dialog) = &mut self.dialog else { return Vec::new() };
        let asks = dialog.fields.is_empty();
        match code {
            KeyCode::Esc => {
                if dialog.busy {
                    self.complain("cancelled; the change may still be applied");
                }
                self.dialog = None;
            }
            _ if dialog.busy => {}
            KeyCode::Char('n' | 'N' | 'q') if asks => self.dialog = None,
            KeyCode::Char('y' | 'Y') if asks => return self.decided(),
            KeyCode::Enter => return self.decided(),
            KeyCode::Char('u') if with_control => dialog.rub_out_all(),
            KeyCode::Char(c) if !with_control => dialog.typed(c),
            KeyCode::Backspace => dialog.rub_out(),
            KeyCode::Tab | KeyCode::Down => dialog.next_field(),
            KeyCode::BackTab | KeyCode::Up => dialog.previous_field(),
            _ => {}
        }
        Vec::new()
    }

    /// A dialog is answered with yes.
    fn decided(&mut self) -> Vec<Command> {
        let Some(dialog) = &mut self.dialog else { return Vec::new() };
        match dialog.change() {
            Err(wrong) => {
                dialog.error = Some(text::harmless(&wrong));
                Vec::new()
            }
            Ok(Some(change)) => {
                dialog.busy = true;
                dialog.error = None;
                vec![Command::Change(change)]
            }
            Ok(None) => {
                let typed = dialog.fields.first().map(|field| field.text.trim().to_owned());
                self.dialog = None;
                self.search(typed.unwrap_or_default())
            }
        }
    }

    fn search(&mut self, typed: String) -> Vec<Command> {
        self.pages.clear();
        if typed.is_empty() {
            return Vec::new();
        }
        match text::attributes(&typed) {
            Some(key) => self.open(KeyPage::new(key, None)),
            None => {
                self.pages.push(Page::Found(FoundPage::new(typed.clone())));
                vec![Command::Find(typed)]
            }
        }
    }

    fn open(&mut self, page: KeyPage) -> Vec<Command> {
        self.pages.push(Page::Key(Box::new(page)));
        (self.asking_status, self.asking_others) = (false, false);
        self.ask_again()
    }

    fn moved(&mut self, rows: isize) -> Vec<Command> {
        match self.pages.last_mut() {
            Some(page) => {
                page.move_by(rows);
                Vec::new()
            }
            None => {
                self.move_by(rows);
                self.ask_again()
            }
        }
    }

    fn focused(&mut self, pane: Pane) -> Vec<Command> {
        if self.page().is_some() {
            return Vec::new();
        }
        self.focus = pane;
        self.ask_again()
    }

    fn entered(&mut self) -> Vec<Command> {
        match self.page() {
            Some(Page::Key(_)) => Vec::new(),
            Some(Page::Found(page)) => match page.selected_key().cloned() {
                Some(found) => {
                    let rule = found.rule.unwrap_or_default();
                    let target = Target { rule, key: found.key };
                    self.open_row(Row { target, whole: found.whole })
                }
                None => Vec::new(),
            },
            None if self.focus == Pane::Rules => {
                let rule = self.selected_rule();
                self.charted = if rule == self.charted { None } else { rule };
                self.ask_hottest().into_iter().collect()
            }
            None => self.selected_row().map(|row| self.open_row(row)).unwrap_or_default(),
        }
    }

    fn open_row(&mut self, row: Row) -> Vec<Command> {
        match row.obstacle() {
            Some(why) => {
                self.complain(why);
                Vec::new()
            }
            None => self.open(KeyPage::new(row.target.key, Some(row.target.rule))),
        }
    }

    fn went_back(&mut self) {
        if self.pages.pop().is_none() {
            self.charted = None;
            self.notice = None;
        }
    }

    fn pause(&mut self) {
        self.frozen = match self.frozen.take() {
            Some(_) => None,
            None => Some((self.now_ms, Box::new(self.live.clone()))),
        };
    }

    /// Opens the dialog for a change of the selected key.
    fn wants_change(&mut self, pressed: char) {
        if !self.who.may_write() {
            let name = text::harmless(&self.who.name);
            return self.complain(format!(
                "{name} may only read: a token with the role write is needed, a line \"NAME write \
                 TOKEN\" of the server's --admin-tokens"
            ));
        }
        let Some((row, standing)) = self.chosen() else {
            return self.complain("select a key first: Tab changes the table, / searches");
        };
        if let Some(why) = row.obstacle() {
            return self.complain(why);
        }
        let warning = standing.as_ref().and_then(|of| self.scope(of));
        let blocked = standing.as_ref().map(|of| of.blocked_ms.is_some());
        let target = row.target;
        let dialog = match pressed {
            'r' => Dialog::of(Kind::Reset(target)),
            'u' => Dialog::of(Kind::Lift(target)),
            'b' if blocked == Some(true) => Dialog::of(Kind::Lift(target)),
            'b' => Dialog::of(Kind::Block(target)),
            _ if target.key.is_empty() => {
                return self.complain(
                    "this rule counts all requests together, no client can have a limit of its own: \
                     change the policy",
                );
            }
            'x' => Dialog::of(Kind::RemoveOverride(target)),
            _ => {
                let numbers = standing.map(|of| of.numbers).unwrap_or_default();
                Dialog::of(Kind::Override(target)).with_limit(&numbers)
            }
        };
        let is_of_key = matches!(dialog.kind, Kind::Reset(_) | Kind::Block(_) | Kind::Lift(_));
        self.dialog = Some(Dialog { warning: warning.filter(|_| is_of_key), ..dialog });
    }

    /// Says that the key of a rule is wider than the client that is shown, if it is.
    fn scope(&self, of: &RuleStanding) -> Option<String> {
        let Some(Page::Key(page)) = self.page() else { return None };
        let ignored = of.ignored_attributes.iter();
        let rest: text::Key =
            ignored.filter_map(|name| Some((name.clone(), page.key.get(name)?.clone()))).collect();
        if rest.is_empty() {
            return None;
        }
        let all: Vec<String> = rest.keys().map(|name| text::plural(name)).collect();
        let (all, rest) = (all.join(" and "), text::key(&rest));
        Some(match of.key.is_empty() {
            true => format!("Affects all requests, of all {all}, not only {rest}."),
            false => format!("Affects all {all} of {}, not only {rest}.", text::key(&of.key)),
        })
    }

    /// The key that a change is about, and how it stands if that is known.
    fn chosen(&self) -> Option<(Row, Option<RuleStanding>)> {
        match self.page() {
            Some(Page::Key(page)) => {
                let of = page.selected_rule()?;
                Some((Row { target: of.target(), whole: true }, Some(of.clone())))
            }
            Some(Page::Found(page)) => {
                let found = page.selected_key()?;
                let rule = found.rule.clone().unwrap_or_default();
                let target = Target { rule, key: found.key.clone() };
                Some((Row { target, whole: found.whole }, None))
            }
            None => {
                let standing = self.detail().and_then(|of| of.standing.rules.first().cloned());
                Some((self.selected_row()?, standing))
            }
        }
    }
}
