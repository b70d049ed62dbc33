//! Several charges at once: every shard concerned is locked, lowest first, and decided as it is
//! locked; once the last is, all or nothing is taken on the way back.
//!
//! No lock is released before all are held, so that no other request can see some of the charges
//! taken and others not.

use smallvec::SmallVec;

use super::evict::Room;
use super::line::{Line, Locked};
use super::shard::{Call, Reclaim};
use super::{Entry, Memory};
use crate::decision::Decision;
use crate::time::Timestamp;

/// How many charges are decided without an allocation.
pub(crate) const INLINE: usize = 4;

/// One charge of several.
#[derive(Clone, Copy)]
pub(crate) struct Joint<'a> {
    memory: &'a Memory,
    line: &'a Line,
    pub(crate) entry: Entry<'a>,
    pub(crate) cost: u64,
}

/// What becomes of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) decision: Decision,
    now: Timestamp,
    /// For a new key in a store that was full: what was found out.
    room: Option<Room>,
}

/// What came of locking and deciding some of the charges, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    AllAllowed,
    SomeDenied,
    /// A new key found the store full: room is to be made with no lock held.
    Full,
}

/// Charges and what becomes of them, by the same numbers.
struct Group<'g, 'a, C> {
    charges: &'g [C],
    joint: fn(&C) -> &Joint<'a>,
    turns: &'g mut [Turn],
}

/// [`charge_all`] for the common case: a few known keys of one store, each in a shard of its own.
/// Elsewhere it changes nothing and says false. It costs half of what the general way does.
#[inline]
pub(crate) fn charge_few<'a, C>(
    charges: &[C],
    joint: fn(&C) -> &Joint<'a>,
    turns: &mut [Turn],
) -> bool {
    if let Ok(one) = <&[C; 1]>::try_from(charges) {
        charge_exactly(one, joint, turns)
    } else if let Ok(two) = <&[C; 2]>::try_from(charges) {
        charge_exactly(two, joint, turns)
    } else if let Ok(three) = <&[C; 3]>::try_from(charges) {
        charge_exactly(three, joint, turns)
    } else if let Ok(four) = <&[C; 4]>::try_from(charges) {
        charge_exactly(four, joint, turns)
    } else {
        false
    }
}

