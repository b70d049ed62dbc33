//! What a client is told: the RateLimit fields and Retry-After as text, for every edge.
//!
//! The drafts of the RateLimit fields disagree with each other, so which of them is spoken is a
//! setting, and every field is written here and nowhere else. Seconds round up.

mod fields;
mod line;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use smallvec::SmallVec;

pub use fields::HeaderFields;
use fields::{FieldName, MOST, NANOS_PER_SEC, seconds};
use line::PolicyLine;

use crate::decision::Decision;
use crate::gate::{Reason, RuleDecision, Ruling};
use crate::limit::Limit;
use crate::time::{Clock, Timestamp};

/// How clients are told of limits: in which dialect, and how much.
///
/// ```
/// use tollgate::{Dialect, Gate, HeaderStyle, Limit, Policy, Request, Rule};
///
/// let policy = Policy::new().rule(Rule::new("per-minute").limit(Limit::per_minute(60)));
/// let gate = Gate::new(policy)?;
/// let ruling = gate.check(&Request::new());
/// let fields = HeaderStyle::new().for_ruling(&ruling, gate.store().clock());
/// let told: Vec<_> = fields.iter().collect();
/// assert_eq!(told[0], ("ratelimit-policy", "\"per-minute\";q=60;w=60"));
/// assert_eq!(told[1], ("ratelimit", "\"per-minute\";r=59;t=1"));
///
/// let older = HeaderStyle::new().with_dialect(Dialect::XSeconds);
/// assert_eq!(older.for_ruling(&ruling, gate.store().clock()).get("x-ratelimit-remaining"), Some("59"));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderStyle {
    dialect: Dialect,
    verbosity: Verbosity,
}

