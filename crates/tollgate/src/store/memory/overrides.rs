//! Overrides that were set at run time, kept with the store so that its snapshots hold them.

use std::collections::BTreeMap;

use crate::policy::{Client, Override};
use crate::sync::{Mutex, lock};
use crate::time::Timestamp;

/// Overrides by client; `None` if an override of the policy was removed.
type RunTimeOverrides = BTreeMap<Client, Option<Override>>;

/// The overrides of the gates over a store. Each gate applies its own; a gate that is built over the
/// store starts with these.
#[derive(Debug, Default)]
pub(crate) struct KeptOverrides(Mutex<RunTimeOverrides>);

impl KeptOverrides {
    pub(crate) fn set(&self, client: Client, change: Option<Override>) {
        lock(&self.0).insert(client, change);
    }

    pub(crate) fn remove(&self, client: &Client) {
        lock(&self.0).remove(client);
    }

    pub(crate) fn replace(&self, overrides: RunTimeOverrides) {
        *lock(&self.0) = overrides;
    }

    /// Those that have not ended by `now`.
    pub(crate) fn list(&self, now: Timestamp) -> RunTimeOverrides {
        let is_over = |change: &Override| change.until.is_some_and(|until| until <= now);
        let all = lock(&self.0);
        let live = all.iter().filter(|(_, change)| !change.as_ref().is_some_and(is_over));
        live.map(|(client, change)| (client.clone(), change.clone())).collect()
    }
}
