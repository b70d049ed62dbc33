//! One charge of one key.
//!
//! What most are is short: a known key, a bucket in a slot. While the processor waits for one key's
//! slot it goes ahead to the next key's, but only so many instructions: so the common charge is as
//! little as can be, and keeps nothing at hand for what else could be. Where it is something else,
//! it has done nothing, and all of it is begun again.

use super::line::Spot;
use super::registry::Common;
use super::tagged::Tagged;
use super::{Entry, Memory, Named};
use crate::algorithm::{Bucket, Step};
use crate::decision::{Decision, Figures};
use crate::time::Timestamp;

/// A charge of a bucket in a slot, decided and, if allowed, taken.
pub(crate) struct Stepped<'a> {
    bucket: &'a Bucket,
    step: Step,
    /// The state's own moment, before.
    at: u64,
    now: u64,
    cost: u64,
}

/// The charge of a known key that is a bucket in a slot, and of no other.
#[inline(always)]
pub(crate) fn step<'a>(
    Spot { place, home }: Spot<'_>,
    id: u64,
    named: &'a Named,
    now: Timestamp,
    cost: u64,
) -> Option<Stepped<'a>> {
    let Common { bucket, tag } = named.common.as_ref()?;
    let asked = bucket.asked(cost)?;
    // What is held is watched by who takes its time.
    if cost == 0 || place.is_reserved() {
        return None;
    }
    let now = now.as_nanos();
    let mut shard = place.guard();
    // It may have been reserved before it was locked.
    if place.is_reserved() {
        return None;
    }
    let words = shard.table.known(Tagged::new(id, *tag), home)?;
    // The clock moved back, maybe so far that the state is to be re-dated.
    if words[0] > now {
        return None;
    }
    let (met, step) = (*words, bucket.step(*words, now, asked));
    if step.allowed {
        *words = step.after;
    }
    Some(Stepped { bucket, step, at: met[0], now, cost })
}

impl Memory {
    /// Decides, and takes if allowed.
    pub(crate) fn charge(&self, entry: &Entry<'_>, now: Timestamp, cost: u64) -> Decision {
        let Entry { named, fingerprint, .. } = *entry;
        if cost == 0 {
            return self.peek(entry, now, 0);
        }
        let (place, call) = (self.place(fingerprint), self.call(named, now));
        let mut shard = place.lock();
        self.tend(&mut shard, fingerprint.id, call.now);
        match shard.table.find(fingerprint.id) {
            Ok(index) => shard.charge(index, &call, cost),
            Err(_) => self.charge_new(shard, entry, &call, cost),
        }
    }
}

impl Stepped<'_> {
    /// Whether it goes ahead at once.
    #[inline(always)]
    pub(crate) fn passes(&self) -> bool {
        self.step.allowed && !self.bucket.shapes()
    }

    #[inline(always)]
    pub(crate) fn decision(&self) -> Decision {
        let figures =
            Figures::Bucket(self.bucket.figures(&self.step, self.at, self.now, self.cost));
        // What is allowed fits, and is not asked again whether it ever could.
        if self.step.allowed {
            Decision::allowed(figures)
        } else {
            Decision::new(figures, self.cost)
        }
    }
}
