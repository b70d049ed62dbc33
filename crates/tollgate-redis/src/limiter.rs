//! One limit over many keys, kept in Redis.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate::port::{LeaseRefund, PartialCharge, ScriptState};
use tollgate::{Decision, Key, KeyStatus, Limit, PartialGrant};

use crate::bounds::DEFAULT_RESERVATION;
use crate::charge::RedisCharge;
use crate::error::StoreError;
use crate::layout::{HashTag, KeyPrefix};
use crate::request::{ScriptCharge, ScriptMode, ScriptReply};
use crate::reservation::{RedisReservation, RedisReserveError};
use crate::script::{self, PackedBytes};
use crate::store::RedisStore;
use crate::terms::ScriptLimitCodec;

/// A limit over many keys, whose state a [`RedisStore`] keeps for every process that asks.
/// Clones are the same limiter.
#[derive(Clone)]
pub struct RedisLimiter {
    pub(crate) store: RedisStore,
    pub(crate) inner: Arc<RedisLimiterInner>,
}

#[derive(Debug)]
pub(crate) struct RedisLimiterInner {
    pub(crate) name: Arc<str>,
    pub(crate) terms: ScriptLimitCodec,
    pub(crate) prefix: KeyPrefix,
    /// The calendar's window that was last asked for: from a moment in it to its end. Held only
    /// to copy or to replace it.
    window: Mutex<[u64; 2]>,
}

impl RedisLimiterInner {
    pub(crate) fn new(
        tagging: HashTag,
        name: &str,
        limit: Limit,
    ) -> Result<RedisLimiterInner, StoreError> {
        Ok(RedisLimiterInner {
            name: name.into(),
            terms: ScriptLimitCodec::new(limit)?,
            prefix: KeyPrefix::new(tagging, name),
            window: Mutex::new([0, 0]),
        })
    }

    /// A charge as the script reads it.
    pub(crate) fn charge(&self, cost: u64) -> Vec<u8> {
        self.add_charge(cost, PackedBytes::default()).0
    }

    /// The same behind others.
    pub(crate) fn add_charge(&self, cost: u64, charges: PackedBytes) -> PackedBytes {
        let window = *self.window.lock().unwrap_or_else(PoisonError::into_inner);
        self.terms.charge(cost, window, charges)
    }

    /// Whether so much can ever be taken at once.
    pub(crate) fn is_possible(&self, cost: u64) -> bool {
        cost <= self.terms.ported.capacity()
    }

    /// Asks the calendar for the window that `now` is in.
    pub(crate) fn learn_window(&self, now: u64) {
        let window = [now, self.terms.ported.end_after(now)];
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = window;
    }
}

impl RedisLimiter {
    pub(crate) fn new(
        store: RedisStore,
        name: &str,
        limit: Limit,
    ) -> Result<RedisLimiter, StoreError> {
        let tagging = if store.connection().is_cluster() { HashTag::Key } else { HashTag::None };
        Ok(RedisLimiter { store, inner: Arc::new(RedisLimiterInner::new(tagging, name, limit)?) })
    }

    /// The same limiter, whose keys lie in a Cluster by one part of theirs alone, the first being 0.
    ///
    /// A request whose keys have that part in common is then decided in one call. Without it, keys
    /// lie together where all of their parts are equal. Every process must say the same of a limiter:
    /// keys are sought where they lie. On a single server it changes nothing.
    ///
    /// ```no_run
    /// # use tollgate::Limit;
    /// # use tollgate_redis::RedisStore;
    /// # async fn example() -> Result<(), tollgate_redis::StoreError> {
    /// let store = RedisStore::connect("redis+cluster://10.0.0.5:6379,10.0.0.6:6379").await?;
    /// let tenant = store.limiter("tenant", Limit::per_minute(1000))?;
    /// let per_user = store.limiter("per user", Limit::per_minute(100))?.partition_by(0);
    /// // Both lie where "acme" does.
    /// let request = [tenant.charge("acme"), per_user.charge(("acme", "user-42"))];
    /// # let _ = store.check_all(&request).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn partition_by(&self, part: usize) -> RedisLimiter {
        let RedisLimiterInner { name, terms, prefix, .. } = &*self.inner;
        let inner = RedisLimiterInner {
            name: name.clone(),
            terms: terms.clone(),
            prefix: prefix.by_part(part),
            window: Mutex::new([0, 0]),
        };
        RedisLimiter { store: self.store.clone(), inner: Arc::new(inner) }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The limit.
    pub fn limit(&self) -> &Limit {
        &self.inner.terms.limit
    }

    /// Takes one unit for `key` if the limit allows it.
    ///
    /// # Errors
    /// Where the store has no answer; after a time-out the unit may have been taken all the same.
    pub async fn check(&self, key: impl Key) -> Result<Decision, StoreError> {
        self.check_n(key, 1).await
    }

