//! What operators ask of a gate: give back, make new, block, list.

use std::borrow::Cow;
use std::pin::pin;
use std::time::Duration;

use redis::{Value, cmd};
use tollgate::{KeyName, Limit, Request, Rule, RuleExplanation, RuleMatch};

use super::RedisGate;
use super::fleet::ResetScope;
use super::names::{KeyPartList, PolicyKeys, RuleKeys, is_of_blocks, micros, named, split};
use super::shared::BLOCK;
use super::walk::RuleKeyScan;
use crate::bounds::MAX_LIMITS;
use crate::error::StoreError;
use crate::layout::{KeyPrefix, limiter_of, pattern_of_names, shown};
use crate::operate::{ScanState, unlink};
use crate::request::RawReply;
use crate::script::{self, PackedReader};

impl RedisGate {
    /// Gives back what a check of the same request took, never above full: nothing where a list
    /// holds the request.
    ///
    /// # Errors
    /// Where the store has no answer; some may have been given back.
    pub async fn refund(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.tend().await?;
        let planned = self.0.resolver.plan(request);
        let names = self.names(planned.policy());
        for rule in planned.rules().iter().filter(|rule| rule.cost > 0) {
            let mut limiters = Vec::new();
            names.limiters(&self.0.store, rule, &mut limiters)?;
            for limiter in limiters {
                let key = limiter.inner.prefix.written(&rule.key);
                let amount = limiter.inner.terms.amount(rule.cost).signed(script::LATEST);
                let what = || vec![b"back".to_vec(), amount.0.clone()];
                self.0.store.change(&limiter.inner, &key, what).await?;
            }
        }
        Ok(())
    }

