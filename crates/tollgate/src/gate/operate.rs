//! What operators ask of a gate: give back, make new, block, list.

use std::borrow::Cow;
use std::time::Duration;

use smallvec::SmallVec;

use super::attributes::RequestScratch;
use super::canonical::CanonicalTexts;
use super::compiled::{CompiledRule, counter, counter_name};
use super::resolve::{AppliedRule, ResolvedRequest, RuleKeyValues};
use super::tries::PartialCharge;
use super::{ActivePolicy, Gate, Ruling};
use crate::algorithm::TakenAt;
use crate::bounds::MAX_LIMITS_PER_RULE;
use crate::decision::KeyStatus;
use crate::engine::EvaluationMode;
use crate::key::KeyName;
use crate::policy::Request;
use crate::store::memory::{BlockTarget, TooManyBlocks};

impl Gate {
    /// Takes as many units as every rule that applies has, the request's cost at most, and says
    /// how many.
    pub fn check_up_to(&self, request: &Request<'_>) -> (u64, Ruling) {
        let mut tries = PartialCharge::new(request.units());
        while let Some(units) = tries.next(self.available(request)) {
            // Who only came too late for some of the units is not blocked for it.
            let ruling =
                self.decide(&request.clone().cost(units), EvaluationMode::ChargeWithoutBlocking);
            if ruling.is_allowed() || ruling.retry_after().is_none() {
                return (if ruling.is_allowed() { units } else { 0 }, ruling);
            }
        }
        // There is none, or others have taken it each time: the ruling is on one unit.
        let one = request.units().min(1);
        let ruling = self.check(&request.clone().cost(one));
        (if ruling.is_allowed() { one } else { 0 }, ruling)
    }

    /// How many units of a request every rule that applies has.
    fn available(&self, request: &Request<'_>) -> u64 {
        let ruling = self.status(request);
        let prices = applied(ruling.in_force(), request, |rules| {
            rules.iter().map(|rule| (rule.number, rule.price)).collect::<SmallVec<[_; 8]>>()
        });
        let units = |rule: u32, remaining: u64| {
            let price = prices.iter().find(|(number, _)| *number == rule).map(|of| of.1)?;
            // A rule with a cost of its own has room for any number of units, or for none.
            let any = if price.cost <= remaining { u64::MAX } else { 0 };
            Some(remaining.checked_div(price.per_unit).unwrap_or(any))
        };
        let enforced = ruling.told().filter(|charge| !charge.ruled.shadow);
        let most = enforced.filter_map(|charge| units(charge.ruled.rule, charge.remaining())).min();
        most.unwrap_or(if ruling.is_allowed() { u64::MAX } else { 0 })
    }

    /// Gives back what a check of the same request took, never above full: nothing where a list
    /// holds the request.
    pub fn refund(&self, request: &Request<'_>) {
        let memory = &self.0.store.0;
        let in_force = self.0.in_force.load();
        let mut texts = CanonicalTexts::new();
        let mut room = RequestScratch::new();
        let resolved = ResolvedRequest::new(&in_force, request, &mut texts, &mut room);
        if resolved.list().is_some() {
            return;
        }
        for rule in resolved.rules().unwrap_or_default() {
            for (position, named) in rule.terms.iter().enumerate() {
                let fingerprint = rule.fingerprint(position);
                memory.give_back(named, fingerprint, TakenAt::Whenever, rule.price.cost);
            }
        }
    }

    /// Makes a key of `rule` new and lifts its block; whether anything was known of it. The key
    /// is the values of the rule's attributes, in its order.
    pub fn reset(&self, rule: &str, key: &[&str]) -> bool {
        let in_force = self.0.in_force.load();
        let reset =
            |rule: &CompiledRule, key: &RuleKeyValues<'_>| self.reset_key(&in_force, rule, key);
        with_key(&in_force, rule, key, reset).unwrap_or(false)
    }

