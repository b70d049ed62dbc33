//! What a server tells operators, as far as it is shown; what else there is in an answer is left.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::Key;

/// An event of `GET /admin/v1/events`: counts since the start.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Sample {
    /// Another after a restart.
    pub(super) boot: String,
    pub(super) uptime_ms: u64,
    pub(super) now_ms: u64,
    pub(super) version: String,
    pub(super) health: String,
    pub(super) totals: Counts,
    pub(super) rules: Vec<RuleCounts>,
    pub(super) rules_left_out: u64,
    /// Counts by steps for each transport and the store, and `steps_us`, the steps.
    pub(super) latency: BTreeMap<String, Option<Vec<u64>>>,
    pub(super) connections: BTreeMap<String, u64>,
    pub(super) store: Store,
    pub(super) policy: Policy,
    pub(super) refused: Refused,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Counts {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) blocked: u64,
    pub(super) error: u64,
    pub(super) degraded: u64,
    pub(super) shadow_denied: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RuleCounts {
    pub(super) rule: String,
    /// Decisions, under the rule that decided.
    #[serde(flatten)]
    pub(super) counts: Counts,
    pub(super) requests: RequestCounts,
    /// `None` if the rule is enforced.
    pub(super) shadow: Option<ShadowCounts>,
}

/// Requests of a rule, whichever rule decided.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct RequestCounts {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// Allowed by this rule, and denied by another one.
    pub(super) denied_by_others: u64,
}

/// The decisions that a shadow rule would have made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct ShadowCounts {
    pub(super) would_allow: u64,
    pub(super) would_deny: u64,
    /// Of those, the requests that nothing else denied.
    pub(super) would_deny_alone: u64,
}

impl RuleCounts {
    /// All requests that the rule applied to.
    pub(super) fn total(&self) -> u64 {
        match self.shadow {
            Some(shadow) => shadow.would_allow.saturating_add(shadow.would_deny),
            None => {
                let RequestCounts { allowed, denied, denied_by_others } = self.requests;
                allowed.saturating_add(denied).saturating_add(denied_by_others)
            }
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Store {
    pub(super) kind: String,
    pub(super) outage: Option<Outage>,
    pub(super) fallback: Option<StoreFallback>,
    pub(super) outages: u64,
    pub(super) failed_calls: u64,
    pub(super) live_keys: Option<u64>,
    pub(super) evictions: u64,
    pub(super) turned_away: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Outage {
    pub(super) address: String,
    pub(super) lasted_ms: u64,
    pub(super) why: String,
}

/// The number of rules of each kind of fallback, while the store does not answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct StoreFallback {
    /// The nodes that share the limits of the rules with local limits.
    pub(super) nodes: u64,
    pub(super) local: u64,
    pub(super) allow: u64,
    pub(super) deny: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Policy {
    pub(super) version: u64,
    pub(super) rules: u64,
    pub(super) last_refused: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refused {
    pub(super) keys: Vec<RefusedKey>,
}

/// A key that was denied in the last minutes, and why the last time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct RefusedKey {
    pub(super) rule: String,
    pub(super) key: Key,
    /// Whether that is all of the key.
    pub(super) whole: bool,
    pub(super) denied: u64,
    /// How many of those may be another key's.
    pub(super) over: u64,
    pub(super) reason: Option<String>,
    pub(super) limit: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) last_ms: Option<u64>,
}

/// `GET /admin/v1/top`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Hottest {
    pub(super) window_ms: u64,
    pub(super) keys: Vec<HotKey>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct HotKey {
    pub(super) rule: String,
    pub(super) key: Key,
    pub(super) whole: bool,
    pub(super) seen: u64,
    pub(super) denied: u64,
    /// Only of a shadow rule, which denies nothing.
    pub(super) would_deny: u64,
    pub(super) over: u64,
}

/// `GET /admin/v1/info`, as far as it is about who asks.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Who {
    pub(super) name: String,
    pub(super) role: String,
}

impl Who {
    pub(super) fn may_write(&self) -> bool {
        self.role == "write"
    }
}

/// The status of a client: `POST /admin/v1/keys/status` with attributes.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Standing {
    pub(super) allowed: bool,
    pub(super) reason: String,
    pub(super) rule: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) list: Option<DecidingList>,
    pub(super) tier: Option<String>,
    /// Decided without the store: figures are the local limits of the server's node.
    pub(super) degraded: bool,
    pub(super) rules: Vec<RuleStanding>,
    pub(super) not_applied: Vec<NotApplied>,
}

impl Standing {
    /// After how many milliseconds a wait in these figures has passed.
    pub(super) fn changes_after(&self) -> Option<u64> {
        let waits = self.rules.iter().flat_map(|of| {
            [of.blocked_ms, of.retry_after_ms, of.reset_after_ms].into_iter().flatten()
        });
        waits.filter(|millis| *millis > 0).min()
    }
}

