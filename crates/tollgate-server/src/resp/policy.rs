//! `TG.CHECK`, `TG.PEEK`, `TG.STATUS` and `TG.RESET`: the policy of the gate.

use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::{Gate, Policy, Reason, Request, Ruling};

use super::Wrong;
use super::throttle::{at_least, too_long};
use super::write::{Writer, millis, seconds, shown};
use crate::app::App;
use crate::bounds::{Bound, Bounds};
use crate::metrics::Transport;

/// What is asked of the policy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Check,
    Peek,
    Status,
    Reset,
}

/// Which of them a command is.
pub(super) fn verb(name: &[u8]) -> Option<Verb> {
    let (prefix, verb) = name.split_at_checked(3)?;
    if !prefix.eq_ignore_ascii_case(b"TG.") {
        return None;
    }
    let known = [
        ("CHECK", Verb::Check),
        ("PEEK", Verb::Peek),
        ("STATUS", Verb::Status),
        ("RESET", Verb::Reset),
    ];
    known.iter().find(|(word, _)| verb.eq_ignore_ascii_case(word.as_bytes())).map(|of| of.1)
}

/// What a command asks.
pub(super) enum Asked<'a> {
    Check(Request<'a>),
    Peek(Request<'a>),
    Status(Request<'a>),
    /// To make a key of a rule new.
    Reset(&'a str, SmallVec<[&'a str; 8]>),
}

/// Reads the words after the command's name, or says what is wrong with them.
pub(super) fn read<'a>(verb: Verb, app: &App, arguments: &[&'a [u8]]) -> Result<Asked<'a>, Wrong> {
    let bounds = &app.settings.bounds;
    match verb {
        Verb::Check => Ok(Asked::Check(request("TG.CHECK [COST n]", arguments, bounds)?)),
        Verb::Peek => Ok(Asked::Peek(request("TG.PEEK [COST n]", arguments, bounds)?)),
        Verb::Status if cost(arguments)?.0.is_some() => {
            let text = "ERR TG.STATUS takes no cost, must be TG.STATUS attr value ..., \
                        or TG.PEEK COST n attr value ...";
            Err(text.to_owned().into())
        }
        Verb::Status => Ok(Asked::Status(request("TG.STATUS", arguments, bounds)?)),
        Verb::Reset => reset(&app.backend.policy(), arguments, bounds),
    }
}

/// Answers the command from a gate in memory, or says what is wrong with it.
pub(super) fn answer(
    verb: Verb,
    (app, gate, from): (&App, &Gate, Option<IpAddr>),
    arguments: &[&[u8]],
    writer: &mut Writer<'_>,
) -> Result<(), Wrong> {
    match read(verb, app, &arguments[1..])? {
        Asked::Check(request) => {
            let ruling = gate.check(&request);
            app.decided(Transport::Resp, &request, &ruling);
            ruled(&ruling, writer)?;
        }
        Asked::Peek(request) => ruled(&gate.peek(&request), writer)?,
        Asked::Status(request) => status(&gate.status(&request), writer)?,
        Asked::Reset(rule, key) => {
            // Who needs no token lifts no block that an operator has set.
            let known = gate.reset_keeping_manual_block(rule, &key);
            if known {
                app.reset_by_client(from, (rule, &key), None);
            }
            writer.integer(i64::from(known));
        }
    }
    Ok(())
}

/// The cost that stands before the attributes, and the attributes.
fn cost<'s, 'a>(arguments: &'s [&'a [u8]]) -> Result<(Option<u64>, &'s [&'a [u8]]), String> {
    match arguments {
        [first, cost, rest @ ..] if first.eq_ignore_ascii_case(b"COST") => {
            Ok((Some(at_least(0, "COST", cost)?), rest))
        }
        _ => Ok((None, arguments)),
    }
}

fn request<'a>(usage: &str, arguments: &[&'a [u8]], bounds: &Bounds) -> Result<Request<'a>, Wrong> {
    let (cost, attributes) = cost(arguments)?;
    if !attributes.len().is_multiple_of(2) {
        return Err(format!("ERR wrong number of arguments, must be {usage} attr value ...").into());
    }
    if attributes.len() / 2 > bounds.attributes {
        let (given, most) = (attributes.len() / 2, bounds.attributes);
        let text = format!("ERR {given} attributes, must be at most {most}");
        return Err(Wrong { text, over: Some(Bound::Attributes) });
    }
    let mut request = Request::new();
    for pair in attributes.chunks_exact(2) {
        let name = text("an attribute", pair[0], bounds)?;
        if request.get(name).is_some() {
            return Err(format!("ERR attribute {} is there twice", shown(pair[0])).into());
        }
        request.set(name, text("a value", pair[1], bounds)?);
    }
    Ok(match cost {
        Some(units) => request.cost(units),
        None => request,
    })
}

