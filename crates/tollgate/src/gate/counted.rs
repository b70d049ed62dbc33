//! The rules and keys that a request counts for, for programs that count requests by rule.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Ruling;
use super::attributes::RequestScratch;
use super::canonical::CanonicalTexts;
use super::resolve::{INLINE, ResolvedRequest};
use crate::policy::{Policy, Request};

/// A rule that applies to a request, and its own verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedRule<'r> {
    number: u32,
    name: &'r str,
    is_shadow: bool,
    is_allowed: bool,
}

impl<'r> CountedRule<'r> {
    /// The position of the rule in the policy.
    #[inline]
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// The name of the rule.
    #[inline]
    pub fn name(&self) -> &'r str {
        self.name
    }

    /// `true` if the rule is in shadow.
    #[inline]
    pub fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// `true` if the rule by itself allows the request.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }
}

impl Ruling {
    /// The policy that was active when the request was decided.
    #[doc(hidden)]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.in_force().compiled.policy
    }

    /// Each rule that has charged or denied the request, once, in the order of
    /// [`rules`](Self::rules). Figures are not worked out.
    #[doc(hidden)]
    #[inline]
    pub fn counted_rules(&self) -> impl Iterator<Item = CountedRule<'_>> {
        let (compiled, memory) = (&self.in_force().compiled, &self.in_force().store.0);
        let mut end = 0;
        self.charges.ruled.chunk_by(|a, b| a.rule == b.rule).map(move |charges| {
            let (number, is_shadow) = (charges[0].rule, charges[0].shadow);
            let places = end..end + charges.len();
            end = places.end;
            // An allowed request is allowed by every enforced rule.
            let is_allowed = (self.is_allowed() && !is_shadow)
                || places.clone().all(|at| self.charges.is_allowed(at, memory));
            let name = &*compiled.rules[number as usize].name;
            CountedRule { number, name, is_shadow, is_allowed }
        })
    }

    /// Shows `see` each rule that applies to `request`, which must be the one that was ruled on,
    /// and the attributes and values of its key. A rule without a limit for this client is among
    /// them: it allows. A request that a list decides has no such rule.
    #[doc(hidden)]
    pub fn counted_keys(
        &self,
        request: &Request<'_>,
        mut see: impl FnMut(CountedRule<'_>, &[(&str, &str)]),
    ) {
        let in_force = self.in_force();
        let mut texts = CanonicalTexts::new();
        let mut room = RequestScratch::new();
        let resolved = ResolvedRequest::new(in_force, request, &mut texts, &mut room);
        if resolved.list().is_some() {
            return;
        }
        let charged: SmallVec<[CountedRule<'_>; INLINE]> = self.counted_rules().collect();
        for applied in resolved.rules().unwrap_or_default() {
            let number = applied.number;
            let (name, is_shadow) = (&*applied.rule.name, applied.rule.shadow);
            let known = charged.iter().find(|rule| rule.number == number).copied();
            let unlimited = CountedRule { number, name, is_shadow, is_allowed: true };
            let parts = &in_force.compiled.policy.rules[number as usize].key;
            let names = parts.iter().map(|part| part.attribute.as_str());
            let key: SmallVec<[(&str, &str); 4]> = names.zip(applied.key.values()).collect();
            see(known.unwrap_or(unlimited), &key);
        }
    }
}
