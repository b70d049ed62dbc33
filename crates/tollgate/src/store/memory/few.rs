//! The common request of several charges: a few known keys of one store, each a bucket in a slot. It
//! is decided as [`charge_all`](super::charge_all) would, for a third of the price, since nothing
//! else can happen; where something else can, nothing is done.
//!
//! All shards are locked before the first key is looked for: at a lock the processor stops and waits,
//! and once it has all of them it looks for all keys at the same time. A charge that is allowed is
//! taken at once, and put back should a later one be denied. Nobody sees that: until then all locks
//! are held.

use std::hint::select_unpredictable;

use super::home::{Home, NEAR_TOGETHER};
use super::joint::Joint;
use super::line::Place;
use super::shard::Shard;
use crate::algorithm::Packed;
use crate::sync::BriefGuard;
use crate::time::Timestamp;

/// What became of a few charges.
pub(super) struct Few<const N: usize> {
    pub(super) allowed: bool,
    pub(super) now: Timestamp,
    /// The states they met.
    pub(super) met: [Packed; N],
}

/// Decides all charges and takes all or none; `None` if they are not of the common kind.
#[inline(always)]
pub(super) fn charge_few<const N: usize>(joints: [&Joint<'_>; N]) -> Option<Few<N>> {
    let first = joints.first()?;
    let (mut is_common, mut is_one) = (true, true);
    for (number, joint) in joints.iter().enumerate() {
        let id = |joint: &Joint<'_>| joint.entry.fingerprint.id;
        let is_repeated = joints[..number].iter().any(|other| id(other) == id(joint));
        is_common &= !is_repeated && joint.cost > 0 && std::ptr::eq(joint.memory, first.memory);
        is_one &= joint.place.address() == first.place.address();
    }
    if !is_common {
        return None;
    }
    let now = first.memory.now();
    if is_one {
        charge(lock(&first.place, &joints)?, joints, now)
    } else {
        charge(Several::lock(&joints)?, joints, now)
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
    fn lock(joints: &[&Joint<'a>; N]) -> Option<Several<'a, N>> {
        let places = joints.map(|joint| joint.place);
        let is_lower = |place: &Place<'_>, than: &Place<'_>| place.address() < than.address();
        let rank = |place| places.iter().map(|other| usize::from(is_lower(other, &place))).sum();
        let mut shards = Several { guards: [const { None }; N], ranks: places.map(rank) };
        let order = sorted(places);
        for at in 0..N {
            if at == 0 || is_lower(&order[at - 1], &order[at]) {
                shards.guards[at] = Some(lock(&order[at], joints)?);
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

/// `None` if it has held units: they are watched by who takes its time.
#[inline(always)]
fn lock<'a>(place: &Place<'a>, joints: &[&Joint<'a>]) -> Option<BriefGuard<'a, Shard>> {
    let (mut shard, waited) = place.guard();
    if waited {
        let is_here = |joint: &&&Joint<'_>| joint.place.address() == place.address();
        let first = joints.iter().find(is_here);
        first.iter().for_each(|joint| shard.bring_to_front(joint.entry.fingerprint.id));
    }
    (!place.is_reserved()).then_some(shard)
}

/// Decides all charges and takes all or none, their shards being locked.
#[inline(always)]
fn charge<const N: usize>(
    mut shards: impl Shards,
    joints: [&Joint<'_>; N],
    now: Timestamp,
) -> Option<Few<N>> {
    let (mut met, mut taken) = ([[0; 2]; N], 0);
    for number in 0..N {
        let Joint { place, entry, cost, .. } = joints[number];
        let shard = shards.of(number)?;
        let Some((bucket, words)) =
            shard.known_bucket::<NEAR_TOGETHER>(entry.fingerprint.id, entry.named, Home::default())
        else {
            put_back(shards, &joints[..taken], &met);
            return None;
        };
        met[number] = *words;
        let step = bucket.step(*words, now.as_nanos(), *cost);
        if step.allowed && taken == number {
            taken += 1;
            if bucket.is_empty(*words) {
                place.disturb();
            }
            *words = step.after;
        }
    }
    if taken < N {
        put_back(shards, &joints[..taken], &met);
    }
    Some(Few { allowed: taken == N, now, met })
}

/// Makes the states of these charges, which are the first, what they were.
#[cold]
fn put_back(mut shards: impl Shards, taken: &[&Joint<'_>], met: &[Packed]) {
    for (number, (Joint { entry, .. }, met)) in taken.iter().zip(met).enumerate() {
        let shard = shards.of(number);
        let known = shard.and_then(|shard| {
            shard.known_bucket::<NEAR_TOGETHER>(entry.fingerprint.id, entry.named, Home::default())
        });
        known.into_iter().for_each(|(_, words)| *words = *met);
    }
}
