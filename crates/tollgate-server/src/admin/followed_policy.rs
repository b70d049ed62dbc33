//! Policies that a server activates because their file or folder has changed.

use tollgate::{Policy, PolicyError, ReplaceOutcome};

use super::audit::Entry;
use super::call::at;
use super::policy::{Seen, policy_change};
use crate::app::App;
use crate::policy_version::version;

/// The actor of such a change in the audit log. No token can be called so.
const POLICY_FILE: &str = "policy file";

/// Activates a policy that was read from its source, and keeps the change in the audit log unless it
/// changes nothing. May wait for the disk.
pub(crate) fn activate_followed(app: &App, policy: Policy) -> Result<(), PolicyError> {
    let after = version(&policy.to_toml());
    loop {
        let before = app.backend.policy();
        let seen = Seen { version: app.policy_version.of(&before).to_string(), policy: before };
        let change = policy_change(app, "reload", &seen, &policy, &after);
        // Otherwise an operator has replaced the policy meanwhile.
        if app.backend.activate(&seen.policy, policy.clone())? == ReplaceOutcome::Replaced {
            if seen.version != after {
                let at = at(app.backend.clock().now());
                let actor = POLICY_FILE.to_owned();
                app.operators.audit.add_blocking(Entry { at, actor, address: None, change });
            }
            return Ok(());
        }
    }
}
