//! Reservations: units taken now and settled when the real cost is known.
//!
//! A reservation is a record beside its key's state, written in the call that takes the units. Who
//! next touches the key after its time-out gives them back, whatever became of its owner.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tollgate::port::ScriptState;
use tollgate::{Decision, ReserveError};

use crate::error::StoreError;
use crate::limiter::{RedisLimiter, RedisLimiterInner, agree};
use crate::request::{CallOptions, RawReply, ScriptCharge, ScriptMode, ScriptReservation};
use crate::routed::slot;
use crate::script::{self, PackedBytes};
use crate::store::RedisStore;

/// The error of [`RedisLimiter::reserve`].
#[derive(Debug)]
#[non_exhaustive]
pub enum RedisReserveError {
    /// The limit does not allow the reservation. The error carries the decision.
    Denied(ReserveError),
    /// The store has no answer, or the key has too many open reservations.
    Store(StoreError),
}

/// Units that are taken until it is known how many were needed.
///
/// Dropped in an async runtime, it gives them back; dropped elsewhere, they come back when it times
/// out. What is committed or settled after that is charged anew, into debt if it must.
#[must_use = "dropping a reservation gives its units back"]
pub struct RedisReservation {
    decision: Decision,
    /// Until it has ended.
    claim: Option<OpenRedisReservation>,
}

/// Units that are held, and how to end that.
#[derive(Clone)]
pub(crate) struct OpenRedisReservation {
    store: RedisStore,
    limiter: Arc<RedisLimiterInner>,
    pub(crate) key: Vec<u8>,
    ticket: [u8; 8],
    cost: u64,
    /// Whether more than was reserved has been charged already, and the record is gone with that.
    raised: bool,
}

impl RedisReserveError {
    /// The decision, if there is one.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            RedisReserveError::Denied(error) => Some(error.decision()),
            RedisReserveError::Store(_) => None,
        }
    }
}

impl From<StoreError> for RedisReserveError {
    fn from(error: StoreError) -> RedisReserveError {
        RedisReserveError::Store(error)
    }
}

impl fmt::Display for RedisReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisReserveError::Denied(error) => error.fmt(f),
            RedisReserveError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RedisReserveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RedisReserveError::Denied(error) => error.source(),
            RedisReserveError::Store(error) => error.source(),
        }
    }
}

impl RedisReservation {
    pub(crate) async fn ask(
        limiter: &RedisLimiter,
        key: Vec<u8>,
        cost: u64,
        timeout: Duration,
    ) -> Result<RedisReservation, RedisReserveError> {
        let terms = &limiter.inner.terms;
        let asked = [ScriptCharge { limiter: &limiter.inner, key, cost }];
        let claim = OpenRedisReservation::new(&limiter.store, &asked[0]);
        let hold = ScriptReservation::of(std::slice::from_ref(&claim), timeout);
        let possible = limiter.inner.is_possible(cost);
        let (mode, hold) =
            if possible { (ScriptMode::Take, Some(&hold)) } else { (ScriptMode::Look, None) };
        let mut met = limiter.store.ask(&asked, CallOptions { hold, ..mode.into() }).await?;
        let state = met.states.pop().unwrap_or(ScriptState::New);
        let decision = terms.ported.decide(&state, met.now, cost);
        if possible {
            agree(met.fits, &decision)?;
        }
        match decision.into_result() {
            Ok(decision) => Ok(RedisReservation::new(decision, claim)),
            Err(error) => Err(RedisReserveError::Denied(error.into())),
        }
    }

    pub(crate) fn new(decision: Decision, claim: OpenRedisReservation) -> RedisReservation {
        RedisReservation { decision, claim: Some(claim) }
    }

    /// What it claims, until it has ended.
    pub(crate) fn claim(&self) -> Option<&OpenRedisReservation> {
        self.claim.as_ref()
    }

    /// The same, for somebody who sees to its end.
    pub(crate) fn into_claim(mut self) -> Option<OpenRedisReservation> {
        self.claim.take()
    }

    /// The decision that took the units.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How many units are reserved.
    pub fn cost(&self) -> u64 {
        self.claim.as_ref().map_or(0, |claim| claim.cost)
    }

