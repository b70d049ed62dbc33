//! Overrides that are set at run time for a fleet.
//!
//! Each node reads the policy file itself, and nodes do not read it at the same moment. An override
//! therefore names the entry of the policy that it replaces, by a fingerprint. A node applies it only
//! while its own policy has that entry. So no order of events brings an override back on a node whose
//! entry has changed. The node that sees an entry change also removes the override from what the fleet
//! shares, unless it was set anew meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use tollgate::port::{
    OverrideRecord, RunTimeOverride, RunTimeOverrides, read_override, write_client, write_override,
};
use tollgate::{Client, ListedOverride, Override, OverrideRemoval, Policy, PolicyError};

use super::builder::GateError;
use super::{RedisGate, portable};
use crate::error::StoreError;

/// The first byte of a field of an override.
const OVERRIDE: u8 = b'o';

/// Overrides that an entry of the policy has replaced on this node, to be removed for the fleet: by
/// field, with the value that was replaced. At most as many as the fleet shares.
#[derive(Debug, Default)]
pub(super) struct Superseded(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Superseded {
    fn add(&self, set: &RunTimeOverride) {
        self.change(|all| all.insert(override_field(&set.change.client), override_value(set)));
    }

    fn has(&self, field: &[u8], value: &[u8]) -> bool {
        self.change(|all| all.get(field).is_some_and(|superseded| superseded == value))
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Vec<u8>, Vec<u8>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RedisGate {
    /// Changes what is different for a client, on every node within a second; replaces an earlier
    /// override of the same client. It takes precedence over one of the policy until it ends, is
    /// removed, or the policy's override of the client changes.
    ///
    /// # Errors
    /// Fails if it names an unknown rule, if its limits are impossible, or if the store does not answer.
    pub async fn set_override(&self, change: Override) -> Result<(), GateError> {
        portable::check_override(&change)?;
        let set = self.0.resolver.run_time_override(change)?;
        self.share(&override_field(&set.change.client), &override_value(&set)).await?;
        self.tend().await?;
        Ok(())
    }

    /// Removes the override of a client that was set at run time, on every node within a second. The
    /// policy's override of the client, if there is one, applies again.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn remove_override(&self, client: &Client) -> Result<OverrideRemoval, StoreError> {
        self.tend().await?;
        let client = self.0.resolver.counted_client(client);
        if self.share(&override_field(&client), b"").await? {
            return Ok(OverrideRemoval::Removed);
        }
        Ok(match self.0.resolver.has_policy_override(&client) {
            true => OverrideRemoval::InPolicy,
            false => OverrideRemoval::NotFound,
        })
    }

    /// All overrides, one for each client: the one that applies on this node, or one that has ended.
    pub fn overrides(&self) -> Vec<ListedOverride> {
        self.0.resolver.overrides()
    }

    /// Returns the override of a client: the one that applies on this node, or one that has ended.
    pub fn override_of(&self, client: &Client) -> Option<ListedOverride> {
        self.0.resolver.override_of(client)
    }

    /// The overrides that were set at run time and apply on this node, or have ended.
    #[doc(hidden)]
    pub fn run_time_overrides(&self) -> RunTimeOverrides {
        let mut all = self.0.resolver.run_time_overrides();
        all.retain(|_, set| self.0.resolver.takes_precedence(set));
        all
    }

    /// Applies the overrides that the fleet shares.
    pub(super) fn put_overrides(&self, fields: &HashMap<Vec<u8>, Vec<u8>>) {
        let superseded = &self.0.shared.superseded;
        let shared = fields.iter().filter(|(field, value)| {
            field.first() == Some(&OVERRIDE) && !superseded.has(field, value)
        });
        let shared = shared.filter_map(|(_, value)| match read_override(value)? {
            OverrideRecord::Set(set) => Some(set),
            _ => None,
        });
        let portable = shared.filter(|set| portable::check_override(&set.change).is_ok());
        let overrides: RunTimeOverrides =
            portable.map(|set| (set.change.client.clone(), set)).collect();
        let known = self.0.resolver.run_time_overrides();
        if overrides != known {
            self.0.resolver.put_overrides(overrides.clone());
            self.share_out();
            self.log_ignored(&overrides, &known);
        }
    }

    /// Logs the overrides that were not `known` and do not apply on this node.
    fn log_ignored(&self, overrides: &RunTimeOverrides, known: &RunTimeOverrides) {
        let new = overrides.iter().filter(|(client, set)| known.get(*client) != Some(*set));
        let mut ignored = new.filter(|(_, set)| !self.0.resolver.takes_precedence(set));
        if let Some((client, _)) = ignored.next() {
            let others = ignored.count();
            tracing::warn!(
                ?client,
                others,
                "run-time override ignored: this node's policy has another entry for its client"
            );
        }
    }

    /// Replaces the policy of this node. Overrides of clients whose entry changes are to be removed
    /// for the fleet.
    pub(super) fn replace_policy(&self, policy: Policy) -> Result<(), PolicyError> {
        let before = self.0.resolver.run_time_overrides();
        self.0.resolver.replace(policy)?;
        let after = self.0.resolver.run_time_overrides();
        let replaced = before.iter().filter(|(client, _)| !after.contains_key(*client));
        replaced.for_each(|(_, set)| self.0.shared.superseded.add(set));
        Ok(())
    }

    /// Removes for the fleet what an entry of the policy has replaced on this node. An override that
    /// was set anew meanwhile has another value, and stays.
    pub(super) async fn remove_superseded(&self) -> Result<(), StoreError> {
        let superseded = &self.0.shared.superseded;
        while let Some((field, value)) = superseded.change(|all| {
            all.first_key_value().map(|(field, value)| (field.clone(), value.clone()))
        }) {
            self.share_only(&[&field, b"", &value]).await?;
            superseded.change(|all| {
                if all.get(&field) == Some(&value) {
                    all.remove(&field);
                }
            });
        }
        Ok(())
    }

    /// Passes the overrides to the fallback that decides while the store is unavailable.
    pub(super) fn share_out(&self) {
        let (policy, nodes) = (self.policy(), self.nodes());
        let part = |(client, set): (Client, RunTimeOverride)| {
            let change = policy.share_override(&set.change, nodes);
            // The local policy has its part of each entry, which has another fingerprint.
            (client, RunTimeOverride { change, replaces: None })
        };
        self.0.local.put_overrides(self.run_time_overrides().into_iter().map(part).collect());
    }
}

fn override_field(client: &Client) -> Vec<u8> {
    let mut field = vec![OVERRIDE];
    write_client(client, &mut field);
    field
}

fn override_value(set: &RunTimeOverride) -> Vec<u8> {
    let mut value = Vec::new();
    write_override(set, &mut value);
    value
}