    /// Makes a key of `rule` new and lifts its block; whether anything was known of it. The key is
    /// the values of the rule's attributes, in its order. Open reservations stay open.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn reset(&self, rule: &str, key: &[&str]) -> Result<bool, StoreError> {
        let names = self.names(&self.policy());
        let Some((rule, of_rule)) = with_key(&names, rule, key) else { return Ok(false) };
        let forms = counted_key(rule, key);
        let key = &forms.iter().map(|form| &**form).collect::<Vec<&str>>();
        self.reset_key(rule, of_rule, key).await
    }

    /// Makes new what a key of `rule` has come to by its own requests: what it has taken, and a block
    /// for having been denied. A block that was set by hand stays. Whether there was any of that.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn reset_earned(&self, rule: &str, key: &[&str]) -> Result<bool, StoreError> {
        let names = self.names(&self.policy());
        let Some((rule, of_rule)) = with_key(&names, rule, key) else { return Ok(false) };
        let forms = counted_key(rule, key);
        let key = &forms.iter().map(|form| &**form).collect::<Vec<&str>>();
        let reply = self.bar(&of_rule.blocks, key, &[b"forgive", b""]).await?;
        let reset = self.reset_taken(rule, of_rule, key).await?;
        self.0.local.reset_keeping_manual_block(&rule.name, key);
        Ok(reset || reply.verdict == 1)
    }

    /// Makes the request's key new in every rule that applies to it; how many were known.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn reset_request(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        let mut known = 0;
        for (rule, key) in self.keys_of(request) {
            let key: Vec<&str> = key.iter().map(String::as_str).collect();
            known += usize::from(self.reset(&rule, &key).await?);
        }
        Ok(known)
    }

    async fn reset_key(
        &self,
        rule: &Rule,
        of_rule: &RuleKeys,
        key: &[&str],
    ) -> Result<bool, StoreError> {
        let lifted = self.unblock_key(rule, of_rule, key).await?;
        Ok(self.reset_taken(rule, of_rule, key).await? || lifted)
    }

    /// Gives a key all back that it has taken; whether anything was known of it.
    async fn reset_taken(
        &self,
        rule: &Rule,
        of_rule: &RuleKeys,
        key: &[&str],
    ) -> Result<bool, StoreError> {
        let store = &self.0.store;
        let bytes = KeyPartList(key).bytes();
        let mut known = false;
        let mut others = Vec::new();
        for position in 0..MAX_LIMITS {
            match limit_at(&self.policy(), rule, position) {
                Some(limit) => {
                    let limiter = of_rule.limiter(store, position, limit)?;
                    let key = limiter.inner.prefix.written(&bytes);
                    let reset = || vec![b"reset".to_vec()];
                    known |= store.change(&limiter.inner, &key, reset).await?;
                }
                // An override, or an earlier policy, may have given it more limits than it has.
                None => others.push(of_rule.prefix(position).written(&bytes)),
            }
        }
        known |= unlink(store, &others.iter().collect::<Vec<_>>()).await? > 0;
        self.revoke(ResetScope::Key(&rule.name, key)).await?;
        Ok(known)
    }

    /// Denies a key of `rule` for so long, on every node within a second; false if there is no such
    /// rule, or its key has another number of values.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn block(
        &self,
        rule: &str,
        key: &[&str],
        length: Duration,
    ) -> Result<bool, StoreError> {
        let names = self.names(&self.policy());
        let Some((rule, of_rule)) = with_key(&names, rule, key) else { return Ok(false) };
        let forms = counted_key(rule, key);
        let key = &forms.iter().map(|form| &**form).collect::<Vec<&str>>();
        let length = micros(length);
        let text = length.to_string();
        let reply = self.bar(&of_rule.blocks, key, &[b"block", b"", text.as_bytes()]).await?;
        self.share_block(&rule.name, key, Some(reply.now.saturating_add(length))).await?;
        self.tidy(BLOCK, reply.now).await?;
        self.tend().await?;
        Ok(true)
    }

    /// Denies the request's key for so long in every rule that applies to it; how many.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn block_request(
        &self,
        request: &Request<'_>,
        length: Duration,
    ) -> Result<usize, StoreError> {
        let mut blocked = 0;
        for (rule, key) in self.keys_of(request) {
            let key: Vec<&str> = key.iter().map(String::as_str).collect();
            blocked += usize::from(self.block(&rule, &key, length).await?);
        }
        Ok(blocked)
    }

    /// Lifts the block of a key; whether there was one.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn unblock(&self, rule: &str, key: &[&str]) -> Result<bool, StoreError> {
        let names = self.names(&self.policy());
        let Some((rule, of_rule)) = with_key(&names, rule, key) else { return Ok(false) };
        let forms = counted_key(rule, key);
        let key = &forms.iter().map(|form| &**form).collect::<Vec<&str>>();
        self.unblock_key(rule, of_rule, key).await
    }

    /// Lifts the blocks of the request's keys; how many there were.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn unblock_request(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        let mut lifted = 0;
        for (rule, key) in self.keys_of(request) {
            let key: Vec<&str> = key.iter().map(String::as_str).collect();
            lifted += usize::from(self.unblock(&rule, &key).await?);
        }
        Ok(lifted)
    }

    async fn unblock_key(
        &self,
        rule: &Rule,
        of_rule: &RuleKeys,
        key: &[&str],
    ) -> Result<bool, StoreError> {
        let reply = self.bar(&of_rule.blocks, key, &[b"unblock", b""]).await?;
        self.share_block(&rule.name, key, None).await?;
        self.0.local.unblock(&rule.name, key);
        Ok(reply.verdict == 1)
    }

    /// Sets or lifts a block.
    async fn bar(
        &self,
        blocks: &KeyPrefix,
        key: &[&str],
        what: &[&[u8]],
    ) -> Result<RawReply, StoreError> {
        let (store, key) = (&self.0.store, blocks.written(&KeyPartList(key).bytes()));
        let _forgets = store.denials().forget_at_last(&key);
        let told = store.told_time();
        let args: Vec<&[u8]> = [told.as_bytes()].into_iter().chain(what.iter().copied()).collect();
        let keys = [key.as_slice()];
        let bar = pin!(store.connection().run(&keys, &args));
        let reply = RawReply::read(store.connection().within(bar).await?)?;
        if reply.verdict == script::FOREIGN {
            return Err(StoreError::ForeignKey(shown(&key)));
        }
        Ok(reply)
    }

    /// Every blocked key: its rule, its name, and for how long. Walks through the whole server.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn blocked(&self) -> Result<Vec<(String, KeyName, Duration)>, StoreError> {
        let (store, names) = (&self.0.store, self.names(&self.policy()));
        let mut scan = ScanState::new(pattern_of_names(&named(&self.0.namespace)));
        let mut found = Vec::new();
        while let Some(keys) = scan.step(store).await? {
            for key in keys {
                let Some(name) = limiter_of(&key).filter(|name| is_of_blocks(name)) else {
                    continue;
                };
                let (namespace, rule) = split(name);
                let Some((rule, of_rule)) = names.find(rule) else { continue };
                let Some(name) = of_rule.blocks.name(&key) else { continue };
                if namespace == self.0.namespace
                    && let Some(left) = self.left(&key, rule.block.is_some()).await?
                {
                    found.push((rule.name.clone(), name, left));
                }
            }
        }
        Ok(found)
    }

    /// For how long a block still counts.
    pub(super) async fn left(
        &self,
        key: &[u8],
        rule_blocks: bool,
    ) -> Result<Option<Duration>, StoreError> {
        let store = &self.0.store;
        let Value::BulkString(raw) = store.connection().send(cmd("GET").arg(key)).await? else {
            return Ok(None);
        };
        let until = raw.get(2..).and_then(|words| PackedReader(words).moment()).map(script::micros);
        let counts = rule_blocks || raw.last() == Some(&1);
        let now = match store.clock() {
            Some(_) => store.now_micros(),
            None => self.server_time().await?,
        };
        let left = until.unwrap_or(0).saturating_sub(now);
        Ok((counts && left > 0).then_some(Duration::from_micros(left)))
    }

    pub(super) async fn server_time(&self) -> Result<u64, StoreError> {
        let Value::Array(time) = self.0.store.connection().send(&cmd("TIME")).await? else {
            return Ok(0);
        };
        let number = |value: &Value| match value {
            Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse::<u64>().ok(),
            _ => None,
        };
        let mut numbers = time.iter().map(|value| number(value).unwrap_or(0));
        let (seconds, micros) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
    }

    /// The keys of `rule` that are not as good as new under its first limit, with their status; of
    /// a rule that only limits some tiers, under the first of those. `None` if there is no such
    /// rule, or it never limits.
    pub fn keys(&self, rule: &str) -> Option<RuleKeyScan> {
        let policy = self.policy();
        let names = self.names(&policy);
        let (rule, of_rule) = names.find(rule)?;
        let limit = limit_at(&policy, rule, 0)?;
        let limiter = of_rule.limiter(&self.0.store, 0, limit).ok()?;
        Some(RuleKeyScan::new(limiter))
    }

    /// The rules that apply to a request, and its key in each; none where it cannot be charged.
    fn keys_of(&self, request: &Request<'_>) -> Vec<(String, Vec<String>)> {
        let reports = self.explain(request).rules;
        let wrong = |report: &RuleExplanation| {
            !report.shadow && matches!(report.verdict, RuleMatch::InvalidCost { .. })
        };
        if reports.iter().any(wrong) {
            return Vec::new();
        }
        let applied = reports.into_iter().filter(|report| report.verdict == RuleMatch::Applies);
        let values = |key: Vec<(String, String)>| key.into_iter().map(|(_, value)| value).collect();
        applied.map(|report| (report.rule, values(report.key))).collect()
    }
}

/// The rule of this name, if its key has so many values.
pub(super) fn with_key<'n>(
    names: &'n PolicyKeys,
    rule: &str,
    key: &[&str],
) -> Option<(&'n Rule, &'n RuleKeys)> {
    names.find(rule).filter(|(rule, _)| rule.key.len() == key.len())
}

/// The values of a key in the form in which the rule counts them.
pub(super) fn counted_key<'k>(rule: &Rule, key: &[&'k str]) -> Vec<Cow<'k, str>> {
    rule.key.iter().zip(key).map(|(part, value)| part.counted(value)).collect()
}

/// Some limit that a rule has at `position`: its own, or that of a tier.
fn limit_at<'p>(
    policy: &'p tollgate::Policy,
    rule: &'p Rule,
    position: usize,
) -> Option<&'p Limit> {
    let shared = policy.tiers.values().filter_map(|rules| rules.get(&rule.name));
    let all = std::iter::once(&rule.limits).chain(rule.tiers.values()).chain(shared);
    all.filter_map(|numbers| numbers.limits().get(position)).next()
}
