//! Clients with a tier or numbers of their own, and the tiers there are.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate::{
    Client, Limit, ListedOverride, Override, OverrideRemoval, OverrideSource, Policy, RuleLimits,
    Timestamp,
};

use super::call::{Answer, Call, Reply, at, cursor, entire, object, wrong};
use super::change::Change;
use crate::bounds::{MAX_LIMITS_NAMED, MAX_SECONDS};
use crate::http::{Attributes, Problem, cut, parse};

pub(super) const SET_EXAMPLE: &str =
    r#"{"client": {"user": "42"}, "limits": {"per-user": "1000/min"}, "for_seconds": 3600}"#;
pub(super) const REMOVE_EXAMPLE: &str = r#"{"client": {"user": "42"}}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<'a> {
    #[serde(borrow)]
    client: Attributes<'a>,
    #[serde(borrow)]
    tier: Option<Cow<'a, str>>,
    #[serde(default)]
    limits: BTreeMap<String, OneOrMore>,
    #[serde(borrow)]
    until: Option<Cow<'a, str>>,
    for_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a limit such as \"100/min\", an array of them, or \"unlimited\"")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removed<'a> {
    #[serde(borrow)]
    client: Attributes<'a>,
}

pub(super) async fn list(call: Call) -> Answer {
    let query = call.query(&["limit", "cursor"])?;
    let most = query.most(100)?;
    let after: Option<Client> = query.cursor()?;
    let mut all = call.app.backend.overrides();
    all.sort_unstable_by(|a, b| a.details.client.cmp(&b.details.client));
    let is_later =
        |of: &&ListedOverride| after.as_ref().is_none_or(|after| of.details.client > *after);
    let mut later = all.iter().filter(is_later).peekable();
    let page: Vec<_> = later.by_ref().take(most).collect();
    let next = later.peek().and(page.last()).map(|last| cursor(&last.details.client));
    let now = call.now();
    let overrides = page.iter().map(|of| {
        let mut shown = shown(&of.details, entire(&of.details.client), now);
        shown["source"] = source_word(of.source).into();
        shown
    });
    let overrides: Vec<Value> = overrides.collect();
    Ok(Reply::Told(json!({"overrides": overrides, "next": next})))
}

/// The origin of an override in JSON.
pub(super) fn source_word(source: OverrideSource) -> &'static str {
    match source {
        OverrideSource::RunTime => "run_time",
        _ => "policy_file",
    }
}

/// The override of a client, for the audit log.
fn value(of: Option<ListedOverride>) -> Value {
    let Some(ListedOverride { details, source, .. }) = of else { return Value::Null };
    let all = details.limits.iter();
    let limits = all.take(MAX_LIMITS_NAMED).map(|(rule, one)| (rule.clone(), numbers(one)));
    let mut value = json!({
        "tier": details.tier,
        "limits": limits.collect::<Map<_, _>>(),
        "until": details.until.map(at),
        "source": source_word(source),
    });
    let omitted = details.limits.len().saturating_sub(MAX_LIMITS_NAMED);
    if omitted > 0 {
        value["omitted"] = omitted.into();
    }
    value
}

fn shown(change: &Override, client: Value, now: Timestamp) -> Value {
    let limits = change.limits.iter().map(|(rule, one)| (rule.clone(), numbers(one)));
    json!({
        "client": client,
        "tier": change.tier,
        "limits": limits.collect::<Map<_, _>>(),
        "until": change.until.map(at),
        "ended": change.until.is_some_and(|until| until <= now),
    })
}

fn numbers(numbers: &RuleLimits) -> Value {
    let texts: Vec<_> = numbers.limits().iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => "unlimited".into(),
        [one] => one.as_str().into(),
        _ => texts.into(),
    }
}

pub(super) async fn set(mut call: Call) -> Answer {
    let body = call.short_bytes().await?;
    let now = call.now();
    let asked: Asked<'_> = parse(&body, SET_EXAMPLE)?;
    asked.client.check(call.bounds()).map_err(|over| over.example(SET_EXAMPLE))?;
    let change = asked.change(now).map_err(|problem| problem.example(SET_EXAMPLE))?;
    if let Some(tier) = change.tier.as_ref().filter(|_| !change.client.is_empty()) {
        known_tier(&call.app.backend.policy(), tier)?;
    }
    let target = json!({"client": object(&change.client)});
    call.begun.change("set_override", target.clone());
    let (client, backend) = (change.client.clone(), &call.app.backend);
    let before = value(backend.override_of(&client));
    if let Err(error) = backend.set_override(change).await? {
        let problems: Vec<_> = error.problems.iter().map(|of| of.message.as_str()).collect();
        return Err(wrong(problems.join("; ")).example(SET_EXAMPLE));
    }
    let after = value(backend.override_of(&client));
    Ok(Reply::Changed(Change::new("set_override", target).values(before, after)))
}

