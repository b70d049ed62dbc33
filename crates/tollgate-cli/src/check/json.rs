//! The answer for machines.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::meaning::{AsNew, Meaning};
use super::play::{Played, Request};
use crate::moment;

#[derive(Serialize)]
struct Answer<'a> {
    limits: Vec<LimitAnswer<'a>>,
    /// Absent unless requests were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    play: Option<PlayAnswer>,
}

#[derive(Serialize)]
struct LimitAnswer<'a> {
    given: &'a str,
    canonical: String,
    algorithm: &'static str,
    count: u64,
    period_nanos: u128,
    at_once: u64,
    /// Null where it depends on when the window ends.
    as_new_after_nanos: Option<u128>,
    /// The longest it may take; null for a calendar window.
    as_new_within_nanos: Option<u128>,
    means: Words<'a>,
}

#[derive(Serialize)]
struct Words<'a> {
    algorithm: &'a str,
    sustained: &'a str,
    at_once: &'a str,
    as_new: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct PlayAnswer {
    start: String,
    every_nanos: u128,
    cost: u64,
    allowed: usize,
    denied: usize,
    requests: Vec<RequestAnswer>,
}

#[derive(Serialize)]
struct RequestAnswer {
    after_nanos: u128,
    allowed: bool,
    /// Which of `limits`, from 0; the figures are its.
    decided_by: usize,
    remaining: u64,
    retry_after_nanos: u128,
    reset_after_nanos: u128,
    delay_nanos: u128,
}

pub(super) fn write(
    out: &mut impl Write,
    meanings: &[Meaning],
    played: Option<&Played>,
) -> io::Result<()> {
    let answer = Answer { limits: meanings.iter().map(limit).collect(), play: played.map(play) };
    serde_json::to_writer_pretty(&mut *out, &answer)?;
    writeln!(out)
}

fn limit(meaning: &Meaning) -> LimitAnswer<'_> {
    let (after, within) = match meaning.as_new {
        AsNew::After(length, _) => (Some(length), Some(length)),
        AsNew::Within(length, _) => (None, Some(length)),
        AsNew::End(_) => (None, None),
    };
    LimitAnswer {
        given: &meaning.given,
        canonical: meaning.limit.to_string(),
        algorithm: meaning.algorithm,
        count: meaning.limit.count(),
        period_nanos: meaning.limit.period().as_nanos(),
        at_once: meaning.limit.capacity(),
        as_new_after_nanos: after.as_ref().map(Duration::as_nanos),
        as_new_within_nanos: within.as_ref().map(Duration::as_nanos),
        means: Words {
            algorithm: meaning.how,
            sustained: &meaning.sustained,
            at_once: &meaning.at_once,
            as_new: meaning.as_new.say(),
            note: meaning.note.as_deref(),
        },
    }
}

fn play(played: &Played) -> PlayAnswer {
    PlayAnswer {
        start: moment::write(played.start),
        every_nanos: played.play.every.as_nanos(),
        cost: played.play.cost,
        allowed: played.allowed(),
        denied: played.denied(),
        requests: played.requests.iter().map(|request| answer(played, request)).collect(),
    }
}

fn answer(played: &Played, request: &Request) -> RequestAnswer {
    RequestAnswer {
        after_nanos: request.at.saturating_since(played.start).as_nanos(),
        allowed: request.allowed,
        decided_by: request.decided_by,
        remaining: request.remaining,
        retry_after_nanos: request.retry_after.as_nanos(),
        reset_after_nanos: request.reset_after.as_nanos(),
        delay_nanos: request.delay.as_nanos(),
    }
}
