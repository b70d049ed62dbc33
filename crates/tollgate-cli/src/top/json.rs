//! What goes on, as one line of JSON.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use super::history::{History, Rates, TRANSPORTS};
use super::state::State;
use super::tables::{per_second, retry_in};
use super::told::{HotKey, Policy, RefusedKey, Sample, ShadowCounts, Store, Who};

#[derive(Serialize)]
struct Document<'a> {
    /// When, by this machine's clock.
    at: String,
    server: &'a str,
    who: &'a Who,
    version: &'a str,
    health: &'a str,
    uptime_ms: u64,
    /// Of the last interval, by the second.
    rates: PerSecond,
    rules: Vec<Rule<'a>>,
    rules_left_out: u64,
    latency: BTreeMap<&'static str, Latency>,
    connections: &'a BTreeMap<String, u64>,
    store: &'a Store,
    policy: &'a Policy,
    refused_keys: Vec<Refused<'a>>,
    hottest_keys: Vec<Hot<'a>>,
}

#[derive(Serialize)]
struct PerSecond {
    allowed: f64,
    refused: f64,
    degraded: f64,
    shadow_refused: f64,
}

#[derive(Serialize)]
struct Rule<'a> {
    rule: &'a str,
    rates: PerSecond,
    /// Requests since the start of the server, whichever rule decided.
    allowed: u64,
    refused: u64,
    denied_by_others: u64,
    degraded: u64,
    shadow_refused: u64,
    /// Nothing if the rule is enforced.
    shadow: Option<ShadowCounts>,
}

#[derive(Serialize)]
struct Latency {
    calls: u64,
    p50_us: u64,
    p99_us: u64,
}

#[derive(Serialize)]
struct Refused<'a> {
    #[serde(flatten)]
    of: &'a RefusedKey,
    /// What is left of the wait; nothing where it never ends.
    retry_in_ms: Option<u64>,
}

#[derive(Serialize)]
struct Hot<'a> {
    #[serde(flatten)]
    of: &'a HotKey,
    per_second: f64,
}

pub(super) fn write(state: &State, out: &mut impl Write) -> std::io::Result<()> {
    let Some(last) = state.view().history.last() else { return Ok(()) };
    serde_json::to_writer(&mut *out, &document(state, last))?;
    writeln!(out)
}

fn document<'a>(state: &'a State, last: &'a Sample) -> Document<'a> {
    let view = state.view();
    let window = view.hottest.window_ms.min(last.uptime_ms);
    let seconds = i64::try_from(state.now_ms / 1000).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    Document {
        at: at.to_string(),
        server: &state.settings.server,
        who: &state.who,
        version: &last.version,
        health: &last.health,
        uptime_ms: last.uptime_ms,
        rates: view.history.rates(None).into(),
        rules: rules(&view.history, last),
        rules_left_out: last.rules_left_out,
        latency: latency(&view.history),
        connections: &last.connections,
        store: &last.store,
        policy: &last.policy,
        refused_keys: last
            .refused
            .keys
            .iter()
            .map(|of| Refused { of, retry_in_ms: retry_in(of, last.now_ms) })
            .collect(),
        hottest_keys: view
            .hottest
            .keys
            .iter()
            .map(|of| Hot { of, per_second: decimal(per_second(of, window)) })
            .collect(),
    }
}

fn rules<'a>(history: &History, last: &'a Sample) -> Vec<Rule<'a>> {
    let rule = |of: &'a super::told::RuleCounts| Rule {
        rule: &of.rule,
        rates: history.rates(Some(&of.rule)).into(),
        allowed: of.requests.allowed,
        refused: of.requests.denied,
        denied_by_others: of.requests.denied_by_others,
        degraded: of.counts.degraded,
        shadow_refused: of.shadow.unwrap_or_default().would_deny,
        shadow: of.shadow,
    };
    last.rules.iter().map(rule).collect()
}

fn latency(history: &History) -> BTreeMap<&'static str, Latency> {
    let each = TRANSPORTS.iter().filter_map(|(of, name)| {
        let latency = history.latency(of)?;
        let (p50_us, p99_us) = (latency.p50_us, latency.p99_us);
        Some((*name, Latency { calls: latency.calls, p50_us, p99_us }))
    });
    each.collect()
}

impl From<Rates> for PerSecond {
    fn from(of: Rates) -> PerSecond {
        PerSecond {
            allowed: decimal(of.allowed),
            refused: decimal(of.refused),
            degraded: decimal(of.degraded),
            shadow_refused: decimal(of.shadow),
        }
    }
}

/// Thousandths as JSON has numbers.
#[allow(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "told to programs only")]
fn decimal(thousandths: u64) -> f64 {
    thousandths as f64 / 1000.0
}