#[inline]
fn charge_exactly<'a, C, const N: usize>(
    charges: &[C; N],
    joint: fn(&C) -> &Joint<'a>,
    turns: &mut [Turn],
) -> bool {
    let joints: [&Joint<'a>; N] = std::array::from_fn(|number| joint(&charges[number]));
    let memory = joints[0].memory;
    if joints.iter().any(|joint| !std::ptr::eq(joint.memory, memory)) || turns.len() != N {
        return false;
    }
    let now = memory.now();
    let mut order: [usize; N] = std::array::from_fn(|number| number);
    order.sort_unstable_by_key(|number| std::ptr::from_ref(joints[*number].line).addr());
    if order.windows(2).any(|pair| std::ptr::eq(joints[pair[0]].line, joints[pair[1]].line)) {
        return false;
    }
    let mut shards: [Option<Locked<'a>>; N] = [const { None }; N];
    for number in order {
        shards[number] = Some(joints[number].line.lock());
    }
    let mut places = [0; N];
    let mut allowed = true;
    for number in 0..N {
        let (Some(shard), joint) = (&shards[number], joints[number]) else {
            return false;
        };
        let Ok(index) = shard.table.find(joint.entry.fingerprint.id) else {
            return false;
        };
        let call = memory.call(joint.entry.named, now);
        turns[number].now = now;
        shard.decide_into(&mut turns[number].decision, index, &call, joint.cost);
        allowed &= turns[number].decision.is_allowed();
        places[number] = index;
    }
    for number in 0..N {
        let (Some(shard), joint) = (&mut shards[number], joints[number]) else {
            return false;
        };
        let call = memory.call(joint.entry.named, now);
        if allowed {
            shard.take(places[number], &call, joint.cost);
        } else {
            turns[number].untake(joint, shard, Some(places[number]), &call);
        }
    }
    true
}

/// Decides all charges, no two of the same key, and takes all or none.
#[inline]
pub(crate) fn charge_all<'a, C>(charges: &[C], joint: fn(&C) -> &Joint<'a>, turns: &mut [Turn]) {
    let mut group = Group { charges, joint, turns };
    group.read_time();
    let order = group.lock_order();
    while group.lock_next(&order, Verdict::AllAllowed) == Verdict::Full {
        group.make_room();
    }
}

/// Decides all charges, no two of the same key, as they stand at one instant, and takes none.
pub(crate) fn look_all<'a, C>(
    charges: &[C],
    joint: fn(&C) -> &Joint<'a>,
) -> SmallVec<[Decision; INLINE]> {
    let times: SmallVec<[Timestamp; INLINE]> =
        charges.iter().map(|charge| joint(charge).memory.now()).collect();
    let mut lines: SmallVec<[&Line; INLINE]> =
        charges.iter().map(|charge| joint(charge).line).collect();
    lines.sort_unstable_by_key(|line| std::ptr::from_ref(*line).addr());
    lines.dedup_by_key(|line| std::ptr::from_ref(*line).addr());
    let shards: SmallVec<[Locked<'_>; INLINE]> = lines.iter().map(|line| line.lock()).collect();
    let look = |(charge, now): (&C, Timestamp)| {
        let Joint { memory, line, entry, cost } = *joint(charge);
        let place = lines.iter().position(|other| std::ptr::eq(*other, line));
        let shard = place.map(|place| &shards[place])?;
        Some(Memory::peek_in(shard, &memory.call(entry.named, now), entry.fingerprint, cost))
    };
    let looked = charges.iter().zip(times).map(look);
    looked.map(|decision| decision.unwrap_or(Decision::UNDECIDED)).collect()
}

impl<'a, C> Group<'_, 'a, C> {
    #[inline]
    fn joint(&self, number: usize) -> &Joint<'a> {
        (self.joint)(&self.charges[number])
    }

    /// One instant for all charges of a store, read before anything is locked: what times out by
    /// then gives back, which locks.
    #[inline]
    fn read_time(&mut self) {
        for number in 0..self.turns.len() {
            let memory = self.joint(number).memory;
            let same = (0..number).find(|other| std::ptr::eq(self.joint(*other).memory, memory));
            self.turns[number].now =
                same.map_or_else(|| memory.now(), |other| self.turns[other].now);
        }
    }

    /// Lowest line first, so that two requests never wait for each other in a circle. By
    /// insertion: charges are few.
    #[inline]
    fn lock_order(&self) -> SmallVec<[usize; INLINE]> {
        let mut order: SmallVec<[usize; INLINE]> = SmallVec::new();
        for number in 0..self.charges.len() {
            let line = std::ptr::from_ref(self.joint(number).line);
            let is_higher = |other: &usize| std::ptr::from_ref(self.joint(*other).line) > line;
            let place = order.iter().position(is_higher).unwrap_or(order.len());
            order.insert(place, number);
        }
        order
    }

    /// Locks the shard of the first charge and goes on with it; `so_far` is of those before it.
    fn lock_next(&mut self, order: &[usize], so_far: Verdict) -> Verdict {
        let Some(first) = order.first() else {
            return so_far;
        };
        let mut shard = self.joint(*first).line.lock();
        self.decide_and_take(order, &mut shard, so_far)
    }

    /// Decides the first charge, whose shard is locked, then all after it; takes it if all allow it.
    fn decide_and_take(
        &mut self,
        order: &[usize],
        shard: &mut Locked<'_>,
        so_far: Verdict,
    ) -> Verdict {
        let Some((&number, rest)) = order.split_first() else {
            return so_far;
        };
        let joint = *self.joint(number);
        let turn = &mut self.turns[number];
        let call = joint.memory.call(joint.entry.named, turn.now);
        let found = shard.table.find(joint.entry.fingerprint.id);
        let mut verdict = match found {
            Ok(index) => {
                shard.decide_into(&mut turn.decision, index, &call, joint.cost);
                Verdict::AllAllowed
            }
            Err(_) => joint.decide_new(turn, &call),
        };
        let allowed = turn.decision.is_allowed();
        if !allowed {
            verdict = Verdict::SomeDenied;
        }
        let claimed = matches!(turn.room, Some(Room::Claimed));
        let so_far = so_far.max(verdict);
        let shares_shard =
            rest.first().is_some_and(|next| std::ptr::eq(self.joint(*next).line, joint.line));
        let verdict = if shares_shard {
            self.decide_and_take(rest, shard, so_far)
        } else {
            self.lock_next(rest, so_far)
        };
        match verdict {
            Verdict::AllAllowed => joint.take(shard, found.ok(), &call, claimed),
            Verdict::SomeDenied => self.turns[number].untake(&joint, shard, found.ok(), &call),
            // What was claimed stays so until the next round.
            Verdict::Full => {}
        }
        verdict
    }

    /// Makes room for a key that found none; everything is decided again after it.
    #[cold]
    fn make_room(&mut self) {
        let full = |turn: &Turn| matches!(turn.room, Some(Room::Full));
        if let Some(number) = self.turns.iter().position(full) {
            let joint = *self.joint(number);
            let call = joint.memory.call(joint.entry.named, self.turns[number].now);
            let room = joint.memory.room(joint.entry.fingerprint, &call);
            self.turns[number].room = Some(room);
        }
    }
}

