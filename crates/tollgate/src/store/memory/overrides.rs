//! Overrides that were set at run time, kept with the store so that its snapshots hold them.

use crate::policy::{Client, RunTimeOverride, RunTimeOverrides};
use crate::sync::{Mutex, lock};
use crate::time::Timestamp;

/// The overrides of the gates over a store. Each gate applies its own; a gate that is built over the
/// store starts with these.
#[derive(Debug, Default)]
pub(crate) struct KeptOverrides(Mutex<RunTimeOverrides>);

impl KeptOverrides {
    pub(crate) fn set(&self, set: RunTimeOverride) {
        lock(&self.0).insert(set.change.client.clone(), set);
    }

    pub(crate) fn remove(&self, client: &Client) {
        lock(&self.0).remove(client);
    }

    pub(crate) fn replace(&self, overrides: RunTimeOverrides) {
        *lock(&self.0) = overrides;
    }

    /// Those that have not ended by `now`.
    pub(crate) fn list(&self, now: Timestamp) -> RunTimeOverrides {
        let is_live = |set: &RunTimeOverride| set.change.until.is_none_or(|until| now < until);
        let all = lock(&self.0);
        let live = all.iter().filter(|(_, set)| is_live(set));
        live.map(|(client, set)| (client.clone(), set.clone())).collect()
    }
}
