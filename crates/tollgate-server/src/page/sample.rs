//! What an event says: counts since the start, so that who misses one has lost nothing. No key is
//! looked at for it but those that are remembered as denied, of which there are few.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tollgate::{OnStoreError, Rule};
use tollgate_redis::Histogram;

use crate::app::App;
use crate::bounds::{MAX_SAMPLED_RULES, SAMPLED_DENIALS};
use crate::client_limits::CLIENT_LIMITS;
use crate::denials::Denial;
use crate::http::millis;
use crate::metrics::{OUTCOMES, TRANSPORTS};
use crate::top::{By, Ranked};

type Counts = [u64; OUTCOMES.len()];

/// Makes events, and remembers which rules have been busy lately.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// Only of policies with more rules than an event names.
    busy: HashMap<Box<str>, Busy>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    decisions: u64,
    /// Decisions lately, those of a second ago counted less.
    lately: u64,
}

/// Whether all is well, as everybody may know.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Health {
    Ready,
    /// The store is away, and rules do what they say for that.
    Degraded,
    Stopping,
}

pub(super) fn health(app: &App) -> Health {
    if app.stopping.load(Ordering::Relaxed) {
        return Health::Stopping;
    }
    if app.backend.is_up() { Health::Ready } else { Health::Degraded }
}

impl Sampler {
    /// An event, as it is sent.
    pub(super) fn event(&mut self, app: &App) -> Bytes {
        let (rules, totals, left_out) = self.rules(app);
        let rules: Vec<Value> = rules
            .iter()
            .map(|(rule, counts)| {
                let mut shown = named(counts);
                shown.insert("rule".to_owned(), (&**rule).into());
                Value::Object(shown)
            })
            .collect();
        let sample = json!({
            "boot": format!("{:016x}", app.feed.boot),
            "uptime_ms": millis(app.feed.started.elapsed()),
            "now_ms": app.backend.clock().now().as_nanos() / 1_000_000,
            "version": env!("CARGO_PKG_VERSION"),
            "health": health(app),
            "totals": named(&totals),
            "rules": rules,
            "rules_left_out": left_out,
            "latency": latency(app),
            "connections": connections(app),
            "store": store(app),
            "policy": policy(app),
            "refused": refused(app),
        });
        // A newline would end the event, and JSON has none that is not escaped.
        Bytes::from(format!("event: sample\ndata: {sample}\n\n"))
    }

    /// The counts of the rules that were busiest lately, of all rules together, and how many rules
    /// are left out.
    fn rules(&mut self, app: &App) -> (Vec<(Box<str>, Counts)>, Counts, usize) {
        let mut rules: Vec<(Box<str>, Counts)> = Vec::new();
        // The tiers of a rule come one after the other.
        for (rule, _, by_transport) in app.metrics.decisions.read().iter() {
            if rules.last().is_none_or(|(last, _)| **last != *rule) {
                rules.push((rule.into(), Counts::default()));
            }
            let Some((_, counts)) = rules.last_mut() else { continue };
            for of_transport in by_transport {
                add(counts, &of_transport.each_ref().map(|count| count.load(Ordering::Relaxed)));
            }
        }
        let mut of_clients = Counts::default();
        for of_transport in &app.metrics.client_limits {
            add(
                &mut of_clients,
                &of_transport.0.each_ref().map(|count| count.load(Ordering::Relaxed)),
            );
        }
        if of_clients != Counts::default() {
            rules.push((CLIENT_LIMITS.into(), of_clients));
        }
        let mut totals = Counts::default();
        rules.iter().for_each(|(_, counts)| add(&mut totals, counts));
        let left_out = rules.len().saturating_sub(MAX_SAMPLED_RULES);
        if left_out > 0 {
            self.rank(&mut rules);
            rules.truncate(MAX_SAMPLED_RULES);
            rules.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        }
        (rules, totals, left_out)
    }

    /// The busiest first.
    fn rank(&mut self, rules: &mut [(Box<str>, Counts)]) {
        for (rule, counts) in rules.iter() {
            let decisions = counts.iter().sum::<u64>();
            let busy = match self.busy.get_mut(rule) {
                Some(busy) => busy,
                None => self.busy.entry(rule.clone()).or_default(),
            };
            let since = decisions.saturating_sub(busy.decisions);
            *busy = Busy { decisions, lately: busy.lately / 8 * 7 + since };
        }
        let lately = |rule: &str| self.busy.get(rule).map_or(0, |busy| busy.lately);
        rules.sort_by_cached_key(|(rule, _)| (std::cmp::Reverse(lately(rule)), rule.clone()));
    }
}

fn add(sums: &mut Counts, counts: &Counts) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

fn named(counts: &Counts) -> Map<String, Value> {
    OUTCOMES.iter().zip(counts).map(|(name, count)| ((*name).to_owned(), (*count).into())).collect()
}

fn latency(app: &App) -> Value {
    let steps: Vec<u128> = Histogram::STEPS.iter().map(std::time::Duration::as_micros).collect();
    let mut shown = json!({"steps_us": steps});
    for (transport, word) in TRANSPORTS {
        shown[word] = json!(app.metrics.latency(transport).counts());
    }
    shown["store"] = json!(app.backend.store_latency().map(Histogram::counts));
    shown
}

fn connections(app: &App) -> Value {
    TRANSPORTS
        .iter()
        .map(|(transport, word)| (*word, app.metrics.connections(*transport).open()))
        .collect()
}