    /// Takes `cost` units for `key` if the limit allows them all.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn check_n(&self, key: impl Key, cost: u64) -> Result<Decision, StoreError> {
        let asked = self.asked(&key, cost);
        self.check_asked(asked).await
    }

    async fn check_asked(&self, asked: ScriptCharge<'_>) -> Result<Decision, StoreError> {
        let (cost, ported) = (asked.cost, &self.inner.terms.ported);
        let takes = cost > 0 && self.inner.is_possible(cost);
        let mode = if takes { ScriptMode::Take } else { ScriptMode::Look };
        let (met, state) = self.ask(asked, mode).await?;
        let decision = ported.decide(&state, met.now, cost);
        if mode == ScriptMode::Take {
            agree(met.fits, &decision)?;
        }
        Ok(decision)
    }

    /// What [`check`](Self::check) would decide, taking nothing.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn peek(&self, key: impl Key) -> Result<Decision, StoreError> {
        self.peek_n(key, 1).await
    }

    /// What [`check_n`](Self::check_n) would decide, taking nothing.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn peek_n(&self, key: impl Key, cost: u64) -> Result<Decision, StoreError> {
        let (met, state) = self.ask(self.asked(&key, cost), ScriptMode::Look).await?;
        Ok(self.inner.terms.ported.peek(&state, met.now, cost))
    }

    /// How `key` stands, taking nothing.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn status(&self, key: impl Key) -> Result<KeyStatus, StoreError> {
        let (met, state) = self.ask(self.asked(&key, 1), ScriptMode::Look).await?;
        Ok(self.inner.terms.ported.status(&state, met.now))
    }

    /// Takes as many units as there are for `key`, `most` at most, and says how many.
    ///
    /// Two round trips where there are fewer than `most`, more only while others take meanwhile.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn take_up_to(&self, key: impl Key, most: u64) -> Result<PartialGrant, StoreError> {
        let key = self.inner.prefix.key(&key);
        let mut tries = PartialCharge::new(most);
        let mut units = most.min(self.inner.terms.ported.capacity());
        loop {
            let asked = ScriptCharge { limiter: &self.inner, key: key.clone(), cost: units };
            let decision = self.check_asked(asked).await?;
            if decision.is_allowed() {
                return Ok(PartialGrant { units, decision });
            }
            // A single unit that is not there is the answer.
            let left = decision.remaining().clamp(1, units.max(2) - 1);
            match tries.next(left).filter(|_| units > 1) {
                Some(fewer) => units = fewer,
                None => return Ok(PartialGrant { units: 0, decision }),
            }
        }
    }

    /// Gives back `units` that earlier decisions took, the latest first, never above full.
    ///
    /// # Errors
    /// Where the store has no answer; after a time-out they may have been given back.
    pub async fn refund(&self, key: impl Key, units: u64) -> Result<(), StoreError> {
        if units == 0 {
            return Ok(());
        }
        let key = self.inner.prefix.key(&key);
        let amount = self.inner.terms.amount(units).signed(script::LATEST);
        let what = || vec![b"back".to_vec(), amount.0.clone()];
        self.store.change(&self.inner, &key, what).await.map(drop)
    }

    /// Gives back what a lease took: what a gate does, for tests.
    #[doc(hidden)]
    pub async fn give_back_lent(&self, key: impl Key, back: LeaseRefund) -> Result<(), StoreError> {
        self.store.give_back_lent(&self.inner, &self.inner.prefix.key(&key), back).await
    }

    /// Makes `key` new; whether anything was known of it. Open reservations stay open.
    ///
    /// # Errors
    /// Where the store has no answer.
    pub async fn reset(&self, key: impl Key) -> Result<bool, StoreError> {
        let key = self.inner.prefix.key(&key);
        self.store.change(&self.inner, &key, || vec![b"reset".to_vec()]).await
    }

    /// Takes `cost` units now, to be settled when the real cost is known. If the reservation is
    /// neither committed nor settled within a minute, its units are given back.
    ///
    /// # Errors
    /// If the limit does not allow it, with the decision; if the store has no answer, or the key has
    /// too many open reservations.
    pub async fn reserve(
        &self,
        key: impl Key,
        cost: u64,
    ) -> Result<RedisReservation, RedisReserveError> {
        self.reserve_for(key, cost, DEFAULT_RESERVATION).await
    }

    /// [`reserve`](Self::reserve) with a time-out of its own, a year at most.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn reserve_for(
        &self,
        key: impl Key,
        cost: u64,
        timeout: Duration,
    ) -> Result<RedisReservation, RedisReserveError> {
        RedisReservation::ask(self, self.inner.prefix.key(&key), cost, timeout).await
    }

    /// A charge of one unit, for [`check_all`](RedisStore::check_all).
    pub fn charge(&self, key: impl Key) -> RedisCharge<'_> {
        RedisCharge::new(self, self.inner.prefix.key(&key))
    }

    fn asked(&self, key: &impl Key, cost: u64) -> ScriptCharge<'_> {
        ScriptCharge { limiter: &self.inner, key: self.inner.prefix.key(key), cost }
    }

    async fn ask(
        &self,
        asked: ScriptCharge<'_>,
        mode: ScriptMode,
    ) -> Result<(ScriptReply, ScriptState), StoreError> {
        let mut met = self.store.ask(&[asked], mode).await?;
        let state = met.states.pop().unwrap_or(ScriptState::New);
        Ok((met, state))
    }
}

/// The script decides and the library tells: should they ever differ, neither is to be trusted.
pub(crate) fn agree(fits: bool, decision: &Decision) -> Result<(), StoreError> {
    if fits == decision.is_allowed() {
        return Ok(());
    }
    Err(StoreError::Script("it decided otherwise than its state says".to_owned()))
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("name", &self.name())
            .field("limit", &format_args!("{}", self.limit()))
            .finish_non_exhaustive()
    }
}
