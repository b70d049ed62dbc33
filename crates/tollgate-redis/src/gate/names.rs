//! What a policy's rules are called in Redis, and their limits as the script knows them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate::port::{LeaseSettings, LeaseTerms, PlannedRule, key_bytes};
use tollgate::{BlockPolicy, Key, KeyPart, Limit, Policy, Rule};

use crate::bounds::MAX_NAME;
use crate::error::StoreError;
pub(super) use crate::layout::NAMESPACE_END;
use crate::layout::{HashTag, KeyPrefix};
use crate::limiter::RedisLimiter;
use crate::script::PackedBytes;
use crate::store::RedisStore;

/// What comes before a rule's further limits and its blocks, and what comes before the attributes of its
/// key. No name of a rule holds a control character.
const FURTHER: char = '\u{1f}';
const ATTRIBUTE: char = '\u{1e}';

/// A policy as it is kept in Redis.
pub(super) struct PolicyKeys {
    policy: Arc<Policy>,
    rules: Vec<RuleKeys>,
    /// By the numbers that the policy's gate gives them.
    counters: RwLock<HashMap<u32, Arc<RedisLimit>>>,
    /// The shortest time of a lease, if some rule has leases.
    shortest_lease: Option<Duration>,
}

/// A limit of a rule, and on what terms its units are borrowed, if they are.
pub(super) struct RedisLimit {
    pub(super) limiter: RedisLimiter,
    pub(super) lease: Option<LeaseTerms>,
}

/// What belongs to a rule.
pub(super) struct RuleKeys {
    /// What its name begins with in every key.
    name: String,
    /// The attributes of its key: what a user consumed is not what an address of the same text
    /// consumed, should the key be changed.
    attributes: String,
    /// Where its keys lie in a Cluster: those of its limits and of its blocks together.
    tagging: HashTag,
    /// What the keys of its blocks begin with.
    pub(super) blocks: KeyPrefix,
    /// Whether and for how long it blocks, as the script reads it.
    pub(super) punishment: Vec<u8>,
    /// What its leases are like, if it has any.
    lease: Option<LeaseSettings>,
}

impl PolicyKeys {
    pub(super) fn new(store: &RedisStore, namespace: &str, policy: &Arc<Policy>) -> PolicyKeys {
        let of_rule = |rule| {
            let names = RuleKeys::new(namespace, rule, tagging(store, policy, rule));
            RuleKeys { lease: policy.lease_settings(rule), ..names }
        };
        let rules: Vec<RuleKeys> = policy.rules.iter().map(of_rule).collect();
        let ttls = rules.iter().filter_map(|rule| Some(rule.lease?.ttl));
        let shortest_lease = ttls.min();
        PolicyKeys { policy: policy.clone(), rules, counters: RwLock::default(), shortest_lease }
    }

    /// The shortest time of a lease; `None` where no rule has any.
    pub(super) fn shortest_lease(&self) -> Option<Duration> {
        self.shortest_lease
    }

    /// Whether these are the names of this very policy.
    pub(super) fn are_of(&self, policy: &Arc<Policy>) -> bool {
        Arc::ptr_eq(&self.policy, policy)
    }

    pub(super) fn rule(&self, number: usize) -> &RuleKeys {
        &self.rules[number]
    }

    /// The rule of this name, and what belongs to it.
    pub(super) fn find(&self, name: &str) -> Option<(&Rule, &RuleKeys)> {
        let mut all = self.policy.rules.iter().zip(&self.rules);
        all.find(|(rule, _)| rule.name == name)
    }

    fn known(&self, number: u32) -> Option<Arc<RedisLimit>> {
        let all = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&number).cloned()
    }

    /// The limits of a rule, as the script knows them.
    pub(super) fn limiters(
        &self,
        store: &RedisStore,
        rule: &PlannedRule,
        to: &mut Vec<RedisLimiter>,
    ) -> Result<(), StoreError> {
        for (position, limit) in rule.limits().enumerate() {
            to.push(self.counter(store, rule, position, limit)?.limiter.clone());
        }
        Ok(())
    }

    /// The limit at `position` of a rule, with its number among those of the policy's gate.
    pub(super) fn counter(
        &self,
        store: &RedisStore,
        rule: &PlannedRule,
        position: usize,
        (number, limit): (u32, &Limit),
    ) -> Result<Arc<RedisLimit>, StoreError> {
        if let Some(counter) = self.known(number) {
            return Ok(counter);
        }
        let of_rule = &self.rules[rule.number()];
        let limiter = of_rule.limiter(store, position, limit)?;
        let lease = of_rule.lease.filter(|lease| lease.allow(limit)).and_then(|lease| {
            // What cannot be leased is asked for each time.
            LeaseTerms::new(&limiter.inner.terms.ported, lease.ttl, lease.share.into()).ok()
        });
        let mut all = self.counters.write().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(number).or_insert_with(|| Arc::new(RedisLimit { limiter, lease })).clone())
    }
}

