//! What is seen and what is being done. Everything that happens is a [`Message`]; it changes the
//! state and may ask for something. No I/O, and time is told with each message.

mod dialog;
mod keys;
mod page;
mod panes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::tz::TimeZone;
use ratatui::crossterm::event::KeyEvent;

use super::client::Problem;
use super::history::History;
use super::text::{self, Key};
use super::told::{FoundKey, Hottest, RuleCounts, Sample, Standing, Who};

pub(super) use dialog::{Dialog, Field, Kind};
pub(super) use page::{FoundPage, KeyPage, OtherKeys, Page};
pub(super) use panes::{Pane, Row};

/// Between two events that belong together, in intervals and a half.
const GAP_INTERVALS: u64 = 3;

/// How long is told what was done, and what went wrong.
const NOTICE_MS: (u64, u64) = (10_000, 20_000);

/// Something that happened.
#[derive(Debug)]
pub(super) enum Message {
    Pressed(KeyEvent),
    Pasted(String),
    /// Time has passed.
    Tick,
    Sample(Arc<Sample>),
    /// Connected, as this operator.
    Connected(Who),
    /// Not connected, and it is tried again after so long.
    Lost(Problem, u64),
    Hottest(Result<Hottest, Problem>),
    Standing(Asked, Result<Standing, Problem>),
    Found(String, Result<Found, Problem>),
    /// Active keys that hold an attribute of a client.
    Others(Key, Result<OtherKeys, Problem>),
    /// What was done, in words.
    Changed(Result<String, Problem>),
    /// The process is told to end.
    Ended,
}

/// Something to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Hottest(HottestOf),
    Status(Asked),
    /// Search for other keys of a client, which was found by a rule.
    Others(Key, Option<String>),
    Find(String),
    Change(Change),
    Leave,
}

/// The rule whose hottest keys are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HottestOf {
    AllRules,
    Rule(String),
    /// A shadow rule.
    Shadow(String),
}

/// A key of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) rule: String,
    pub(super) key: Key,
}

impl Target {
    /// In words.
    pub(super) fn shown(&self) -> String {
        format!("{} on {}", text::key(&self.key), text::harmless(&self.rule))
    }
}

/// Whose standing is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// One key of one rule: that which is selected.
    Row(Target),
    /// A client on all rules, and on the rule that it was found by.
    Client(Key, Option<String>),
}

/// A change that only a token that may write is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Reset(Target),
    Block(Target, u64),
    Lift(Target),
    /// Limits as text (none: as they are), a tier, and for how many seconds.
    Override(Target, Vec<String>, Option<String>, Option<u64>),
    RemoveOverride(Target),
}

/// Keys that hold a text, and whether there are more.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) keys: Vec<FoundKey>,
    pub(super) more: bool,
}

/// What does not change while it runs.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) server: String,
    pub(super) interval_ms: u64,
    /// For moments that are shown.
    pub(super) zone: TimeZone,
}

/// Whether the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Live,
    Lost { since_ms: u64, why: Problem, retry_at_ms: u64 },
}

/// The numbers of a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) history: History,
    pub(super) hottest: Hottest,
}

/// Said to whoever looks, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) bad: bool,
    until_ms: u64,
}

/// How a key of a rule stands, and when that was told.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) of: Target,
    pub(super) standing: Standing,
    pub(super) told_ms: u64,
}

pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) who: Who,
    pub(super) now_ms: u64,
    pub(super) link: Link,
    live: View,
    /// What is shown while it is paused, and since when.
    frozen: Option<(u64, Box<View>)>,
    pub(super) focus: Pane,
    cursors: [panes::Cursor; 3],
    /// What lies over the tables, the last on top.
    pages: Vec<Page>,
    pub(super) dialog: Option<Dialog>,
    pub(super) helps: bool,
    notice: Option<Notice>,
    /// The rule whose rates are drawn; all together where there is none.
    pub(super) charted: Option<String>,
    detail: Option<Detail>,
    asking_hottest: bool,
    asking_status: bool,
    asking_others: bool,
}