impl<'a> Joint<'a> {
    #[inline]
    pub(crate) fn new(memory: &'a Memory, entry: Entry<'a>) -> Joint<'a> {
        let line = &memory.shards[memory.shard_of(entry.fingerprint)];
        line.fetch(entry.fingerprint.id);
        Joint { memory, line, entry, cost: 1 }
    }

    /// Whether both charge the same key.
    #[inline]
    pub(crate) fn is_same_key(&self, other: &Joint<'_>) -> bool {
        self.entry.fingerprint == other.entry.fingerprint && std::ptr::eq(self.memory, other.memory)
    }

    /// As of when what was taken at `now` counts: later where the key has seen a later time.
    pub(crate) fn seen(&self, now: Timestamp) -> Timestamp {
        let Entry { named, fingerprint, .. } = self.entry;
        let shard = self.line.lock();
        let seen = match shard.table.find(fingerprint.id) {
            Ok(index) if shard.table.limit(index) == named.number => {
                named.plan.seen(shard.state(index, named))
            }
            _ => 0,
        };
        now.max(Timestamp::from_nanos(seen))
    }

    /// Adds to the cost; a cost of zero stays an error beside others.
    pub(crate) fn add_cost(&mut self, cost: u64) {
        let is_error = self.cost == 0 || cost == 0;
        self.cost = if is_error { 0 } else { self.cost.saturating_add(cost) };
    }

    /// Decides for a key that is not in the table, and claims a place if it is allowed.
    #[inline(never)]
    fn decide_new(&self, turn: &mut Turn, call: &Call<'_>) -> Verdict {
        let plan = &call.named.plan;
        if let Some(Room::Denied { retry_after }) = turn.room {
            turn.decision = Decision::new(plan.full(retry_after, self.cost), self.cost);
            return Verdict::SomeDenied;
        }
        turn.decision = Decision::new(plan.decide_fresh(call.now, self.cost), self.cost);
        if turn.decision.is_allowed() && turn.room.is_none() {
            let claimed = self.memory.claim();
            turn.room = Some(if claimed { Room::Claimed } else { Room::Full });
        }
        if matches!(turn.room, Some(Room::Full)) { Verdict::Full } else { Verdict::AllAllowed }
    }

    #[inline]
    fn take(&self, shard: &mut Locked<'_>, index: Option<usize>, call: &Call<'_>, claimed: bool) {
        let id = self.entry.fingerprint.id;
        match index {
            // A key added since to the same shard may have moved this one.
            Some(index) if shard.table.is_at(index, id) => shard.take(index, call, self.cost),
            Some(_) => {
                if let Ok(index) = shard.table.find(id) {
                    shard.take(index, call, self.cost);
                }
            }
            None if claimed => {
                // Nothing is reclaimed meanwhile: it might be a key that is charged next.
                let key = self.memory.new_key(&self.entry, call, self.cost);
                shard.insert(key, call, Reclaim::Nothing);
                return;
            }
            None => {}
        }
        // Claimed for a key that somebody else has brought meanwhile.
        self.memory.release(usize::from(claimed));
    }
}

impl Turn {
    /// The instant it was decided for.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// To be decided.
    pub(crate) const OPEN: Turn =
        Turn { decision: Decision::UNDECIDED, now: Timestamp::from_nanos(0), room: None };

    /// What its own limit allows and another kept from being taken is shown as it stands, and a
    /// place that was claimed is free again.
    fn untake(
        &mut self,
        joint: &Joint<'_>,
        shard: &Locked<'_>,
        index: Option<usize>,
        call: &Call<'_>,
    ) {
        if self.decision.is_allowed() {
            self.decision = Decision::untaken(match index {
                Some(index) => shard.decide(index, call, 0),
                None => call.named.plan.decide_fresh(call.now, 0),
            });
        }
        if matches!(self.room, Some(Room::Claimed)) {
            joint.memory.release(1);
            self.room = None;
        }
    }
}