    /// Raises the charge to `units` in all, if less was reserved: into debt if they are not there. For
    /// costs that grow while the work goes on, such as a long answer. What was charged so is not
    /// given back.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn raise_to(&mut self, units: u64) -> Result<(), StoreError> {
        match &mut self.claim {
            Some(claim) if units > claim.cost => claim.raise(units).await,
            _ => Ok(()),
        }
    }

    /// Keeps what was reserved: the estimate was right.
    ///
    /// # Errors
    /// Where the store has no answer: the units then come back when the reservation times out.
    pub async fn commit(self) -> Result<(), StoreError> {
        let actual = self.cost();
        self.settle(actual).await
    }

    /// Gives everything back: nothing was used.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn cancel(self) -> Result<(), StoreError> {
        self.settle(0).await
    }

    /// Charges what was really used instead of what was reserved: gives the difference back, or
    /// takes it, into debt if it is not there.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn settle(mut self, actual: u64) -> Result<(), StoreError> {
        match self.claim.take() {
            Some(claim) => claim.settle(actual).await,
            None => Ok(()),
        }
    }
}

impl OpenRedisReservation {
    /// To be asked for.
    pub(crate) fn new(store: &RedisStore, asked: &ScriptCharge<'_>) -> OpenRedisReservation {
        let ticket = store.next_ticket().to_be_bytes();
        let (key, cost) = (asked.key.clone(), asked.cost);
        let (store, limiter) = (store.clone(), asked.limiter.clone());
        OpenRedisReservation { store, limiter, key, ticket, cost, raised: false }
    }

    /// That of another node, by what it has written down: the ticket and the cost.
    pub(crate) fn taken(
        limiter: &RedisLimiter,
        key: Vec<u8>,
        (ticket, cost): (u64, u64),
    ) -> OpenRedisReservation {
        let (store, limiter) = (limiter.store.clone(), limiter.inner.clone());
        OpenRedisReservation {
            store,
            limiter,
            key,
            ticket: ticket.to_be_bytes(),
            cost,
            raised: false,
        }
    }

    pub(crate) fn limiter(&self) -> &RedisLimiterInner {
        &self.limiter
    }

