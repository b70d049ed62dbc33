//! Yesterday's log against a policy: what would have been refused, whom it would have hit, and what
//! other numbers would have done.
//!
//! Each line becomes a request and is decided by a [`Gate`](tollgate::Gate) under a clock that
//! shows the line's time, so that the answer is what the policy would have said in production.
//!
//! ```
//! use tollgate::{Limit, Policy, Rule};
//! use tollgate_lab::replay::{Log, Settings, replay};
//!
//! let log = "\
//! 203.0.113.9 - - [16/Nov/2026:10:13:50 +0000] \"GET /search HTTP/1.1\" 200 512
//! 203.0.113.9 - - [16/Nov/2026:10:13:50 +0000] \"GET /search HTTP/1.1\" 200 512
//! 198.51.100.1 - - [16/Nov/2026:10:13:51 +0000] \"GET / HTTP/1.1\" 200 512
//! ";
//! let rule = Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(1));
//! let policy = Policy::new().rule(rule);
//! let log = Log::Bytes(log.as_bytes().into());
//! let report = replay(&[log], &policy, None, &Settings::default(), &mut |_| {})?;
//! assert_eq!((report.requests, report.refused), (3, 1));
//! assert_eq!(report.clients.top[0].example.line, 2);
//! # Ok::<(), tollgate_lab::replay::Failure>(())
//! ```

mod against;
mod block;
mod bounds;
mod clients;
mod common;
mod decide;
mod doubts;
mod fields;
mod format;
mod input;
mod json;
mod ladder;
mod line;
mod merge;
mod order;
mod progress;
mod report;
mod route;
mod separated;
mod series;
mod show;
mod stream;
mod suggest;
mod tally;
mod time;
mod top;

use std::{fmt, io};

use tollgate::Policy;

pub use fields::FieldMap;
pub use format::Format;
pub use input::Log;
pub use order::Order;
pub use progress::Progress;
pub use report::{
    AgainstReport, ClientReport, Clients, Difference, Example, ListReport, Malformed,
    MalformedLine, NotSuggested, OrderReport, OverTime, Report, RuleReport, Smallest, Step,
    Suggestion, TierReport, Tried,
};
pub use route::Template;
pub use show::Section;

use decide::Decider;
use fields::Wanted;
use merge::{Batch, Logs};
use progress::Account;
use report::moment;

/// How a log is replayed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the logs are written; found out by the first lines of each if not said.
    pub format: Option<Format>,
    /// Which fields become which attributes, where their names do not say it.
    pub fields: Vec<FieldMap>,
    /// What `route` is for which paths; the first that fits counts, and the path itself if none.
    pub routes: Vec<Template>,
    /// What is done about lines that are out of order.
    pub order: Order,
    /// Whether a malformed line ends the replay.
    pub strict: bool,
    /// The most keys whose state is kept; a million if not said, as of a gate.
    pub max_keys: usize,
    /// How many clients are told of.
    pub clients: usize,
    /// Whether to find out what other numbers would have refused.
    pub suggest: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            format: None,
            fields: Vec::new(),
            routes: Vec::new(),
            order: Order::default(),
            strict: false,
            max_keys: 1_000_000,
            clients: 10,
            suggest: true,
        }
    }
}

/// Why a replay has no report.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// What was asked for makes no sense.
    Mistake(String),
    /// A log cannot be read.
    Log(String, io::Error),
    /// A line is malformed, and that was to be the end.
    Malformed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Mistake(message) | Failure::Malformed(message) => f.write_str(message),
            Failure::Log(name, error) => write!(f, "{name}: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

/// What is wrong with what was asked for, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake(String);

impl Mistake {
    fn new(message: String) -> Mistake {
        Mistake(message)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Failure {
        Failure::Mistake(mistake.0)
    }
}

/// Replays logs against a policy, and against another to compare with.
///
/// `progress` is called every now and then.
///
/// # Errors
/// Where a log cannot be read, what was asked for makes no sense, or a line is malformed and
/// [`Settings::strict`] says so.
pub fn replay(
    logs: &[Log],
    policy: &Policy,
    against: Option<&Policy>,
    settings: &Settings,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Failure> {
    let policies: Vec<&Policy> = std::iter::once(policy).chain(against).collect();
    let wanted = Wanted::new(&policies, &settings.fields, settings.routes.clone())?;
    let mut decider = Decider::new(&wanted, policy, against, settings)?;
    let mut reading = Logs::open(logs, &wanted, settings, Account::new(progress))?;
    let (mut batch, mut last) = (Batch::new(), None);
    loop {
        reading.next(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        decider.decide(&reading, &batch);
        last = batch.iter().map(|(_, entry)| entry.time).max().max(last);
    }
    Ok(finish(decider, reading, last, (logs, &wanted, settings)))
}

fn finish(
    decider: Decider<'_>,
    reading: Logs<'_, '_>,
    last: Option<u64>,
    (logs, wanted, settings): (&[Log], &Wanted, &Settings),
) -> Report {
    let Decider { gate, mut order, present, tally, refusals, ladders, against, .. } = decider;
    order.hurried = reading.hurried();
    let absent = wanted.attributes.iter().zip(&present);
    let absent = absent.filter(|(_, present)| **present == 0 && tally.requests > 0);
    let ladders = ladders.map(ladder::Ladders::into_ladders).unwrap_or_default();
    let (suggestions, not_suggested) = suggest::suggestions(ladders, &gate.policy());
    Report {
        logs: logs.iter().map(Log::name).collect(),
        formats: reading.formats(),
        lines: reading.account.lines,
        bytes: reading.account.read.get(),
        from: tally.first.map(moment),
        to: last.map(moment),
        requests: tally.requests,
        allowed: tally.allowed,
        unlimited: tally.unlimited,
        refused: tally.refused,
        wrong: tally.wrong,
        order,
        absent: absent.map(|(attribute, _)| attribute.name.clone()).collect(),
        evictions: gate.store().evictions() + gate.store().rejected_new_keys(),
        tiers: tally.tiers(),
        over_time: tally.over_time(),
        rules: tally.rules,
        lists: tally.lists,
        clients: refusals.into_clients(settings.clients),
        suggestions,
        not_suggested,
        against: against.map(|(_, against)| against.into_report(settings.clients)),
        malformed: reading.account.malformed,
    }
}
