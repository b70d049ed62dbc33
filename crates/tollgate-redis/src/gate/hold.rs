//! Units held of several rules until it is known how many were needed.

use std::fmt;

use tollgate::{GateReservation, Ruling};

use crate::error::StoreError;
use crate::reservation::{OpenRedisReservation, RedisReservation};

/// Units of every rule that applied to a request, taken until it is known how many were needed.
///
/// Dropped in an async runtime, it gives them back; dropped elsewhere, or lost with its process,
/// they come back when it times out. What is committed or settled after that is charged anew, into
/// debt if it must.
#[must_use = "dropping a hold gives its units back"]
pub struct RedisGateReservation {
    pub(super) ruling: Ruling,
    pub(super) cost: u64,
    pub(super) held: GateReservationKind,
}

/// Where the units were taken.
pub(super) enum GateReservationKind {
    Store(Vec<ScaledRedisReservation>),
    /// The store was away.
    Memory(Box<GateReservation>),
}

/// A reservation of one limit, and how many of its units one unit of the request is.
pub(super) struct ScaledRedisReservation {
    pub(super) reservation: RedisReservation,
    pub(super) per_unit: u64,
}

impl RedisGateReservation {
    /// The ruling that took the units.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// How many units are held: the request's cost.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Raises what is held to `units` in all, if it is less: into debt if they are not there. Rules
    /// that multiply the cost do so again; rules with a cost of their own keep it. What was charged
    /// so is not given back by the store.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn raise_to(&mut self, units: u64) -> Result<(), StoreError> {
        self.cost = self.cost.max(units);
        let mut raised = Ok(());
        match &mut self.held {
            GateReservationKind::Memory(hold) => hold.raise_to(units),
            GateReservationKind::Store(claims) => {
                for ScaledRedisReservation { reservation, per_unit } in claims {
                    let own = units.saturating_mul(*per_unit);
                    raised = raised.and(reservation.raise_to(own).await);
                }
            }
        }
        raised
    }

    /// Keeps what was taken: the estimate was right.
    ///
    /// # Errors
    /// Where the store has no answer: the units then come back when the hold times out.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self.held {
            GateReservationKind::Store(claims) => {
                end(claims, |reservation, _| reservation.cost()).await
            }
            GateReservationKind::Memory(hold) => {
                hold.commit();
                Ok(())
            }
        }
    }

    /// Gives everything back: nothing was used.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn cancel(self) -> Result<(), StoreError> {
        match self.held {
            GateReservationKind::Store(claims) => end(claims, |_, _| 0).await,
            GateReservationKind::Memory(hold) => {
                hold.cancel();
                Ok(())
            }
        }
    }

    /// Charges what was really used instead of what was taken: gives the difference back, or
    /// takes it, into debt if it is not there. Rules that multiply the cost do so again; rules
    /// with a cost of their own keep it.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn settle(self, actual: u64) -> Result<(), StoreError> {
        match self.held {
            GateReservationKind::Store(claims) => {
                let used = |reservation: &RedisReservation, per_unit| match per_unit {
                    0 => reservation.cost(),
                    per_unit => actual.saturating_mul(per_unit),
                };
                end(claims, used).await
            }
            GateReservationKind::Memory(hold) => {
                hold.settle(actual);
                Ok(())
            }
        }
    }
}

/// Ends every claim, also if one fails; the first failure is the result.
async fn end(
    claims: Vec<ScaledRedisReservation>,
    used: impl Fn(&RedisReservation, u64) -> u64,
) -> Result<(), StoreError> {
    let claims =
        claims.into_iter().filter_map(|ScaledRedisReservation { reservation, per_unit }| {
            let actual = used(&reservation, per_unit);
            Some((reservation.into_claim()?, actual))
        });
    OpenRedisReservation::settle_all(claims.collect()).await
}

impl fmt::Debug for RedisGateReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisHold").field("cost", &self.cost).finish_non_exhaustive()
    }
}
