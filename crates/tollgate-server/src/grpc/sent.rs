//! Limits that clients send with a descriptor: a fixed window for each unit of time.

use tollgate::{Decision, Limit, Reservation};
use tollgate_redis::RedisReservation;

use super::ask::{Numbers, SentKey, Wrong};
use super::rate_limit_response::rate_limit::Unit;
use crate::bounds::DESCRIPTORS_HELD;
use crate::client_limits::{ClientLimiter, ClientLimits, Kind};

impl Numbers {
    /// A limit per minute and one per hour count apart, and other numbers of the same unit go on
    /// with what was taken.
    fn kind(self) -> Kind {
        Kind::Descriptor(match self.unit {
            // Refused when a request is read.
            Unit::Unknown | Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Year => "year",
        })
    }

    /// The limiter with these numbers; none where they let nothing pass.
    pub(super) fn limiter(self, limits: &ClientLimits) -> Result<Option<ClientLimiter>, Wrong> {
        if self.count == 0 {
            return Ok(None);
        }
        let limit = Limit::fixed_window(u64::from(self.count), super::ask::length(self.unit));
        limits.get(self.kind(), limit).map(Some).map_err(Wrong::new)
    }
}

/// Units of a limit that a client has sent, held until all descriptors are decided.
pub(super) enum SentHold {
    Memory(Reservation),
    Redis(RedisReservation),
}

/// What is asked of a limit that a client has sent. While a store elsewhere is away, this node
/// goes on with its part.
impl ClientLimiter {
    /// Takes `cost`, and says whether that was decided without the store.
    pub(super) async fn take(&self, key: SentKey<'_>, cost: u64) -> (Decision, bool) {
        let Some(shared) = self.shared() else { return (self.alone().check_n(key, cost), false) };
        match shared.check_n(key, cost).await {
            Ok(decision) => (decision, false),
            Err(_) => (self.alone().check_n(key, cost), true),
        }
    }

    pub(super) async fn look(&self, key: SentKey<'_>, cost: u64) -> Decision {
        if let Some(shared) = self.shared()
            && let Ok(decision) = shared.peek_n(key, cost).await
        {
            return decision;
        }
        self.alone().peek_n(key, cost)
    }

    /// Holds `cost`; refused, what was decided, and whether that was without the store.
    pub(super) async fn hold(
        &self,
        key: SentKey<'_>,
        cost: u64,
    ) -> Result<SentHold, (Decision, bool)> {
        if let Some(shared) = self.shared() {
            match shared.reserve_for(key, cost, DESCRIPTORS_HELD).await {
                Ok(reservation) => return Ok(SentHold::Redis(reservation)),
                Err(error) => {
                    if let Some(decision) = error.decision() {
                        return Err((*decision, false));
                    }
                }
            }
        }
        let reserved = self.alone().reserve_for(key, cost, DESCRIPTORS_HELD);
        reserved.map(SentHold::Memory).map_err(|error| (*error.decision(), self.shared().is_some()))
    }

    pub(super) async fn give_back(&self, key: SentKey<'_>, units: u64) {
        match self.shared() {
            // Where the store has no answer nothing was given back, and nobody can be told.
            Some(shared) => drop(shared.refund(key, units).await),
            None => self.alone().refund(key, units),
        }
    }
}

impl SentHold {
    /// What was decided; keeps what is held.
    pub(super) async fn commit(self) -> Decision {
        match self {
            SentHold::Memory(reservation) => {
                let decision = *reservation.decision();
                reservation.commit();
                decision
            }
            SentHold::Redis(reservation) => {
                let decision = *reservation.decision();
                // Where the store has no answer the units come back by themselves.
                let _ = reservation.commit().await;
                decision
            }
        }
    }

    pub(super) async fn cancel(self) {
        match self {
            SentHold::Memory(reservation) => reservation.cancel(),
            SentHold::Redis(reservation) => drop(reservation.cancel().await),
        }
    }
}
