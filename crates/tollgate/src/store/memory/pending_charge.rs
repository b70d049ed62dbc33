//! Charges to be decided. Those of one key in one request are added up.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::fast_path::KnownKey;
use super::home::LINES_IN_FEW;
use super::line::SlotRef;
use super::{KeyEntry, Memory};
use crate::limit::Limit;

/// The number of charges that are decided without an allocation.
pub(crate) const INLINE: usize = 4;

/// One value for each charge of a transaction.
pub(super) type PerCharge<T> = SmallVec<[T; INLINE]>;

/// A charge to be decided.
#[derive(Clone, Copy)]
pub(crate) struct PendingCharge<'a> {
    pub(super) memory: &'a Memory,
    pub(super) slot: SlotRef<'a>,
    pub(crate) entry: KeyEntry<'a>,
    pub(super) cost: u64,
}

impl<'a> PendingCharge<'a> {
    #[inline]
    pub(crate) fn new(memory: &'a Memory, entry: KeyEntry<'a>, cost: u64) -> PendingCharge<'a> {
        let slot = memory.prefetch::<LINES_IN_FEW>(entry.fingerprint);
        PendingCharge { memory, slot, entry, cost }
    }

    #[inline(always)]
    pub(super) fn known(&self) -> Option<KnownKey<'a>> {
        KnownKey::new(self.memory, self.slot, self.entry.named, self.cost)
    }

    /// Returns the number of its shard.
    pub(super) fn shard(&self) -> usize {
        self.memory.shard_of(self.entry.fingerprint)
    }

    /// Returns what orders the locks.
    #[inline(always)]
    pub(super) fn lock_rank(&self) -> (usize, u64) {
        (self.slot.shard.address(), self.entry.fingerprint.id)
    }

    pub(super) fn is_same_key(&self, other: &PendingCharge<'_>) -> bool {
        self.lock_rank() == other.lock_rank()
    }
}

/// Returns the charges, those of one key added up, and `true` for each whose costs add up to more than a
/// number holds.
pub(super) fn merge_charges<'a>(
    charges: &[PendingCharge<'a>],
) -> (PerCharge<PendingCharge<'a>>, Vec<bool>) {
    let (mut merged, mut overflows) = (PerCharge::<PendingCharge<'a>>::new(), Vec::new());
    for charge in charges {
        match merged.iter().position(|other| other.is_same_key(charge)) {
            // A cost of 0 adds nothing, and its limit does not decide on the other charges.
            Some(_) if charge.cost == 0 => {}
            Some(at) if merged[at].cost == 0 => merged[at] = *charge,
            Some(at) => {
                let first = &mut merged[at];
                overflows[at] |= first.cost.checked_add(charge.cost).is_none();
                first.cost = first.cost.saturating_add(charge.cost);
                // The stricter limit decides, whichever comes first.
                let (named, other) = (first.entry.named, charge.entry.named);
                if strictness(&other.limit, &named.limit).is_lt() {
                    first.entry.named = other;
                }
            }
            None => {
                merged.push(*charge);
                overflows.push(false);
            }
        }
    }
    (merged, overflows)
}

/// Orders limits from strict to generous: by what they admit at one instant, then by how slow they are,
/// then by their text.
fn strictness(a: &Limit, b: &Limit) -> Ordering {
    let rate = |of: &Limit, other: &Limit| {
        u128::from(of.count()).saturating_mul(other.period().as_nanos())
    };
    a.capacity()
        .cmp(&b.capacity())
        .then_with(|| rate(a, b).cmp(&rate(b, a)))
        .then_with(|| a.to_string().cmp(&b.to_string()))
}
