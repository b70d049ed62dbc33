//! What a replay has found. Plain data, which serializes to what `--json` prints.

use serde::Serialize;

/// What a replay has found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The logs, in the order in which they were given.
    pub logs: Vec<String>,
    /// How they are written, each way once.
    pub formats: Vec<String>,
    /// How many lines they have.
    pub lines: u64,
    /// How many bytes, as they are kept.
    pub bytes: u64,
    /// The time of the first request, as RFC 3339.
    pub from: Option<String>,
    /// The time of the last request.
    pub to: Option<String>,
    /// How many lines were requests.
    pub requests: u64,
    /// How many of them pass.
    pub allowed: u64,
    /// How many of them no rule or list is about: they pass.
    pub unlimited: u64,
    /// How many are refused: by a limit, a block or a list.
    pub refused: u64,
    /// How many can never pass, since their cost makes no sense or is more than a limit holds.
    pub wrong: u64,
    /// What became of the order of the lines.
    pub order: OrderReport,
    /// Lines that are no requests.
    pub malformed: Malformed,
    /// Attributes the policy asks about that no line has.
    pub absent: Vec<String>,
    /// How many live states were forgotten because there were too many keys: if any, more would
    /// have been refused.
    pub evictions: u64,
    /// Every rule, in the order of the policy.
    pub rules: Vec<RuleReport>,
    /// The lists, those who pass first.
    pub lists: Vec<ListReport>,
    /// The tiers of the requests, those with the most first; empty where the policy has none.
    pub tiers: Vec<TierReport>,
    /// The keys that are refused most, those refused most first.
    pub clients: Clients,
    /// What happens when.
    pub over_time: OverTime,
    /// What other numbers would have refused.
    pub suggestions: Vec<Suggestion>,
    /// The limits that requests met and nothing is suggested for.
    pub not_suggested: Vec<NotSuggested>,
    /// What is different from another policy.
    pub against: Option<AgainstReport>,
}

/// What became of the order of the lines.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct OrderReport {
    /// How many lines were so late that they were decided at the time the replay had come to.
    pub late: u64,
    /// How late the latest was, in microseconds.
    pub latest_micros: u64,
    /// How many lines did not wait for others as long as asked, since too much was waiting.
    pub hurried: u64,
}

/// Lines that are no requests.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Malformed {
    /// How many.
    pub lines: u64,
    /// The first few.
    pub first: Vec<MalformedLine>,
}

/// A line that is no request.
#[derive(Clone, Debug, Serialize)]
pub struct MalformedLine {
    /// The log.
    pub log: String,
    /// Its number there, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
    /// The line, cut where it is long.
    pub text: String,
}

/// What a rule does.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RuleReport {
    /// Its name.
    pub rule: String,
    /// Whether it only reports.
    pub shadow: bool,
    /// How many requests it applies to.
    pub requests: u64,
    /// How many it refuses, as the rule that decides.
    pub refused: u64,
    /// How many of those because the key was blocked after an earlier refusal.
    pub blocked: u64,
    /// How many it says no to by itself: also where another rule decides, and where it only
    /// reports.
    pub says_no: u64,
}

/// What a list does.
#[derive(Clone, Debug, Serialize)]
pub struct ListReport {
    /// Its name.
    pub list: String,
    /// Whether who is on it passes.
    pub passes: bool,
    /// How many requests were decided by it.
    pub requests: u64,
}

/// Requests of a tier.
#[derive(Clone, Debug, Serialize)]
pub struct TierReport {
    /// The tier; null for requests of none.
    pub tier: Option<String>,
    /// How many requests.
    pub requests: u64,
    /// How many are refused.
    pub refused: u64,
}

/// The keys that are refused most.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Clients {
    /// How many keys are refused at all; where it is not `exact`, at least so many.
    pub refused: u64,
    /// Whether there were few enough of them that none had to be forgotten.
    pub exact: bool,
    /// Those refused most.
    pub top: Vec<ClientReport>,
}

