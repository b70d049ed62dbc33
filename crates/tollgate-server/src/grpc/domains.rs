//! The domains that a policy names. Limits that clients bring count only there.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::{Condition, Policy};

/// The attribute that carries the domain of a descriptor.
const DOMAIN: &str = "domain";

/// The domains for which a policy can have a rule.
#[derive(Debug)]
struct Domains {
    /// Whether a rule applies in every domain, or the policy has no rules.
    all: bool,
    names: HashSet<Box<str>>,
    /// Conditions that are no plain names.
    conditions: Vec<Condition>,
}

/// The domains of the active policy, collected once for each policy.
#[derive(Debug, Default)]
pub(crate) struct ActiveDomains(Mutex<Option<(Arc<Policy>, Arc<Domains>)>>);

impl ActiveDomains {
    /// Whether `policy` names `domain`.
    pub(super) fn contain(&self, policy: &Arc<Policy>, domain: &str) -> bool {
        self.of(policy).contains(domain)
    }

    fn of(&self, policy: &Arc<Policy>) -> Arc<Domains> {
        let mut known = self.0.lock();
        match &*known {
            Some((of, domains)) if Arc::ptr_eq(of, policy) => Arc::clone(domains),
            _ => {
                let domains = Arc::new(Domains::of(policy));
                *known = Some((Arc::clone(policy), Arc::clone(&domains)));
                domains
            }
        }
    }
}

impl Domains {
    fn of(policy: &Policy) -> Domains {
        let mut domains = Domains { all: false, names: HashSet::new(), conditions: Vec::new() };
        for rule in &policy.rules {
            domains.all |= !domains.add(&rule.matches);
        }
        for list in &policy.deny {
            // A list for every domain names none.
            domains.add(&list.matches);
        }
        domains.all |= policy.rules.is_empty() && policy.deny.is_empty();
        domains
    }

    /// Adds the conditions on the domain. Returns whether there are any.
    fn add(&mut self, matches: &[(String, Condition)]) -> bool {
        let mut of_domain = matches.iter().filter(|(attribute, _)| attribute == DOMAIN).peekable();
        let has_any = of_domain.peek().is_some();
        for (_, condition) in of_domain {
            match condition {
                Condition::Equals(name) => drop(self.names.insert(name.as_str().into())),
                Condition::AnyOf(names) => {
                    self.names.extend(names.iter().map(|name| name.as_str().into()));
                }
                other => self.conditions.push(other.clone()),
            }
        }
        has_any
    }

    fn contains(&self, domain: &str) -> bool {
        let is_met = |condition: &Condition| condition.matches(Some(domain));
        self.all || self.names.contains(domain) || self.conditions.iter().any(is_met)
    }
}
