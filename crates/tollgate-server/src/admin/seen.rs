//! What the server has seen: who asks the most, who was denied, who changed what.

use serde_json::{Value, json};

use super::call::{Answer, Call, Reply, at, entire, rule, wrong};
use crate::http::{cut, millis};
use crate::top::{By, KeyCounts, Ranked, TopQuery};

/// Who asks, and what of.
pub(super) async fn info(call: Call) -> Answer {
    call.query(&[])?;
    let (app, policy) = (&call.app, call.app.backend.policy());
    let file = app.operators.policy_name();
    Ok(Reply::Told(json!({
        "name": call.who.name,
        "role": call.who.role.word(),
        "version": env!("CARGO_PKG_VERSION"),
        "now": at(call.now()),
        "live_keys": app.backend.live_keys(),
        "rules": policy.rules.len(),
        "policy_file": file,
    })))
}

/// The keys with the most requests or denials lately.
pub(super) async fn top(call: Call) -> Answer {
    let query = call.query(&["by", "rule", "limit"])?;
    let (by, word) = match query.get("by") {
        None | Some("traffic") => (By::Traffic, "traffic"),
        Some("denials") => (By::Denials, "denials"),
        Some("would_deny") => (By::WouldDeny, "would_deny"),
        Some(other) => {
            let other = cut(other);
            let detail = format!("\"by\" is {other:?}, must be traffic, denials or would_deny");
            return Err(wrong(detail));
        }
    };
    let names = &call.app.active_names();
    if let Some(name) = query.get("rule")
        && !names.has_counts(name)
    {
        rule(&call.app.backend.policy(), name)?;
    }
    let asked = TopQuery { by, rule: query.get("rule"), most: query.most(20)?, names };
    let (ranked, since) = call.app.watched.top.list(asked, call.now());
    let keys: Vec<Value> = ranked.iter().map(top_key).collect();
    Ok(Reply::Told(json!({"by": word, "window_ms": millis(since), "keys": keys})))
}

/// A key with its counts: in shadow nothing was denied.
fn top_key(of: &Ranked) -> Value {
    let KeyCounts { seen, denied, over } = of.counts;
    let (denied, would_deny) = if of.is_shadow { (0, denied) } else { (denied, 0) };
    json!({
        "rule": of.rule,
        "shadow": of.is_shadow,
        "key": entire(of.key.iter().map(|(name, value)| (name, value))),
        "whole": of.whole,
        "seen": seen,
        "denied": denied,
        "would_deny": would_deny,
        "over": over,
    })
}

pub(super) async fn denials(call: Call) -> Answer {
    let query = call.query(&["rule", "contains", "attributes", "limit"])?;
    let (rule, contains) = (query.get("rule"), query.get("contains").unwrap_or_default());
    let (attributes, policy) = (query.attributes(call.bounds())?, call.app.backend.policy());
    let denials = call.app.watched.denials.list(query.most(100)?, |denial| {
        let holds = denial.key.iter().any(|(_, value)| value.contains(contains));
        let is_of_client = || {
            let of_denial = policy.rules.iter().find(|rule| *rule.name == *denial.rule);
            let key = denial.key.iter().map(|(name, value)| (&**name, &**value));
            attributes.as_ref().is_none_or(|of| of.are_held(of_denial, key, denial.whole))
        };
        let is_of_rule = rule.is_none_or(|rule| *denial.rule == *rule);
        is_of_rule && (contains.is_empty() || holds) && is_of_client()
    });
    let denials: Vec<Value> = denials
        .iter()
        .map(|of| {
            json!({
                "rule": Some(&*of.rule).filter(|rule| !rule.is_empty()),
                "key": entire(of.key.iter().map(|(name, value)| (name, value))),
                "whole": of.whole,
                "reason": of.why.reason,
                "first": at(of.first),
                "last": at(of.last),
                "times": of.times,
                "cost": of.why.cost,
                "limit": Some(of.why.limit).filter(|limit| *limit < u64::MAX),
                "retry_after_ms": of.why.retry_after.map(millis),
                "transport": of.why.transport.word(),
            })
        })
        .collect();
    Ok(Reply::Told(json!({"denials": denials})))
}

pub(super) async fn audit(call: Call) -> Answer {
    let query = call.query(&["limit"])?;
    let changes = call.app.operators.audit.list(query.most(100)?);
    let changes: Vec<Value> = changes.iter().map(|entry| json!(**entry)).collect();
    Ok(Reply::Told(json!({"changes": changes})))
}