fn text<'a>(what: &str, word: &'a [u8], bounds: &Bounds) -> Result<&'a str, Wrong> {
    if word.len() > bounds.key_length {
        return Err(too_long(what, word, bounds));
    }
    std::str::from_utf8(word)
        .map_err(|_| format!("ERR {what} is {}, must be text in UTF-8", shown(word)).into())
}

pub(super) fn ruled(ruling: &Ruling, writer: &mut Writer<'_>) -> Result<(), String> {
    refuse_error(ruling)?;
    writer.map(10);
    named(writer, "allowed").integer(i64::from(ruling.is_allowed()));
    limited(named(writer, "limit"), ruling.limit());
    limited(named(writer, "remaining"), ruling.remaining());
    named(writer, "retry_after").integer(ruling.retry_after().map_or(-1, seconds));
    named(writer, "reset_after").integer(seconds(ruling.reset_after()));
    named(writer, "delay_ms").integer(millis(ruling.delay()));
    name(named(writer, "rule"), ruling.public_rule());
    named(writer, "reason").bulk(reason(ruling.reason()).as_bytes());
    // Fields are only added here, at the end: clients may read the answer by position.
    named(writer, "degraded").integer(i64::from(ruling.is_degraded()));
    named(writer, "leased").integer(i64::from(ruling.is_leased()));
    Ok(())
}

pub(super) fn status(ruling: &Ruling, writer: &mut Writer<'_>) -> Result<(), String> {
    refuse_error(ruling)?;
    writer.array(ruling.rules().count());
    for rule in ruling.rules() {
        writer.map(7);
        name(named(writer, "rule"), rule.public_name());
        named(writer, "limit").units(rule.limit());
        named(writer, "remaining").units(rule.remaining());
        named(writer, "retry_after").integer(rule.retry_after().map_or(-1, seconds));
        named(writer, "reset_after").integer(seconds(rule.reset_after()));
        named(writer, "shadow").integer(i64::from(rule.is_shadow()));
        named(writer, "blocked").integer(rule.blocked_for().map_or(0, seconds));
    }
    Ok(())
}

fn reset<'a>(policy: &Policy, arguments: &[&'a [u8]], bounds: &Bounds) -> Result<Asked<'a>, Wrong> {
    let [rule, values @ ..] = arguments else {
        let text = "ERR wrong number of arguments, must be TG.RESET rule value ...";
        return Err(text.to_owned().into());
    };
    let name = text("a rule", rule, bounds)?;
    let Some(rule) = policy.rules.iter().find(|rule| rule.name == name) else {
        return Err(format!("ERR there is no rule {}, see the policy in force", shown(rule)).into());
    };
    if rule.key.len() != values.len() {
        let key: Vec<_> = rule.key.iter().map(|part| part.attribute.as_str()).collect();
        let key = if key.is_empty() { "nothing".to_owned() } else { key.join(" ") };
        return Err(format!(
            "ERR wrong number of values, rule {} counts by {key}: must be TG.RESET rule and {} values",
            shown(name.as_bytes()),
            rule.key.len()
        )
        .into());
    }
    let values = values.iter().map(|value| text("a value", value, bounds));
    Ok(Asked::Reset(name, values.collect::<Result<_, _>>()?))
}

fn refuse_error(ruling: &Ruling) -> Result<(), String> {
    ruling.error().map_or(Ok(()), |error| Err(format!("ERR {error}")))
}

fn named<'w, 'o>(writer: &'w mut Writer<'o>, name: &str) -> &'w mut Writer<'o> {
    writer.bulk(name.as_bytes());
    writer
}

/// Writes the public name of a rule, or nothing if it has none.
fn name(writer: &mut Writer<'_>, name: Option<&str>) {
    match name {
        Some(name) => writer.bulk(name.as_bytes()),
        None => writer.null(),
    }
}

/// A number of units, or nothing where nothing limits.
fn limited(writer: &mut Writer<'_>, units: u64) {
    match units {
        u64::MAX => writer.null(),
        units => writer.units(units),
    }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NoRule => "no_rule",
        Reason::Limits => "limits",
        Reason::AllowList => "allow_list",
        Reason::DenyList => "deny_list",
        Reason::Blocked => "block",
        Reason::StoreUnavailable => "store_away",
        _ => "error",
    }
}
