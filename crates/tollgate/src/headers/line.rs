//! One limit as the dialects tell it.

use std::time::Duration;

use super::Dialect;
use super::fields::{FieldName, HeaderFields, NANOS_PER_SEC, seconds};
use crate::bounds::MAX_TOLD_RULES;
use crate::decision::Decision;
use crate::gate::RuleDecision;
use crate::limit::Limit;

/// What is said of a line that is leased, where a dialect has room for words of one's own: the drafts want
/// those to begin with whose they are.
const LEASED: &str = "tollgate-leased";

/// What is told of one limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyLine<'a> {
    /// The rule's own name, which clients may not see.
    pub(super) rule: &'a str,
    /// The name that clients see.
    name: &'a str,
    limit: u64,
    remaining: u64,
    pub(super) next_after: Duration,
    /// Whether the figures are one node's view, who paid from what it had borrowed.
    leased: bool,
    /// Nothing where a key is only blocked, or the dialect does not tell it.
    policy: Option<QuotaPolicy>,
}

/// How much in how many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaPolicy {
    quota: u64,
    window: u64,
}

impl<'a> PolicyLine<'a> {
    pub(super) fn of_rule(figures: &RuleDecision<'a>, dialect: Dialect) -> PolicyLine<'a> {
        let numbers = figures.limit_config();
        PolicyLine {
            rule: figures.rule(),
            name: figures.header_name(),
            // A rule without a limit is told of where its key is blocked.
            limit: if numbers.is_some() { figures.limit() } else { 0 },
            remaining: figures.remaining(),
            next_after: figures.next_after(),
            leased: figures.is_leased(),
            policy: numbers.and_then(|limit| QuotaPolicy::told(dialect, limit)),
        }
    }

    pub(super) fn of_decision(
        (name, limit): (&'a str, &Limit),
        decision: &Decision,
        dialect: Dialect,
    ) -> PolicyLine<'a> {
        PolicyLine {
            rule: name,
            name,
            limit: decision.limit(),
            remaining: decision.remaining(),
            next_after: decision.next_unit_after(),
            leased: false,
            policy: QuotaPolicy::told(dialect, limit),
        }
    }
}

impl QuotaPolicy {
    /// The policy, where the dialect tells it: working it out is not for nothing.
    fn told(dialect: Dialect, limit: &Limit) -> Option<QuotaPolicy> {
        match dialect {
            Dialect::Draft11 | Dialect::Draft07 | Dialect::Draft06 => Some(QuotaPolicy::of(limit)),
            Dialect::XTimestamp | Dialect::XSeconds | Dialect::Off => None,
        }
    }

    /// What a new key admits, and how long time takes to bring that back; where that is less than
    /// a second, what a second brings. So `r` is never above `q`, and `q` in `w` never above the
    /// true rate.
    pub(super) fn of(limit: &Limit) -> QuotaPolicy {
        let (count, capacity) = (u128::from(limit.count()), limit.capacity());
        let period = limit.period().as_nanos();
        if let Some(policy) = QuotaPolicy::of_small(limit) {
            return policy;
        }
        let refill = (u128::from(capacity) * period).div_ceil(count.max(1));
        if refill >= u128::from(NANOS_PER_SEC) {
            let window = refill.div_ceil(u128::from(NANOS_PER_SEC));
            return QuotaPolicy {
                quota: capacity,
                window: u64::try_from(window).unwrap_or(u64::MAX),
            };
        }
        let a_second = count * u128::from(NANOS_PER_SEC) / period.max(1);
        QuotaPolicy { quota: u64::try_from(a_second).unwrap_or(u64::MAX), window: 1 }
    }

    /// The same in half the width, which takes a fraction of the time, where the numbers fit.
    fn of_small(limit: &Limit) -> Option<QuotaPolicy> {
        let (quota, period) = (limit.capacity(), u64::try_from(limit.period().as_nanos()).ok()?);
        let refill = quota.checked_mul(period)?.div_ceil(limit.count().max(1));
        let window = refill.div_ceil(NANOS_PER_SEC);
        (refill >= NANOS_PER_SEC).then_some(QuotaPolicy { quota, window })
    }
}

/// `RateLimit-Policy: "name";q=100;w=60` and `RateLimit: "name";r=42;t=17`, of each.
pub(super) fn draft_11(fields: &mut HeaderFields, lines: &[PolicyLine<'_>]) {
    let lines = &lines[..lines.len().min(MAX_TOLD_RULES)];
    if lines.len() > 1 {
        fields.reserve();
    }
    let policies = lines.iter().filter_map(|line| Some((line.name, line.policy?)));
    for (position, (name, QuotaPolicy { quota, window })) in policies.enumerate() {
        fields.text(if position > 0 { ", " } else { "" });
        fields.quoted(name);
        fields.parameter(";q=", quota);
        fields.parameter(";w=", window);
    }
    fields.end(FieldName::Policy);
    for (position, line) in lines.iter().enumerate() {
        fields.text(if position > 0 { ", " } else { "" });
        fields.quoted(line.name);
        fields.parameter(";r=", line.remaining);
        if !line.next_after.is_zero() {
            fields.parameter(";t=", seconds(line.next_after));
        }
        if line.leased {
            fields.text(";");
            fields.text(LEASED);
        }
    }
    fields.end(FieldName::RateLimit);
}

/// `RateLimit: limit=100, remaining=42, reset=17` and `RateLimit-Policy: 100;w=60`.
pub(super) fn draft_07(fields: &mut HeaderFields, line: &PolicyLine<'_>) {
    old_policy(fields, line);
    fields.parameter("limit=", line.limit);
    fields.parameter(", remaining=", line.remaining);
    fields.parameter(", reset=", seconds(line.next_after));
    if line.leased {
        fields.text(", ");
        fields.text(LEASED);
    }
    fields.end(FieldName::RateLimit);
}

/// `RateLimit-Limit: 100`, `RateLimit-Remaining: 42`, `RateLimit-Reset: 17` and the policy.
pub(super) fn draft_06(fields: &mut HeaderFields, line: &PolicyLine<'_>) {
    old_policy(fields, line);
    fields.number(FieldName::Limit, line.limit);
    fields.number(FieldName::Remaining, line.remaining);
    fields.number(FieldName::Reset, seconds(line.next_after));
}

fn old_policy(fields: &mut HeaderFields, line: &PolicyLine<'_>) {
    if let Some(QuotaPolicy { quota, window }) = line.policy {
        fields.parameter("", quota);
        fields.parameter(";w=", window);
        fields.end(FieldName::Policy);
    }
}

/// `X-RateLimit-Limit: 100`, `X-RateLimit-Remaining: 42` and `X-RateLimit-Reset`.
pub(super) fn x(fields: &mut HeaderFields, line: &PolicyLine<'_>, reset: u64) {
    fields.number(FieldName::XLimit, line.limit);
    fields.number(FieldName::XRemaining, line.remaining);
    fields.number(FieldName::XReset, reset);
}
