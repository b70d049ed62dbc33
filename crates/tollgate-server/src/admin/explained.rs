//! The ruling on a request, with the figures and the reasons of every rule.

use serde_json::{Value, json};
use tollgate::{
    Cost, Explanation, LimitSource, Policy, Request, Rule, RuleDecision, RuleExplanation,
    RuleMatch, Ruling, TierSource,
};

use super::call::entire;
use super::keys::changed_meanwhile;
use super::overrides::source_word;
use crate::backend::Backend;
use crate::bounds::{MAX_NOT_APPLIED, MAX_STATUS_TRIES};
use crate::http::{Problem, millis, reason};

/// A ruling, and its explanation under the same policy and overrides, which may change in between:
/// otherwise a rule would be shown with the figures of another limit, or without any.
pub(super) async fn ruled(
    backend: &Backend,
    request: &Request<'_>,
) -> Result<(Ruling, Explanation), Problem> {
    for _ in 0..MAX_STATUS_TRIES {
        let before = backend.explain(request);
        let ruling = backend.status(request).await;
        if backend.explain(request) == before {
            return Ok((ruling, before));
        }
    }
    Err(changed_meanwhile())
}

/// Adds the ruling on a request and the reasons of its rules. `given` are the names of the
/// request's attributes.
pub(super) fn explained(
    told: &mut Value,
    ruling: &Ruling,
    explanation: &Explanation,
    policy: &Policy,
    given: &[&str],
) {
    told["allowed"] = ruling.is_allowed().into();
    told["reason"] = reason(ruling.reason()).into();
    told["rule"] = ruling.decided_by_name().into();
    told["retry_after_ms"] = ruling.retry_after().map(millis).into();
    told["degraded"] = ruling.is_degraded().into();
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
    let override_source = explanation.override_source.map(source_word);
    told["override_source"] = override_source.into();
    let all: Vec<RuleDecision<'_>> = ruling.rules().collect();
    let figures = |report: &RuleExplanation| all.iter().find(|of| of.rule() == report.rule);
    let applies = |report: &&RuleExplanation| report.verdict == RuleMatch::Applies;
    let mut applied: Vec<_> = explanation.rules.iter().filter(applies).collect();
    let deciding = ruling.decided_by_name().filter(|_| explanation.list.is_none());
    applied.sort_by_key(|report| place(report, figures(report), deciding));
    let rule = |report: &RuleExplanation| policy.rules.iter().find(|rule| rule.name == report.rule);
    let applied = applied.into_iter().map(|report| {
        let mut shown = applied_rule(report, figures(report));
        let ignored = rule(report).map(|rule| ignored_attributes(policy, rule, given));
        shown["ignored_attributes"] = ignored.unwrap_or_default().into();
        let is_overridden = report.source == LimitSource::Override;
        shown["override_source"] = override_source.filter(|_| is_overridden).into();
        shown
    });
    told["rules"] = applied.collect();
    let others = explanation.rules.iter().filter(|report| !applies(report));
    let others = others.take(MAX_NOT_APPLIED).map(|report| {
        let needs = rule(report).map(needed_attributes).unwrap_or_default();
        json!({"rule": report.rule, "because": because(report), "needs": needs})
    });
    told["not_applied"] = others.collect();
}

/// The place of a rule in the answer: the deciding rule first, then others that deny, and shadow
/// rules last. Rules of one place stay in the order of the policy.
fn place(
    report: &RuleExplanation,
    figures: Option<&RuleDecision<'_>>,
    deciding: Option<&str>,
) -> u8 {
    match figures {
        _ if deciding == Some(&report.rule) => 0,
        _ if report.shadow => 3,
        Some(of) if !of.is_allowed() => 1,
        _ => 2,
    }
}

fn applied_rule(report: &RuleExplanation, figures: Option<&RuleDecision<'_>>) -> Value {
    let numbers = report.numbers.limits().iter().map(|limit| Value::from(limit.to_string()));
    json!({
        "rule": report.rule,
        "key": entire(report.key.iter().map(|(name, value)| (name, value))),
        "shadow": report.shadow,
        "leased": report.leased,
        "numbers": numbers.collect::<Vec<_>>(),
        "numbers_from": match report.source {
            LimitSource::Tier => "tier",
            LimitSource::Override => "override",
            _ => "rule",
        },
        "allowed": figures.is_none_or(RuleDecision::is_allowed),
        "limit": figures.map(RuleDecision::limit),
        "remaining": figures.map(RuleDecision::remaining),
        "retry_after_ms": figures.and_then(|of| of.retry_after()).map(millis),
        "reset_after_ms": figures.map(|of| millis(of.reset_after())),
        "blocked_ms": figures.and_then(|of| of.blocked_for()).map(millis),
    })
}

/// The attributes among `given` that do not change what `rule` counts: its key is wider than a
/// client with these attributes. A tier and a cost are no part of a client.
pub(super) fn ignored_attributes<'a>(
    policy: &Policy,
    rule: &Rule,
    given: &[&'a str],
) -> Vec<&'a str> {
    let is_cost = |name: &str| matches!(&rule.cost, Cost::Attribute { name: of, .. } if of == name);
    let is_looked_at = |name: &str| {
        name == policy.tier_from
            || is_cost(name)
            || rule.key.iter().any(|part| part.attribute == name)
            || rule.matches.iter().any(|(of, _)| of == name)
    };
    given.iter().copied().filter(|name| !is_looked_at(name)).collect()
}

/// The attributes without which `rule` applies to no request.
fn needed_attributes(rule: &Rule) -> Vec<&str> {
    let matched = rule.matches.iter().filter(|(_, condition)| !condition.matches(None));
    let keyed = rule.key.iter().filter(|part| part.default.is_none());
    let mut needed: Vec<&str> = Vec::new();
    for name in matched.map(|(name, _)| name).chain(keyed.map(|part| &part.attribute)) {
        if !needed.contains(&name.as_str()) {
            needed.push(name);
        }
    }
    needed
}

/// The reason why a rule does not apply.
fn because(report: &RuleExplanation) -> String {
    match &report.verdict {
        RuleMatch::ConditionFailed { attribute, value: None, .. } => {
            format!("requires attribute {attribute:?}")
        }
        RuleMatch::ConditionFailed { attribute, value: Some(value), .. } => {
            let value = crate::http::cut(value);
            format!("attribute {attribute:?} is {value:?}, which does not match")
        }
        RuleMatch::KeyMissing { attribute } => {
            format!("requires attribute {attribute:?} for its key")
        }
        RuleMatch::InvalidCost { attribute, .. } => {
            format!("its cost attribute {attribute:?} is not a whole number")
        }
        _ => "applies".to_owned(),
    }
}
