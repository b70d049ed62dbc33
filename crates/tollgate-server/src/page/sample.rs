//! What an event says: counts since the start, so that who misses one has lost nothing. No key is
//! looked at for it but those that are remembered as denied, of which there are few.

use std::collections::{BTreeMap, HashMap};
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
use crate::metrics::{ByOutcome, OUTCOMES, TRANSPORTS};
use crate::requests_by_rule::RuleTotals;
use crate::top::{By, Ranked, TopQuery};

type Counts = [u64; OUTCOMES.len()];

/// The counts of a rule, of a list, or of requests without a rule.
#[derive(Clone, Debug, Default)]
struct RuleSample {
    rule: Box<str>,
    /// Decisions, by what decided.
    decisions: Counts,
    /// Requests by every rule that applied; the decisions, if this is no rule of the policy.
    requests: RuleTotals,
    is_shadow: bool,
}

/// The counts of all rules.
#[derive(Debug, Default)]
struct RuleSamples {
    /// Those that were busiest lately.
    rules: Vec<RuleSample>,
    left_out: usize,
    totals: Counts,
}

/// Makes events, and remembers which rules have been busy lately.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// Only of policies with more rules than an event names.
    busy: HashMap<Box<str>, Busy>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    requests: u64,
    /// Requests lately, those of a second ago counted less.
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
        let RuleSamples { rules, left_out, totals } = self.rules(app);
        let rules: Vec<Value> = rules.iter().map(RuleSample::json).collect();
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

    fn rules(&mut self, app: &App) -> RuleSamples {
        let names = app.active_names();
        let decisions = app.metrics.decisions.read();
        let mut by_name: BTreeMap<Box<str>, RuleSample> = BTreeMap::new();
        let mut totals = sum(decisions.removed_rules());
        add(&mut totals, &sum(decisions.removed_lists()));
        for (rule, _, counts) in decisions.iter() {
            let counts = sum(counts);
            add(&mut totals, &counts);
            if names.has_counts(rule) {
                add(&mut by_name.entry(rule.into()).or_default().decisions, &counts);
            }
        }
        for (rule, requests) in decisions.requests.iter().filter(|(rule, _)| names.has_rule(rule)) {
            by_name.entry(rule.into()).or_default().requests = requests;
        }
        drop(decisions);
        for of_transport in &app.metrics.client_limits {
            let counts = of_transport.0.each_ref().map(|count| count.load(Ordering::Relaxed));
            add(&mut totals, &counts);
            if counts != Counts::default() {
                add(&mut by_name.entry(CLIENT_LIMITS.into()).or_default().decisions, &counts);
            }
        }
        let mut rules: Vec<RuleSample> = Vec::with_capacity(by_name.len());
        for (rule, mut of) in by_name {
            of.is_shadow = names.is_shadow(&rule);
            if !names.has_rule(&rule) {
                of.requests = RuleTotals::of_decisions(&of.decisions);
            }
            rules.push(RuleSample { rule, ..of });
        }
        let left_out = rules.len().saturating_sub(MAX_SAMPLED_RULES);
        if left_out > 0 {
            self.rank(&mut rules);
            rules.truncate(MAX_SAMPLED_RULES);
            rules.sort_unstable_by(|a, b| a.rule.cmp(&b.rule));
        }
        RuleSamples { rules, left_out, totals }
    }

    /// The busiest first.
    fn rank(&mut self, rules: &mut [RuleSample]) {
        // Rules that are gone leave the memory, too.
        self.busy.retain(|rule, _| rules.binary_search_by(|of| of.rule.cmp(rule)).is_ok());
        for of in rules.iter() {
            let requests = of.requests.sum();
            let busy = match self.busy.get_mut(&of.rule) {
                Some(busy) => busy,
                None => self.busy.entry(of.rule.clone()).or_default(),
            };
            let since = requests.saturating_sub(busy.requests);
            *busy = Busy { requests, lately: busy.lately / 8 * 7 + since };
        }
        let lately = |rule: &str| self.busy.get(rule).map_or(0, |busy| busy.lately);
        rules.sort_by_cached_key(|of| (std::cmp::Reverse(lately(&of.rule)), of.rule.clone()));
    }
}

