//! Keys: which there are, how they stand, and making them new.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::KeyStatus;

use super::call::{Answer, Call, Reply, at, cursor, object, rule, wrong};
use super::change::Change;
use super::explained::{explained, ignored_attributes, ruled};
use super::target::{Target, named, request};
use crate::backend::Backend;
use crate::bounds::MAX_SHOWN_KEY;
use crate::http::{Attributes, Problem, millis, parse};
use crate::operate::Search;

pub(super) const STATUS_EXAMPLE: &str = r#"{"rule": "per-user", "key": {"user": "42"}}"#;
pub(super) const RESET_EXAMPLE: &str = STATUS_EXAMPLE;

pub(super) async fn list(call: Call) -> Answer {
    let query =
        call.query(&["rule", "prefix", "contains", "attributes", "limited", "limit", "cursor"])?;
    let policy = call.app.backend.policy();
    if let Some(name) = query.get("rule") {
        rule(&policy, name)?;
    }
    let text = |name| query.get(name).unwrap_or_default().to_owned();
    let search = Search {
        rule: query.get("rule").map(str::to_owned),
        prefix: text("prefix"),
        contains: text("contains"),
        attributes: query.attributes(call.bounds())?,
        limited: query.is("limited")?,
        most: query.most(100)?,
        from: query.cursor()?,
    };
    let searched = search.attributes.clone().unwrap_or_default();
    let names: Vec<&str> = searched.names().collect();
    let page = call.app.backend.keys(search).await?;
    let keys = page.keys.iter().map(|listed| {
        let mut entry = figures(&listed.status);
        entry["rule"] = listed.rule.as_str().into();
        entry["key"] = object(named(&policy, &listed.rule, &listed.values));
        let fits = listed.values.iter().all(|value| value.len() <= MAX_SHOWN_KEY);
        entry["whole"] = (listed.whole && fits).into();
        let rule = policy.rules.iter().find(|rule| rule.name == listed.rule);
        entry["shadow"] = rule.is_some_and(|rule| rule.shadow).into();
        entry["blocked_ms"] = listed.blocked.map(millis).into();
        let ignored = rule.map(|rule| ignored_attributes(&policy, rule, &names));
        entry["ignored_attributes"] = ignored.unwrap_or_default().into();
        entry
    });
    let keys: Vec<Value> = keys.collect();
    Ok(Reply::Told(json!({"keys": keys, "next": page.next.as_ref().map(cursor)})))
}

