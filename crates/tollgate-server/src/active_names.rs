//! The names that the active policy has: what is counted and listed under other names is of rules
//! and lists that were removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::Policy;

use crate::app::App;
use crate::client_limits::CLIENT_LIMITS;
use crate::metrics::{NO_RULE, OTHERS};

/// The names of the rules and lists of a policy.
#[derive(Debug, Default)]
pub(crate) struct ActiveNames {
    enforced: BTreeSet<Box<str>>,
    shadow: BTreeSet<Box<str>>,
    lists: BTreeSet<Box<str>>,
}

/// The names of the active policy, worked out once for each policy.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<Option<(Arc<Policy>, Arc<ActiveNames>)>>);

impl ActiveNames {
    pub(crate) fn of(policy: &Policy) -> ActiveNames {
        let rules = |is_shadow: bool| {
            let rules = policy.rules.iter().filter(move |rule| rule.shadow == is_shadow);
            rules.map(|rule| (*rule.name).into()).collect()
        };
        let lists = policy.allow.iter().chain(&policy.deny);
        ActiveNames {
            enforced: rules(false),
            shadow: rules(true),
            lists: lists.map(|list| (*list.name).into()).collect(),
        }
    }

    /// `true` if a rule of this name is in shadow.
    pub(crate) fn is_shadow(&self, rule: &str) -> bool {
        self.shadow.contains(rule)
    }

    /// `true` if a rule has this name, in shadow or not.
    pub(crate) fn has_rule(&self, name: &str) -> bool {
        self.enforced.contains(name) || self.shadow.contains(name)
    }

    /// `true` if decisions are counted under this name: of a rule or list, or of no rule of the
    /// policy.
    pub(crate) fn has_counts(&self, name: &str) -> bool {
        let is_of_no_policy = [NO_RULE, OTHERS, CLIENT_LIMITS].contains(&name);
        is_of_no_policy || self.has_rule(name) || self.lists.contains(name)
    }
}

impl App {
    /// Counts a policy that was activated, and forgets the counts of what it does not have.
    pub(crate) fn count_policy_change(&self) {
        self.metrics.reloads.changed();
        self.active_names();
    }

    /// The names of the active policy. If the policy was replaced, the counts of removed rules and
    /// lists are forgotten first.
    pub(crate) fn active_names(&self) -> Arc<ActiveNames> {
        let mut known = self.names.0.lock();
        // Under the lock, so that no older policy follows a newer one.
        let policy = self.backend.policy();
        if let Some((of, names)) = &*known
            && Arc::ptr_eq(of, &policy)
        {
            return Arc::clone(names);
        }
        let names = Arc::new(ActiveNames::of(&policy));
        self.metrics.decisions.write().keep_names(&names);
        *known = Some((policy, Arc::clone(&names)));
        names
    }
}
