//! Doing what the state asks for: questions to the server, and their answers in our words.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::client::{Client, Problem};
use super::state::{Asked, Change, Found, HottestOf, OtherKeys, Target};
use super::text::{self, Key};
use super::told::{
    Changed, Denials, FoundKey, Hottest, KeyStanding, Keys, Overrides, RuleStanding, Standing,
};

/// As many as anybody looks through.
const FOUND: usize = 50;

/// The server stops searching after some ten milliseconds; so often it is asked to go on.
const MOST_PAGES: usize = 50;

/// The keys with the most requests, of one rule or of all; of a shadow rule, the keys that it would
/// have denied most.
pub(super) async fn hottest(client: &Client, of: &HottestOf) -> Result<Hottest, Problem> {
    let by = if matches!(of, HottestOf::Shadow(_)) { "would_deny" } else { "traffic" };
    let rule = match of {
        HottestOf::AllRules => String::new(),
        HottestOf::Rule(rule) | HottestOf::Shadow(rule) => {
            format!("&rule={}", utf8_percent_encode(rule, NON_ALPHANUMERIC))
        }
    };
    client.get(&format!("top?by={by}&limit=20{rule}")).await
}

/// The status of a client under every rule that applies to its attributes, or of the selected key
/// of one rule. Each is one answer of the server: figures of two moments could contradict.
pub(super) async fn standing(client: &Client, asked: &Asked) -> Result<Standing, Problem> {
    let key = match asked {
        Asked::Row(Target { key, .. }) | Asked::Client(key, _) => key,
    };
    let body = json!({"attributes": key});
    let mut standing: Standing = client.send(Method::POST, "keys/status", &body).await?;
    if let Asked::Row(target) = asked {
        standing.rules.retain(|of| of.rule == target.rule);
        // The rule may need more attributes than those of its key.
        if standing.rules.is_empty() {
            standing.rules.push(of_key(client, target).await?);
        }
    }
    Ok(standing)
}

/// The active keys that hold an attribute of a client, with the key of the rule that it was found
/// by first: that one may be blocked without a state.
pub(super) async fn others(
    client: &Client,
    key: &Key,
    rule: Option<&str>,
) -> Result<OtherKeys, Problem> {
    let mut keys: Vec<RuleStanding> = Vec::new();
    if let Some(rule) = rule {
        keys.push(of_key(client, &Target { rule: rule.to_owned(), key: key.clone() }).await?);
    }
    let attributes = json!(key).to_string();
    let (found, more) = search(client, "attributes", &attributes).await?;
    for of in found.into_iter().filter(|of| of.whole).filter_map(FoundKey::standing) {
        match keys.iter_mut().find(|known| known.rule == of.rule && known.key == of.key) {
            Some(known) => known.shadow = of.shadow,
            None => keys.push(of),
        }
    }
    keys.sort_by_key(|of| of.allowed || of.shadow);
    Ok(OtherKeys { keys, more })
}

async fn of_key(client: &Client, target: &Target) -> Result<RuleStanding, Problem> {
    let told: KeyStanding = client.send(Method::POST, "keys/status", &named(target)).await?;
    Ok(told.into())
}

fn named(target: &Target) -> Value {
    json!({"rule": target.rule, "key": target.key})
}

/// Keys that hold a text; a denied one is known also where nothing of it is left in the store.
pub(super) async fn find(client: &Client, text: &str) -> Result<Found, Problem> {
    let contains = utf8_percent_encode(text, NON_ALPHANUMERIC);
    let denials: Denials =
        client.get(&format!("denials?contains={contains}&limit={FOUND}")).await?;
    let (mut keys, mut more) = search(client, "contains", text).await?;
    for denied in denials.denials {
        let is_known = |of: &FoundKey| of.rule == denied.rule && of.key == denied.key;
        if denied.rule.is_some() && !keys.iter().any(is_known) {
            keys.push(FoundKey { limit: None, retry_after_ms: None, ..denied });
        }
    }
    more |= keys.len() > FOUND;
    keys.truncate(FOUND);
    Ok(Found { keys, more })
}

/// Active keys that match, and whether there are more.
async fn search(
    client: &Client,
    parameter: &str,
    value: &str,
) -> Result<(Vec<FoundKey>, bool), Problem> {
    let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
    let (mut keys, mut cursor) = (Vec::new(), String::new());
    for _ in 0..MOST_PAGES {
        let page: Keys =
            client.get(&format!("keys?{parameter}={value}&limit={FOUND}{cursor}")).await?;
        keys.extend(page.keys);
        match page.next {
            Some(next) if keys.len() < FOUND => cursor = format!("&cursor={next}"),
            next => return Ok((keys, next.is_some())),
        }
    }
    Ok((keys, true))
}

