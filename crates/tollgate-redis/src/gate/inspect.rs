//! What operators look at: one key, and keys from a place on.

use std::time::Duration;

use tollgate::{KeyStatus, Limit};

use super::RedisGate;
use super::names::KeyPartList;
use super::operate::{counted_key, with_key};
use super::walk::RuleKeyScan;
use crate::error::StoreError;

impl RedisGate {
    /// How a key of `rule` stands under each of the rule's own limits: those of a tier or of an
    /// override may be others, which [`status`](Self::status) knows. `None` if there is no such
    /// rule, or its key has another number of values.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn key_status(
        &self,
        rule: &str,
        key: &[&str],
    ) -> Result<Option<Vec<(Limit, KeyStatus)>>, StoreError> {
        let names = self.names(&self.policy());
        let Some((rule, of_rule)) = with_key(&names, rule, key) else { return Ok(None) };
        let forms = counted_key(rule, key);
        let key = &forms.iter().map(|form| &**form).collect::<Vec<&str>>();
        let mut stands = Vec::new();
        for (position, limit) in rule.limits.limits().iter().enumerate() {
            let limiter = of_rule.limiter(&self.0.store, position, limit)?;
            stands.push((limit.clone(), limiter.status(KeyPartList(key)).await?));
        }
        Ok(Some(stands))
    }

    /// For how long a key of `rule` is blocked; `None` if it is not.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn blocked_for(
        &self,
        rule: &str,
        key: &[&str],
    ) -> Result<Option<Duration>, StoreError> {
        let names = self.names(&self.policy());
        let Some((rule, of_rule)) = with_key(&names, rule, key) else { return Ok(None) };
        let forms = counted_key(rule, key);
        let key = &forms.iter().map(|form| &**form).collect::<Vec<&str>>();
        let key = of_rule.blocks.written(&KeyPartList(key).bytes());
        self.left(&key, rule.block.is_some()).await
    }

    /// [`keys`](Self::keys) from a [place](RuleKeyScan::cursor) on. `None` also if there is no
    /// such place.
    pub fn keys_from_cursor(&self, rule: &str, place: &str) -> Option<RuleKeyScan> {
        self.keys(rule)?.from(place)
    }
}
