//! Several limits on one request: all or none.

use std::sync::Arc;

use tollgate::Decision;
use tollgate::port::{self, ScriptState};

use crate::across::SlotReplies;
use crate::bounds::MAX_CHARGES;
use crate::error::StoreError;
use crate::limiter::{RedisLimiter, agree};
use crate::request::{ScriptCharge, ScriptMode};
use crate::store::RedisStore;

/// A limit, a key and a cost: what [`RedisStore::check_all`] decides on.
#[derive(Clone, Debug)]
#[must_use = "a charge is taken by check_all"]
pub struct RedisCharge<'a> {
    limiter: &'a RedisLimiter,
    key: Vec<u8>,
    cost: u64,
}

impl<'a> RedisCharge<'a> {
    pub(crate) fn new(limiter: &'a RedisLimiter, key: Vec<u8>) -> RedisCharge<'a> {
        RedisCharge { limiter, key, cost: 1 }
    }

    /// How many units to take; one if not said.
    pub fn cost(mut self, units: u64) -> RedisCharge<'a> {
        self.cost = units;
        self
    }
}

impl RedisStore {
    /// Takes every charge if each is allowed by its own limit, and none otherwise: no other request
    /// can see a moment in which some were taken. Charges of one limiter and key are added up.
    ///
    /// Where the keys lie in several slots of a Cluster, all are first reserved and then committed or
    /// given back: this may for a moment deny what would have fit, and never allows too much.
    /// [`partition_by`](RedisLimiter::partition_by) keeps them in one.
    ///
    /// # Errors
    /// Where the store has no answer, or there are more than 64 charges.
    pub async fn check_all(
        &self,
        charges: &[RedisCharge<'_>],
    ) -> Result<RedisDecisions, StoreError> {
        self.decide(&ChargeRequest::new(charges)?).await
    }

    /// Decides a request, wherever its keys lie.
    pub(crate) async fn decide(
        &self,
        request: &ChargeRequest<'_>,
    ) -> Result<RedisDecisions, StoreError> {
        if request.charges.is_empty() {
            return request.decisions(&SlotReplies::nothing());
        }
        let across = self.ask_across(&request.charges, request.mode).await?;
        request.decisions(&across)
    }
}

/// A request as it is sent: its charges are of different keys.
#[derive(Debug)]
pub(crate) struct ChargeRequest<'a> {
    pub(crate) charges: Vec<ScriptCharge<'a>>,
    /// A cost that can never be is only looked at.
    pub(crate) mode: ScriptMode,
}

impl<'a> ChargeRequest<'a> {
    pub(crate) fn new(charges: &[RedisCharge<'a>]) -> Result<ChargeRequest<'a>, StoreError> {
        let charges = merged(charges);
        if charges.len() > MAX_CHARGES {
            return Err(StoreError::InvalidRequest(format!(
                "a request has {} charges, must be at most {MAX_CHARGES}",
                charges.len()
            )));
        }
        let is_possible = charges.iter().all(|charge| charge.limiter.is_possible(charge.cost));
        let mode = if is_possible { ScriptMode::Take } else { ScriptMode::Look };
        Ok(ChargeRequest { charges, mode })
    }

    /// What comes of what it met.
    pub(crate) fn decisions(&self, across: &SlotReplies) -> Result<RedisDecisions, StoreError> {
        let taken = self.mode == ScriptMode::Take && across.fits;
        let decide = |(charge, (now, state)): (&ScriptCharge<'_>, &(u64, ScriptState))| {
            let ported = &charge.limiter.terms.ported;
            let decision = if taken {
                ported.decide(state, *now, charge.cost)
            } else {
                // What its own limit allows and another kept from being taken is shown as it stands.
                ported.peek(state, *now, charge.cost)
            };
            (charge.limiter.name.clone(), decision)
        };
        let all = RedisDecisions(self.charges.iter().zip(&across.states).map(decide).collect());
        if self.mode == ScriptMode::Take
            && let Some((_, deciding)) = all.deciding()
        {
            agree(across.fits, deciding)?;
        }
        Ok(all)
    }
}

/// The charges, those of one limiter and key added up.
fn merged<'a>(charges: &[RedisCharge<'a>]) -> Vec<ScriptCharge<'a>> {
    let mut merged: Vec<ScriptCharge<'a>> = Vec::with_capacity(charges.len());
    for RedisCharge { limiter, key, cost } in charges {
        match merged.iter_mut().find(|other| other.key == *key) {
            Some(first) => first.cost = first.cost.saturating_add(*cost),
            None => {
                merged.push(ScriptCharge { limiter: &limiter.inner, key: key.clone(), cost: *cost })
            }
        }
    }
    merged
}

/// The answer to [`RedisStore::check_all`]: one for the request, and each limit's own figures.
#[derive(Clone, Debug)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct RedisDecisions(Vec<(Arc<str>, Decision)>);

impl RedisDecisions {
    /// Whether to go ahead: every charge was taken.
    pub fn is_allowed(&self) -> bool {
        self.0.iter().all(|(_, decision)| decision.is_allowed())
    }

    /// Which limiter decided, and how: where denied, the one with the longest wait; where allowed,
    /// the one with the smallest share remaining. `None` where there was no charge.
    pub fn deciding(&self) -> Option<(&str, &Decision)> {
        port::deciding(self.iter())
    }

    /// Each limiter's name and what it says by itself; nothing was taken unless all allow it.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (&str, &Decision)> + DoubleEndedIterator + Clone {
        self.0.iter().map(|(name, decision)| (&**name, decision))
    }
}