    /// Makes new what a key of `rule` has come to by its own requests: what it has taken, and a
    /// block for having been denied. A block that was set by hand stays. Whether there was any of
    /// that.
    pub fn reset_keeping_manual_block(&self, rule: &str, key: &[&str]) -> bool {
        let in_force = self.0.in_force.load();
        let memory = &self.0.store.0;
        let reset = |rule: &CompiledRule, key: &RuleKeyValues<'_>| {
            let lifted = memory.blocks.lift_earned(rule.counters[0].of(key), memory.now());
            lifted | self.reset_taken(&in_force, rule, key)
        };
        with_key(&in_force, rule, key, reset).unwrap_or(false)
    }

    /// Makes the request's key new in every rule that applies to it; how many were known.
    pub fn reset_request(&self, request: &Request<'_>) -> usize {
        let in_force = self.0.in_force.load();
        let reset = |of: &&AppliedRule<'_>| self.reset_key(&in_force, of.rule, &of.key);
        applied(&in_force, request, |rules| rules.iter().filter(reset).count())
    }

    fn reset_key(
        &self,
        in_force: &ActivePolicy,
        rule: &CompiledRule,
        key: &RuleKeyValues<'_>,
    ) -> bool {
        let lifted = self.unblock_key(rule, key);
        lifted | self.reset_taken(in_force, rule, key)
    }

    /// Gives a key all back that it has taken; whether anything was known of it.
    fn reset_taken(
        &self,
        in_force: &ActivePolicy,
        rule: &CompiledRule,
        key: &RuleKeyValues<'_>,
    ) -> bool {
        let memory = &self.0.store.0;
        let Some(number) = in_force.compiled.rule_number(&rule.name) else {
            return false;
        };
        let of_policy = &in_force.compiled.policy.rules[number as usize];
        let mut known = false;
        // An override, or an earlier policy, may have given it more limits than the rule has.
        for position in 0..MAX_LIMITS_PER_RULE {
            let fingerprint = match rule.counters.get(position) {
                Some(counter) => counter.of(key),
                None => counter(of_policy, position, memory).of(key),
            };
            known |= memory.reset(fingerprint);
        }
        known
    }

    /// Makes all keys of `rule` new and lifts their blocks; false if there is no such rule.
    pub fn reset_rule(&self, rule: &str) -> bool {
        let in_force = self.0.in_force.load();
        let Some(rule) = in_force.compiled.rule(rule) else {
            return false;
        };
        for position in 0..MAX_LIMITS_PER_RULE {
            self.0.store.0.reset_all(&counter_name(&rule.name, position));
        }
        self.0.store.0.blocks.lift_all(Some(&rule.name));
        true
    }

    /// Makes everything in the store new, also what others keep in it, and lifts all blocks.
    pub fn reset_all(&self) {
        self.0.store.0.clear();
        self.0.store.0.blocks.lift_all(None);
    }

    /// Denies a key of `rule` for `length`. Returns `false` if there is no such rule, or its key has
    /// another number of values. A manual block is never evicted.
    ///
    /// # Errors
    /// If the store holds 100,000 manual blocks.
    pub fn block(&self, rule: &str, key: &[&str], length: Duration) -> Result<bool, TooManyBlocks> {
        let in_force = self.0.in_force.load();
        let blocked = with_key(&in_force, rule, key, |rule, key| {
            self.block_keys(&[culprit(rule, key)], length)
        });
        blocked.transpose().map(|blocked| blocked.is_some())
    }

    /// Denies the request's key for `length` in every rule that applies to it. Returns the number of
    /// rules.
    ///
    /// # Errors
    /// If the store would hold more than 100,000 manual blocks; no key is blocked then.
    pub fn block_request(
        &self,
        request: &Request<'_>,
        length: Duration,
    ) -> Result<usize, TooManyBlocks> {
        applied(&self.0.in_force.load(), request, |rules| {
            let culprits: Vec<_> =
                rules.iter().map(|applied| culprit(applied.rule, &applied.key)).collect();
            self.block_keys(&culprits, length).map(|()| rules.len())
        })
    }

    fn block_keys(
        &self,
        culprits: &[BlockTarget<'_>],
        length: Duration,
    ) -> Result<(), TooManyBlocks> {
        let memory = &self.0.store.0;
        memory.blocks.set(culprits, length, memory.now())
    }

    /// Lifts the block of a key; whether there was one.
    pub fn unblock(&self, rule: &str, key: &[&str]) -> bool {
        let in_force = self.0.in_force.load();
        with_key(&in_force, rule, key, |rule, key| self.unblock_key(rule, key)).unwrap_or(false)
    }

    /// Lifts the blocks of the request's keys; how many there were.
    pub fn unblock_request(&self, request: &Request<'_>) -> usize {
        applied(&self.0.in_force.load(), request, |rules| {
            rules.iter().filter(|applied| self.unblock_key(applied.rule, &applied.key)).count()
        })
    }

    /// Replaces the automatic block of a key of `rule` by one of `length`, zero for none: what another
    /// store says of it, for the time when that store is unavailable. A manual block stays.
    #[doc(hidden)]
    pub fn keep_block(&self, rule: &str, key: &[&str], length: Duration) {
        let memory = &self.0.store.0;
        let _ = with_key(&self.0.in_force.load(), rule, key, |rule, key| {
            memory.blocks.keep_automatic(&culprit(rule, key), length, memory.now());
        });
    }

    /// Returns `false` if no key is blocked.
    #[doc(hidden)]
    pub fn may_hold_blocks(&self) -> bool {
        self.0.store.0.blocks.may_hold_any()
    }

    /// Every blocked key: its rule, its name, and for how long.
    pub fn blocked_keys(&self) -> Vec<(String, KeyName, Duration)> {
        let memory = &self.0.store.0;
        let in_force = self.0.in_force.load();
        let now = memory.now();
        let known = memory.blocks.list(now).into_iter().map(|(_, blocked)| blocked);
        let blocked = known.filter(|blocked| {
            let rule = in_force.compiled.rule(&blocked.rule);
            now < blocked.until && rule.is_some_and(|rule| blocked.counts(rule.block.is_some()))
        });
        blocked.map(|of| (of.rule.to_string(), of.key, of.until.saturating_since(now))).collect()
    }

    /// The keys of `rule` that are not as good as new under its first limit, with their status;
    /// of a rule that only limits some tiers, under the first of those.
    pub fn keys(&self, rule: &str) -> Vec<(KeyName, KeyStatus)> {
        (0_usize..).map_while(|part| self.keys_page(rule, part)).flatten().collect()
    }

    fn unblock_key(&self, rule: &CompiledRule, key: &RuleKeyValues<'_>) -> bool {
        let memory = &self.0.store.0;
        memory.blocks.lift(rule.counters[0].of(key), memory.now())
    }
}