impl State {
    pub(super) fn new(settings: Settings, who: Who, now_ms: u64) -> State {
        State {
            settings,
            who,
            now_ms,
            link: Link::Live,
            live: View::default(),
            frozen: None,
            focus: Pane::Refused,
            cursors: Default::default(),
            pages: Vec::new(),
            dialog: None,
            helps: false,
            notice: None,
            charted: None,
            detail: None,
            asking_hottest: false,
            asking_status: false,
            asking_others: false,
        }
    }

    /// Takes in what happened at a moment, and says what is to be done.
    pub(super) fn update(&mut self, message: Message, now_ms: u64) -> Vec<Command> {
        self.now_ms = now_ms;
        match message {
            Message::Pressed(key) => self.pressed(key),
            Message::Pasted(text) => {
                self.pasted(&text);
                Vec::new()
            }
            Message::Tick => {
                if self.is_due() {
                    self.ask_again()
                } else {
                    Vec::new()
                }
            }
            Message::Sample(sample) => self.sampled(sample),
            Message::Connected(who) => {
                self.who = who;
                Vec::new()
            }
            Message::Lost(why, retry_ms) => {
                let since_ms = match &self.link {
                    Link::Lost { since_ms, .. } => *since_ms,
                    Link::Live => self.live.history.last_at().unwrap_or(now_ms),
                };
                self.link = Link::Lost { since_ms, why, retry_at_ms: now_ms + retry_ms };
                (self.asking_hottest, self.asking_status) = (false, false);
                self.asking_others = false;
                Vec::new()
            }
            Message::Hottest(told) => {
                self.asking_hottest = false;
                // What goes wrong here goes wrong with the events, too, which say so.
                if let Ok(hottest) = told {
                    self.live.hottest = hottest;
                }
                Vec::new()
            }
            Message::Standing(asked, told) => {
                self.asking_status = false;
                self.stands(asked, told);
                Vec::new()
            }
            Message::Found(text, found) => {
                if let Some(Page::Found(page)) = self.pages.last_mut()
                    && page.text == text
                {
                    page.found = Some(found);
                }
                Vec::new()
            }
            Message::Others(key, told) => {
                self.found_others(&key, told);
                Vec::new()
            }
            Message::Changed(done) => self.changed(done),
            Message::Ended => vec![Command::Leave],
        }
    }

    fn sampled(&mut self, sample: Arc<Sample>) -> Vec<Command> {
        self.link = Link::Live;
        let (last, interval) = (self.live.history.last_at(), self.settings.interval_ms);
        // An event that comes a little early still counts.
        let is_due = last.is_none_or(|at| self.now_ms.saturating_sub(at) + 500 >= interval);
        if !is_due && self.live.history.last().is_some_and(|last| last.boot == sample.boot) {
            return Vec::new();
        }
        let gap = interval * GAP_INTERVALS + interval / 2;
        self.live.history.add(sample, self.now_ms, gap);
        let mut commands = self.ask_again();
        // A rule that was removed is charted no longer; one of many may only be left out for now.
        let charted = self.charted.take();
        let left_out = self.live.history.last().map_or(0, |last| last.rules_left_out);
        self.charted = charted.filter(|rule| left_out > 0 || self.rule_counts(rule).is_some());
        commands.extend(self.ask_hottest());
        commands
    }

    fn found_others(&mut self, key: &Key, told: Result<OtherKeys, Problem>) {
        self.asking_others = false;
        if let Some(Page::Key(page)) = self.pages.last_mut()
            && page.key == *key
        {
            page.told_others(told, self.now_ms);
        }
    }

    /// `true` if a wait that is shown has passed: then the server has other figures.
    fn is_due(&self) -> bool {
        let (standing, told_ms) = match self.page() {
            Some(Page::Key(page)) => (page.standing.as_ref(), page.told_ms),
            Some(Page::Found(_)) => return false,
            None => match self.detail() {
                Some(detail) => (Some(&detail.standing), detail.told_ms),
                None => return false,
            },
        };
        let passed = self.now_ms.saturating_sub(told_ms);
        standing.and_then(Standing::changes_after).is_some_and(|millis| millis <= passed)
    }

