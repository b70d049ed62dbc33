//! The parts of a policy, in words.

use std::time::Duration;

use tollgate::{
    BlockPolicy, Client, Condition, Cost, KeyAttribute, OnStoreError, RuleLimits, SyncMode,
};

use crate::duration::exact;

/// What must hold for an attribute: `must be one of "POST", "PUT"`.
pub(crate) fn condition(condition: &Condition) -> String {
    let quoted = |texts: &[String]| {
        texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ")
    };
    match condition {
        Condition::Equals(text) => format!("must be {text:?}"),
        Condition::AnyOf(texts) => format!("must be one of {}", quoted(texts)),
        Condition::Prefix(texts) => format!("must begin with {}", quoted(texts)),
        Condition::Glob(globs) => {
            let texts: Vec<String> = globs.iter().map(|glob| glob.as_str().to_owned()).collect();
            format!("must look like {}", quoted(&texts))
        }
        Condition::Cidr(networks) => {
            let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
            format!("must be in {}", networks.join(", "))
        }
        Condition::Present => "must be present".to_owned(),
        Condition::Absent => "must be absent".to_owned(),
        Condition::Not(other) => negated(&self::condition(other)),
        other => format!("{other:?}"),
    }
}

/// The opposite of what must hold.
fn negated(must: &str) -> String {
    must.replacen("must", "must not", 1)
}

/// Which requests are meant: `route must be "/search", ip must be in 10.0.0.0/8`.
pub(crate) fn matches(matches: &[(String, Condition)]) -> String {
    if matches.is_empty() {
        return "every request".to_owned();
    }
    let each = matches.iter().map(|(name, holds)| format!("{name} {}", condition(holds)));
    each.collect::<Vec<_>>().join(", ")
}

/// How much is allowed: `10/s and 1000/h sliding_log`.
pub(crate) fn numbers(numbers: &RuleLimits) -> String {
    match numbers {
        RuleLimits::Unlimited => "unlimited".to_owned(),
        RuleLimits::All(limits) => {
            let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
            limits.join(" and ")
        }
        other => format!("{other:?}"),
    }
}

/// What counts together: `tenant, user (or "anonymous")`.
pub(crate) fn key(key: &[KeyAttribute]) -> String {
    if key.is_empty() {
        return "everybody together".to_owned();
    }
    let each = key.iter().map(|part| match &part.default {
        Some(default) => format!("{} (or {default:?})", attribute(part)),
        None => attribute(part),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The attribute of a part of a key, with the bits that are counted if the rule says them: `ip/24/48`.
pub(crate) fn attribute(part: &KeyAttribute) -> String {
    match part.address {
        Some(prefix) => format!("{}/{}/{}", part.attribute, prefix.v4(), prefix.v6()),
        None => part.attribute.clone(),
    }
}

pub(crate) fn cost(cost: &Cost) -> String {
    match cost {
        Cost::Request => "what the request asks for".to_owned(),
        Cost::Units(units) => format!("always {units}"),
        Cost::Attribute { name, multiplier, default } => {
            let times = if *multiplier == 1 { String::new() } else { format!(" x {multiplier}") };
            format!("{name}{times} ({default} where it is absent)")
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn block(block: Option<&BlockPolicy>) -> String {
    match block {
        None => "none".to_owned(),
        Some(BlockPolicy { first, factor: 1, .. }) => exact(*first),
        Some(BlockPolicy { first, factor, max }) => {
            format!("{}, {factor} times longer each time, up to {}", exact(*first), exact(*max))
        }
    }
}

pub(crate) fn public_name(name: Option<&str>) -> String {
    match name {
        None => "as the name".to_owned(),
        Some("") => "hidden".to_owned(),
        Some(name) => format!("{name:?}"),
    }
}

pub(crate) fn on_store_error(choice: Option<OnStoreError>) -> String {
    match choice {
        None => "as the policy says".to_owned(),
        Some(OnStoreError::Local) => "local".to_owned(),
        Some(OnStoreError::Allow) => "allow".to_owned(),
        Some(OnStoreError::Deny) => "deny".to_owned(),
        Some(other) => format!("{other:?}"),
    }
}

pub(crate) fn sync(mode: Option<SyncMode>) -> String {
    match mode {
        None => "as the policy says".to_owned(),
        Some(SyncMode::Strict) => "strict".to_owned(),
        Some(SyncMode::Leased) => "leased".to_owned(),
        Some(other) => format!("{other:?}"),
    }
}

pub(crate) fn lease_ttl(ttl: Option<Duration>) -> String {
    ttl.map_or_else(|| "as the policy says".to_owned(), exact)
}

pub(crate) fn lease_share(percent: Option<u8>) -> String {
    percent.map_or_else(|| "as the policy says".to_owned(), |percent| format!("{percent}%"))
}

/// Who is meant by an override: `tenant=acme user=42`.
pub(crate) fn client(client: &Client) -> String {
    let each = client.iter().map(|(name, value)| format!("{name}={value}"));
    each.collect::<Vec<_>>().join(" ")
}