fn culprit<'a>(rule: &'a CompiledRule, key: &'a RuleKeyValues<'_>) -> BlockTarget<'a> {
    BlockTarget { fingerprint: rule.counters[0].of(key), rule: &rule.name, key }
}

/// Works on the rules that apply to `request`; on none where it cannot be charged.
fn applied<T>(
    in_force: &ActivePolicy,
    request: &Request<'_>,
    work: impl FnOnce(&[AppliedRule<'_>]) -> T,
) -> T {
    let mut texts = CanonicalTexts::new();
    let mut room = RequestScratch::new();
    let resolved = ResolvedRequest::new(in_force, request, &mut texts, &mut room);
    work(&resolved.rules().unwrap_or_default())
}

/// Works on a key of `rule`, if there is that rule and its key has so many values.
pub(super) fn with_key<T>(
    in_force: &ActivePolicy,
    rule: &str,
    key: &[&str],
    work: impl FnOnce(&CompiledRule, &RuleKeyValues<'_>) -> T,
) -> Option<T> {
    let rule = in_force.compiled.rule(rule)?;
    if rule.key.len() != key.len() {
        return None;
    }
    let number = in_force.compiled.rule_number(&rule.name)? as usize;
    let parts = &in_force.compiled.policy.rules[number].key;
    let values: SmallVec<[Cow<'_, str>; 4]> =
        parts.iter().zip(key).map(|(part, value)| part.counted(value)).collect();
    let values: SmallVec<[&str; 4]> = values.iter().map(|value| &**value).collect();
    Some(work(rule, &RuleKeyValues::Given(&values)))
}
