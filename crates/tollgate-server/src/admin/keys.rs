//! Keys: which there are, how they stand, and making them new.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::{
    Explanation, NumbersSource, RuleFigures, RuleReport, Ruling, Status, TierSource, Verdict,
};

use super::call::{Answer, Call, Reply, at, cursor, entire, object, rule, wrong};
use super::change::Change;
use super::overrides::source_word;
use super::target::{Target, named, request};
use crate::backend::Backend;
use crate::bounds::{MAX_NOT_APPLIED, MAX_SHOWN_KEY};
use crate::http::{Attributes, Problem, millis, parse, reason};
use crate::operate::Search;

pub(super) const STATUS_EXAMPLE: &str = r#"{"rule": "per-user", "key": {"user": "42"}}"#;
pub(super) const RESET_EXAMPLE: &str = STATUS_EXAMPLE;

pub(super) async fn list(call: Call) -> Answer {
    let query = call.query(&["rule", "prefix", "contains", "limited", "limit", "cursor"])?;
    let policy = call.app.backend.policy();
    if let Some(name) = query.get("rule") {
        rule(&policy, name)?;
    }
    let text = |name| query.get(name).unwrap_or_default().to_owned();
    let search = Search {
        rule: query.get("rule").map(str::to_owned),
        prefix: text("prefix"),
        contains: text("contains"),
        limited: query.is("limited")?,
        most: query.most(100)?,
        from: query.cursor()?,
    };
    let page = call.app.backend.keys(search).await?;
    let keys = page.keys.iter().map(|listed| {
        let mut entry = figures(&listed.status);
        entry["rule"] = listed.rule.as_str().into();
        entry["key"] = object(named(&policy, &listed.rule, &listed.values));
        let fits = listed.values.iter().all(|value| value.len() <= MAX_SHOWN_KEY);
        entry["whole"] = (listed.whole && fits).into();
        entry
    });
    let keys: Vec<Value> = keys.collect();
    Ok(Reply::Told(json!({"keys": keys, "next": page.next.as_ref().map(cursor)})))
}

fn figures(status: &Status) -> Value {
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
            let ruling = backend.status(&asked).await;
            explained(&mut told, &ruling, &backend.explain(&asked));
        }
    }
    Ok(Reply::Told(told))
}

/// The rule was there a moment ago.
pub(super) fn changed_meanwhile() -> Problem {
    Problem::new(http::StatusCode::CONFLICT, "the policy was changed meanwhile, ask again")
}

/// What a request would be answered now, and why.
fn explained(told: &mut Value, ruling: &Ruling, explanation: &Explanation) {
    told["allowed"] = ruling.is_allowed().into();
    told["reason"] = reason(ruling.reason()).into();
    told["rule"] = ruling.rule().into();
    told["retry_after_ms"] = ruling.retry_after().map(millis).into();
    told["list"] = match &explanation.list {
        Some((name, allows)) => json!({"name": name, "allows": allows}),
        None => Value::Null,
    };
    told["tier"] = explanation.tier.as_deref().into();
    told["tier_from"] = match explanation.tier_source {
        TierSource::Attribute => "attribute",
        TierSource::Override => "override",
        TierSource::Default => "default",
        _ => "none",
    }
    .into();
    told["override_source"] = explanation.override_source.map(source_word).into();
    let all: Vec<RuleFigures<'_>> = ruling.rules().collect();
    let applies = |report: &&RuleReport| report.verdict == Verdict::Applies;
    let applied = explanation.rules.iter().filter(applies).map(|report| {
        let mut told = applied(report, all.iter().find(|of| of.rule() == report.rule));
        let source = explanation.override_source.map(source_word);
        let is_overridden = report.source == NumbersSource::Override;
        told["override_source"] = source.filter(|_| is_overridden).into();
        told
    });
    told["rules"] = applied.collect();
    let others = explanation.rules.iter().filter(|report| !applies(report));
    let others = others.take(MAX_NOT_APPLIED);
    let others = others.map(|report| json!({"rule": report.rule, "because": because(report)}));
    told["not_applied"] = others.collect();
}

fn applied(report: &RuleReport, figures: Option<&RuleFigures<'_>>) -> Value {
    let numbers = report.numbers.limits().iter().map(|limit| Value::from(limit.to_string()));
    json!({
        "rule": report.rule,
        "key": entire(report.key.iter().map(|(name, value)| (name, value))),
        "shadow": report.shadow,
        "leased": report.leased,
        "numbers": numbers.collect::<Vec<_>>(),
        "numbers_from": match report.source {
            NumbersSource::Tier => "tier",
            NumbersSource::Override => "override",
            _ => "rule",
        },
        "allowed": figures.is_none_or(RuleFigures::is_allowed),
        "limit": figures.map(RuleFigures::limit),
        "remaining": figures.map(RuleFigures::remaining),
        "retry_after_ms": figures.and_then(|of| of.retry_after()).map(millis),
        "reset_after_ms": figures.map(|of| millis(of.reset_after())),
        "blocked_ms": figures.and_then(|of| of.blocked()).map(millis),
    })
}

/// Why a rule does not apply.
fn because(report: &RuleReport) -> String {
    match &report.verdict {
        Verdict::NoMatch { attribute, value: None, .. } => {
            format!("it asks for {attribute:?}, which is absent")
        }
        Verdict::NoMatch { attribute, value: Some(value), .. } => {
            let value = crate::http::cut(value);
            format!("it asks for another {attribute:?} than {value:?}")
        }
        Verdict::KeyAbsent { attribute } => {
            format!("it counts by {attribute:?}, which is absent")
        }
        Verdict::BadCost { attribute, .. } => {
            format!("its cost comes from {attribute:?}, which is no number")
        }
        _ => "it applies".to_owned(),
    }
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
    let until = stands.blocked.map(|left| at(backend.clock().now().after(left)));
    json!({"remaining": remaining, "blocked_until": until})
}

fn unclear() -> Problem {
    let detail = "it must have one of these: \"rule\" and \"key\"; \"rule\" and \"prefix\"; \"rule\" \
                  and \"every_key\": true; \"attributes\"; \"everything\": true";
    wrong(detail).example(RESET_EXAMPLE)
}