/// A key that is refused.
#[derive(Clone, Debug, Serialize)]
pub struct ClientReport {
    /// The rule or list.
    pub rule: String,
    /// The attributes of the key and their values, cut where they are long.
    pub key: Vec<(String, String)>,
    /// How many requests of it are refused.
    pub refused: u64,
    /// How many of those may be another key's.
    pub over: u64,
    /// The first and the last, as RFC 3339.
    pub first: String,
    /// The last.
    pub last: String,
    /// The first line that is refused.
    pub example: Example,
}

/// A line.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// The log.
    pub log: String,
    /// Its number there, from 1.
    pub line: u64,
    /// The line, cut where it is long.
    pub text: String,
}

/// What happens when.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverTime {
    /// How long a step is.
    pub step_seconds: u64,
    /// The first rules and lists to refuse; all others are one series more, which has no name.
    pub refused_by: Vec<String>,
    /// Each step.
    pub steps: Vec<Step>,
}

/// A step of time.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// When it begins, in seconds since 1970.
    pub at: u64,
    /// How many requests pass.
    pub allowed: u64,
    /// How many are refused by each of `refused_by`, and by all others.
    pub refused: Vec<u64>,
}

/// What other numbers of a limit would have refused, were it the only one.
#[derive(Clone, Debug, Serialize)]
pub struct Suggestion {
    /// The rule.
    pub rule: String,
    /// The limit in force.
    pub limit: String,
    /// How many requests it applies to, of the keys that were looked at.
    pub requests: u64,
    /// How many of those it refuses.
    pub refused: u64,
    /// Of how many keys one was looked at; 1 where all were.
    pub one_key_in: u64,
    /// The smallest limit for each share.
    pub smallest: Vec<Smallest>,
    /// Every limit that was tried.
    pub tried: Vec<Tried>,
}

/// A limit that nothing is suggested for.
#[derive(Clone, Debug, Serialize)]
pub struct NotSuggested {
    /// The rule.
    pub rule: String,
    /// The limit in force.
    pub limit: String,
    /// Why not.
    pub why: String,
}

/// The smallest limit that refuses at most a share.
#[derive(Clone, Debug, Serialize)]
pub struct Smallest {
    /// Of a thousand requests, how many may be refused.
    pub per_thousand: u64,
    /// The limit; null where even the largest that was tried refuses more.
    pub limit: Option<String>,
    /// How many it refuses.
    pub refused: u64,
}

/// A limit that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The limit.
    pub limit: String,
    /// Its count.
    pub count: u64,
    /// How many it refuses.
    pub refused: u64,
}

/// What is different from another policy.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct AgainstReport {
    /// How many requests the other policy refuses. Here and below, what can never pass counts as
    /// refused.
    pub refused_before: u64,
    /// How many requests are refused that the other lets pass.
    pub newly_refused: u64,
    /// How many requests pass that the other refuses.
    pub newly_allowed: u64,
    /// By the rule that refuses in the one of the two policies that does.
    pub rules: Vec<Difference>,
    /// The keys that are newly refused most.
    pub refused_clients: Vec<ClientReport>,
    /// The keys that newly pass most, by the rule of the other policy.
    pub allowed_clients: Vec<ClientReport>,
}

/// What is different by a rule.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Difference {
    /// The rule or list.
    pub rule: String,
    /// How many it refuses that the other policy lets pass.
    pub newly_refused: u64,
    /// How many it refused that pass now.
    pub newly_allowed: u64,
}

/// A text as it is kept: a long one is cut, and ends with `…`.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// A time in microseconds, as RFC 3339.
pub(super) fn moment(micros: u64) -> String {
    let moment =
        i64::try_from(micros).ok().and_then(|it| jiff::Timestamp::from_microsecond(it).ok());
    moment.map_or_else(|| micros.to_string(), |moment| moment.to_string())
}