fn figures(status: &KeyStatus) -> Value {
    json!({
        "limit": status.limit(),
        "remaining": status.remaining(),
        "retry_after_ms": millis(status.retry_after()),
        "reset_after_ms": millis(status.reset_after()),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<'a> {
    #[serde(borrow)]
    rule: Option<Cow<'a, str>>,
    #[serde(borrow)]
    key: Option<Attributes<'a>>,
    #[serde(borrow)]
    attributes: Option<Attributes<'a>>,
}

pub(super) async fn status(mut call: Call) -> Answer {
    let body = call.short_bytes().await?;
    let asked: Asked<'_> = parse(&body, STATUS_EXAMPLE)?;
    let backend = &call.app.backend;
    let by_key = (asked.rule.as_deref(), asked.key.as_ref());
    let target = Target::read(&call, by_key, asked.attributes.as_ref())
        .map_err(|problem| problem.example(STATUS_EXAMPLE))?;
    let mut told = target.shown();
    match &target {
        Target::Key(key, _) => {
            let stands = backend.key_status(key).await?;
            let Some(stands) = stands else { return Err(changed_meanwhile()) };
            told["blocked_ms"] = stands.blocked.map(millis).into();
            let limits = stands.limits.iter().map(|(limit, status)| {
                let mut of_limit = figures(status);
                of_limit["numbers"] = limit.to_string().into();
                of_limit
            });
            told["limits"] = limits.collect();
        }
        Target::Request(attributes) => {
            let asked = request(attributes);
            let (ruling, explanation) = ruled(backend, &asked).await?;
            let names: Vec<&str> = attributes.iter().map(|(name, _)| name).collect();
            explained(&mut told, &ruling, &explanation, &backend.policy(), &names);
        }
    }
    Ok(Reply::Told(told))
}

/// The rule was there a moment ago.
pub(super) fn changed_meanwhile() -> Problem {
    Problem::new(http::StatusCode::CONFLICT, "the policy was changed meanwhile, ask again")
}

/// Exactly one kind of target.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset<'a> {
    #[serde(borrow)]
    rule: Option<Cow<'a, str>>,
    #[serde(borrow)]
    key: Option<Attributes<'a>>,
    #[serde(borrow)]
    prefix: Option<Cow<'a, str>>,
    every_key: Option<bool>,
    #[serde(borrow)]
    attributes: Option<Attributes<'a>>,
    everything: Option<bool>,
}

pub(super) async fn reset(mut call: Call) -> Answer {
    let body = call.short_bytes().await?;
    let asked: Reset<'_> = parse(&body, RESET_EXAMPLE)?;
    let backend = &call.app.backend;
    let policy = backend.policy();
    let (every_key, everything) = (asked.every_key == Some(true), asked.everything == Some(true));
    let begun = &call.begun;
    let begins = |target: &Value| begun.change("reset", target.clone());
    let changed = |target, result| Ok(Reply::Changed(Change::new("reset", target).result(result)));
    match (asked.rule.as_deref(), &asked.key, &asked.prefix, &asked.attributes) {
        (None, None, None, None) if everything && !every_key => {
            let target = json!({"everything": true});
            begins(&target);
            backend.reset_everything().await?;
            changed(target, json!({}))
        }
        (Some(name), None, None, None) if every_key && !everything => {
            rule(&policy, name)?;
            let target = json!({"rule": name, "every_key": true});
            begins(&target);
            backend.reset_rule(name).await?;
            changed(target, json!({}))
        }
        (Some(name), None, Some(prefix), None) if !every_key && !everything => {
            rule(&policy, name)?;
            if prefix.is_empty() {
                let detail = "\"prefix\" is empty, and every key begins so: to reset all keys of the \
                              rule say \"every_key\": true instead";
                return Err(wrong(detail).example(RESET_EXAMPLE));
            }
            let target = json!({"rule": name, "prefix": prefix});
            begins(&target);
            let keys = backend.reset_prefix(name, prefix).await?;
            changed(target, json!({"keys": keys}))
        }
        (name @ Some(_), key @ Some(_), None, attributes @ None)
        | (name @ None, key @ None, None, attributes @ Some(_))
            if !every_key && !everything =>
        {
            let target = Target::read(&call, (name, key.as_ref()), attributes.as_ref())
                .map_err(|problem| problem.example(RESET_EXAMPLE))?;
            let before = usage(backend, &target).await;
            begins(&target.shown());
            let keys = match &target {
                Target::Key(key, _) => usize::from(backend.reset_key(key).await?),
                Target::Request(attributes) => backend.reset_request(&request(attributes)).await?,
            };
            let after = usage(backend, &target).await;
            let change = Change::new("reset", target.shown()).values(before, after);
            Ok(Reply::Changed(change.result(json!({"keys": keys}))))
        }
        _ => Err(unclear()),
    }
}

/// The usage of a key and its block, for the audit log; null for a request, which may have many keys.
async fn usage(backend: &Backend, target: &Target<'_>) -> Value {
    let Target::Key(key, _) = target else { return Value::Null };
    // Without an answer, the change itself tells why.
    let Ok(Some(stands)) = backend.key_status(key).await else { return Value::Null };
    let remaining: Vec<Value> =
        stands.limits.iter().map(|(_, status)| status.remaining().into()).collect();
    let until = stands.blocked.map(|left| at(backend.clock().now().saturating_add(left)));
    json!({"remaining": remaining, "blocked_until": until})
}

fn unclear() -> Problem {
    let detail = "it must have one of these: \"rule\" and \"key\"; \"rule\" and \"prefix\"; \"rule\" \
                  and \"every_key\": true; \"attributes\"; \"everything\": true";
    wrong(detail).example(RESET_EXAMPLE)
}
