//! Keys that are kept out for a time.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Answer, Call, Reply, at, cursor, entire, wrong};
use super::change::Change;
use super::keys::changed_meanwhile;
use super::target::{Target, named, request};
use crate::backend::Backend;
use crate::bounds::MAX_SECONDS;
use crate::http::{Attributes, Problem, millis, parse};

pub(super) const BLOCK_EXAMPLE: &str =
    r#"{"rule": "per-user", "key": {"user": "42"}, "for_seconds": 900}"#;
pub(super) const LIFT_EXAMPLE: &str = r#"{"rule": "per-user", "key": {"user": "42"}}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<'a> {
    #[serde(borrow)]
    rule: Option<Cow<'a, str>>,
    #[serde(borrow)]
    key: Option<Attributes<'a>>,
    #[serde(borrow)]
    attributes: Option<Attributes<'a>>,
    for_seconds: Option<u64>,
}

pub(super) async fn list(call: Call) -> Answer {
    let query = call.query(&["limit", "cursor"])?;
    let most = query.most(100)?;
    let after: Option<(String, Vec<String>)> = query.cursor()?;
    let (backend, policy) = (&call.app.backend, call.app.backend.policy());
    let mut all = backend.blocked().await?;
    all.sort_unstable_by(|a, b| (&a.rule, &a.values).cmp(&(&b.rule, &b.values)));
    let is_later = |rule: &String, values: &Vec<String>| {
        after.as_ref().is_none_or(|(of, key)| (rule, values) > (of, key))
    };
    let mut later = all.iter().filter(|of| is_later(&of.rule, &of.values)).peekable();
    let page: Vec<_> = later.by_ref().take(most).collect();
    let next = later.peek().and(page.last()).map(|last| cursor(&(&last.rule, &last.values)));
    let blocks: Vec<Value> = page
        .iter()
        .map(|of| {
            let key = entire(named(&policy, &of.rule, &of.values));
            json!({"rule": of.rule, "key": key, "whole": of.whole, "left_ms": millis(of.left)})
        })
        .collect();
    Ok(Reply::Told(json!({"blocks": blocks, "next": next})))
}

pub(super) async fn block(mut call: Call) -> Answer {
    let body = call.short_bytes().await?;
    let asked: Asked<'_> = parse(&body, BLOCK_EXAMPLE)?;
    let length = length(asked.for_seconds).map_err(|problem| problem.example(BLOCK_EXAMPLE))?;
    let backend = &call.app.backend;
    let by_key = (asked.rule.as_deref(), asked.key.as_ref());
    let target = Target::read(&call, by_key, asked.attributes.as_ref())
        .map_err(|problem| problem.example(BLOCK_EXAMPLE))?;
    let before = blocked_until(backend, &target).await;
    call.begun.change("block", target.shown());
    let keys = match &target {
        Target::Key(key, _) => match backend.block_key(key, length).await? {
            Ok(true) => Ok(1),
            Ok(false) => return Err(changed_meanwhile()),
            Err(error) => Err(error),
        },
        Target::Request(attributes) => backend.block_request(&request(attributes), length).await?,
    };
    let keys = keys.map_err(|error| Problem::new(StatusCode::CONFLICT, error.to_string()))?;
    let until = at(call.now().saturating_add(length));
    let change = Change::new("block", target.shown());
    let change = change.values(before, json!({"blocked_until": until}));
    Ok(Reply::Changed(change.result(json!({"keys": keys, "until": until}))))
}

fn length(seconds: Option<u64>) -> Result<Duration, Problem> {
    match seconds {
        Some(seconds) if (1..=MAX_SECONDS).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => Err(wrong(format!("\"for_seconds\" must be a whole number from 1 to {MAX_SECONDS}"))),
    }
}

pub(super) async fn lift(mut call: Call) -> Answer {
    let body = call.short_bytes().await?;
    let asked: Asked<'_> = parse(&body, LIFT_EXAMPLE)?;
    if asked.for_seconds.is_some() {
        let detail = "\"for_seconds\" is for blocks, a block is lifted at once";
        return Err(wrong(detail).example(LIFT_EXAMPLE));
    }
    let backend = &call.app.backend;
    let by_key = (asked.rule.as_deref(), asked.key.as_ref());
    let target = Target::read(&call, by_key, asked.attributes.as_ref())
        .map_err(|problem| problem.example(LIFT_EXAMPLE))?;
    let before = blocked_until(backend, &target).await;
    call.begun.change("unblock", target.shown());
    let keys = match &target {
        Target::Key(key, _) => usize::from(backend.unblock_key(key).await?),
        Target::Request(attributes) => backend.unblock_request(&request(attributes)).await?,
    };
    let change = Change::new("unblock", target.shown());
    let change = change.values(before, json!({"blocked_until": null}));
    Ok(Reply::Changed(change.result(json!({"keys": keys}))))
}

/// The end of the block of a key, for the audit log; null for a request, which may have many keys.
async fn blocked_until(backend: &Backend, target: &Target<'_>) -> Value {
    let Target::Key(key, _) = target else { return Value::Null };
    // Without an answer, the change itself tells why.
    let Ok(left) = backend.blocked_for(key).await else { return Value::Null };
    let until = left.map(|left| at(backend.clock().now().saturating_add(left)));
    json!({"blocked_until": until})
}