impl RuleKeys {
    fn new(namespace: &str, rule: &Rule, tagging: HashTag) -> RuleKeys {
        let attributes: String = rule
            .key
            .iter()
            .flat_map(|part| [ATTRIBUTE.to_string(), part.attribute.clone()])
            .collect();
        let name = format!("{}{}", named(namespace), rule.name);
        let longest = MAX_NAME - (name.len() + 4).min(MAX_NAME);
        let attributes = if attributes.len() <= longest {
            attributes
        } else {
            // Nobody reads them here, they only have to differ.
            let digest = Sha256::digest(&attributes);
            let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{ATTRIBUTE}{hex}")
        };
        let blocks = KeyPrefix::new(tagging, &format!("{name}{FURTHER}b{attributes}"));
        let punishment = punishment(rule.block.as_ref());
        RuleKeys { name, attributes, tagging, blocks, punishment, lease: None }
    }

    /// Whether its units may be borrowed for this request: all of its limits', or none of them.
    pub(super) fn leases(&self, rule: &PlannedRule) -> bool {
        self.lease.is_some_and(|lease| rule.limits().all(|(_, limit)| lease.allow(limit)))
    }

    /// A limit of the rule; `position` counts from 0.
    pub(super) fn limiter(
        &self,
        store: &RedisStore,
        position: usize,
        limit: &Limit,
    ) -> Result<RedisLimiter, StoreError> {
        let limiter = RedisLimiter::new(store.clone(), &self.counter(position), limit.clone())?;
        Ok(match self.tagging {
            HashTag::Part(part) => limiter.partition_by(part),
            _ => limiter,
        })
    }

    /// What the keys of the limit at `position` begin with.
    pub(super) fn prefix(&self, position: usize) -> KeyPrefix {
        KeyPrefix::new(self.tagging, &self.counter(position))
    }

    fn counter(&self, position: usize) -> String {
        let RuleKeys { name, attributes, .. } = self;
        match position {
            0 => format!("{name}{attributes}"),
            _ => format!("{name}{FURTHER}{}{attributes}", position + 1),
        }
    }
}

/// Where the keys of a rule lie: by the attribute that the policy keeps together, if they have it.
fn tagging(store: &RedisStore, policy: &Policy, rule: &Rule) -> HashTag {
    if !store.connection().is_cluster() {
        return HashTag::None;
    }
    let is_meant = |attribute: &String| Some(attribute) == policy.partition.as_ref();
    let part = rule.key.iter().position(|part| is_meant(&part.attribute));
    part.map_or(HashTag::Key, HashTag::Part)
}

/// What the names of all rules of a namespace begin with.
pub(super) fn named(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("{namespace}{NAMESPACE_END}") }
}

/// The namespace and the rule that a name in Redis belongs to.
pub(super) fn split(name: &str) -> (&str, &str) {
    let (namespace, rest) = name.split_once(NAMESPACE_END).unwrap_or(("", name));
    (namespace, rest.split([FURTHER, ATTRIBUTE]).next().unwrap_or(rest))
}

/// Whether a name in Redis is that of a rule's blocks.
pub(super) fn is_of_blocks(name: &str) -> bool {
    let rest = name.split_once(FURTHER).map_or("", |(_, rest)| rest);
    rest.split(ATTRIBUTE).next() == Some("b")
}

fn punishment(block: Option<&BlockPolicy>) -> Vec<u8> {
    let [first, most] = block.map_or([0, 0], |block| [block.first, block.max].map(micros));
    let factor = block.map_or(0, |block| block.factor);
    let packed = PackedBytes(vec![u8::from(block.is_some())]);
    packed.number(first).bytes(&factor.to_be_bytes()).number(most).0
}

/// In whole microseconds, rounded up.
pub(super) fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX >> 12)
}

/// A key as an operator gives it: the values of the rule's attributes.
pub(super) struct KeyPartList<'a>(pub(super) &'a [&'a str]);

impl Key for KeyPartList<'_> {
    fn parts(&self, part: &mut impl FnMut(KeyPart<'_>)) {
        self.0.iter().for_each(|value| part(KeyPart::Bytes(value.as_bytes())));
    }
}

impl KeyPartList<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        key_bytes(self, &mut bytes);
        bytes
    }
}
