//! What operators look at without changing it: who a ruling was about, how a key stands, keys in
//! steps.

use std::borrow::Cow;
use std::time::Duration;

use super::compiled::{CompiledRule, ListMatch};
use super::operate::with_key;
use super::ruling::Ruling;
use super::{Gate, canonical};
use crate::decision::KeyStatus;
use crate::key::KeyName;
use crate::limit::Limit;
use crate::policy::{Condition, KeyAttribute, Request};
use crate::store::memory::KeyEntry;

impl Ruling {
    /// Whom the rule that decided counts: the attributes of its key and their values in `request`,
    /// which must be the one that was ruled on. Of a list, the attributes that it asks for. Nothing
    /// where no rule decided.
    ///
    /// ```
    /// use tollgate::{Gate, Limit, Policy, Request, Rule};
    ///
    /// let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(1));
    /// let gate = Gate::new(Policy::new().rule(rule))?;
    /// let request = Request::new().with("user", "ana").with("path", "/search");
    /// let ruling = gate.check(&request);
    /// assert_eq!(ruling.key(&request).collect::<Vec<_>>(), [("user", "ana".into())]);
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn key<'s>(
        &'s self,
        request: &'s Request<'_>,
    ) -> impl Iterator<Item = (&'s str, Cow<'s, str>)> {
        let compiled = &self.in_force().compiled;
        let (policy, addresses) = (&compiled.policy, &compiled.addresses);
        let (parts, matches): (&[KeyAttribute], &[(String, Condition)]) = match self.list() {
            Some(ListMatch::Allow(number)) => (&[], &policy.allow[number].matches),
            Some(ListMatch::Deny(number)) => (&[], &policy.deny[number].matches),
            _ => (self.deciding_rule_index().map_or(&[], |number| &policy.rules[number].key), &[]),
        };
        let of_rule = parts.iter().filter_map(|part| {
            let default = || part.default.as_deref().map(Cow::Borrowed);
            let value = canonical::counted(addresses, request, part).or_else(default)?;
            Some((part.attribute.as_str(), value))
        });
        let of_list = matches
            .iter()
            .filter_map(|(name, _)| Some((&**name, canonical::whole(addresses, request, name)?)));
        of_rule.chain(of_list)
    }

    /// The tier of `request`, which must be the one that was ruled on, if the policy says anything
    /// of that tier. Whatever an attribute holds, it is one of the policy's.
    ///
    /// ```
    /// use tollgate::{Gate, Limit, Policy, Request, Rule};
    ///
    /// let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_minute(10));
    /// let gate = Gate::new(Policy::new().rule(rule.tier("pro", Limit::per_minute(100))))?;
    /// for (tier, known) in [("pro", Some("pro")), ("made up", None)] {
    ///     let request = Request::new().with("user", "ana").with("tier", tier);
    ///     assert_eq!(gate.check(&request).tier(&request), known);
    /// }
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn tier(&self, request: &Request<'_>) -> Option<&str> {
        let (in_force, compiled) = (self.in_force(), &self.in_force().compiled);
        if compiled.tiers.is_empty() {
            return None;
        }
        let own = in_force.overrides.find(request, &in_force.store.0);
        let of_client = own.and_then(|own| own.source.tier.as_deref());
        let of_request = || request.get(&compiled.policy.tier_from);
        let tier = of_client.or_else(of_request).or(compiled.policy.default_tier.as_deref())?;
        let place = compiled.tiers.binary_search_by(|known| (**known).cmp(tier)).ok()?;
        Some(&compiled.tiers[place])
    }
}

impl Gate {
    /// How a key of `rule` stands under each of the rule's own limits: those of a tier or of an
    /// override may be others, which [`status`](Self::status) knows. `None` if there is no such
    /// rule, or its key has another number of values.
    pub fn key_status(&self, rule: &str, key: &[&str]) -> Option<Vec<(Limit, KeyStatus)>> {
        let (memory, in_force) = (&self.0.store.0, self.0.in_force.load());
        with_key(&in_force, rule, key, |rule, key| {
            let now = memory.now();
            let limits = rule.terms.iter().zip(&rule.counters);
            let stands = limits.map(|(named, counter)| {
                let entry = KeyEntry { named, fingerprint: counter.of(key), key };
                (named.limit.clone(), memory.status(&entry, now))
            });
            stands.collect()
        })
    }

    /// For how long a key of `rule` is blocked; `None` if it is not.
    pub fn block_remaining(&self, rule: &str, key: &[&str]) -> Option<Duration> {
        let (memory, in_force) = (&self.0.store.0, self.0.in_force.load());
        let left = with_key(&in_force, rule, key, |rule, key| {
            let fingerprint = rule.counters[0].of(key);
            memory.blocks.remaining(fingerprint, rule.block.is_some(), memory.now())
        });
        left.filter(|left| !left.is_zero())
    }

    /// A part of what [`keys`](Self::keys) lists, so that a long list need not be held at once:
    /// parts are numbered from 0, and a key is always in the same one. `None` past the last, and
    /// where there is no such rule.
    pub fn keys_page(&self, rule: &str, part: usize) -> Option<Vec<(KeyName, KeyStatus)>> {
        let in_force = self.0.in_force.load();
        let named = in_force.compiled.rule(rule).and_then(CompiledRule::first_limit)?;
        self.0.store.0.shard_keys(part, named)
    }
}
