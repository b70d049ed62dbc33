//! Walks through the keys of a rule, in steps that are short for the server.

use tollgate::port::ScriptState;
use tollgate::{KeyName, KeyStatus};

use super::RedisGate;
use super::fleet::ResetScope;
use super::names::{NAMESPACE_END, named, split};
use crate::bounds::MAX_CHARGES;
use crate::error::StoreError;
use crate::layout::{key_of, limiter_of, pattern_of_names};
use crate::limiter::RedisLimiter;
use crate::operate::{ResetProgress, ScanState, begins_with, unlink};
use crate::request::{ScriptCharge, ScriptMode};

/// A walk through the keys of a rule with their status, in steps that are short for the server.
///
/// Keys that are there all the while are met at least once, maybe more often; checks go on.
#[derive(Debug)]
pub struct RuleKeyScan {
    limiter: RedisLimiter,
    scan: ScanState,
}

impl RuleKeyScan {
    pub(super) fn new(limiter: RedisLimiter) -> RuleKeyScan {
        let scan = ScanState::new(limiter.inner.prefix.pattern());
        RuleKeyScan { limiter, scan }
    }

    /// Goes on from a place that [`place`](Self::place) gave; `None` if that is no place.
    pub(super) fn from(self, place: &str) -> Option<RuleKeyScan> {
        let scan = ScanState::at(self.limiter.inner.prefix.pattern(), place)?;
        Some(RuleKeyScan { limiter: self.limiter, scan })
    }

    /// Where the next step begins, for [`RedisGate::keys_from_cursor`] at any later time; `None` at the
    /// end. Where the nodes of a Cluster change meanwhile, keys may be missed or met again.
    pub fn cursor(&self) -> Option<String> {
        self.scan.place()
    }

    /// The keys of the next step with their status, which may be none; `None` at the end.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn next(&mut self) -> Result<Option<Vec<(KeyName, KeyStatus)>>, StoreError> {
        let RedisLimiter { store, inner } = &self.limiter;
        let Some(keys) = self.scan.step(store).await? else { return Ok(None) };
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(MAX_CHARGES) {
            let asked =
                some.iter().map(|key| ScriptCharge { limiter: inner, key: key.clone(), cost: 1 });
            let met = store.ask_across(&asked.collect::<Vec<_>>(), ScriptMode::Look).await?;
            let status = |(now, state): &(u64, ScriptState)| inner.terms.ported.status(state, *now);
            let found = some.iter().zip(&met.states);
            let found =
                found.filter_map(|(key, state)| Some((inner.prefix.name(key)?, status(state))));
            all.extend(found.filter(|(_, status)| !status.is_fresh()));
        }
        Ok(Some(all))
    }
}

impl RedisGate {
    /// Makes all keys of `rule` new and lifts their blocks, and says how far it has come after every
    /// step. Reservations that are open are forgotten: settled later, they are charged anew.
    ///
    /// # Errors
    /// Where the store has no answer; keys that were made new until then stay so.
    pub async fn reset_rule(
        &self,
        rule: &str,
        progress: impl FnMut(ResetProgress),
    ) -> Result<ResetProgress, StoreError> {
        let is_of_rule = |key: &[u8]| self.is_of_rule(key, rule);
        let done = self.reset_where(rule, is_of_rule, |_| true, progress).await?;
        self.unshare_blocks(|of_rule, _| of_rule == rule).await?;
        self.revoke(ResetScope::Rule(rule)).await?;
        Ok(done)
    }

    /// Makes the keys of `rule` new whose first value begins with `prefix`, as
    /// [`reset_rule`](Self::reset_rule) does.
    ///
    /// ```no_run
    /// # async fn example(gate: tollgate_redis::RedisGate) -> Result<(), tollgate_redis::StoreError> {
    /// let done = gate.reset_prefix("per-ip", "203.0.113.", |so_far| {
    ///     println!("{} of {}", so_far.reset, so_far.seen);
    /// });
    /// println!("{} keys are new", done.await?.reset);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`reset_rule`](Self::reset_rule).
    pub async fn reset_prefix(
        &self,
        rule: &str,
        prefix: &str,
        progress: impl FnMut(ResetProgress),
    ) -> Result<ResetProgress, StoreError> {
        let is_of_rule = |key: &[u8]| self.is_of_rule(key, rule);
        let begins =
            |key: &[u8]| key_of(key).is_some_and(|name| begins_with(&name, prefix.as_bytes()));
        let done = self.reset_where(rule, is_of_rule, begins, progress).await?;
        let begins = |values: &[String]| values.first().is_some_and(|own| own.starts_with(prefix));
        self.unshare_blocks(|of_rule, values| of_rule == rule && begins(values)).await?;
        self.revoke(ResetScope::Prefix(rule, prefix)).await?;
        Ok(done)
    }

    pub(super) fn is_of_rule(&self, key: &[u8], rule: &str) -> bool {
        limiter_of(key).is_some_and(|name| split(name) == (self.0.namespace.as_str(), rule))
    }

    /// Makes everything of the gate's namespace new and lifts all blocks, as
    /// [`reset_rule`](Self::reset_rule) does; without a namespace also what limiters keep.
    ///
    /// # Errors
    /// As [`reset_rule`](Self::reset_rule).
    pub async fn reset_all(
        &self,
        progress: impl FnMut(ResetProgress),
    ) -> Result<ResetProgress, StoreError> {
        let namespace = self.0.namespace.as_str();
        let of_gate = |key: &[u8]| {
            let is_own = |name: &str| {
                split(name).0 == namespace && name.contains(NAMESPACE_END) != namespace.is_empty()
            };
            limiter_of(key).is_some_and(is_own)
        };
        let done = self.reset_where("", of_gate, |_| true, progress).await?;
        self.unshare_blocks(|_, _| true).await?;
        self.revoke(ResetScope::All).await?;
        Ok(done)
    }

    /// Makes keys new that are meant, of those whose names begin with `rule` and that belong to it.
    async fn reset_where(
        &self,
        rule: &str,
        belongs: impl Fn(&[u8]) -> bool,
        is_meant: impl Fn(&[u8]) -> bool,
        mut progress: impl FnMut(ResetProgress),
    ) -> Result<ResetProgress, StoreError> {
        let pattern = pattern_of_names(&format!("{}{rule}", named(&self.0.namespace)));
        let (mut done, mut scan) = (ResetProgress::default(), ScanState::new(pattern));
        while let Some(keys) = scan.step(&self.0.store).await? {
            let own: Vec<&Vec<u8>> = keys.iter().filter(|key| belongs(key)).collect();
            done.seen += u64::try_from(own.len()).unwrap_or(0);
            let meant: Vec<&Vec<u8>> = own.into_iter().filter(|key| is_meant(key)).collect();
            done.reset += unlink(&self.0.store, &meant).await?;
            progress(done);
        }
        Ok(done)
    }
}