impl RuleSample {
    fn json(&self) -> Value {
        let mut shown = named(&self.decisions);
        shown.insert("rule".to_owned(), (&*self.rule).into());
        shown.insert("requests".to_owned(), self.requests.requests_json());
        let shadow = self.is_shadow.then(|| self.requests.shadow_json());
        shown.insert("shadow".to_owned(), shadow.into());
        Value::Object(shown)
    }
}

/// The counts of all transports together.
fn sum(by_transport: &ByOutcome) -> Counts {
    let mut sums = Counts::default();
    for of_transport in by_transport {
        add(&mut sums, &of_transport.each_ref().map(|count| count.load(Ordering::Relaxed)));
    }
    sums
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
        "reached": health.as_ref().is_none_or(|health| health.ever_connected),
        "outage": outage.map(|outage| json!({
            "address": outage.address,
            "lasted_ms": millis(outage.duration),
            "why": outage.cause.to_string(),
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
    let names = &app.active_names();
    let query = TopQuery { by: By::Denials, rule: None, most: SAMPLED_DENIALS, names };
    let (ranked, window) = app.watched.top.list(query, now);
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
            "denied": of.counts.denied,
            "over": of.counts.over,
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
    use tollgate::{Gate, Limit, Policy, Request, Rule};

    use super::*;
    use crate::app::Settings;
    use crate::backend::Backend;
    use crate::metrics::Transport;
    use crate::top::{KeyCounts, KeySample};

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
        let mut policy = Policy::new();
        for number in 0..1000 {
            let rule = Rule::new(format!("rule-{number:03}")).key([format!("a{number:03}")]);
            policy = policy.rule(rule.limit(Limit::per_hour(1_000_000)));
        }
        let gate = Gate::new(policy).unwrap();
        let app = App::new(Backend::Memory(gate.clone()), Settings::default());
        let decide = |number: usize, transport, times| {
            let attribute = format!("a{number:03}");
            let request = Request::new().with(&attribute, "ana");
            (0..times).for_each(|_| app.decided(transport, &request, &gate.check(&request)));
        };
        let mut sampler = Sampler::default();
        (0..1000).for_each(|number| decide(number, Transport::Http, 1));
        told(&mut sampler, &app);
        decide(999, Transport::Http, 2);
        decide(999, Transport::Grpc, 3);
        let event = told(&mut sampler, &app);
        assert_eq!(event["rules"].as_array().unwrap().len(), MAX_SAMPLED_RULES);
        assert_eq!(event["rules_left_out"], 1000 - MAX_SAMPLED_RULES);
        assert!(names(&event, "rule-999") && !names(&event, "rule-500"));
        for number in 100..200 {
            decide(number, Transport::Http, 100);
        }
        let event = told(&mut sampler, &app);
        assert_eq!(event["totals"]["allowed"], 11_005);
        assert!(names(&event, "rule-150") && !names(&event, "rule-999"), "those of now");
    }

    #[test]
    fn a_name_cannot_end_an_event() {
        let gate = Gate::new(Policy::new()).unwrap();
        let app = App::new(Backend::Memory(gate), Settings::default());
        let key = &[("user", "a\n\nevent: b\r\rdata: c")];
        let sample = KeySample { rule: "", is_shadow: false, key };
        let counts = KeyCounts { seen: 1, denied: 1, over: 0 };
        app.watched.top.count(sample, counts, app.backend.clock().now());
        let event = Sampler::default().event(&app);
        let text = std::str::from_utf8(&event).unwrap();
        assert!(text.contains("event: b"), "{text}");
        assert_eq!((text.matches('\n').count(), text.matches('\r').count()), (3, 0), "{text}");
    }
}