/// Which fields say how a client stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `RateLimit: "name";r=42;t=17` and `RateLimit-Policy: "name";q=100;w=60`, one item for each
    /// rule: drafts 8 to 11 of the IETF's.
    #[default]
    Draft11,
    /// `RateLimit: limit=100, remaining=42, reset=17` and `RateLimit-Policy: 100;w=60`.
    Draft07,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` and `RateLimit-Policy`: drafts
    /// 4 to 6.
    Draft06,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the last a moment: seconds since 1970.
    XTimestamp,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the last in seconds from now.
    XSeconds,
    /// None of them.
    Off,
}

/// How much a client is told: what helps it to behave also helps it to abuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verbosity {
    /// How it stands with every answer, and when to try again.
    #[default]
    Full,
    /// Only when to try again, where it was denied.
    Minimal,
    /// Nothing.
    None,
}

impl HeaderStyle {
    /// Draft 11, in full.
    pub fn new() -> HeaderStyle {
        HeaderStyle::default()
    }

    /// In another dialect.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> HeaderStyle {
        self.dialect = dialect;
        self
    }

    /// More or less of it.
    #[must_use]
    pub fn with_verbosity(mut self, verbosity: Verbosity) -> HeaderStyle {
        self.verbosity = verbosity;
        self
    }

    /// In which dialect it tells.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// How much it tells.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether an answer to an allowed request carries any field.
    pub fn covers_allowed(&self) -> bool {
        self.verbosity == Verbosity::Full && self.dialect != Dialect::Off
    }

    /// The fields for a ruling: every rule that applied in draft 11, the one that decided in all
    /// others. Rules that only report are not told of.
    pub fn for_ruling(&self, ruling: &Ruling, clock: &Clock) -> HeaderFields {
        let enforced = || ruling.rules().filter(|of| !of.is_shadow());
        self.of_lines(ruling, clock, || {
            enforced().map(|of| PolicyLine::of_rule(&of, self.dialect)).collect()
        })
    }

    /// As [`for_ruling`](Self::for_ruling), for those who have the figures of its rules already.
    pub fn for_rules(
        &self,
        ruling: &Ruling,
        rules: &[RuleDecision<'_>],
        clock: &Clock,
    ) -> HeaderFields {
        let enforced = || rules.iter().filter(|of| !of.is_shadow());
        let line = |of| PolicyLine::of_rule(of, self.dialect);
        self.of_lines(ruling, clock, || enforced().map(line).collect())
    }

    #[inline]
    fn of_lines<'r>(
        &self,
        ruling: &Ruling,
        clock: &Clock,
        lines: impl FnOnce() -> SmallVec<[PolicyLine<'r>; 4]>,
    ) -> HeaderFields {
        let mut fields = HeaderFields::new();
        let mut told = Duration::ZERO;
        if self.covers_allowed() && ruling.reason() != Reason::NoRule {
            let mut lines = lines();
            // In front, where every dialect looks for it.
            if lines.len() > 1 {
                let deciding = ruling.decided_by_name();
                let place = lines.iter().position(|line| Some(line.rule) == deciding);
                lines[..=place.unwrap_or(0)].rotate_right(1);
            }
            told = lines.first().map_or(Duration::ZERO, |line| line.next_after);
            self.write(&mut fields, &lines, clock);
        }
        let allowed = ruling.is_allowed();
        let wait = if allowed { None } else { ruling.retry_after() };
        self.retry(&mut fields, allowed, wait, told);
        fields
    }

    /// The fields for the decision of a limiter: its name, its limit and what it decided.
    pub fn for_decision(
        &self,
        named: (&str, &Limit),
        decision: &Decision,
        clock: &Clock,
    ) -> HeaderFields {
        let mut fields = HeaderFields::new();
        let mut told = Duration::ZERO;
        if self.covers_allowed() {
            told = decision.next_unit_after();
            let line = PolicyLine::of_decision(named, decision, self.dialect);
            self.write(&mut fields, &[line], clock);
        }
        self.retry(&mut fields, decision.is_allowed(), decision.retry_after(), told);
        fields
    }

    /// What the fields say of an allowed request in dialects that say limit, remaining and reset
    /// in fields of their own and nothing else: for edges that write numbers faster than text.
    #[doc(hidden)]
    #[inline]
    pub fn numbers(&self, decision: &Decision, clock: &Clock) -> Option<[u64; 3]> {
        if self.verbosity != Verbosity::Full || !decision.is_allowed() {
            return None;
        }
        let next_after = || decision.next_unit_after();
        let reset = match self.dialect {
            Dialect::XSeconds => seconds(next_after()),
            Dialect::XTimestamp => moment(clock.now(), next_after()),
            _ => return None,
        };
        Some([decision.limit(), decision.remaining(), reset].map(|number| number.min(MOST)))
    }

    /// Only when to try again, where that is known and may be told.
    pub fn for_retry(&self, retry_after: Duration) -> HeaderFields {
        let mut fields = HeaderFields::new();
        self.retry(&mut fields, false, Some(retry_after), Duration::ZERO);
        fields
    }

    /// Retry-After: at least a second, and never before more is said to be there.
    fn retry(
        &self,
        fields: &mut HeaderFields,
        allowed: bool,
        wait: Option<Duration>,
        told: Duration,
    ) {
        let wait = wait.filter(|_| !allowed && self.verbosity != Verbosity::None);
        if let Some(wait) = wait {
            fields.number(FieldName::RetryAfter, seconds(wait.max(told)).max(1));
        }
    }

    /// Writes what is told of each line, or of the first, which decided.
    fn write(&self, fields: &mut HeaderFields, lines: &[PolicyLine<'_>], clock: &Clock) {
        let Some(decided) = lines.first() else {
            return;
        };
        match self.dialect {
            Dialect::Draft11 => line::draft_11(fields, lines),
            Dialect::Draft07 => line::draft_07(fields, decided),
            Dialect::Draft06 => line::draft_06(fields, decided),
            Dialect::XTimestamp => {
                line::x(fields, decided, moment(clock.now(), decided.next_after))
            }
            Dialect::XSeconds => line::x(fields, decided, seconds(decided.next_after)),
            Dialect::Off => {}
        }
    }
}

/// The first full second at or after `wait` from `now`.
fn moment(now: Timestamp, wait: Duration) -> u64 {
    now.saturating_add(wait).as_nanos().div_ceil(NANOS_PER_SEC)
}

const DIALECTS: [(&str, Dialect); 6] = [
    ("draft-11", Dialect::Draft11),
    ("draft-07", Dialect::Draft07),
    ("draft-06", Dialect::Draft06),
    ("x-epoch", Dialect::XTimestamp),
    ("x-delta", Dialect::XSeconds),
    ("off", Dialect::Off),
];

const VERBOSITIES: [(&str, Verbosity); 3] =
    [("full", Verbosity::Full), ("minimal", Verbosity::Minimal), ("none", Verbosity::None)];

/// A text that names no dialect or verbosity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseHeaderStyleError {
    what: &'static str,
    text: String,
    known: &'static str,
}

impl fmt::Display for ParseHeaderStyleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} {:?}, must be one of {}", self.what, self.text, self.known)
    }
}

impl std::error::Error for ParseHeaderStyleError {}

impl FromStr for Dialect {
    type Err = ParseHeaderStyleError;

    fn from_str(text: &str) -> Result<Dialect, ParseHeaderStyleError> {
        let known = "draft-11, draft-07, draft-06, x-epoch, x-delta, off";
        let named = DIALECTS.iter().find(|(name, _)| *name == text);
        named.map(|(_, dialect)| *dialect).ok_or_else(|| ParseHeaderStyleError {
            what: "dialect",
            text: text.to_owned(),
            known,
        })
    }
}

impl FromStr for Verbosity {
    type Err = ParseHeaderStyleError;

    fn from_str(text: &str) -> Result<Verbosity, ParseHeaderStyleError> {
        let known = "full, minimal, none";
        let named = VERBOSITIES.iter().find(|(name, _)| *name == text);
        named.map(|(_, verbosity)| *verbosity).ok_or_else(|| ParseHeaderStyleError {
            what: "verbosity",
            text: text.to_owned(),
            known,
        })
    }
}
