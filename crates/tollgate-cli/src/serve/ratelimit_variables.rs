//! Environment variables of envoyproxy/ratelimit, which Tollgate does not read.

use std::path::Path;

use super::config::{Config, Store};
use crate::Failure;
use crate::paint::printable;

/// Variables that only a deployment of envoyproxy/ratelimit sets.
const STOPPING: [&str; 3] = ["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "SHADOW_MODE"];

/// Rejects a server without a policy in the environment of envoyproxy/ratelimit: the built-in
/// policy would replace the limits of its files without notice. Warns of a `REDIS_URL` that has no
/// effect; many platforms set it, so it is no reason to stop.
pub(super) fn check(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if config.policy.is_none()
        && config.envoy_config.is_none()
        && let Some(name) = STOPPING.into_iter().find(|name| set(name).is_some())
    {
        let directory = printable(&directory(set));
        return Err(Failure::Usage(vec![format!(
            "{name} is a variable of envoyproxy/ratelimit, and no policy is given: pass its files \
             with --envoy-config {directory}, or a policy with --policy FILE, or unset {name} to \
             run the built-in policy"
        )]));
    }
    if config.policy.is_none()
        && matches!(config.store, Store::Memory)
        && set("REDIS_URL").is_some()
    {
        // Its value can hold a password.
        tracing::warn!(
            "REDIS_URL is set and not used: state is in memory; pass --store URL to keep it in Redis"
        );
    }
    Ok(())
}

/// The folder that envoyproxy/ratelimit reads, with its defaults. Without any variable of the
/// path, its place is unknown: a container can mount it anywhere.
fn directory(set: impl Fn(&str) -> Option<String>) -> String {
    let (root, below) = (set("RUNTIME_ROOT"), set("RUNTIME_SUBDIRECTORY"));
    if root.is_none() && below.is_none() {
        return "DIR".to_owned();
    }
    let root = root.unwrap_or_else(|| "/srv/runtime_data/current".to_owned());
    let own = set("RUNTIME_APPDIRECTORY").unwrap_or_else(|| "config".to_owned());
    Path::new(&root).join(below.unwrap_or_default()).join(own).display().to_string()
}
