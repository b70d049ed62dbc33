//! `CL.THROTTLE` as redis-cell answers it, and `THROTTLE` as throttlecrab does: the opposite
//! polarity, another limit, another order.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{Decision, Limit, Limiter, Outcome};

use super::Wrong;
use super::parse::number;
use super::write::{Writer, seconds, shown, units};
use crate::app::App;
use crate::bounds::{Bound, Bounds};
use crate::client_limits::{Database, Kind};
use crate::metrics::Transport;

/// How many commands are decided at once: what the core looks for at the same time.
const BATCH: usize = 16;

/// A limit as a client says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) kind: Kind,
    pub(super) max_burst: u64,
    pub(super) count: u64,
    pub(super) period_secs: u64,
}

impl Numbers {
    pub(super) fn limit(self) -> Limit {
        let burst = match self.kind {
            Kind::Cell(_) => self.max_burst.saturating_add(1),
            _ => self.max_burst,
        };
        Limit::token_bucket(self.count, Duration::from_secs(self.period_secs)).burst(burst)
    }
}

/// What a command asks for.
pub(super) struct Ask<'a> {
    pub(super) numbers: Numbers,
    pub(super) key: &'a [u8],
    /// The cost: 0 is always allowed and takes nothing.
    pub(super) quantity: u64,
}

/// Commands with the same numbers that follow each other, to be decided at once.
#[derive(Default)]
pub(super) struct Batch<'a> {
    numbers: Option<Numbers>,
    charges: SmallVec<[(&'a [u8], u64); BATCH]>,
}

impl<'a> Batch<'a> {
    /// The numbers of those that wait to be decided.
    pub(super) fn waiting(&self) -> Option<Numbers> {
        self.numbers.filter(|_| !self.charges.is_empty())
    }

    /// Whether `ask` can be decided together with those that wait.
    pub(super) fn takes(&self, ask: &Ask<'_>) -> bool {
        let alike = self.waiting().is_none_or(|numbers| numbers == ask.numbers);
        alike && self.charges.len() < BATCH
    }

    pub(super) fn push(&mut self, ask: &Ask<'a>) {
        self.numbers = Some(ask.numbers);
        self.charges.push((ask.key, ask.quantity));
    }

    /// Decides all that wait, in their order.
    pub(super) fn decide(&mut self, limiter: &Limiter, app: &App, writer: &mut Writer<'_>) {
        if let Some(numbers) = self.waiting() {
            let (mut allowed, mut errors, mut charges) = (0, 0, self.charges.iter());
            limiter.for_each_decision(&self.charges, |decision| {
                match decision.outcome() {
                    Outcome::Allowed => allowed += 1,
                    Outcome::Denied => {}
                    Outcome::Invalid(_) => errors += 1,
                }
                if let Some((key, cost)) = charges.next() {
                    watch(app, numbers.kind, (key, *cost), &decision);
                }
                decided(numbers, &decision, writer);
            });
            let counts = app.metrics.client_limits(Transport::Resp);
            counts.add(allowed, errors, self.charges.len());
        }
        self.charges.clear();
    }

    /// Answers all that wait with an error; how many there were.
    pub(super) fn refuse(&mut self, error: &str, writer: &mut Writer<'_>) -> usize {
        let waiting = self.charges.len();
        (0..waiting).for_each(|_| writer.error(error));
        self.charges.clear();
        waiting
    }
}

/// Remembers whom a decision was about.
#[inline]
pub(super) fn watch(app: &App, kind: Kind, (key, cost): (&[u8], u64), decision: &Decision) {
    // Most are not looked at, and no key is read for them.
    app.watch_own((Transport::Resp, cost), decision, |seen| {
        let key = String::from_utf8_lossy(key);
        seen(&[("command", name(kind)), ("key", &key)]);
    });
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Cell(_) => "CL.THROTTLE",
        _ => "THROTTLE",
    }
}

