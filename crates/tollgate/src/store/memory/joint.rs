//! Several charges at once: every shard concerned is locked, lowest first, then every charge is
//! decided, and then all or nothing is taken.
//!
//! No lock is released before all are held, so that no other request can see some of the charges
//! taken and others not. What is kept of a charge is the state it met: its decision follows from
//! that and is worked out when somebody asks, which most callers do not.

use smallvec::SmallVec;

use super::evict::Room;
use super::fast_path::{KnownKey, KnownOutcome, charge_known};
use super::home::LINES_IN_FEW;
use super::line::{Locked, SlotRef};
use super::met::Met;
use super::shard::{Call, Reclaim};
use super::{Entry, Memory, Named};
use crate::decision::Decision;
use crate::time::Timestamp;

/// How many charges are decided without an allocation.
pub(crate) const INLINE: usize = 4;

/// One charge of several.
#[derive(Clone, Copy)]
pub(crate) struct Joint<'a> {
    pub(super) memory: &'a Memory,
    pub(super) slot: SlotRef<'a>,
    pub(crate) entry: Entry<'a>,
    pub(crate) cost: u64,
}

/// What became of a charge: enough to tell its decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) named: &'a Named,
    pub(crate) cost: u64,
    pub(crate) now: Timestamp,
    pub(crate) met: Met,
}

/// What came of charging all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charged {
    All,
    None,
    /// Nothing was decided, since two of the charges are of one key.
    Repeated,
}

/// What came of deciding the charges, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    AllAllowed,
    /// A new key found the store full: room is to be made with no lock held.
    Full,
    /// Worse than no room: for a request that is denied nobody has to go.
    SomeDenied,
    /// A cost is an error, which changes nothing at all.
    SomeWrong,
}

/// Charges and what becomes of them, by the same numbers.
struct Group<'g, 'a, C> {
    charges: &'g [C],
    joint: fn(&C) -> &Joint<'a>,
    turns: &'g mut [Turn<'a>],
    /// Of the new keys by number: what was found out about places for them. Empty before the
    /// first new key.
    rooms: SmallVec<[Option<Room>; INLINE]>,
}

/// Decides all charges and takes all or none; adds what became of each to `turns`, in order. A
/// caller's own list is filled directly: what is collected first is copied once more.
#[inline]
pub(crate) fn charge_all<'a, C>(
    charges: &[C],
    joint: fn(&C) -> &Joint<'a>,
    turns: &mut impl Extend<Turn<'a>>,
) -> Charged {
    let charged = match charges {
        [a] => charge_joints(&[a].map(joint), turns),
        [a, b] => charge_joints(&[a, b].map(joint), turns),
        [a, b, c] => charge_joints(&[a, b, c].map(joint), turns),
        _ => None,
    };
    charged.unwrap_or_else(|| {
        let (charged, all) = charge_any(charges, joint);
        turns.extend(all);
        charged
    })
}

/// [`charge_all`] of a few charges, if they are of the common kind.
#[inline(always)]
fn charge_joints<'a, const N: usize>(
    joints: &[&Joint<'a>; N],
    to: &mut impl Extend<Turn<'a>>,
) -> Option<Charged> {
    charge_few(joints.map(Joint::known), to)
}

/// [`charge_all`] of charges that the fast path can take, or `None` with nothing changed.
#[inline(always)]
pub(crate) fn charge_few<'a, const N: usize>(
    keys: [Option<KnownKey<'a>>; N],
    to: &mut impl Extend<Turn<'a>>,
) -> Option<Charged> {
    let keys = all(keys)?;
    let now = keys[0].now();
    let KnownOutcome { allowed, observed, .. } = charge_known(&keys, now)?;
    to.extend(keys.iter().zip(&observed).map(|(key, [at, owed])| {
        let KnownKey { named, cost, .. } = *key;
        Turn { named, cost, now, met: Met::state([*at, *owed, 0]) }
    }));
    Some(if allowed { Charged::All } else { Charged::None })
}

