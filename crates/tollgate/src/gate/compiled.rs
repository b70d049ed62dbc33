//! A policy made ready: names are numbers, numbers are plans, conditions are indexed.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::attributes::{AttributeId, AttributeTable, AttributeValues};
use super::canonical::{PATH, RAW_PATH, counted_name};
use super::index::{EntryConditions, EntryId, RuleIndex};
use crate::key::LimitKeyHasher;
use crate::limit::LimitError;
use crate::policy::{AddressAttributes, BlockPolicy, Condition, Cost, Policy, Rule, RuleLimits};
use crate::store::memory::{Memory, RegisteredLimit};

/// A policy made ready for a store.
#[derive(Debug)]
pub(super) struct CompiledPolicy {
    pub(super) policy: Arc<Policy>,
    /// The attributes that are addresses.
    pub(super) addresses: AddressAttributes,
    pub(super) attributes: AttributeTable,
    /// Lists of those who pass, lists of those who do not, rules: in this order.
    pub(super) index: RuleIndex,
    /// How many of them are lists.
    lists: EntryId,
    pub(super) rules: Vec<CompiledRule>,
    pub(super) tier_from: Option<AttributeId>,
    /// Every tier that changes something, sorted.
    pub(super) tiers: Box<[Box<str>]>,
    /// The rules' numbers by their names.
    numbers: HashMap<Arc<str>, u32>,
}

/// A rule made ready.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) name: Arc<str>,
    pub(super) client_name: ClientName,
    pub(super) key: Box<[(AttributeId, Option<Box<str>>)]>,
    /// What finds the states of its first, second … limit.
    pub(super) counters: Box<[LimitKeyHasher]>,
    pub(super) terms: LimitSet,
    /// Instead of those, by tier.
    tiers: Box<[(Box<str>, LimitSet)]>,
    pub(super) cost: CompiledCost,
    pub(super) shadow: bool,
    pub(super) block: Option<BlockPolicy>,
}

/// The name of a rule that clients see, or a number in its place.
#[derive(Clone, Debug)]
pub(super) struct ClientName {
    text: Box<str>,
    is_number: bool,
}

/// A rule's limits; none where everything passes.
pub(super) type LimitSet = SmallVec<[Arc<RegisteredLimit>; 1]>;

/// How many units a request takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum CompiledCost {
    Request,
    Units(u64),
    Attribute { attribute: AttributeId, multiplier: u64, default: u64 },
}

/// The list that holds a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListMatch {
    Allow(usize),
    Deny(usize),
}

impl CompiledPolicy {
    /// `policy`, which has been checked, made ready for `memory`.
    pub(super) fn new(policy: Arc<Policy>, memory: &Memory) -> Result<CompiledPolicy, LimitError> {
        let addresses = policy.address_attributes();
        let attributes = AttributeTable::new(attribute_names(&policy), &policy, &addresses);
        let lists = policy.allow.iter().chain(&policy.deny).map(|list| &list.matches);
        let conditions = lists.chain(policy.rules.iter().map(|rule| &rule.matches));
        let entries = conditions.map(|matches| numbered(matches, &attributes, &addresses));
        let entries = entries.collect();
        let index = RuleIndex::new(entries, attributes.len());
        let lists =
            EntryId::try_from(policy.allow.len() + policy.deny.len()).unwrap_or(EntryId::MAX);
        let compile = |(rule, client_name)| {
            CompiledRule::new((rule, client_name), &policy, &attributes, memory)
        };
        let named = policy.rules.iter().zip(ClientName::of_rules(&policy));
        let rules = named.map(compile).collect::<Result<Vec<_>, _>>()?;
        let numbers = rules.iter().zip(0..).map(|(rule, number)| (rule.name.clone(), number));
        let numbers = numbers.collect();
        let tier_from = attributes.number(&policy.tier_from);
        let of_rules = rules.iter().flat_map(|rule| rule.tiers.iter().map(|(tier, _)| tier));
        let tiers: BTreeSet<Box<str>> = of_rules.cloned().collect();
        let tiers = tiers.into_iter().collect();
        Ok(CompiledPolicy {
            addresses,
            attributes,
            index,
            lists,
            rules,
            tier_from,
            tiers,
            numbers,
            policy,
        })
    }

    /// The list that an entry of the index is.
    #[inline]
    pub(super) fn list(&self, entry: EntryId) -> Option<ListMatch> {
        if entry >= self.lists {
            return None;
        }
        let number = entry as usize;
        let of_deny = number.checked_sub(self.policy.allow.len());
        Some(of_deny.map_or(ListMatch::Allow(number), ListMatch::Deny))
    }