/// Which of the two a command is.
pub(super) fn kind(name: &[u8], database: Database) -> Option<Kind> {
    if name.eq_ignore_ascii_case(b"CL.THROTTLE") {
        Some(Kind::Cell(database))
    } else {
        name.eq_ignore_ascii_case(b"THROTTLE").then_some(Kind::Crab(database))
    }
}

/// Returns `true` if a command resets keys of all limits that clients bring.
pub(super) fn is_delete(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"DEL")
}

/// Reads the keys of `DEL`, or returns the error.
pub(super) fn keys<'s, 'a>(
    arguments: &'s [&'a [u8]],
    bounds: &Bounds,
) -> Result<&'s [&'a [u8]], Wrong> {
    let [_, keys @ ..] = arguments else { return Ok(&[]) };
    if keys.is_empty() {
        return Err("ERR wrong number of arguments, must be DEL key ...".to_owned().into());
    }
    match keys.iter().find(|key| key.len() > bounds.key_length) {
        Some(key) => Err(too_long("key", key, bounds)),
        None => Ok(keys),
    }
}

/// Reads a command, or says what is wrong with it.
pub(super) fn read<'a>(
    kind: Kind,
    arguments: &[&'a [u8]],
    bounds: &Bounds,
) -> Result<Ask<'a>, Wrong> {
    let (key, max_burst, count, period, quantity) = match *arguments {
        [_, key, max_burst, count, period] => (key, max_burst, count, period, b"1".as_slice()),
        [_, key, max_burst, count, period, quantity] => (key, max_burst, count, period, quantity),
        _ => {
            let name = name(kind);
            return Err(Wrong::from(format!(
                "ERR wrong number of arguments, must be {name} key max_burst count period [quantity]"
            )));
        }
    };
    if key.len() > bounds.key_length {
        return Err(too_long("key", key, bounds));
    }
    let least_burst = match kind {
        Kind::Cell(_) => 0,
        _ => 1,
    };
    Ok(Ask {
        numbers: Numbers {
            kind,
            max_burst: at_least(least_burst, "max_burst", max_burst)?,
            count: at_least(1, "count", count)?,
            period_secs: at_least(1, "period", period)?,
        },
        key,
        quantity: at_least(0, "quantity", quantity)?,
    })
}

pub(super) fn too_long(what: &str, word: &[u8], bounds: &Bounds) -> Wrong {
    let (long, most) = (word.len(), bounds.key_length);
    let text = format!("ERR {what} is {long} bytes, must be at most {most}");
    Wrong { text, over: Some(Bound::KeyLength) }
}

/// A whole number of at least `least`, or what is wrong with it.
pub(super) fn at_least(least: u64, name: &str, text: &[u8]) -> Result<u64, String> {
    let value = number(text).and_then(|value| u64::try_from(value).ok());
    value.filter(|value| *value >= least).ok_or_else(|| {
        let text = shown(text);
        format!("ERR {name} is {text}, must be a whole number from {least} to {}", i64::MAX)
    })
}

pub(super) fn decided(numbers: Numbers, decision: &Decision, writer: &mut Writer<'_>) {
    let figures = Figures {
        allowed: decision.is_allowed(),
        remaining: decision.remaining(),
        retry_after: decision.retry_after().map_or(-1, seconds),
        reset_after: seconds(decision.reset_after()),
    };
    figures.write(numbers, writer);
}

struct Figures {
    allowed: bool,
    remaining: u64,
    /// Seconds; -1 where it can never be.
    retry_after: i64,
    reset_after: i64,
}

impl Figures {
    fn write(&self, numbers: Numbers, writer: &mut Writer<'_>) {
        let remaining = units(self.remaining);
        writer.five(match numbers.kind {
            Kind::Cell(_) => [
                i64::from(!self.allowed),
                units(numbers.max_burst.saturating_add(1)),
                remaining,
                if self.allowed { -1 } else { self.retry_after },
                self.reset_after,
            ],
            _ => [
                i64::from(self.allowed),
                units(numbers.max_burst),
                remaining,
                self.reset_after,
                self.retry_after,
            ],
        });
    }
}
