//! Overrides that are set and removed while the gate runs.

use std::sync::Arc;

use super::overrides::{ClientOverride, OverrideOrigin};
use super::{ActivePolicy, Gate, RuntimeChanges, canonical, policy_overrides, refused};
use crate::policy::{
    Client, EntryFingerprint, ListedOverride, Override, OverrideRemoval, PolicyError,
    RunTimeOverride, RunTimeOverrides,
};

impl Gate {
    /// Changes what is different for a client, from the next decision on; replaces an earlier
    /// override of the same client. It takes precedence over one of the policy until it ends, is
    /// removed, or the policy's override of the client changes.
    ///
    /// # Errors
    /// Where it names an unknown rule, or its numbers are impossible.
    pub fn set_override(&self, change: Override) -> Result<(), PolicyError> {
        let mut changes = self.0.changes.lock();
        let set = self.run_time_override(change)?;
        let in_force = self.0.in_force.load_full();
        let source = OverrideOrigin::RunTime(Box::new(set.change.clone()));
        let own =
            ClientOverride::new(source, &in_force.compiled, &self.0.store.0).map_err(refused)?;
        self.0.store.0.overrides.set(set.clone());
        changes.overrides.insert(set.change.client.clone(), set);
        self.change_overrides(&mut changes, |overrides| {
            overrides.set(own, &in_force.compiled.addresses);
        });
        Ok(())
    }

    /// Removes the override of a client that was set at run time, from the next decision on. The
    /// policy's override of the client, if there is one, applies again.
    ///
    /// ```
    /// use tollgate::{Client, Gate, Limit, Override, OverrideRemoval, Policy, Rule};
    ///
    /// let rule = Rule::new("api").key(["user"]).limit(Limit::per_hour(10));
    /// let of_policy = Override::new("user", "ana").limits("api", Limit::per_hour(50));
    /// let gate = Gate::new(Policy::new().rule(rule).override_client(of_policy))?;
    /// let ana = Client::from([("user".to_owned(), "ana".to_owned())]);
    ///
    /// gate.set_override(Override::new("user", "ana").limits("api", Limit::per_hour(500)))?;
    /// assert_eq!(gate.remove_override(&ana), OverrideRemoval::Removed);
    /// assert_eq!(gate.remove_override(&ana), OverrideRemoval::InPolicy);
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn remove_override(&self, client: &Client) -> OverrideRemoval {
        let mut changes = self.0.changes.lock();
        let in_force = self.0.in_force.load_full();
        let client = &*canonical::client(&in_force.compiled.addresses, client);
        self.0.store.0.overrides.remove(client);
        if changes.overrides.remove(client).is_some() {
            self.change_overrides(&mut changes, |overrides| overrides.remove_run_time(client));
            return OverrideRemoval::Removed;
        }
        match in_force.overrides.policy_entry(client) {
            Some(_) => OverrideRemoval::InPolicy,
            None => OverrideRemoval::NotFound,
        }
    }

    /// All overrides, one for each client: the one that applies, or one that has ended.
    pub fn overrides(&self) -> Vec<ListedOverride> {
        self.0.in_force.load().overrides.list(self.0.store.0.now()).collect()
    }

    /// Returns the override of a client: the one that applies, or one that has ended.
    pub fn override_of(&self, client: &Client) -> Option<ListedOverride> {
        let in_force = self.0.in_force.load();
        let client = canonical::client(&in_force.compiled.addresses, client);
        in_force.overrides.get(&client, self.0.store.0.now())
    }

    /// Returns an override as it is set at run time under the active policy.
    ///
    /// # Errors
    /// Where it names an unknown rule, or its numbers are impossible.
    #[doc(hidden)]
    pub fn run_time_override(&self, mut change: Override) -> Result<RunTimeOverride, PolicyError> {
        let in_force = self.0.in_force.load();
        let addresses = &in_force.compiled.addresses;
        change.client = canonical::client(addresses, &change.client).into_owned();
        in_force.compiled.policy.check_override(&change)?;
        let entry = in_force.overrides.policy_entry(&change.client);
        let replaces = Some(EntryFingerprint::of(entry));
        Ok(RunTimeOverride { change, replaces })
    }

    /// The client of an override in the form by which it is found.
    #[doc(hidden)]
    pub fn counted_client(&self, client: &Client) -> Client {
        canonical::client(&self.0.in_force.load().compiled.addresses, client).into_owned()
    }

    /// Returns `true` if the policy has an override of this client.
    #[doc(hidden)]
    pub fn has_policy_override(&self, client: &Client) -> bool {
        let in_force = self.0.in_force.load();
        let client = canonical::client(&in_force.compiled.addresses, client);
        in_force.overrides.policy_entry(&client).is_some()
    }

    /// All that was set at run time and not removed, also what does not apply because the policy has
    /// another entry for the client than the one it replaced.
    #[doc(hidden)]
    pub fn run_time_overrides(&self) -> RunTimeOverrides {
        self.0.changes.lock().overrides.clone()
    }

    /// Returns `true` if the override takes precedence over what the policy has for its client.
    #[doc(hidden)]
    pub fn takes_precedence(&self, set: &RunTimeOverride) -> bool {
        self.0.in_force.load().allows(&set.change.client, set)
    }

    /// Puts these in place of everything that was set at run time. Rules that the policy does not
    /// have are left out, and so are overrides whose numbers are impossible. An override that replaces
    /// another entry than the policy has is kept and does not apply: a policy that follows may have
    /// the entry.
    #[doc(hidden)]
    pub fn put_overrides(&self, overrides: RunTimeOverrides) {
        self.put_run_time(&mut self.0.changes.lock(), overrides);
    }

    pub(super) fn restore_run_time(&self, mut overrides: RunTimeOverrides) {
        let mut changes = self.0.changes.lock();
        self.0.in_force.load().drop_outdated(&mut overrides);
        self.put_run_time(&mut changes, overrides);
    }

    fn put_run_time(&self, changes: &mut RuntimeChanges, set: RunTimeOverrides) {
        let old = self.0.in_force.load_full();
        let (store, compiled) = (old.store.clone(), Arc::clone(&old.compiled));
        let Ok(overrides) = policy_overrides(&compiled, &store) else {
            // The active policy was accepted with the same overrides.
            return;
        };
        let mut in_force = ActivePolicy { store, compiled, overrides };
        for (client, set) in &set {
            if in_force.allows(client, set) {
                let _ = in_force.set(&set.change);
            }
        }
        self.0.store.0.overrides.replace(set.clone());
        changes.overrides = set;
        self.put_in_force(in_force, changes);
    }
}