/// Makes a change; what was done, in words.
pub(super) async fn change(client: &Client, change: &Change) -> Result<String, Problem> {
    match change {
        Change::Reset(target) => {
            let done = post(client, "keys/reset", &named(target)).await?;
            Ok(match done.result.keys {
                Some(0) => format!("{} already has its full quota", target.shown()),
                _ => format!("{} was reset: full quota restored", target.shown()),
            })
        }
        Change::Block(target, seconds) => {
            let mut body = named(target);
            body["for_seconds"] = (*seconds).into();
            post(client, "blocks", &body).await?;
            let length = text::wait(seconds.saturating_mul(1000));
            Ok(format!("{} is blocked for {length}", target.shown()))
        }
        Change::Lift(target) => {
            let done = post(client, "blocks/lift", &named(target)).await?;
            Ok(match done.result.keys {
                Some(0) => format!("{} was not blocked", target.shown()),
                _ => format!("{} is unblocked", target.shown()),
            })
        }
        Change::RemoveOverride(target) => {
            let body = json!({"client": target.key});
            let done = post(client, "overrides/remove", &body).await?;
            let client = text::key(&target.key);
            Ok(match done.result.removed {
                Some(false) => format!("{client} had no override"),
                _ => format!("the override of {client} was removed"),
            })
        }
        Change::Override(target, limits, tier, seconds) => {
            let known = known_override(client, &target.key).await?;
            let body = override_body(target, (limits, tier.as_deref()), *seconds, known);
            let _: Changed = client.send(Method::PUT, "overrides", &body).await?;
            let length = seconds.map_or("without expiry".to_owned(), |seconds| {
                format!("for {}", text::wait(seconds.saturating_mul(1000)))
            });
            Ok(format!("override saved for {} {length}", target.shown()))
        }
    }
}

async fn post(client: &Client, question: &str, body: &Value) -> Result<Changed, Problem> {
    client.send(Method::POST, question, body).await
}

/// What an override gives a client already.
type Known = (Map<String, Value>, Option<String>);

/// A new override replaces the one before: what that gives stays unless it is changed.
fn override_body(
    target: &Target,
    (limits, tier): (&[String], Option<&str>),
    seconds: Option<u64>,
    (mut known, known_tier): Known,
) -> Value {
    match limits {
        [] => {}
        [one] => drop(known.insert(target.rule.clone(), one.as_str().into())),
        more => drop(known.insert(target.rule.clone(), more.into())),
    }
    let tier = tier.map(str::to_owned).or(known_tier);
    let mut body = json!({"client": target.key, "limits": known, "tier": tier});
    if let Some(seconds) = seconds {
        body["for_seconds"] = seconds.into();
    }
    body
}

async fn known_override(client: &Client, key: &Key) -> Result<Known, Problem> {
    let mut cursor = String::new();
    for _ in 0..MOST_PAGES {
        let page: Overrides = client.get(&format!("overrides?limit=1000{cursor}")).await?;
        let known = page.overrides.into_iter().find(|of| of.client == *key && !of.ended);
        if let Some(known) = known {
            return Ok((known.limits, known.tier));
        }
        match page.next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(Known::default()),
        }
    }
    let detail = "there are too many overrides to find out what this one would replace";
    Err(Problem::no_answer(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_key_are_those_of_its_tightest_limit() {
        let told = r#"{"rule": "per-user", "key": {"user": "42"}, "blocked_ms": null, "limits": [
            {"numbers": "9/s", "limit": 9, "remaining": 9, "retry_after_ms": 0, "reset_after_ms": 0},
            {"numbers": "5/h", "limit": 5, "remaining": 0, "retry_after_ms": 70, "reset_after_ms": 900},
            {"numbers": "7/h", "limit": 7, "remaining": 2, "retry_after_ms": 0, "reset_after_ms": 800}
        ]}"#;
        let told: KeyStanding = serde_json::from_str(told).unwrap();
        let of = RuleStanding::from(told);
        assert_eq!((of.allowed, of.limit, of.remaining), (false, Some(5), Some(0)));
        assert_eq!(of.numbers, ["9/s", "5/h", "7/h"]);
    }

    #[test]
    fn an_override_keeps_what_the_one_before_it_gave() {
        let key = Key::from([("tenant".to_owned(), "acme".to_owned())]);
        let target = Target { rule: "per-tenant".to_owned(), key };
        let known = || {
            let limits = Map::from_iter([("search".to_owned(), Value::from("5/s"))]);
            (limits, Some("pro".to_owned()))
        };
        let body = override_body(&target, (&["9/s".to_owned()], None), Some(60), known());
        let kept = json!({
            "client": {"tenant": "acme"}, "limits": {"search": "5/s", "per-tenant": "9/s"},
            "tier": "pro", "for_seconds": 60,
        });
        assert_eq!(body, kept);
        let two = ["9/s".to_owned(), "90/h".to_owned()];
        let body = override_body(&target, (&two, Some("free")), None, known());
        assert_eq!(body["limits"]["per-tenant"], json!(["9/s", "90/h"]));
        assert_eq!((&body["tier"], body.get("for_seconds")), (&json!("free"), None));
    }
}
