//! What a request comes to under a policy, without deciding it: for tools that count what a gate
//! has decided.

use super::Gate;
use super::attributes::RequestScratch;
use super::canonical::CanonicalTexts;
use super::resolve::{AppliedRule, AppliedRules, ResolvedRequest};
use crate::limit::Limit;
use crate::policy::Request;
use crate::port::key_bytes;
use crate::store::memory::{LINES_IN_BATCH, Memory};

/// What a request comes to.
pub struct VisitedRequest<'v> {
    tier: Option<&'v str>,
    rules: AppliedRules<'v>,
    memory: &'v Memory,
}

/// A rule that applies to a request.
pub struct VisitedRule<'s, 'v> {
    applied: &'s AppliedRule<'v>,
    memory: &'v Memory,
}

impl Gate {
    /// Shows `see` what `request` comes to.
    #[doc(hidden)]
    #[inline]
    pub fn visit<T>(&self, request: &Request<'_>, see: impl FnOnce(&VisitedRequest<'_>) -> T) -> T {
        let in_force = self.0.in_force.load();
        let mut texts = CanonicalTexts::new();
        let mut room = RequestScratch::new();
        let resolved = ResolvedRequest::new(&in_force, request, &mut texts, &mut room);
        let mut rules = AppliedRules::new();
        // Neither lists nor a wrong cost leave anything to the rules.
        if resolved.list().is_some() || resolved.add_rules(&mut rules).is_err() {
            rules.clear();
        }
        see(&VisitedRequest { tier: resolved.tier, rules, memory: &in_force.store.0 })
    }
}

impl<'v> VisitedRequest<'v> {
    /// The request's tier.
    pub fn tier(&self) -> Option<&'v str> {
        self.tier
    }

    /// The rules that apply; none where a list holds the request or its cost is wrong.
    #[inline]
    pub fn rules(&self) -> impl Iterator<Item = VisitedRule<'_, 'v>> {
        self.rules.iter().map(|applied| VisitedRule { applied, memory: self.memory })
    }
}

impl VisitedRule<'_, '_> {
    /// Where the policy has it.
    #[inline]
    pub fn number(&self) -> usize {
        self.applied.number as usize
    }

    /// How many units the request takes of it.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.applied.price.cost
    }

    /// Writes down its key, so that no two keys are written alike.
    #[inline]
    pub fn write_key(&self, to: &mut Vec<u8>) {
        key_bytes(&self.applied.key, to);
    }

    /// Its limits for this request, each with a number of its own among all limits of the gate;
    /// none where they are an override's.
    #[inline]
    pub fn limits(&self) -> impl Iterator<Item = (u32, &Limit)> {
        let terms = if self.applied.has_own() { &[][..] } else { self.applied.terms.as_slice() };
        terms.iter().map(|named| (named.number, &named.limit))
    }

    /// Brings the key's states near, for who is about to check the request.
    #[inline]
    pub fn bring_near(&self) {
        for position in 0..self.applied.terms.len() {
            self.memory.prefetch::<LINES_IN_BATCH>(self.applied.fingerprint(position));
        }
    }
}