    pub(crate) fn ticket(&self) -> u64 {
        u64::from_be_bytes(self.ticket)
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// What the script writes down of it.
    pub(crate) fn record(&self) -> Vec<u8> {
        let packed = PackedBytes::default().bytes(&self.ticket).bytes(&self.cost.to_be_bytes());
        let packed = packed.bytes(&self.limiter.terms.amount(self.cost).0);
        packed.bytes(&[u8::from(self.limiter.terms.is_queue())]).0
    }

    /// Gives everything back.
    pub(crate) async fn cancel(&self) -> Result<(), StoreError> {
        self.settle(0).await
    }

    async fn raise(&mut self, units: u64) -> Result<(), StoreError> {
        self.settle(units).await?;
        (self.cost, self.raised) = (units, true);
        Ok(())
    }

    pub(crate) async fn settle(&self, actual: u64) -> Result<(), StoreError> {
        if self.raised && actual <= self.cost {
            return Ok(());
        }
        let _forgets = self.store.denials().forget_at_last(&self.key);
        self.settle_quietly(actual).await
    }

    /// Keeps what a request over several slots holds on its way: the deny cache hears of the request
    /// as a whole.
    pub(crate) async fn commit_part(&self) -> Result<(), StoreError> {
        self.settle_quietly(self.cost).await
    }

    /// Gives it back: the key is then as the request met it, and what was refused for want of it was
    /// not learnt.
    pub(crate) async fn cancel_part(&self) -> Result<(), StoreError> {
        self.settle_quietly(0).await
    }

    /// Settles claims with what was really used of each: with one call of the script, in a Cluster one
    /// for each slot. Those that the call cannot settle are settled one by one.
    ///
    /// All are tried, also if one fails; the first failure is the result.
    pub(crate) async fn settle_all(
        claims: Vec<(OpenRedisReservation, u64)>,
    ) -> Result<(), StoreError> {
        // A reservation of 0 has no record that would have to end.
        let is_open = |(claim, actual): &(OpenRedisReservation, u64)| {
            (!claim.raised || *actual > claim.cost) && (claim.cost > 0 || *actual > 0)
        };
        let mut slots: BTreeMap<usize, Vec<(OpenRedisReservation, u64)>> = BTreeMap::new();
        for (claim, actual) in claims.into_iter().filter(is_open) {
            let is_cluster = claim.store.connection().is_cluster();
            let slot = if is_cluster { slot(&claim.key) } else { 0 };
            slots.entry(slot).or_default().push((claim, actual));
        }
        let settled = slots.values().map(|claims| OpenRedisReservation::settle_together(claims));
        join_all(settled).await.into_iter().collect()
    }

    async fn settle_together(claims: &[(OpenRedisReservation, u64)]) -> Result<(), StoreError> {
        let [(first, actual), rest @ ..] = claims else { return Ok(()) };
        if rest.is_empty() {
            return first.settle(*actual).await;
        }
        let store = &first.store;
        let _forgets: Vec<_> =
            claims.iter().map(|(claim, _)| store.denials().forget_at_last(&claim.key)).collect();
        let settled =
            store.connection().within(pin!(OpenRedisReservation::call_settle(claims))).await;
        let settled = match settled {
            Ok(settled) => settled,
            // While a slot is moved, its keys cannot be used together.
            Err(StoreError::SlotMigrating(_)) => vec![false; claims.len()],
            Err(error) => return Err(error),
        };
        let mut ended = Ok(());
        for ((claim, actual), _) in claims.iter().zip(settled).filter(|(_, settled)| !settled) {
            ended = ended.and(claim.settle_quietly(*actual).await);
        }
        ended
    }

    /// Calls the script for claims whose keys are in one place. Which of them are settled.
    async fn call_settle(claims: &[(OpenRedisReservation, u64)]) -> Result<Vec<bool>, StoreError> {
        let Some((OpenRedisReservation { store, .. }, _)) = claims.first() else {
            return Ok(Vec::new());
        };
        let now = store.told_time();
        let is_log = claims.iter().any(|(claim, _)| claim.limiter.terms.is_log());
        let keys: Vec<&[u8]> = claims.iter().map(|(claim, _)| claim.key.as_slice()).collect();
        let ends: Vec<Vec<u8>> = claims
            .iter()
            .flat_map(|(claim, actual)| {
                let [_, ticket, amount, more, anew] = claim.end(*actual);
                [claim.limiter.charge(0), ticket, amount, more, anew]
            })
            .collect();
        let head: [&[u8]; 3] = [now.as_bytes(), b"settle", if is_log { b"log" } else { b"" }];
        let args: Vec<&[u8]> = head.into_iter().chain(ends.iter().map(Vec::as_slice)).collect();
        let replies = store.connection().run_text(&script::SETTLE, &keys, &args).await?;
        let replies = if let Value::Array(replies) = replies { replies } else { Vec::new() };
        if replies.len() != claims.len() {
            return Err(StoreError::Script("it did not answer each end".to_owned()));
        }
        let is_settled = |reply| Ok(matches!(RawReply::read(reply)?.verdict, 0 | 1));
        replies.into_iter().map(is_settled).collect()
    }

    /// What the script is told to end it with what was really used.
    fn end(&self, actual: u64) -> [Vec<u8>; 5] {
        let inner = &self.limiter;
        let charge = |units: u64| if units > 0 { inner.charge(units) } else { Vec::new() };
        let back = self.cost.saturating_sub(actual);
        let amount = if back > 0 { inner.terms.amount(back).0 } else { Vec::new() };
        let more = charge(actual.saturating_sub(self.cost));
        // The record of one that was raised is gone, and what it came to is charged.
        let anew = if self.raised { more.clone() } else { charge(actual) };
        [b"end".to_vec(), self.ticket.to_vec(), amount, more, anew]
    }

    async fn settle_quietly(&self, actual: u64) -> Result<(), StoreError> {
        // A reservation of 0 has no record that would have to end.
        if self.cost == 0 && actual == 0 {
            return Ok(());
        }
        let OpenRedisReservation { store, limiter: inner, .. } = self;
        let what = || self.end(actual).to_vec();
        store.change_quietly(inner, &self.key, what).await.map(drop)
    }
}

impl Drop for RedisReservation {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Should it fail, the units come back when the reservation times out.
            runtime.spawn(async move { claim.cancel().await });
        }
    }
}

impl fmt::Debug for RedisReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisReservation").field("cost", &self.cost()).finish_non_exhaustive()
    }
}