/// The list that decides before any rule.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DecidingList {
    pub(super) name: String,
    pub(super) allows: bool,
}

/// The status of a client under one rule.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RuleStanding {
    pub(super) rule: String,
    pub(super) key: Key,
    pub(super) shadow: bool,
    pub(super) numbers: Vec<String>,
    pub(super) numbers_from: String,
    /// `policy_file` or `run_time`, of numbers from an override.
    #[serde(default)]
    pub(super) override_source: Option<String>,
    pub(super) allowed: bool,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) reset_after_ms: Option<u64>,
    pub(super) blocked_ms: Option<u64>,
    /// Attributes of the client that the rule does not look at: its key is wider.
    pub(super) ignored_attributes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct NotApplied {
    pub(super) rule: String,
    pub(super) because: String,
    /// The attributes without which the rule never applies.
    pub(super) needs: Vec<String>,
}

/// The same question about one key of one rule.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct KeyStanding {
    pub(super) rule: String,
    pub(super) key: Key,
    pub(super) blocked_ms: Option<u64>,
    pub(super) limits: Vec<LimitStanding>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct LimitStanding {
    pub(super) numbers: String,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) retry_after_ms: u64,
    pub(super) reset_after_ms: u64,
}

impl From<KeyStanding> for RuleStanding {
    /// The figures are those of the limit that lets the key wait longest, or has the least left.
    fn from(of: KeyStanding) -> RuleStanding {
        let tightest = of
            .limits
            .iter()
            .max_by_key(|limit| (limit.retry_after_ms, std::cmp::Reverse(limit.remaining)));
        let figure = |figure: fn(&LimitStanding) -> u64| tightest.map(figure);
        RuleStanding {
            numbers: of.limits.iter().map(|limit| limit.numbers.clone()).collect(),
            numbers_from: "key".to_owned(),
            override_source: None,
            shadow: false,
            allowed: of.blocked_ms.is_none() && figure(|of| of.retry_after_ms) < Some(1),
            limit: figure(|of| of.limit),
            remaining: figure(|of| of.remaining),
            retry_after_ms: figure(|of| of.retry_after_ms).max(of.blocked_ms),
            reset_after_ms: figure(|of| of.reset_after_ms),
            blocked_ms: of.blocked_ms,
            ignored_attributes: Vec::new(),
            rule: of.rule,
            key: of.key,
        }
    }
}

/// `GET /admin/v1/denials` and `GET /admin/v1/keys`, searched for a text.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Denials {
    pub(super) denials: Vec<FoundKey>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Keys {
    pub(super) keys: Vec<FoundKey>,
    pub(super) next: Option<String>,
}

/// A key that was searched for. What was denied lately has no figures.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct FoundKey {
    pub(super) rule: Option<String>,
    pub(super) key: Key,
    pub(super) whole: bool,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) reset_after_ms: Option<u64>,
    #[serde(default)]
    pub(super) blocked_ms: Option<u64>,
    #[serde(default)]
    pub(super) shadow: bool,
    #[serde(default)]
    pub(super) ignored_attributes: Vec<String>,
}

impl FoundKey {
    /// The status of the key under its rule, if the server keeps a state of it.
    pub(super) fn standing(self) -> Option<RuleStanding> {
        let (rule, limit) = (self.rule?, self.limit?);
        let is_over = self.retry_after_ms.is_some_and(|retry| retry > 0);
        Some(RuleStanding {
            rule,
            key: self.key,
            shadow: self.shadow,
            numbers: Vec::new(),
            numbers_from: String::new(),
            override_source: None,
            allowed: self.blocked_ms.is_none() && !is_over,
            limit: Some(limit),
            remaining: self.remaining,
            retry_after_ms: self.retry_after_ms,
            reset_after_ms: self.reset_after_ms,
            blocked_ms: self.blocked_ms,
            ignored_attributes: self.ignored_attributes,
        })
    }
}

/// `GET /admin/v1/overrides`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Overrides {
    pub(super) overrides: Vec<Override>,
    pub(super) next: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Override {
    pub(super) client: Key,
    pub(super) tier: Option<String>,
    pub(super) limits: serde_json::Map<String, serde_json::Value>,
    pub(super) ended: bool,
}

/// What came of a change.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Changed {
    pub(super) result: Outcome,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Outcome {
    pub(super) keys: Option<u64>,
    pub(super) removed: Option<bool>,
}

/// What a question that is refused is answered with.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ProblemDocument {
    pub(super) title: Option<String>,
    pub(super) detail: Option<String>,
}
