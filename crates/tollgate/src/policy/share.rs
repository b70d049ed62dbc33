//! What one of several nodes decides by while the store that they share is away.

use super::{OnStoreError, Override, Policy, RuleLimits};

impl Policy {
    /// The policy that one of `nodes` goes on with while the store is away: numbers divided, at
    /// least one unit each; rules that do not count without the store have no limit.
    #[doc(hidden)]
    #[must_use]
    pub fn fallback_share(&self, nodes: u64) -> Policy {
        let mut policy = self.clone();
        for rule in &mut policy.rules {
            let share = |numbers: &mut RuleLimits| self.share(&rule.name, numbers, nodes);
            share(&mut rule.limits);
            rule.tiers.values_mut().for_each(share);
        }
        for rules in policy.tiers.values_mut() {
            rules.iter_mut().for_each(|(rule, numbers)| self.share(rule, numbers, nodes));
        }
        for change in &mut policy.overrides {
            *change = self.share_override(change, nodes);
        }
        policy
    }

    /// An override as one of `nodes` goes on with it.
    #[doc(hidden)]
    #[must_use]
    pub fn share_override(&self, change: &Override, nodes: u64) -> Override {
        let mut change = change.clone();
        change.limits.iter_mut().for_each(|(rule, numbers)| self.share(rule, numbers, nodes));
        change
    }

    fn share(&self, rule: &str, numbers: &mut RuleLimits, nodes: u64) {
        let rule = self.rules.iter().find(|known| known.name == *rule);
        let choice = rule.and_then(|rule| rule.on_store_error).unwrap_or(self.on_store_error);
        match (choice, &mut *numbers) {
            (OnStoreError::Local, RuleLimits::All(limits)) => {
                limits.iter_mut().for_each(|limit| *limit = limit.divided_by(nodes));
            }
            _ => *numbers = RuleLimits::Unlimited,
        }
    }
}