    /// The rule that an entry of the index is, and its number.
    #[inline]
    pub(super) fn rule_of(&self, entry: EntryId) -> Option<(u32, &CompiledRule)> {
        let number = entry.checked_sub(self.lists)?;
        Some((number, self.rules.get(number as usize)?))
    }

    /// The entry of a rule.
    pub(super) fn entry(&self, rule: usize) -> EntryId {
        EntryId::try_from(rule).map_or(EntryId::MAX, |rule| self.lists.saturating_add(rule))
    }

    pub(super) fn rule_number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(super) fn rule(&self, name: &str) -> Option<&CompiledRule> {
        self.rules.get(self.rule_number(name)? as usize)
    }
}

impl CompiledRule {
    fn new(
        (rule, client_name): (&Rule, ClientName),
        policy: &Policy,
        attributes: &AttributeTable,
        memory: &Memory,
    ) -> Result<CompiledRule, LimitError> {
        let number = |name: &str| attributes.number(name).unwrap_or(AttributeId::MAX);
        let mut tiers = Vec::new();
        for (tier, numbers) in tiers_of(rule, policy) {
            tiers.push((tier.into(), terms(&rule.name, numbers, memory)?));
        }
        let key = rule
            .key
            .iter()
            .map(|part| (number(&counted_name(part)), part.default.as_deref().map(Box::from)));
        let terms = terms(&rule.name, &rule.limits, memory)?;
        let of_tiers = tiers.iter().map(|(_, terms): &(_, LimitSet)| terms.len());
        let most = of_tiers.max().unwrap_or(0).max(terms.len()).max(1);
        Ok(CompiledRule {
            name: rule.name.as_str().into(),
            client_name,
            key: key.collect(),
            counters: (0..most).map(|position| counter(rule, position, memory)).collect(),
            terms,
            tiers: tiers.into_boxed_slice(),
            cost: match &rule.cost {
                Cost::Request => CompiledCost::Request,
                Cost::Units(units) => CompiledCost::Units(*units),
                Cost::Attribute { name, multiplier, default } => CompiledCost::Attribute {
                    attribute: number(name),
                    multiplier: *multiplier,
                    default: *default,
                },
            },
            shadow: rule.shadow,
            block: rule.block,
        })
    }

    /// Its first limit, or the first of a tier where it has none itself.
    pub(super) fn first_limit(&self) -> Option<&Arc<RegisteredLimit>> {
        let of_tiers = || self.tiers.iter().find_map(|(_, terms)| terms.first());
        self.terms.first().or_else(of_tiers)
    }

    /// Its limits for requests of `tier`.
    pub(super) fn terms(&self, tier: Option<&str>) -> (&LimitSet, bool) {
        let of_tier = tier.and_then(|tier| self.tiers.iter().find(|(name, _)| **name == *tier));
        of_tier.map_or((&self.terms, false), |(_, terms)| (terms, true))
    }
}

impl ClientName {
    /// Returns the names of the rules of `policy`, in order. A rule without a public name is
    /// numbered among those of the policy, not of one request: a client that keeps quotas by the
    /// names in header fields must not take two rules for one.
    fn of_rules(policy: &Policy) -> Vec<ClientName> {
        let given = |rule: &Rule| match &rule.public_name {
            None => Some(rule.name.clone()),
            Some(name) => Some(name.clone()).filter(|name| !name.is_empty()),
        };
        let taken: HashSet<String> = policy.rules.iter().filter_map(given).collect();
        let numbers = (1_usize..).map(|number| format!("limit-{number}"));
        let mut numbers = numbers.filter(|name| !taken.contains(name));
        let name = |rule| match given(rule) {
            Some(name) => ClientName { text: name.into(), is_number: false },
            None => {
                let number = numbers.next().unwrap_or_default();
                ClientName { text: number.into(), is_number: true }
            }
        };
        policy.rules.iter().map(name).collect()
    }

    /// Returns the name, if clients see one.
    pub(super) fn name(&self) -> Option<&str> {
        (!self.is_number).then_some(&self.text)
    }

    /// Returns the name, or the number in its place.
    pub(super) fn name_or_number(&self) -> &str {
        &self.text
    }
}

/// The limits of a rule as the store knows them.
pub(super) fn terms(
    rule: &str,
    numbers: &RuleLimits,
    memory: &Memory,
) -> Result<LimitSet, LimitError> {
    let limits = numbers.limits().iter().enumerate();
    limits.map(|(position, limit)| memory.register(&counter_name(rule, position), limit)).collect()
}

