//! Reading one step of a test.

use std::collections::HashSet;
use std::time::Duration;

use super::change;
use super::data::{Action, Ask, End, Said, Step, Target};
use super::expect::Expect;
use super::fields::{Fields, unknown};
use super::policies::Policies;
use super::values;

/// The keys of a step.
pub(super) const KEYS: [&str; 18] = [
    "at", "do", "request", "cost", "times", "id", "rule", "key", "for", "client", "tier", "limits",
    "limit", "until", "remove", "override", "policy", "expect",
];

/// What a step may do.
pub(super) const WORDS: [&str; 14] = [
    "check",
    "peek",
    "reserve",
    "commit",
    "cancel",
    "settle",
    "refund",
    "reset",
    "reset_all",
    "take_up_to",
    "block",
    "unblock",
    "override",
    "policy",
];

/// Keys that mean something to these steps alone: elsewhere they would be passed over in silence.
const ONLY: [(&str, &[&str]); 12] = [
    ("id", &["reserve", "commit", "cancel", "settle"]),
    ("rule", &["reset", "block", "unblock", "override"]),
    ("key", &["reset", "block", "unblock"]),
    ("for", &["block", "reserve"]),
    ("client", &["override"]),
    ("tier", &["override"]),
    ("limits", &["override"]),
    ("limit", &["override"]),
    ("until", &["override"]),
    ("remove", &["override"]),
    ("override", &["override"]),
    ("policy", &["policy"]),
];

/// How often a step is done at most: seconds of work.
const MOST_TIMES: u64 = 10_000_000;

/// How many reservations a step makes at most, since each is kept.
const MOST_RESERVATIONS: u64 = 100_000;

/// What the steps before have said.
#[derive(Default)]
pub(super) struct Before {
    pub(super) at: Duration,
    /// The reservations that were named.
    pub(super) ids: HashSet<String>,
}

/// Reads a step, which stands at `path` of the document.
pub(super) fn read(
    fields: &Fields<'_>,
    path: &[&str],
    policies: &Policies<'_>,
    before: &mut Before,
) -> Option<Step> {
    before.at = fields.get("at", values::length).unwrap_or(before.at);
    let expect = Expect::read(fields);
    let word = match fields.value("do") {
        None => "check".to_owned(),
        Some(_) => fields.get("do", known_word)?,
    };
    for (key, words) in ONLY {
        if fields.has(key) && !words.contains(&word.as_str()) {
            let message = format!("{key} means nothing to {word}, only to {}", words.join(", "));
            fields.wrong_in(key, &message);
        }
    }
    if word == "policy" && fields.has("policy") {
        let policy = match policies.read(fields, path)? {
            Ok(policy) => Ok(policy),
            Err(wrong) if expect.names("error") => Err(wrong.join("\n")),
            Err(wrong) => {
                wrong.into_iter().for_each(|message| fields.reader.note(message));
                return None;
            }
        };
        return step(fields, Action::Policy(policy), before.at, expect);
    }
    let action = action(&word, fields, policies, before)?;
    check_expectations(&word, fields, &expect);
    step(fields, action, before.at, expect)
}

fn step(fields: &Fields<'_>, action: Action, at: Duration, expect: Expect) -> Option<Step> {
    let times = fields.get("times", values::count).unwrap_or(1);
    let most = match action {
        Action::Reserve { .. } => MOST_RESERVATIONS,
        _ => MOST_TIMES,
    };
    if !(1..=most).contains(&times) {
        fields.wrong_in("times", &format!("times is {times}, must be from 1 to {most}"));
    }
    Some(Step { line: fields.line, at, action, times, expect })
}

fn known_word(value: &toml::de::DeValue<'_>) -> Result<String, String> {
    let word = values::text(value)?;
    if WORDS.contains(&word.as_str()) {
        return Ok(word);
    }
    Err(format!("is wrong: {}", unknown("step", &word, &WORDS)))
}

fn check_expectations(word: &str, fields: &Fields<'_>, expect: &Expect) {
    let only: [(&str, &[&str]); 3] = [
        ("taken", &["take_up_to"]),
        ("known", &["reset", "block", "unblock", "override"]),
        ("allowed_count", &["check", "peek", "reserve", "take_up_to"]),
    ];
    for (figure, words) in only {
        if expect.names(figure) && !words.contains(&word) {
            let message = format!("{word} has no `{figure}`, only {} has", words.join(", "));
            fields.wrong_in("expect", &format!("expect: {message}"));
        }
    }
}