fn store(app: &App) -> Value {
    let (backend, health) = (&app.backend, app.backend.health());
    let outage = health.as_ref().and_then(|health| health.outage.as_ref());
    json!({
        "kind": if health.is_some() { "redis" } else { "memory" },
        "reached": health.as_ref().is_none_or(|health| health.reached),
        "outage": outage.map(|outage| json!({
            "address": outage.address,
            "lasted_ms": millis(outage.lasted),
            "why": outage.why.to_string(),
        })),
        "fallback": fallback(app),
        "outages": health.as_ref().map_or(0, |health| health.outages),
        "failed_calls": health.as_ref().map_or(0, |health| health.failed_calls),
        "live_keys": backend.live_keys(),
        "evictions": backend.evictions(),
        "dropped_blocks": backend.dropped_blocks(),
        "turned_away": backend.turned_away(),
    })
}

/// The number of rules of each kind of fallback, and of the nodes that share local limits. `None`
/// while the store answers.
fn fallback(app: &App) -> Option<Value> {
    let nodes = app.backend.nodes().filter(|_| !app.backend.is_up())?;
    let policy = app.backend.policy();
    let count = |wanted| {
        let does = |rule: &&Rule| rule.on_store_error.unwrap_or(policy.on_store_error) == wanted;
        policy.rules.iter().filter(does).count()
    };
    Some(json!({
        "nodes": nodes,
        "local": count(OnStoreError::Local),
        "allow": count(OnStoreError::Allow),
        "deny": count(OnStoreError::Deny),
    }))
}

fn policy(app: &App) -> Value {
    let reloads = &app.metrics.reloads;
    json!({
        "version": reloads.changed.load(Ordering::Relaxed).saturating_add(1),
        "rules": app.backend.policy().rules.len(),
        "refused": reloads.refused.load(Ordering::Relaxed),
        "last_refused": reloads.last_refused.load(Ordering::Relaxed),
    })
}

/// The keys that were denied most in the last minutes, and why they were the last time.
fn refused(app: &App) -> Value {
    let now = app.backend.clock().now();
    let (ranked, window) = app.watched.top.list(By::Denials, SAMPLED_DENIALS, now);
    let is_of = |denial: &Denial, of: &Ranked| denial.rule == of.rule && denial.key == of.key;
    // The latest first, so that the first that is found is the last reason.
    let denials =
        app.watched.denials.list(usize::MAX, |denial| ranked.iter().any(|of| is_of(denial, of)));
    let keys = ranked.iter().map(|of| {
        let why = denials.iter().find(|denial| is_of(denial, of));
        json!({
            "rule": of.rule,
            "key": of.key.iter().map(|(name, value)| (&**name, &**value)).collect::<Value>(),
            "whole": of.whole,
            "denied": of.denied,
            "over": of.over,
            "reason": why.map(|of| of.why.reason),
            "limit": why.map(|of| of.why.limit).filter(|limit| *limit < u64::MAX),
            "retry_after_ms": why.and_then(|of| of.why.retry_after).map(millis),
            "last_ms": why.map(|of| of.last.as_nanos() / 1_000_000),
        })
    });
    json!({"window_ms": millis(window), "keys": keys.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use tollgate::{Gate, Policy};

    use super::*;
    use crate::app::Settings;
    use crate::backend::Backend;

    fn told(sampler: &mut Sampler, app: &App) -> Value {
        let event = sampler.event(app);
        let text = std::str::from_utf8(&event).unwrap();
        let data = text.strip_prefix("event: sample\ndata: ").unwrap();
        serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap()
    }

    fn names(event: &Value, rule: &str) -> bool {
        event["rules"].as_array().unwrap().iter().any(|of| of["rule"] == rule)
    }

    #[test]
    fn of_many_rules_the_busiest_are_named_and_all_are_summed() {
        let gate = Gate::new(Policy::new()).unwrap();
        let app = App::new(Backend::Memory(gate), Settings::default());
        for number in 0..1000 {
            app.metrics.decisions.write().get_or_make(&format!("rule-{number:03}"), "");
        }
        let decide = |rule: &str, times| {
            let mut decisions = app.metrics.decisions.write();
            decisions.get_or_make(rule, "")[0][0].fetch_add(times, Ordering::Relaxed);
        };
        let mut sampler = Sampler::default();
        decide("rule-999", 2);
        app.metrics.decisions.write().get_or_make("rule-999", "pro")[1][0]
            .fetch_add(3, Ordering::Relaxed);
        let event = told(&mut sampler, &app);
        assert_eq!(event["rules"].as_array().unwrap().len(), MAX_SAMPLED_RULES);
        assert_eq!(event["rules_left_out"], 1000 - MAX_SAMPLED_RULES);
        assert!(names(&event, "rule-999") && !names(&event, "rule-500"));
        for number in 100..200 {
            decide(&format!("rule-{number}"), 1000);
        }
        let event = told(&mut sampler, &app);
        assert_eq!(event["totals"]["allowed"], 100_005);
        assert!(names(&event, "rule-150") && !names(&event, "rule-999"), "those of now");
    }

    #[test]
    fn a_name_cannot_end_an_event() {
        let gate = Gate::new(Policy::new()).unwrap();
        let app = App::new(Backend::Memory(gate), Settings::default());
        app.metrics.decisions.write().get_or_make("a\n\nevent: b\r\rdata: c", "");
        let event = Sampler::default().event(&app);
        let text = std::str::from_utf8(&event).unwrap();
        assert_eq!((text.matches('\n').count(), text.matches('\r').count()), (3, 0), "{text}");
    }
}