    /// Asks for the hottest keys, of the charted rule if there is one.
    fn ask_hottest(&mut self) -> Option<Command> {
        if self.asking_hottest {
            return None;
        }
        self.asking_hottest = true;
        Some(Command::Hottest(match &self.charted {
            None => HottestOf::AllRules,
            Some(rule) if self.is_shadow(rule) => HottestOf::Shadow(rule.clone()),
            Some(rule) => HottestOf::Rule(rule.clone()),
        }))
    }

    fn rule_counts(&self, rule: &str) -> Option<&RuleCounts> {
        self.live.history.last()?.rules.iter().find(|of| of.rule == rule)
    }

    /// `true` if a rule of the last event is in shadow.
    pub(super) fn is_shadow(&self, rule: &str) -> bool {
        self.rule_counts(rule).is_some_and(|of| of.shadow.is_some())
    }

    /// Asks for the status of the key that is shown, and now and then for its other keys.
    fn ask_again(&mut self) -> Vec<Command> {
        let mut commands = self.ask_status();
        if let Some(Page::Key(page)) = self.pages.last()
            && !self.asking_others
            && page.wants_others(self.now_ms)
        {
            self.asking_others = true;
            commands.push(Command::Others(page.key.clone(), page.rule.clone()));
        }
        commands
    }

    fn ask_status(&mut self) -> Vec<Command> {
        let asked = match self.page() {
            Some(Page::Key(page)) => Some(Asked::Client(page.key.clone(), page.rule.clone())),
            Some(Page::Found(_)) => None,
            None => self.selected_row().filter(Row::has_state).map(|row| Asked::Row(row.target)),
        };
        match asked {
            Some(asked) if !self.asking_status => {
                self.asking_status = true;
                vec![Command::Status(asked)]
            }
            _ => Vec::new(),
        }
    }

    fn stands(&mut self, asked: Asked, told: Result<Standing, Problem>) {
        let told_ms = self.now_ms;
        match asked {
            Asked::Row(of) => {
                self.detail = told.ok().map(|standing| Detail { of, standing, told_ms });
            }
            Asked::Client(key, _) => {
                if let Some(Page::Key(page)) = self.pages.last_mut()
                    && page.key == key
                {
                    page.told(told, told_ms);
                }
            }
        }
    }

    fn changed(&mut self, done: Result<String, Problem>) -> Vec<Command> {
        match (done, &mut self.dialog) {
            (Ok(text), dialog) => {
                *dialog = None;
                self.say(text);
            }
            (Err(problem), Some(dialog)) if dialog.busy => {
                dialog.busy = false;
                dialog.error = Some(not_done(&problem));
            }
            (Err(problem), _) => self.complain(not_done(&problem)),
        }
        (self.asking_status, self.asking_others) = (false, false);
        if let Some(Page::Key(page)) = self.pages.last_mut() {
            page.forget_others_age();
        }
        self.ask_again()
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        let until_ms = self.now_ms + NOTICE_MS.0;
        self.notice = Some(Notice { text: text.into(), bad: false, until_ms });
    }

    pub(super) fn complain(&mut self, text: impl Into<String>) {
        let until_ms = self.now_ms + NOTICE_MS.1;
        self.notice = Some(Notice { text: text.into(), bad: true, until_ms });
    }

    pub(super) fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref().filter(|notice| self.now_ms < notice.until_ms)
    }

    /// The numbers to show.
    pub(super) fn view(&self) -> &View {
        self.frozen.as_ref().map_or(&self.live, |(_, view)| view)
    }

    pub(super) fn paused_since(&self) -> Option<u64> {
        self.frozen.as_ref().map(|(since, _)| *since)
    }

    pub(super) fn page(&self) -> Option<&Page> {
        self.pages.last()
    }

    /// How the selected key stands, where that is known.
    pub(super) fn detail(&self) -> Option<&Detail> {
        let row = self.selected_row()?;
        self.detail.as_ref().filter(|detail| detail.of == row.target)
    }
}

fn not_done(problem: &Problem) -> String {
    match problem.status {
        None => {
            let detail = text::harmless(&problem.detail);
            format!("no answer, the change may or may not have been applied: {detail}")
        }
        Some(_) => format!("not done: {}", text::harmless(&problem.detail)),
    }
}
