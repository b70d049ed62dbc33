//! Changes by clients of the Redis protocol, who show no token.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::audit::Entry;
use super::call::{at, object};
use super::change::Change;
use crate::app::App;

/// Who they are in the audit log. No token can be called so.
pub(super) const CLIENTS: &str = "(redis protocol)";

impl App {
    /// Writes down that a client has made a key new, or has failed to and may have done so in part.
    /// Not all of them where they are a flood: the next says how many are missing.
    pub(crate) fn reset_by_client(
        &self,
        from: Option<IpAddr>,
        (rule, values): (&str, &[&str]),
        failed: Option<String>,
    ) {
        let now = self.backend.clock().now();
        let Some(omitted) = self.operators.resets.may_log(now) else { return };
        let policy = self.backend.policy();
        let names = policy.rules.iter().find(|of| of.name == rule).map(|of| of.key.as_slice());
        let names = names.unwrap_or_default().iter().map(|part| part.attribute.as_str());
        let target = json!({"rule": rule, "key": object(names.zip(values))});
        let mut result = match failed {
            None => json!({"keys": 1}),
            Some(why) => json!({"failed": why}),
        };
        if omitted > 0 {
            result["omitted"] = Value::from(omitted);
        }
        let change = Change::new("reset", target).result(result);
        let actor = CLIENTS.to_owned();
        self.operators.audit.note(Entry { at: at(now), actor, address: from, change });
    }
}
