//! The common request of several charges: a few known keys of one store, each a bucket in a slot. It
//! is decided as [`charge_all`](super::charge_all) would, for a third of the price, since nothing
//! else can happen; where something else can, nothing is done.
//!
//! All shards are locked before the first key is looked for: at a lock the processor stops and waits,
//! and once it has all of them it looks for all keys at the same time. A charge that is allowed is
//! taken at once, and put back should a later one be denied. Nobody sees that: until then all locks
//! are held.

use std::hint::select_unpredictable;

use super::home::LINES_IN_FEW;
use super::line::{Place, Spot};
use super::registry::Common;
use super::shard::Shard;
use super::{Memory, Named};
use crate::algorithm::Packed;
use crate::key::Fingerprint;
use crate::sync::BriefGuard;
use crate::time::Timestamp;

/// A charge of a key that may be known, and no more than is needed if it is: the fewer words there are
/// to write, the sooner the processor comes to the lock.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(super) memory: &'a Memory,
    pub(super) spot: Spot<'a>,
    pub(super) id: u64,
    pub(super) named: &'a Named,
    pub(super) cost: u64,
}

impl<'a> Known<'a> {
    /// Its slot and its lock are brought near.
    #[inline(always)]
    pub(crate) fn new(
        memory: &'a Memory,
        fingerprint: Fingerprint,
        named: &'a Named,
        cost: u64,
    ) -> Known<'a> {
        Known {
            memory,
            spot: memory.fetch::<LINES_IN_FEW>(fingerprint),
            id: fingerprint.id,
            named,
            cost,
        }
    }

    #[inline(always)]
    fn address(&self) -> usize {
        self.spot.place.address()
    }
}

/// What became of a few charges.
pub(super) struct Few<const N: usize> {
    pub(super) allowed: bool,
    pub(super) now: Timestamp,
    /// The states they met.
    pub(super) met: [Packed; N],
}

/// Decides all charges and takes all or none; `None` if they are not of the common kind.
#[inline(always)]
pub(super) fn charge_few<const N: usize>(charges: &[Known<'_>; N]) -> Option<Few<N>> {
    let first = charges.first()?;
    let (mut is_common, mut is_one) = (true, true);
    for (number, charge) in charges.iter().enumerate() {
        let is_repeated = charges[..number].iter().any(|other| other.id == charge.id);
        is_common &= !is_repeated && charge.cost > 0 && std::ptr::eq(charge.memory, first.memory);
        is_one &= charge.address() == first.address();
    }
    if !is_common {
        return None;
    }
    let now = first.memory.now();
    if is_one {
        let place = &first.spot.place;
        charge(watched(place, place.guard_several(), charges)?, charges, now)
    } else {
        charge(Several::lock(charges)?, charges, now)
    }
}

/// The shards of a few charges, all locked.
trait Shards {
    /// That of the charge of this number.
    fn of(&mut self, number: usize) -> Option<&mut Shard>;
}

/// What several limits count of one key is in one shard.
impl Shards for BriefGuard<'_, Shard> {
    #[inline(always)]
    fn of(&mut self, _: usize) -> Option<&mut Shard> {
        Some(self)
    }
}

struct Several<'a, const N: usize> {
    /// Lowest first; of one that some charges share, the first of as many.
    guards: [Option<BriefGuard<'a, Shard>>; N],
    /// Which of these a charge needs: how many have a lower one.
    ranks: [usize; N],
}

impl<const N: usize> Shards for Several<'_, N> {
    #[inline(always)]
    fn of(&mut self, number: usize) -> Option<&mut Shard> {
        self.guards[self.ranks[number]].as_deref_mut()
    }
}

impl<'a, const N: usize> Several<'a, N> {
    #[inline(always)]
    fn lock(charges: &[Known<'a>; N]) -> Option<Several<'a, N>> {
        let places = charges.map(|charge| charge.spot.place);
        let is_lower = |place: &Place<'_>, than: &Place<'_>| place.address() < than.address();
        let rank = |place| places.iter().map(|other| usize::from(is_lower(other, &place))).sum();
        let mut shards = Several { guards: [const { None }; N], ranks: places.map(rank) };
        let order = sorted(places);
        for at in 0..N {
            if at == 0 || is_lower(&order[at - 1], &order[at]) {
                // Not the longer waits of `guard_several`: others would wait for what is held already.
                shards.guards[at] = Some(watched(&order[at], order[at].guard(), charges)?);
            }
        }
        Some(shards)
    }
}

/// Lowest first. Without branches: the order of random keys is another each time.
#[inline(always)]
fn sorted<const N: usize>(mut places: [Place<'_>; N]) -> [Place<'_>; N] {
    for end in (1..N).rev() {
        for at in 0..end {
            let (a, b) = (places[at], places[at + 1]);
            let is_after = a.address() > b.address();
            places[at] = select_unpredictable(is_after, b, a);
            places[at + 1] = select_unpredictable(is_after, a, b);
        }
    }
    places
}

/// The shard at `place`, which was just locked; `None` if it has held units, which are watched by who
/// takes its time.
#[inline(always)]
fn watched<'a>(
    place: &Place<'a>,
    (mut shard, waited): (BriefGuard<'a, Shard>, bool),
    charges: &[Known<'a>],
) -> Option<BriefGuard<'a, Shard>> {
    if waited {
        let first = charges.iter().find(|charge| charge.address() == place.address());
        first.iter().for_each(|charge| shard.bring_to_front(charge.id));
    }
    (!place.is_reserved()).then_some(shard)
}

/// Decides all charges and takes all or none, their shards being locked.
#[inline(always)]
fn charge<const N: usize>(
    mut shards: impl Shards,
    charges: &[Known<'_>; N],
    now: Timestamp,
) -> Option<Few<N>> {
    let (mut met, mut taken) = ([[0; 2]; N], 0);
    for number in 0..N {
        let Known { spot, id, named, cost, .. } = charges[number];
        let (Some(Shard { table }), Some(Common { bucket, tag })) =
            (shards.of(number), &named.common)
        else {
            put_back(shards, &charges[..taken], &met);
            return None;
        };
        let Some(words) = table.known(id, *tag, spot.home) else {
            put_back(shards, &charges[..taken], &met);
            return None;
        };
        met[number] = *words;
        let step = bucket.step(*words, now.as_nanos(), cost);
        if step.allowed && taken == number {
            taken += 1;
            if bucket.is_empty(*words) {
                spot.place.disturb();
            }
            *words = step.after;
        }
    }
    if taken < N {
        put_back(shards, &charges[..taken], &met);
    }
    Some(Few { allowed: taken == N, now, met })
}

/// Makes the states of these charges, which are the first, what they were.
#[cold]
fn put_back(mut shards: impl Shards, taken: &[Known<'_>], met: &[Packed]) {
    for (number, (Known { id, .. }, met)) in taken.iter().zip(met).enumerate() {
        if let Some(Shard { table }) = shards.of(number)
            && let Ok(index) = table.find(*id)
        {
            *table.words_mut(index) = *met;
        }
    }
}
