//! A change by operators, with the values before and after it.

use serde::Serialize;
use serde_json::{Value, json};

use crate::bounds::MAX_CHANGE_SUMMARY;

/// A change, as the answer and the audit log show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub(super) action: &'static str,
    /// The key, the rule, the client or the policy that was changed.
    pub(super) target: Value,
    /// The value before the change, and null if there was none or it is not known.
    pub(super) before: Value,
    /// The value after the change, as `before`.
    pub(super) after: Value,
    /// The outcome.
    pub(super) result: Value,
}

impl Change {
    pub(super) fn new(action: &'static str, target: Value) -> Change {
        Change { action, target, before: Value::Null, after: Value::Null, result: json!({}) }
    }

    pub(super) fn values(self, before: Value, after: Value) -> Change {
        Change { before, after, ..self }
    }

    pub(super) fn result(self, result: Value) -> Change {
        Change { result, ..self }
    }

    /// The reason why the change failed, if it did. Some of it may have been done.
    pub(super) fn failure(&self) -> Option<&str> {
        self.result.get("failed")?.as_str()
    }

    /// The values before and after in a few words, in parentheses; empty if neither is known.
    pub(super) fn summary(&self) -> String {
        let version = |value: &Value| Some(value.get("version")?.as_str()?.to_owned());
        let text = match (version(&self.before), version(&self.after)) {
            (Some(before), Some(after)) => format!("version {before} → {after}"),
            _ if self.before.is_null() && self.after.is_null() => return String::new(),
            _ => format!("{} → {}", words(&self.before), words(&self.after)),
        };
        let mut chars = text.chars();
        let shown: String = chars.by_ref().take(MAX_CHANGE_SUMMARY).collect();
        format!(" ({shown}{})", if chars.next().is_some() { "…" } else { "" })
    }
}

/// A value in words: the fields of an object that say something.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !is_empty(value));
            let fields: Vec<String> =
                fields.map(|(name, value)| format!("{name} {}", words(value))).collect();
            if fields.is_empty() { "none".to_owned() } else { fields.join(", ") }
        }
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(" and "),
        other => other.to_string(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(values) => values.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(before: Value, after: Value) -> String {
        Change::new("apply", json!({})).values(before, after).summary()
    }

    #[test]
    fn summary_has_the_values_before_and_after() {
        let version = |version: &str| json!({"version": version, "rules": 3});
        assert_eq!(summary(version("aa"), version("bb")), " (version aa → bb)");
        let limit = |limit: &str| json!({"limits": {"api": limit}, "tier": null, "until": null});
        assert_eq!(summary(limit("1/s"), limit("2/s")), " (limits api 1/s → limits api 2/s)");
        assert_eq!(summary(Value::Null, limit("2/s")), " (none → limits api 2/s)");
        let until = json!({"blocked_until": "2026-01-01T00:00:00Z"});
        assert_eq!(
            summary(json!({"blocked_until": null}), until),
            " (none → blocked_until 2026-01-01T00:00:00Z)"
        );
        assert_eq!(summary(Value::Null, Value::Null), "");
    }

    #[test]
    fn summary_is_bounded() {
        let long = summary(Value::Null, json!("ü".repeat(10 * MAX_CHANGE_SUMMARY)));
        assert!(long.chars().count() <= MAX_CHANGE_SUMMARY + 5 && long.ends_with("…)"), "{long}");
    }
}
