//! Holds that are written down in Redis, so that any node can end them, once.
//!
//! What they hold is reserved beside each key's state as ever, and comes back by itself when it times
//! out. Here is only what a node must know to end it, under a number, and for as long as that.

use std::fmt;
use std::time::Duration;

use redis::{Value, cmd};
use tollgate::Limit;

use super::RedisGate;
use super::hold::{GateReservationKind, RedisGateReservation, ScaledRedisReservation};
use crate::error::StoreError;
use crate::limiter::RedisLimiter;
use crate::reservation::OpenRedisReservation;
use crate::script::{PackedBytes, PackedReader};
use crate::store::RedisStore;

/// What a record begins with, so that another build never takes it for something else.
const VERSION: u8 = 1;

/// Units of every rule that applied to a request, which [`RedisGate::detach`] has written down
/// and somebody has come for.
///
/// Dropped, the units come back when the reservation times out.
#[must_use = "nobody else can end it any more"]
pub struct DetachedReservation {
    cost: u64,
    claims: Vec<DetachedCharge>,
}

/// A claim, and how many of its units one unit of the request is.
struct DetachedCharge {
    claim: OpenRedisReservation,
    per_unit: u64,
}

impl RedisGate {
    /// Writes down under `id` what is held, for whichever node is asked to end it: see
    /// [`attach`](Self::attach). `timeout` is how much is left until the hold times out.
    ///
    /// Gives the hold back where its units are this node's alone, since the store was away when it
    /// was made: nobody else could end it.
    ///
    /// # Errors
    /// Where the store has no answer. What was held is given back then.
    pub async fn detach(
        &self,
        id: u128,
        hold: RedisGateReservation,
        timeout: Duration,
    ) -> Result<Option<RedisGateReservation>, StoreError> {
        let GateReservationKind::Store(claims) = &hold.held else { return Ok(Some(hold)) };
        let record = written(hold.cost, claims);
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut command = cmd("SET");
        command.arg(self.hold_key(id)).arg(record).arg("PX").arg(millis);
        self.store().connection().send(&command).await?;
        if let GateReservationKind::Store(claims) = hold.held {
            // Whoever takes it ends them: dropped, they would be given back.
            claims.into_iter().for_each(|scaled| drop(scaled.reservation.into_claim()));
        }
        Ok(None)
    }

    /// What was kept under `id`, if it has neither ended nor timed out. Whoever gets it is the only
    /// one.
    ///
    /// # Errors
    /// Where the store has no answer, or another build wrote it.
    pub async fn attach(&self, id: u128) -> Result<Option<DetachedReservation>, StoreError> {
        let mut command = cmd("GETDEL");
        command.arg(self.hold_key(id));
        match self.store().connection().send(&command).await? {
            Value::BulkString(record) => {
                let unknown = || {
                    let what = "what is written down of a reservation is of another version";
                    StoreError::Incompatible(what.to_owned())
                };
                read(self.store(), &record).map(Some).ok_or_else(unknown)
            }
            _ => Ok(None),
        }
    }

    fn hold_key(&self, id: u128) -> Vec<u8> {
        format!("tg:{{{id:032x}}}:hold:{}", self.0.namespace).into_bytes()
    }
}

impl DetachedReservation {
    /// How many units are held: the request's cost.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Keeps what was taken, as [`RedisGateReservation::commit`] does.
    ///
    /// # Errors
    /// Where the store has no answer: the units then come back when the hold times out.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.end(|claim, _| claim.cost()).await
    }

    /// Gives everything back.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn cancel(self) -> Result<(), StoreError> {
        self.end(|_, _| 0).await
    }

    /// Charges what was really used instead of what was taken, as [`RedisGateReservation::settle`] does.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn settle(self, actual: u64) -> Result<(), StoreError> {
        self.end(|claim, per_unit| match per_unit {
            0 => claim.cost(),
            per_unit => actual.saturating_mul(per_unit),
        })
        .await
    }

    /// Ends every claim, also if one fails; the first failure is the result.
    async fn end(self, used: impl Fn(&OpenRedisReservation, u64) -> u64) -> Result<(), StoreError> {
        let claims = self.claims.into_iter().map(|DetachedCharge { claim, per_unit }| {
            let actual = used(&claim, per_unit);
            (claim, actual)
        });
        OpenRedisReservation::settle_all(claims.collect()).await
    }
}

fn written(cost: u64, claims: &[ScaledRedisReservation]) -> Vec<u8> {
    let mut record = PackedBytes::default().bytes(&[VERSION]).bytes(&cost.to_be_bytes());
    for ScaledRedisReservation { reservation, per_unit } in claims {
        let Some(claim) = reservation.claim() else { continue };
        let limiter = claim.limiter();
        let limit = limiter.terms.limit.to_string();
        for text in [limiter.name.as_bytes(), limit.as_bytes(), &claim.key] {
            let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
            record = record.bytes(&length.to_be_bytes()).bytes(text);
        }
        for word in [claim.ticket(), claim.cost(), *per_unit] {
            record = record.bytes(&word.to_be_bytes());
        }
    }
    record.0
}

fn read(store: &RedisStore, record: &[u8]) -> Option<DetachedReservation> {
    let (version, rest) = record.split_first()?;
    let mut record = PackedReader(rest);
    let cost = record.word().filter(|_| *version == VERSION)?;
    let mut claims = Vec::new();
    while !record.0.is_empty() {
        let (name, limit) = (text(&mut record)?, text(&mut record)?);
        let key = bytes(&mut record)?.to_vec();
        let (ticket, own_cost, per_unit) = (record.word()?, record.word()?, record.word()?);
        let limit: Limit = limit.parse().ok()?;
        // Where its keys lie is in the key, which is whole.
        let limiter = RedisLimiter::new(store.clone(), name, limit).ok()?;
        let claim = OpenRedisReservation::taken(&limiter, key, (ticket, own_cost));
        claims.push(DetachedCharge { claim, per_unit });
    }
    Some(DetachedReservation { cost, claims })
}

fn text<'a>(record: &mut PackedReader<'a>) -> Option<&'a str> {
    std::str::from_utf8(bytes(record)?).ok()
}

fn bytes<'a>(record: &mut PackedReader<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(record.word()?).ok()?;
    let (bytes, rest) = record.0.split_at_checked(length)?;
    record.0 = rest;
    Some(bytes)
}

impl fmt::Debug for DetachedReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptHold").field("cost", &self.cost).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_makes_no_sense_is_no_hold() {
        let store = RedisStore::open("redis://127.0.0.1:1").unwrap();
        let empty = written(7, &[]);
        assert_eq!(read(&store, &empty).unwrap().cost(), 7);
        let text = |text: &[u8]| [&(text.len() as u64).to_be_bytes(), text].concat();
        let whole = [&empty[..], &text(b"a"), &text(b"5/s"), &text(b"tg:a"), &[0; 24]].concat();
        assert_eq!(read(&store, &whole).unwrap().claims.len(), 1);
        for length in (0..whole.len()).filter(|length| *length != empty.len()) {
            assert!(read(&store, &whole[..length]).is_none(), "{length}");
        }
        let huge = [&empty[..], &[0xff; 8], b"abc"].concat();
        assert!(read(&store, &huge).is_none());
        assert!(read(&store, &[&[2], &empty[1..]].concat()).is_none(), "of another build");
        let wrong = [&empty[..], &text(b"a"), &text(b"0/s"), &text(b"k"), &[0; 24]].concat();
        assert!(read(&store, &wrong).is_none());
    }
}