/// Refuses a tier that the policy does not have: with it the client would have no more than before.
fn known_tier(policy: &Policy, tier: &str) -> Result<(), Problem> {
    let own = policy.rules.iter().flat_map(|rule| rule.tiers.keys());
    let known = policy.tiers.keys().chain(own).chain(&policy.default_tier);
    let known: BTreeSet<&str> = known.map(String::as_str).collect();
    if known.contains(tier) {
        return Ok(());
    }
    let there_are = match known.len() {
        0 => "the policy has no tiers".to_owned(),
        _ => format!("must be one of {}", cut(&Vec::from_iter(known).join(", "))),
    };
    Err(wrong(format!("there is no tier {:?}, {there_are}", cut(tier))).example(SET_EXAMPLE))
}

impl Asked<'_> {
    fn change(&self, now: Timestamp) -> Result<Override, Problem> {
        let mut change = Override::of(client(&self.client));
        if let Some(tier) = &self.tier {
            change = change.tier(tier.as_ref());
        }
        for (rule, limits) in &self.limits {
            change = change.limits(rule, limits.numbers(rule)?);
        }
        Ok(match self.until(now)? {
            Some(until) => change.until(until),
            None => change,
        })
    }

    fn until(&self, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
        match (&self.until, self.for_seconds) {
            (None, None) => Ok(None),
            (None, Some(seconds)) if (1..=MAX_SECONDS).contains(&seconds) => {
                Ok(Some(now.saturating_add(Duration::from_secs(seconds))))
            }
            (None, Some(_)) => {
                Err(wrong(format!("\"for_seconds\" must be from 1 to {MAX_SECONDS}")))
            }
            (Some(_), Some(_)) => Err(wrong("it has both \"until\" and \"for_seconds\"")),
            (Some(text), None) => {
                let moment = text.parse::<jiff::Timestamp>().ok();
                let nanos = moment.and_then(|moment| u64::try_from(moment.as_nanosecond()).ok());
                let until = nanos.map(Timestamp::from_nanos).filter(|until| *until > now);
                until.map(Some).ok_or_else(|| {
                    let (text, now) = (cut(text), at(now));
                    wrong(format!("\"until\" is {text:?}, must be a moment after {now}"))
                })
            }
        }
    }
}

impl OneOrMore {
    fn numbers(&self, rule: &str) -> Result<RuleLimits, Problem> {
        let read = |text: &String| {
            let refuse = |error| wrong(format!("the limit for {:?}: {error}", cut(rule)));
            text.parse::<Limit>().map_err(refuse)
        };
        match self {
            OneOrMore::One(text) if text == "unlimited" => Ok(RuleLimits::Unlimited),
            OneOrMore::One(text) => Ok(read(text)?.into()),
            OneOrMore::More(texts) => {
                Ok(RuleLimits::All(texts.iter().map(read).collect::<Result<_, _>>()?))
            }
        }
    }
}

fn client(attributes: &Attributes<'_>) -> Client {
    attributes.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

pub(super) async fn remove(mut call: Call) -> Answer {
    let body = call.short_bytes().await?;
    let asked: Removed<'_> = parse(&body, REMOVE_EXAMPLE)?;
    asked.client.check(call.bounds()).map_err(|over| over.example(REMOVE_EXAMPLE))?;
    let client = client(&asked.client);
    let target = json!({"client": object(&client)});
    call.begun.change("remove_override", target.clone());
    let backend = &call.app.backend;
    let before = value(backend.override_of(&client));
    let removal = backend.remove_override(&client).await?;
    if removal == OverrideRemoval::InPolicy {
        return Err(in_policy(&call));
    }
    let result = json!({"removed": removal == OverrideRemoval::Removed});
    let change = Change::new("remove_override", target);
    let after = value(backend.override_of(&client));
    Ok(Reply::Changed(change.values(before, after).result(result)))
}

/// The rejection of the removal of an override that the policy has.
fn in_policy(call: &Call) -> Problem {
    let file = call.app.operators.policy_name().unwrap_or_else(|| "the policy".to_owned());
    let detail = format!(
        "the override comes from {file}: change it there, or set a run-time override for this \
         client, which takes precedence"
    );
    Problem::new(StatusCode::CONFLICT, detail)
}

/// The tiers of the policy in force, with what each changes.
pub(super) async fn tiers(call: Call) -> Answer {
    call.query(&[])?;
    let policy = call.app.backend.policy();
    let mut tiers: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (tier, rules) in &policy.tiers {
        let of_tier = tiers.entry(tier).or_default();
        of_tier.extend(rules.iter().map(|(rule, one)| (rule.clone(), numbers(one))));
    }
    for rule in &policy.rules {
        // A rule's own come first.
        for (tier, one) in &rule.tiers {
            tiers.entry(tier).or_default().insert(rule.name.clone(), numbers(one));
        }
    }
    let (from, default) = (&policy.tier_from, &policy.default_tier);
    Ok(Reply::Told(json!({"tier_from": from, "default_tier": default, "tiers": tiers})))
}
