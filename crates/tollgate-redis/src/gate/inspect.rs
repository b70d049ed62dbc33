//! What operators look at: one key, and keys from a place on.

use std::time::Duration;

use tollgate::{Limit, Status};

use super::RedisGate;
use super::names::Values;
use super::operate::{counted_key, with_key};
use super::walk::RedisGateKeys;
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
    ) -> Result<Option<Vec<(Limit, Status)>>, StoreError> {
        let names = self.names(&self.policy());
        let Some((rule, of_rule)) = with_key(&names, rule, key) else { return Ok(None) };
        let forms = counted_key(rule, key);
        let key = &forms.iter().map(|form| &**form).collect::<Vec<&str>>();
        let mut stands = Vec::new();
        for (position, limit) in rule.numbers.limits().iter().enumerate() {
            let limiter = of_rule.limiter(&self.0.store, position, limit)?;
            stands.push((limit.clone(), limiter.status(Values(key)).await?));
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
        let key = of_rule.blocks.written(&Values(key).bytes());
        self.left(&key, rule.block.is_some()).await
    }

    /// [`keys`](Self::keys) from a [place](RedisGateKeys::place) on. `None` also if there is no
    /// such place.
    pub fn keys_from(&self, rule: &str, place: &str) -> Option<RedisGateKeys> {
        self.keys(rule)?.from(place)
    }
}