/// [`charge_all`] of charges of whatever kind.
#[cold]
#[inline(never)]
pub(crate) fn charge_any<'a, C>(
    charges: &[C],
    joint: fn(&C) -> &Joint<'a>,
) -> (Charged, SmallVec<[Turn<'a>; INLINE]>) {
    let mut turns: SmallVec<[Turn<'a>; INLINE]> =
        charges.iter().map(|charge| Turn::new(joint(charge))).collect();
    let mut group = Group { charges, joint, turns: &mut turns, rooms: SmallVec::new() };
    let order = group.lock_order();
    let is_again = |pair: &[usize]| group.joint(pair[0]).rank() == group.joint(pair[1]).rank();
    if order.windows(2).any(is_again) {
        return (Charged::Repeated, turns);
    }
    group.read_time();
    loop {
        match group.charge(&order) {
            Verdict::AllAllowed => return (Charged::All, turns),
            Verdict::SomeDenied | Verdict::SomeWrong => return (Charged::None, turns),
            Verdict::Full => group.make_room(),
        }
    }
}

/// All of them, if none is missing.
#[inline(always)]
fn all<T: Copy, const N: usize>(each: [Option<T>; N]) -> Option<[T; N]> {
    each.iter().all(Option::is_some).then(|| each.map(|one| one.expect("none is missing")))
}

impl<'a, C> Group<'_, 'a, C> {
    #[inline(always)]
    fn joint(&self, number: usize) -> &Joint<'a> {
        (self.joint)(&self.charges[number])
    }

    /// Lowest lock first, so that two requests never wait for each other in a circle; of one lock,
    /// by key, so that a key charged twice stands beside itself.
    fn lock_order(&self) -> SmallVec<[usize; INLINE]> {
        let mut order: SmallVec<[usize; INLINE]> = (0..self.charges.len()).collect();
        order.sort_unstable_by_key(|number| self.joint(*number).rank());
        order
    }

    /// One instant for all charges of a store, read before anything is locked: what times out by
    /// then gives back, which locks.
    #[inline(always)]
    fn read_time(&mut self) {
        for number in 0..self.turns.len() {
            let memory = self.joint(number).memory;
            let is_same = |other: &usize| std::ptr::eq(self.joint(*other).memory, memory);
            self.turns[number].now = match (0..number).find(is_same) {
                Some(other) => self.turns[other].now,
                None => memory.now(),
            };
        }
    }

    /// Locks every shard once, decides every charge, and does what follows from all of them.
    fn charge(&mut self, order: &[usize]) -> Verdict {
        let mut shards: SmallVec<[Locked<'a>; INLINE]> = SmallVec::new();
        let mut places: SmallVec<[usize; INLINE]> = SmallVec::new();
        let mut last = None;
        for number in order {
            let place = self.joint(*number).slot.shard;
            if last.replace(place.address()) != Some(place.address()) {
                shards.push(place.lock());
            }
            places.push(shards.len() - 1);
        }
        let mut verdict = Verdict::AllAllowed;
        for (number, place) in order.iter().zip(&places) {
            let (Joint { memory, entry, .. }, now) = (self.joint(*number), self.turns[*number].now);
            memory.tend(&mut shards[*place], entry.fingerprint.id, now.as_nanos());
            verdict = verdict.max(self.decide(*number, &shards[*place]));
        }
        for (number, place) in order.iter().zip(&places) {
            self.finish(*number, &mut shards[*place], verdict);
        }
        verdict
    }

    /// Decides one charge, of a key that is known or new.
    fn decide(&mut self, number: usize, shard: &Locked<'a>) -> Verdict {
        let Joint { memory, entry, cost, .. } = *self.joint(number);
        let call = memory.call(entry.named, self.turns[number].now);
        if cost == 0 {
            // A cost of 0 is always allowed and needs no slot: only its figures are wanted.
            let met = &mut self.turns[number].met;
            match shard.table.find(entry.fingerprint.id) {
                Ok(index) => _ = shard.meet(met, index, &call, 0),
                Err(_) => _ = met.set(&call, entry.named.plan.fresh().as_ref(), 0),
            }
            return Verdict::AllAllowed;
        }
        let verdict = match shard.table.find(entry.fingerprint.id) {
            Ok(index) => match shard.meet(&mut self.turns[number].met, index, &call, cost) {
                true => Verdict::AllAllowed,
                false => Verdict::SomeDenied,
            },
            Err(_) => self.decide_new(number, &call),
        };
        if entry.named.plan.can_fit(cost) { verdict } else { Verdict::SomeWrong }
    }

    /// Takes one charge or leaves it. The key is looked for again: another that was added to the same
    /// shard meanwhile may have moved it.
    fn finish(&mut self, number: usize, shard: &mut Locked<'a>, verdict: Verdict) {
        let Joint { memory, entry, cost, .. } = *self.joint(number);
        if cost == 0 {
            return;
        }
        let call = memory.call(entry.named, self.turns[number].now);
        let claimed = matches!(self.rooms.get(number), Some(Some(Room::Claimed)));
        let index = shard.table.find(entry.fingerprint.id).ok();
        match (verdict, index) {
            (Verdict::AllAllowed, Some(index)) => {
                shard.take(index, &call, cost);
                // Claimed for a key that somebody else has brought meanwhile.
                memory.release(usize::from(claimed));
            }
            (Verdict::AllAllowed, None) if claimed => {
                let key = memory.new_key(&entry, &call, cost);
                // Nothing is reclaimed meanwhile: it might be a key that is charged next.
                shard.insert(key, &call, Reclaim::Nothing);
            }
            // What its own limit allows and another kept from being taken is shown as it stands,
            // and a place that was claimed is free again.
            (Verdict::SomeDenied | Verdict::SomeWrong, index) => {
                if let Some(index) = index.filter(|_| verdict == Verdict::SomeDenied) {
                    shard.store_conversion(index, &call);
                }
                let turn = &mut self.turns[number];
                turn.met = shard.stands(index, &call, turn.met);
                memory.release(usize::from(claimed));
            }
            // A new key that is not counted; or what was claimed stays so until the next round.
            (Verdict::AllAllowed, None) | (Verdict::Full, _) => {}
        }
    }

    /// Decides for a key that is not in the table, and claims a place if it is allowed.
    #[inline(never)]
    fn decide_new(&mut self, number: usize, call: &Call<'_>) -> Verdict {
        let Joint { memory, cost, .. } = *self.joint(number);
        self.rooms.resize(self.charges.len(), None);
        let (room, met) = (&mut self.rooms[number], &mut self.turns[number].met);
        if let Some(Room::Denied { retry_after }) = room {
            *met = Met::figures(&call.named.plan.full(*retry_after, cost));
            return Verdict::SomeDenied;
        }
        if !met.set(call, call.named.plan.fresh().as_ref(), cost) {
            return Verdict::SomeDenied;
        }
        let room = room.get_or_insert_with(|| match memory.claim() {
            true => Room::Claimed,
            false => Room::Full,
        });
        if matches!(room, Room::Full) { Verdict::Full } else { Verdict::AllAllowed }
    }

    /// Makes room for a key that found none; everything is decided again after it.
    #[cold]
    fn make_room(&mut self) {
        let full = |room: &Option<Room>| matches!(room, Some(Room::Full));
        if let Some(number) = self.rooms.iter().position(full) {
            let Joint { memory, entry, .. } = *self.joint(number);
            let call = memory.call(entry.named, self.turns[number].now);
            // None of the request's own keys goes: what they have taken would be forgotten.
            let is_ours = |shard, id| {
                (0..self.charges.len()).map(|number| self.joint(number)).any(|joint| {
                    std::ptr::eq(joint.memory, memory)
                        && (joint.shard(), joint.entry.fingerprint.id) == (shard, id)
                })
            };
            self.rooms[number] = Some(memory.room_beside(entry.fingerprint, &call, &is_ours));
        }
    }
}

impl<'a> Joint<'a> {
    #[inline]
    pub(crate) fn new(memory: &'a Memory, entry: Entry<'a>) -> Joint<'a> {
        Joint { memory, slot: memory.prefetch::<LINES_IN_FEW>(entry.fingerprint), entry, cost: 1 }
    }

    #[inline(always)]
    pub(super) fn known(&self) -> Option<KnownKey<'a>> {
        KnownKey::new(self.memory, self.slot, self.entry.named, self.cost)
    }

    /// The number of its shard.
    pub(super) fn shard(&self) -> usize {
        self.memory.shard_of(self.entry.fingerprint)
    }

    /// What orders the locks.
    #[inline(always)]
    pub(super) fn rank(&self) -> (usize, u64) {
        (self.slot.shard.address(), self.entry.fingerprint.id)
    }

    /// Whether both charge the same key.
    pub(crate) fn is_same_key(&self, other: &Joint<'_>) -> bool {
        self.rank() == other.rank()
    }

    /// Adds to the cost.
    pub(crate) fn add_cost(&mut self, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
    }
}

impl<'a> Turn<'a> {
    /// To be decided.
    #[inline(always)]
    pub(crate) fn new(joint: &Joint<'a>) -> Turn<'a> {
        let Joint { entry: Entry { named, .. }, cost, .. } = *joint;
        Turn { named, cost, now: Timestamp::from_nanos(0), met: Met::OPEN }
    }

    /// What the charge's own limit says of it; `charged` is what came of all.
    pub(crate) fn decision(&self, charged: Charged) -> Decision {
        let figures = |cost| self.met.told(&self.named.plan, self.now.as_nanos(), cost);
        let decision = Decision::new(figures(self.cost), self.cost);
        if self.cost > 0 && decision.is_allowed() && charged != Charged::All {
            return Decision::allowed(figures(0));
        }
        decision
    }
}
