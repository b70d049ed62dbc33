//! From a request to what it is charged: which rules apply, whose key, how many units, how much
//! is allowed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::InForce;
use super::attributes::{Attribute, Room, Values};
use super::canonical::CanonicalTexts;
use super::compiled::{CompiledRule, Listed, Price, Terms};
use super::index::Entry;
use super::overrides::{Own, OwnTerms};
use crate::key::{Fingerprint, Key, Part};
use crate::policy::Request;

/// How many rules apply to a request without an allocation.
pub(super) const INLINE: usize = 4;

/// What a request comes to under a policy.
pub(super) struct Resolved<'a> {
    in_force: &'a InForce,
    pub(super) values: Values<'a>,
    found: &'a [Entry],
    pub(super) own: Option<&'a Arc<Own>>,
    pub(super) tier: Option<&'a str>,
    said: Option<u64>,
}

/// A rule that applies to a request.
#[derive(Clone, Copy)]
pub(super) struct Applied<'a> {
    pub(super) number: u32,
    pub(super) rule: &'a CompiledRule,
    pub(super) key: RuleKey<'a>,
    pub(super) price: Price,
    pub(super) terms: &'a Terms,
    own: Option<&'a OwnTerms>,
}

/// The rules that apply.
pub(super) type Rules<'a> = SmallVec<[Applied<'a>; INLINE]>;

/// The attribute whose value should be a number, and its value, which is none.
pub(super) type NotANumber<'a> = (Attribute, &'a str);

/// The values of a rule's key attributes.
#[derive(Clone, Copy)]
pub(super) enum RuleKey<'a> {
    /// What a request says of them, or counts as: all its values, by attribute.
    Of(&'a CompiledRule, &'a [Option<&'a str>]),
    /// As they were given, one for each.
    Given(&'a [&'a str]),
}

impl<'a> Resolved<'a> {
    #[inline]
    pub(super) fn new<'r: 'a>(
        in_force: &'a InForce,
        request: &'r Request<'_>,
        texts: &'r mut CanonicalTexts,
        room: &'a mut Room<'r>,
    ) -> Resolved<'a> {
        let compiled = &in_force.compiled;
        let (values, found) = compiled.attributes.values(request, texts, room);
        compiled.index.find(&values, found);
        let own = in_force.overrides.find(request, &in_force.store.0);
        let of_client = own.and_then(|own| own.source.tier.as_deref());
        let of_request = || compiled.tier_from.and_then(|attribute| values.get(attribute));
        let tier = of_client.or_else(of_request).or(compiled.policy.default_tier.as_deref());
        Resolved { in_force, values, found, own, tier, said: request.said() }
    }

    /// The list that holds the request: those who pass come first.
    pub(super) fn list(&self) -> Option<Listed> {
        self.in_force.compiled.list(*self.found.first()?)
    }

    /// The rules that apply.
    #[inline]
    pub(super) fn rules(&self) -> Result<Rules<'_>, NotANumber<'_>> {
        let mut rules = Rules::new();
        self.add_rules(&mut rules)?;
        Ok(rules)
    }

    /// Adds the rules that apply, where they are wanted: moving them would cost as much.
    #[inline]
    pub(super) fn add_rules<'s>(&'s self, rules: &mut Rules<'s>) -> Result<(), NotANumber<'s>> {
        let compiled = &self.in_force.compiled;
        for entry in self.found {
            let Some((number, rule)) = compiled.rule_of(*entry) else { continue };
            let Ok(key) = RuleKey::of(rule, &self.values) else { continue };
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
        key: RuleKey<'s>,
        price: Price,
    ) -> Applied<'s> {
        let own = self.own.and_then(|own| own.terms(number));
        let terms = own.map_or_else(|| rule.terms(self.tier).0, |own| &own.terms);
        Applied { number, rule, key, price, terms, own }
    }
}

impl Applied<'_> {
    /// Whether its numbers are those of an override.
    pub(super) fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// What finds the state of its limit at `position`.
    #[inline]
    pub(super) fn fingerprint(&self, position: usize) -> Fingerprint {
        let counters = &self.rule.counters;
        let further = || self.own?.further.get(position - counters.len());
        match counters.get(position).or_else(further) {
            Some(counter) if self.rule.key.is_empty() => counter.of_nobody(),
            Some(counter) => counter.of(&self.key),
            None => Fingerprint::default(),
        }
    }
}

impl<'a> RuleKey<'a> {
    /// The values of the rule's key; the attribute that is not there otherwise.
    #[inline]
    pub(super) fn of(
        rule: &'a CompiledRule,
        values: &'a Values<'_>,
    ) -> Result<RuleKey<'a>, Attribute> {
        let mut parts = rule.key.iter();
        let absent = parts.find(|(of, default)| values.get(*of).is_none() && default.is_none());
        absent.map_or(Ok(RuleKey::Of(rule, values.all())), |(attribute, _)| Err(*attribute))
    }

    /// Each value in turn.
    pub(super) fn values(&self) -> impl Iterator<Item = &'a str> {
        (0..).map_while(|place| self.value(place))
    }

    #[inline]
    fn value(&self, place: usize) -> Option<&'a str> {
        match *self {
            RuleKey::Of(rule, values) => {
                let (attribute, default) = rule.key.get(place)?;
                values[*attribute as usize].or(default.as_deref())
            }
            RuleKey::Given(values) => values.get(place).copied(),
        }
    }

    fn len(&self) -> usize {
        match self {
            RuleKey::Of(rule, _) => rule.key.len(),
            RuleKey::Given(values) => values.len(),
        }
    }
}

impl Key for RuleKey<'_> {
    #[inline]
    fn parts(&self, part: &mut impl FnMut(Part<'_>)) {
        self.values().for_each(|value| part(Part::Bytes(value.as_bytes())));
    }

    #[inline]
    fn as_single(&self) -> Option<&[u8]> {
        if self.len() == 1 { self.value(0).map(str::as_bytes) } else { None }
    }
}