fn action(
    word: &str,
    fields: &Fields<'_>,
    policies: &Policies<'_>,
    before: &mut Before,
) -> Option<Action> {
    let ask = || ask(fields);
    Some(match word {
        "peek" => Action::Peek(ask()),
        "take_up_to" => Action::TakeUpTo(ask()),
        "refund" => Action::Refund(ask()),
        "reserve" => reserve(fields, before),
        "commit" | "cancel" | "settle" => end(word, fields, before)?,
        "reset" => Action::Reset(target(fields)?),
        "reset_all" => Action::ResetAll,
        "block" => {
            let target = target(fields)?;
            if matches!(target, Target::Rule(_)) {
                fields.wrong("block needs a key or a request, a whole rule cannot be blocked");
            }
            Action::Block { target, length: fields.get("for", values::length) }
        }
        "unblock" => {
            let target = target(fields)?;
            if matches!(target, Target::Rule(_)) {
                fields.wrong("unblock needs a key or a request; reset makes a whole rule new");
            }
            Action::Unblock(target)
        }
        "override" => Action::Override(change::read(fields, policies)?),
        "policy" => {
            fields.wrong("no policy, write the path of a file or a table with its content");
            return None;
        }
        _ => Action::Check(ask()),
    })
}

fn reserve(fields: &Fields<'_>, before: &mut Before) -> Action {
    let id = fields.get("id", values::text).unwrap_or_default();
    before.ids.insert(id.clone());
    Action::Reserve { ask: ask(fields), id, timeout: fields.get("for", values::length) }
}

fn end(word: &str, fields: &Fields<'_>, before: &Before) -> Option<Action> {
    let id = match fields.value("id") {
        Some(_) => fields.get("id", values::text)?,
        None if before.ids.contains("") => String::new(),
        None => {
            fields.wrong(&format!("no id, {word} needs that of a reservation"));
            return None;
        }
    };
    if !before.ids.contains(&id) {
        let known = before.ids.iter().filter(|id| !id.is_empty());
        let message = unknown("reservation", &id, known);
        fields.wrong_in("id", &format!("{message}; reserve with this id in an earlier step"));
    }
    if word != "settle" && fields.has("cost") {
        fields.wrong_in("cost", &format!("{word} takes no cost, settle does"));
    }
    let how = match word {
        "commit" => End::Commit,
        "cancel" => End::Cancel,
        _ => End::Settle(match said(fields) {
            Said::Nothing => Some(1),
            Said::Units(units) => Some(units),
            Said::Negative => None,
        }),
    };
    Some(Action::End { id, how })
}

fn target(fields: &Fields<'_>) -> Option<Target> {
    let rule = fields.get("rule", values::text);
    let key = fields.get("key", values::texts);
    match (rule, key, fields.has("request")) {
        (Some(rule), Some(key), false) => Some(Target::Key(rule, key)),
        (Some(rule), None, true) => Some(Target::RequestIn(rule, ask(fields))),
        (Some(rule), None, false) => Some(Target::Rule(rule)),
        (None, None, true) => Some(Target::Request(ask(fields))),
        (_, Some(_), true) => {
            fields.wrong_in("key", "both key and request say whose it is, leave one out");
            None
        }
        (None, Some(_), false) => {
            fields.wrong_in("key", "key needs the rule whose key it is");
            None
        }
        (None, None, false) => {
            fields.wrong("whose is not said, give a request, or a rule and a key");
            None
        }
    }
}

fn ask(fields: &Fields<'_>) -> Ask {
    let attributes = fields.get("request", values::attributes).unwrap_or_default();
    Ask { attributes, cost: said(fields) }
}

fn said(fields: &Fields<'_>) -> Said {
    match fields.get("cost", values::integer) {
        None => Said::Nothing,
        Some(cost) if cost < 0 => Said::Negative,
        Some(cost) => Said::Units(u64::try_from(cost).unwrap_or(u64::MAX)),
    }
}
