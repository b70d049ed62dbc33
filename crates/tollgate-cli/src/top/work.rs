//! Doing what the state asks for: questions to the server, and their answers in our words.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::client::{Client, Problem};
use super::state::{Asked, Change, Found, Target};
use super::text::{self, Key};
use super::told::{
    Changed, Denials, FoundKey, Hottest, KeyStanding, Keys, Overrides, RuleStanding, Standing,
};

/// As many as anybody looks through.
const FOUND: usize = 50;

/// The server stops searching after some ten milliseconds; so often it is asked to go on.
const MOST_PAGES: usize = 50;

pub(super) async fn hottest(client: &Client) -> Result<Hottest, Problem> {
    client.get("top?by=traffic&limit=50").await
}

pub(super) async fn standing(client: &Client, asked: &Asked) -> Result<Standing, Problem> {
    match asked {
        Asked::Row(target) => {
            let of = of_key(client, target).await?;
            let reason = if of.blocked_ms.is_some() { "block" } else { "limits" };
            Ok(Standing {
                allowed: of.allowed,
                reason: reason.to_owned(),
                rule: Some(of.rule.clone()),
                retry_after_ms: of.retry_after_ms,
                tier: None,
                rules: vec![of],
                not_applied: Vec::new(),
            })
        }
        Asked::Client(key, rule) => {
            let body = json!({"attributes": key});
            let mut standing: Standing = client.send(Method::POST, "keys/status", &body).await?;
            // The attributes of a key may not be all that its rule asks for.
            if let Some(rule) = rule
                && standing.rules.iter().all(|of| of.rule != *rule)
            {
                let target = Target { rule: rule.clone(), key: key.clone() };
                standing.rules.insert(0, of_key(client, &target).await?);
                standing.not_applied.retain(|of| of.rule != *rule);
            }
            Ok(standing)
        }
    }
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
    let mut keys: Vec<FoundKey> = Vec::new();
    let mut cursor = String::new();
    let mut more = false;
    for _ in 0..MOST_PAGES {
        let page: Keys =
            client.get(&format!("keys?contains={contains}&limit={FOUND}{cursor}")).await?;
        keys.extend(page.keys);
        more = page.next.is_some();
        match page.next {
            Some(next) if keys.len() < FOUND => cursor = format!("&cursor={next}"),
            _ => break,
        }
    }
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

/// Makes a change; what was done, in words.
pub(super) async fn change(client: &Client, change: &Change) -> Result<String, Problem> {
    match change {
        Change::Reset(target) => {
            let done = post(client, "keys/reset", &named(target)).await?;
            Ok(match done.result.keys {
                Some(0) => format!("{} was as good as new already", target.shown()),
                _ => format!("{} was reset: it is as good as new", target.shown()),
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
                _ => format!("the block of {} was lifted", target.shown()),
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
            let length = seconds.map_or("without end".to_owned(), |seconds| {
                format!("for {}", text::wait(seconds.saturating_mul(1000)))
            });
            Ok(format!("{} has numbers of its own {length}", target.shown()))
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
