//! The common request of several charges: a few known keys of one store, each a bucket in a slot. It
//! is decided as [`charge_any`](super::charge_any) would, for a third of the price, since nothing
//! else can happen; where something else can, nothing is done.
//!
//! All shards are locked before the first key is looked for: at a lock the processor stops and waits,
//! and once it has all of them it looks for all keys at the same time. A charge that is allowed is
//! taken at once, and put back should a later one be denied. Nobody sees that: until then all locks
//! are held.
//!
//! While the processor waits for the slots it goes ahead to the next request's, but only so many
//! instructions: whatever can be worked out before the slots have come is worked out before.

use std::hint::select_unpredictable;

use super::joint::{Charged, Turn};
use super::line::{Place, Sought, Spot};
use super::registry::Common;
use super::shard::Shard;
use super::tagged::Tagged;
use super::{Memory, Named};
use crate::algorithm::{Asked, Bucket, Packed};
use crate::sync::BriefGuard;
use crate::time::Timestamp;

/// A charge of a bucket in a slot, which is of the common kind if its key is known.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    memory: &'a Memory,
    spot: Spot<'a>,
    pub(super) named: &'a Named,
    pub(super) cost: u64,
    tagged: Tagged,
    bucket: &'a Bucket,
    /// What the cost asks of the bucket.
    asked: Asked,
}

impl<'a> Known<'a> {
    /// `None` if it is of another kind.
    #[inline(always)]
    pub(crate) fn new(
        memory: &'a Memory,
        Sought { spot, id }: Sought<'a>,
        named: &'a Named,
        cost: u64,
    ) -> Option<Known<'a>> {
        let Common { bucket, tag } = named.common.as_ref().filter(|_| cost > 0)?;
        let (tagged, asked) = (Tagged::new(id, *tag), bucket.asked(cost)?);
        Some(Known { memory, spot, named, cost, tagged, bucket, asked })
    }

    #[inline(always)]
    fn address(&self) -> usize {
        self.spot.place.address()
    }

    /// Takes the charge of its state if that is allowed: whether it is.
    #[inline(always)]
    fn take(&self, words: &mut Packed, now: Timestamp) -> bool {
        let step = self.bucket.step(*words, now.as_nanos(), self.asked);
        if step.allowed {
            *words = step.after;
        }
        step.allowed
    }
}

/// Where is told what charges have met. Each caller has what it reads at once: words that were just
/// written in one way and are read in another are waited for.
pub(super) trait Mets {
    fn set(&mut self, number: usize, words: Packed);
    fn get(&self, number: usize) -> Packed;
}

impl<const N: usize> Mets for [Packed; N] {
    #[inline(always)]
    fn set(&mut self, number: usize, words: Packed) {
        self[number] = words;
    }

    fn get(&self, number: usize) -> Packed {
        self[number]
    }
}

impl<const N: usize> Mets for [Turn<'_>; N] {
    #[inline(always)]
    fn set(&mut self, number: usize, words: Packed) {
        self[number].met.meet(words);
    }

    fn get(&self, number: usize) -> Packed {
        self[number].met.packed()
    }
}

/// When to decide these charges; `None` if they are of several stores, or two of one key. Nothing is
/// locked yet: what has timed out by then is given back.
#[inline(always)]
pub(super) fn ready<const N: usize>(charges: &[Known<'_>; N]) -> Option<Timestamp> {
    let first = charges.first()?;
    let mut is_common = true;
    for (number, charge) in charges.iter().enumerate() {
        let is_repeated =
            charges[..number].iter().any(|other| other.tagged.is_same_key(charge.tagged));
        is_common &= !is_repeated && std::ptr::eq(charge.memory, first.memory);
    }
    is_common.then(|| first.memory.now())
}

/// Decides all charges, which are [`ready`], and takes all or none of them; `None` if a key is not known
/// or something is reserved, and then nothing is taken. Otherwise `mets` are told what they met.
#[inline(always)]
pub(super) fn charge_few<const N: usize>(
    charges: &[Known<'_>; N],
    mets: &mut impl Mets,
    now: Timestamp,
) -> Option<Charged> {
    let place = &charges.first()?.spot.place;
    if charges.iter().all(|charge| charge.address() == place.address()) {
        charge(unreserved(place, place.guard())?, charges, mets, now)
    } else {
        charge(Several::lock(charges)?, charges, mets, now)
    }
}

/// The shards of a few charges, all locked.
trait Shards {
    /// That of the charge of this number.
    fn of(&mut self, number: usize) -> Option<&mut Shard>;

    /// The state of the charge of this number, if it is known.
    #[inline(always)]
    fn known(&mut self, number: usize, charge: &Known<'_>) -> Option<&mut Packed> {
        self.of(number)?.table.known(charge.tagged, charge.spot.home)
    }
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
                shards.guards[at] = Some(unreserved(&order[at], order[at].guard())?);
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

/// The locked shard; `None` if a key of it has an open reservation, which only the general path handles.
#[inline(always)]
fn unreserved<'a>(
    place: &Place<'a>,
    shard: BriefGuard<'a, Shard>,
) -> Option<BriefGuard<'a, Shard>> {
    (!place.is_reserved()).then_some(shard)
}

/// Decides all charges and takes all or none, their shards being locked.
#[inline(always)]
fn charge<const N: usize>(
    mut shards: impl Shards,
    charges: &[Known<'_>; N],
    mets: &mut impl Mets,
    now: Timestamp,
) -> Option<Charged> {
    const { assert!(N <= 3) };
    let mut at = (&mut shards, mets);
    // No loop, which would have to keep count of where it is.
    let taken = if !takes(0, charges, &mut at, now) {
        0
    } else if !takes(1, charges, &mut at, now) {
        1
    } else if !takes(2, charges, &mut at, now) {
        2
    } else {
        return Some(Charged::All);
    };
    let (shards, mets) = at;
    let charges = *charges;
    put_back(shards, &charges[..taken], mets);
    meet(shards, &charges, mets, now)
}

/// Takes the charge of this number, if there is one: whether it is known and allowed.
#[inline(always)]
fn takes<const N: usize>(
    number: usize,
    charges: &[Known<'_>; N],
    (shards, mets): &mut (&mut impl Shards, &mut impl Mets),
    now: Timestamp,
) -> bool {
    if number >= N {
        return true;
    }
    let charge = &charges[number];
    match shards.known(number, charge) {
        // If the clock moved back, `meet` leaves the request to the general path.
        Some(words) if words[0] <= now.as_nanos() => {
            mets.set(number, *words);
            charge.take(words, now)
        }
        _ => false,
    }
}

/// Tells what all charges meet, none of which is taken: `None` if one is not known, or newer than
/// `now`.
#[inline(never)]
fn meet(
    shards: &mut impl Shards,
    charges: &[Known<'_>],
    mets: &mut impl Mets,
    now: Timestamp,
) -> Option<Charged> {
    for (number, charge) in charges.iter().enumerate() {
        let words = *shards.known(number, charge)?;
        if words[0] > now.as_nanos() {
            return None;
        }
        mets.set(number, words);
    }
    Some(Charged::None)
}

/// Makes the states of these charges, which are the first, what they were. Not in line, but no rarity:
/// whoever is denied by a later limit comes here.
#[inline(never)]
fn put_back(shards: &mut impl Shards, taken: &[Known<'_>], mets: &impl Mets) {
    for (number, charge) in taken.iter().enumerate() {
        if let Some(words) = shards.known(number, charge) {
            *words = mets.get(number);
        }
    }
}
