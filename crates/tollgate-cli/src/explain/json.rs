//! The answer for machines.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use tollgate::{LimitSource, RuleExplanation, RuleMatch, Ruling, TierSource};

use super::{Explained, why};
use crate::test::reason;
use crate::{moment, words};

#[derive(Serialize)]
struct Answer<'a> {
    request: BTreeMap<&'a str, &'a str>,
    cost: u64,
    at: String,
    tier: Option<&'a str>,
    /// `attribute`, `override`, `default` or null.
    tier_source: Option<&'static str>,
    /// `policy_file` if the policy has an override of the client that applies, or null.
    override_source: Option<&'static str>,
    list: Option<ListAnswer<'a>>,
    rules: Vec<RuleAnswer<'a>>,
    decision: DecisionAnswer<'a>,
}

#[derive(Serialize)]
struct ListAnswer<'a> {
    name: &'a str,
    passes: bool,
}

#[derive(Serialize)]
struct RuleAnswer<'a> {
    rule: &'a str,
    applies: bool,
    /// Why it does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    key: BTreeMap<&'a str, &'a str>,
    cost: Option<u64>,
    /// Empty where it is unlimited.
    limits: Vec<String>,
    unlimited: bool,
    /// `rule`, `tier` or `override`.
    source: &'static str,
    shadow: bool,
    /// Whether nodes that share a store borrow from it what they spend of this rule.
    leased: bool,
}

/// Times in nanoseconds.
#[derive(Serialize)]
struct DecisionAnswer<'a> {
    allowed: bool,
    reason: &'static str,
    rule: Option<&'a str>,
    /// Null where nothing limits.
    limit: Option<u64>,
    remaining: Option<u64>,
    /// Null where it never will be allowed.
    retry_after_nanos: Option<u128>,
    reset_after_nanos: u128,
    delay_nanos: u128,
    error: Option<String>,
}

pub(super) fn write(out: &mut impl Write, explained: &Explained<'_>) -> io::Result<()> {
    let explanation = &explained.explanation;
    let answer = Answer {
        request: explained.request.attributes().iter().copied().collect(),
        cost: explained.request.units(),
        at: moment::write(explained.at),
        tier: explanation.tier.as_deref(),
        tier_source: tier_source(explanation.tier_source),
        override_source: explanation.override_source.map(|_| "policy_file"),
        list: explanation.list.as_ref().map(|(name, passes)| ListAnswer { name, passes: *passes }),
        rules: explanation.rules.iter().map(rule).collect(),
        decision: decision(&explained.ruling),
    };
    serde_json::to_writer_pretty(&mut *out, &answer)?;
    writeln!(out)
}

fn rule(report: &RuleExplanation) -> RuleAnswer<'_> {
    let limits = report.numbers.limits();
    RuleAnswer {
        rule: &report.rule,
        applies: report.verdict == RuleMatch::Applies,
        why: why(&report.verdict),
        key: report.key.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        cost: report.cost,
        limits: limits.iter().map(ToString::to_string).collect(),
        unlimited: words::numbers(&report.numbers) == "unlimited",
        source: source(report.source),
        shadow: report.shadow,
        leased: report.leased,
    }
}

fn decision(ruling: &Ruling) -> DecisionAnswer<'_> {
    let limited = |number: u64| (number < u64::MAX).then_some(number);
    DecisionAnswer {
        allowed: ruling.is_allowed(),
        reason: reason(ruling.reason()),
        rule: ruling.decided_by_name(),
        limit: limited(ruling.limit()),
        remaining: limited(ruling.remaining()),
        retry_after_nanos: ruling.retry_after().map(|wait| wait.as_nanos()),
        reset_after_nanos: ruling.reset_after().as_nanos(),
        delay_nanos: ruling.delay().as_nanos(),
        error: ruling.error().map(|error| error.to_string()),
    }
}

pub(super) fn source(source: LimitSource) -> &'static str {
    match source {
        LimitSource::Rule => "rule",
        LimitSource::Tier => "tier",
        LimitSource::Override => "override",
        _ => "other",
    }
}

pub(super) fn tier_source(source: TierSource) -> Option<&'static str> {
    match source {
        TierSource::None => None,
        TierSource::Attribute => Some("attribute"),
        TierSource::Override => Some("override"),
        TierSource::Default => Some("default"),
        _ => Some("other"),
    }
}
