//! Several limits on one request: all or none.

use std::sync::Arc;

use tollgate::Decision;
use tollgate::port::{self, State};

use crate::across::Across;
use crate::bounds::MAX_CHARGES;
use crate::error::StoreError;
use crate::limiter::{RedisLimiter, agree};
use crate::request::{Asked, Mode};
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

    /// The key's name in Redis, which says where it lies.
    pub(crate) fn place(&self) -> &[u8] {
        &self.key
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
        let merged = merged(charges);
        if merged.len() > MAX_CHARGES {
            return Err(StoreError::Request(format!(
                "a request has {} charges, must be at most {MAX_CHARGES}",
                merged.len()
            )));
        }
        if merged.is_empty() {
            return Ok(RedisDecisions(Vec::new()));
        }
        let asked: Vec<Asked<'_>> = merged
            .iter()
            .map(|charge| Asked {
                limiter: &charge.limiter.inner,
                key: charge.key.clone(),
                cost: charge.cost,
            })
            .collect();
        let possible = merged.iter().all(|charge| charge.limiter.is_possible(charge.cost));
        let mode = if possible { Mode::Take } else { Mode::Look };
        let across = self.ask_across(&asked, mode).await?;
        decisions(&merged, &across, mode)
    }
}

fn decisions(
    charges: &[RedisCharge<'_>],
    across: &Across,
    mode: Mode,
) -> Result<RedisDecisions, StoreError> {
    let taken = mode == Mode::Take && across.fits;
    let decide = |(charge, (now, state)): (&RedisCharge<'_>, &(u64, State))| {
        let ported = &charge.limiter.inner.terms.ported;
        let decision = if taken {
            ported.decide(state, *now, charge.cost)
        } else {
            // What its own limit allows and another kept from being taken is shown as it stands.
            ported.peek(state, *now, charge.cost)
        };
        (charge.limiter.inner.name.clone(), decision)
    };
    let all = RedisDecisions(charges.iter().zip(&across.states).map(decide).collect());
    if mode == Mode::Take
        && let Some((_, deciding)) = all.deciding()
    {
        agree(across.fits, deciding)?;
    }
    Ok(all)
}

/// The charges, those of one limiter and key added up; a cost of zero stays an error.
fn merged<'a>(charges: &[RedisCharge<'a>]) -> Vec<RedisCharge<'a>> {
    let mut merged: Vec<RedisCharge<'a>> = Vec::with_capacity(charges.len());
    for charge in charges {
        match merged.iter_mut().find(|other| other.key == charge.key) {
            Some(first) if first.cost == 0 || charge.cost == 0 => first.cost = 0,
            Some(first) => first.cost = first.cost.saturating_add(charge.cost),
            None => merged.push(charge.clone()),
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
