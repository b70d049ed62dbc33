//! From a request to what it is charged: which rules apply, whose key, how many units, how much
//! is allowed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::ActivePolicy;
use super::attributes::{AttributeId, AttributeValues, RequestScratch};
use super::canonical::CanonicalTexts;
use super::compiled::{CompiledRule, LimitSet, ListMatch, RuleCost};
use super::index::EntryId;
use super::overrides::{ClientOverride, OverrideLimits};
use crate::key::{Key, KeyId, KeyPart};
use crate::policy::Request;

/// How many rules apply to a request without an allocation.
pub(super) const INLINE: usize = 4;

/// What a request comes to under a policy.
pub(super) struct ResolvedRequest<'a> {
    in_force: &'a ActivePolicy,
    pub(super) values: AttributeValues<'a>,
    found: &'a [EntryId],
    pub(super) own: Option<&'a Arc<ClientOverride>>,
    pub(super) tier: Option<&'a str>,
    said: Option<u64>,
}

/// A rule that applies to a request.
#[derive(Clone, Copy)]
pub(super) struct AppliedRule<'a> {
    pub(super) number: u32,
    pub(super) rule: &'a CompiledRule,
    pub(super) key: RuleKeyValues<'a>,
    pub(super) price: RuleCost,
    pub(super) terms: &'a LimitSet,
    own: Option<&'a OverrideLimits>,
}

/// The rules that apply.
pub(super) type AppliedRules<'a> = SmallVec<[AppliedRule<'a>; INLINE]>;

/// The attribute whose value should be a number, and its value, which is none.
pub(super) type InvalidNumber<'a> = (AttributeId, &'a str);

/// The values of a rule's key attributes.
#[derive(Clone, Copy)]
pub(super) enum RuleKeyValues<'a> {
    /// What a request says of them, or counts as: all its values, by attribute.
    Of(&'a CompiledRule, &'a [Option<&'a str>]),
    /// As they were given, one for each.
    Given(&'a [&'a str]),
}

impl<'a> ResolvedRequest<'a> {
    #[inline]
    pub(super) fn new<'r: 'a>(
        in_force: &'a ActivePolicy,
        request: &'r Request<'_>,
        texts: &'r mut CanonicalTexts,
        room: &'a mut RequestScratch<'r>,
    ) -> ResolvedRequest<'a> {
        let compiled = &in_force.compiled;
        let (values, found) = compiled.attributes.values(request, texts, room);
        compiled.index.find(&values, found);
        let own = in_force.overrides.find(request, &in_force.store.0);
        let of_client = own.and_then(|own| own.source.tier.as_deref());
        let of_request = || compiled.tier_from.and_then(|attribute| values.get(attribute));
        let tier = of_client.or_else(of_request).or(compiled.policy.default_tier.as_deref());
        ResolvedRequest { in_force, values, found, own, tier, said: request.said() }
    }

    /// The list that holds the request: those who pass come first.
    pub(super) fn list(&self) -> Option<ListMatch> {
        self.in_force.compiled.list(*self.found.first()?)
    }

    /// The rules that apply.
    #[inline]
    pub(super) fn rules(&self) -> Result<AppliedRules<'_>, InvalidNumber<'_>> {
        let mut rules = AppliedRules::new();
        self.add_rules(&mut rules)?;
        Ok(rules)
    }

    /// Adds the rules that apply, where they are wanted: moving them would cost as much.
    #[inline]
    pub(super) fn add_rules<'s>(
        &'s self,
        rules: &mut AppliedRules<'s>,
    ) -> Result<(), InvalidNumber<'s>> {
        let compiled = &self.in_force.compiled;
        for entry in self.found {
            let Some((number, rule)) = compiled.rule_of(*entry) else { continue };
            let Ok(key) = RuleKeyValues::of(rule, &self.values) else { continue };
            let price = match rule.cost.price(self.said, &self.values) {
                Ok(price) => price,
                // What only reports must not turn a request away.
                Err(_) if rule.shadow => continue,
                Err(wrong) => return Err(wrong),
            };
            rules.push(self.applied(number, rule, key, price));
        }
        Ok(())
    }

    #[inline]
    fn applied<'s>(
        &'s self,
        number: u32,
        rule: &'s CompiledRule,
        key: RuleKeyValues<'s>,
        price: RuleCost,
    ) -> AppliedRule<'s> {
        let own = self.own.and_then(|own| own.terms(number));
        let terms = own.map_or_else(|| rule.terms(self.tier).0, |own| &own.terms);
        AppliedRule { number, rule, key, price, terms, own }
    }
}

impl AppliedRule<'_> {
    /// Whether its numbers are those of an override.
    pub(super) fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// What finds the state of its limit at `position`.
    #[inline]
    pub(super) fn fingerprint(&self, position: usize) -> KeyId {
        let counters = &self.rule.counters;
        let further = || self.own?.further.get(position - counters.len());
        match counters.get(position).or_else(further) {
            Some(counter) if self.rule.key.is_empty() => counter.of_nobody(),
            Some(counter) => counter.of(&self.key),
            None => KeyId::default(),
        }
    }
}

impl<'a> RuleKeyValues<'a> {
    /// The values of the rule's key; the attribute that is not there otherwise.
    #[inline]
    pub(super) fn of(
        rule: &'a CompiledRule,
        values: &'a AttributeValues<'_>,
    ) -> Result<RuleKeyValues<'a>, AttributeId> {
        let mut parts = rule.key.iter();
        let absent = parts.find(|(of, default)| values.get(*of).is_none() && default.is_none());
        absent.map_or(Ok(RuleKeyValues::Of(rule, values.all())), |(attribute, _)| Err(*attribute))
    }

    /// Each value in turn.
    pub(super) fn values(&self) -> impl Iterator<Item = &'a str> {
        (0..).map_while(|place| self.value(place))
    }

    #[inline]
    fn value(&self, place: usize) -> Option<&'a str> {
        match *self {
            RuleKeyValues::Of(rule, values) => {
                let (attribute, default) = rule.key.get(place)?;
                values[*attribute as usize].or(default.as_deref())
            }
            RuleKeyValues::Given(values) => values.get(place).copied(),
        }
    }

    fn len(&self) -> usize {
        match self {
            RuleKeyValues::Of(rule, _) => rule.key.len(),
            RuleKeyValues::Given(values) => values.len(),
        }
    }
}

impl Key for RuleKeyValues<'_> {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        self.values().for_each(|value| part(KeyPart::Bytes(value.as_bytes())));
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        if self.len() == 1 { self.value(0).map(str::as_bytes) } else { None }
    }
}