/// What finds the states of a rule's limit. It knows the names of the key's attributes too: what a
/// user consumed is not what an address of the same text consumed, should the key be changed.
pub(super) fn counter(rule: &Rule, position: usize, memory: &Memory) -> LimitKeyHasher {
    let mut name = counter_name(&rule.name, position);
    // Also without key attributes: a limiter of the same name on the same store counts other keys.
    name.push('\u{1e}');
    for part in &rule.key {
        name.push('\u{1e}');
        name.push_str(&part.attribute);
    }
    LimitKeyHasher::new(&memory.hashes, &name)
}

/// Under which name the states of a rule's limit are kept. Names of rules hold no control
/// characters, so that no rule's further limits meet another rule.
pub(super) fn counter_name(rule: &str, position: usize) -> String {
    match position {
        0 => rule.to_owned(),
        _ => format!("{rule}\u{1f}{}", position + 1),
    }
}

/// All tiers that replace numbers of `rule`; its own come first.
fn tiers_of<'a>(
    rule: &'a Rule,
    policy: &'a Policy,
) -> impl Iterator<Item = (&'a str, &'a RuleLimits)> {
    let own = rule.tiers.keys();
    let shared = policy.tiers.iter().filter(|(_, rules)| rules.contains_key(&rule.name));
    let names: BTreeSet<&str> =
        own.chain(shared.map(|(tier, _)| tier)).map(String::as_str).collect();
    names.into_iter().map(|tier| (tier, policy.numbers(rule, Some(tier))))
}

fn numbered(
    matches: &[(String, Condition)],
    attributes: &AttributeTable,
    addresses: &AddressAttributes,
) -> EntryConditions {
    let number = |name: &str| attributes.number(name).unwrap_or(AttributeId::MAX);
    let canonical = |name: &str, condition: &Condition| match addresses.contains_key(name) {
        true => condition.canonical_address(),
        false => condition.clone(),
    };
    matches.iter().map(|(name, condition)| (number(name), canonical(name, condition))).collect()
}

/// Every attribute that the policy reads or makes itself, some more than once.
fn attribute_names(policy: &Policy) -> impl Iterator<Item = Cow<'_, str>> {
    let rules = policy.rules.iter();
    let costs = rules.clone().filter_map(|rule| match &rule.cost {
        Cost::Attribute { name, .. } => Some(name),
        Cost::Request | Cost::Units(_) => None,
    });
    let keys = rules.clone().flat_map(|rule| rule.key.iter().map(|part| &part.attribute));
    let lists = policy.allow.iter().chain(&policy.deny).map(|list| &list.matches);
    let matches = lists.chain(rules.map(|rule| &rule.matches)).flatten().map(|(name, _)| name);
    let all = matches.chain(keys).chain(costs).chain([&policy.tier_from]);
    let received = all.flat_map(|name| match name.as_str() {
        // It is made from the path if a request does not have it.
        RAW_PATH => [Some(RAW_PATH), Some(PATH)],
        name => [Some(name), None],
    });
    let parts = policy.rules.iter().flat_map(|rule| &rule.key).map(counted_name);
    received.flatten().map(Cow::Borrowed).chain(parts)
}

/// What a request takes of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleCost {
    pub(super) cost: u64,
    /// How much more each unit is that the request says, or settles; 0 where it makes no
    /// difference.
    pub(super) per_unit: u64,
}

impl CompiledCost {
    /// What a request that says `said` takes; the text that is no number otherwise.
    #[inline]
    pub(super) fn price<'r>(
        &self,
        said: Option<u64>,
        values: &AttributeValues<'r>,
    ) -> Result<RuleCost, (AttributeId, &'r str)> {
        match *self {
            // A request that says it costs nothing takes nothing of any rule.
            CompiledCost::Units(_) if said == Some(0) => Ok(RuleCost { cost: 0, per_unit: 0 }),
            CompiledCost::Request => Ok(RuleCost { cost: said.unwrap_or(1), per_unit: 1 }),
            CompiledCost::Units(cost) => Ok(RuleCost { cost, per_unit: 0 }),
            CompiledCost::Attribute { attribute, multiplier, default } => {
                let units = match (said, values.get(attribute)) {
                    (Some(units), _) => units,
                    (None, Some(text)) => text.parse().map_err(|_| (attribute, text))?,
                    (None, None) => default,
                };
                Ok(RuleCost { cost: units.saturating_mul(multiplier), per_unit: multiplier })
            }
        }
    }
}
