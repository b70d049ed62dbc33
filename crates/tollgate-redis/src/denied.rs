//! The deny cache: the states of requests that were just refused, so that who keeps asking does not
//! cost the server a call each time.
//!
//! A refused request changes nothing. What it met therefore still holds while nothing else arrives,
//! and says by itself when the request fits again. What others take meanwhile only makes the key
//! emptier, and a refusal stays right; what this process gives back is forgotten here; what another
//! process gives back is seen when the entry is too old, which is soon. So it is with a block: it
//! lasts as long as it was said to, unless somebody lifts it.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use siphasher::sip128::{Hasher128, SipHasher13};
use tollgate::port::ScriptState;
use tollgate::{Clock, ManualClock, Timestamp};

use crate::across::SlotReplies;
use crate::bounds::{DENIAL_SETS, DENIALS_PER_SET};
use crate::request::{ScriptCharge, ScriptReply};

pub(crate) struct DenyCache {
    /// How long an entry is believed.
    lasts: Duration,
    clock: Clock,
    /// A test's own time, which the server is told as well.
    told: Option<ManualClock>,
    /// So that nobody can aim keys at one set.
    seed: [u64; 2],
    /// Found by the key. No two are locked at a time.
    sets: Box<[Mutex<DenySet>]>,
    answered: AtomicU64,
}

#[derive(Default)]
struct DenySet {
    /// How often something here was forgotten.
    changes: u64,
    seen: Vec<CachedDenial>,
}

/// What a refused request met under one of its keys.
struct CachedDenial {
    key: u128,
    /// Whose numbers the state is in, or how the rule blocks.
    terms: u128,
    /// Our time when the answer came.
    at: Timestamp,
    what: CachedAnswer,
}

enum CachedAnswer {
    State {
        cost: u64,
        state: ScriptState,
        /// The server's time, in microseconds since 1970.
        now: u64,
        /// This process has taken units since: it refuses nothing any more, for its figures are old.
        /// It still says how the key stood, where another key refuses a request.
        is_old: bool,
    },
    /// For how long the key of a rule was still blocked; zero where it was not.
    Block(Duration),
}

/// What is known of a charge now.
pub(crate) struct CachedState {
    /// The time of the server that its key lies on.
    pub(crate) now: u64,
    pub(crate) state: ScriptState,
    pub(crate) may_refuse: bool,
}

/// Where a key is, and how often something there had been forgotten when the request was sent.
pub(crate) struct CacheSlot {
    key: u128,
    terms: u128,
    changes: u64,
}

impl DenyCache {
    pub(crate) fn new(lasts: Duration, told: Option<ManualClock>, seed: [u64; 2]) -> DenyCache {
        let sets = if lasts.is_zero() { 0 } else { DENIAL_SETS };
        DenyCache {
            lasts,
            clock: told.clone().map_or_else(Clock::system, Clock::from),
            told,
            seed,
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            answered: AtomicU64::new(0),
        }
    }

    /// The same, empty, by a test's own time.
    pub(crate) fn with_clock(&self, clock: ManualClock) -> DenyCache {
        DenyCache::new(self.lasts, Some(clock), self.seed)
    }

    /// Our time in whole microseconds, as the server's is: what it says of a part of one is of the
    /// whole.
    fn now(&self) -> Timestamp {
        let nanos = self.clock.now().as_nanos();
        Timestamp::from_nanos(nanos - nanos % 1000)
    }

    /// How many requests were refused here.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// What is known of a request: the refusal, if all its states are known and one of them refuses
    /// it now; otherwise its places, for [`learn`](Self::learn).
    pub(crate) fn look(&self, charges: &[ScriptCharge<'_>]) -> Result<ScriptReply, Vec<CacheSlot>> {
        let (mut known, places) = self.known(charges);
        // They lie on one server: the latest time is everybody's.
        let now = known.iter().map(|known| known.now).max().unwrap_or(0);
        known.iter_mut().for_each(|known| known.now = now);
        if !self.refuses(charges, &known) {
            return Err(places);
        }
        let states = known.into_iter().map(|known| known.state).collect();
        Ok(ScriptReply::refused(now, states))
    }

    /// The same for a request whose keys lie on several servers, each with its own time; its places
    /// are for [`learn_across`](Self::learn_across).
    pub(crate) fn look_across(
        &self,
        charges: &[ScriptCharge<'_>],
    ) -> Result<SlotReplies, Vec<CacheSlot>> {
        let (known, places) = self.known(charges);
        if !self.refuses(charges, &known) {
            return Err(places);
        }
        let states = known.into_iter().map(|known| (known.now, known.state)).collect();
        Ok(SlotReplies { fits: false, may_be_learned: false, states })
    }

    /// What is known, of each charge that something is known of, and the places of all.
    pub(crate) fn known(&self, charges: &[ScriptCharge<'_>]) -> (Vec<CachedState>, Vec<CacheSlot>) {
        let (mut known, mut places) = (Vec::new(), Vec::new());
        if self.sets.is_empty() {
            return (known, places);
        }
        let here = self.now();
        for charge in charges {
            let place = self.place(charge);
            let set = self.set(place.key);
            let seen = set.find(&place).filter(|seen| here.saturating_since(seen.at) < self.lasts);
            known.extend(seen.and_then(|seen| self.known_of(seen, charge, here)));
            places.push(CacheSlot { changes: set.changes, ..place });
        }
        (known, places)
    }

    fn known_of(
        &self,
        seen: &CachedDenial,
        charge: &ScriptCharge<'_>,
        here: Timestamp,
    ) -> Option<CachedState> {
        let CachedAnswer::State { cost, state, now, is_old } = &seen.what else { return None };
        // Of a log only what one cost needs is known.
        let is_enough = *cost == charge.cost || !charge.limiter.terms.is_log();
        let now = match &self.told {
            Some(_) => here.as_nanos() / 1000,
            // What the server's clock shows, going by ours.
            None => {
                let since =
                    u64::try_from(here.saturating_since(seen.at).as_micros()).unwrap_or(u64::MAX);
                now.saturating_add(since)
            }
        };
        // The server re-dates such a state.
        let is_stepped = charge.limiter.terms.ported.is_stepped(state, now);
        (is_enough && !is_stepped).then(|| CachedState {
            now,
            state: state.clone(),
            may_refuse: !is_old,
        })
    }

    /// For how long the key of a rule that blocks so is blocked, if that is known, and its place.
    pub(crate) fn block(&self, key: &[u8], punishment: &[u8]) -> (Option<Duration>, CacheSlot) {
        let mut place = CacheSlot { key: self.hash(key), terms: self.hash(punishment), changes: 0 };
        if self.sets.is_empty() {
            return (None, place);
        }
        let (here, set) = (self.now(), self.set(place.key));
        place.changes = set.changes;
        let left = set.find(&place).and_then(|seen| match seen.what {
            CachedAnswer::Block(left) if here.saturating_since(seen.at) < self.lasts => {
                Some(left.saturating_sub(here.saturating_since(seen.at)))
            }
            _ => None,
        });
        (left, place)
    }

    /// Keeps for how long the key of a rule is blocked.
    pub(crate) fn learn_block(&self, place: &CacheSlot, left: Duration) {
        self.learn_one(place, CachedAnswer::Block(left));
    }

    /// One more request was refused here.
    pub(crate) fn count_answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether all of a request is known and refuses it, which is counted.
    fn refuses(&self, charges: &[ScriptCharge<'_>], known: &[CachedState]) -> bool {
        let refuses = |(charge, known): (&ScriptCharge<'_>, &CachedState)| {
            let ported = &charge.limiter.terms.ported;
            known.may_refuse && !ported.decide(&known.state, known.now, charge.cost).is_allowed()
        };
        let is_refused = known.len() == charges.len() && charges.iter().zip(known).any(refuses);
        if is_refused {
            self.count_answered();
        }
        is_refused
    }

    fn place(&self, charge: &ScriptCharge<'_>) -> CacheSlot {
        let (key, terms) = (self.hash(&charge.key), self.hash(&charge.limiter.terms.tag));
        CacheSlot { key, terms, changes: 0 }
    }

    /// Keeps what a refused request met, unless something was forgotten since it was sent: it may
    /// have met what was there before.
    pub(crate) fn learn(
        &self,
        charges: &[ScriptCharge<'_>],
        places: &[CacheSlot],
        met: &ScriptReply,
    ) {
        let states = met.states.iter().map(|state| (met.now, state));
        self.learn_states(charges, places, states);
    }

    /// The same for a request whose keys lie on several servers.
    pub(crate) fn learn_across(
        &self,
        charges: &[ScriptCharge<'_>],
        places: &[CacheSlot],
        across: &SlotReplies,
    ) {
        let states = across.states.iter().map(|(now, state)| (*now, state));
        self.learn_states(charges, places, states);
    }

    fn learn_states<'a>(
        &self,
        charges: &[ScriptCharge<'_>],
        places: &[CacheSlot],
        states: impl Iterator<Item = (u64, &'a ScriptState)>,
    ) {
        for ((charge, place), (now, state)) in charges.iter().zip(places).zip(states) {
            let (cost, state) = (charge.cost, state.clone());
            self.learn_one(place, CachedAnswer::State { cost, state, now, is_old: false });
        }
    }

    fn learn_one(&self, place: &CacheSlot, what: CachedAnswer) {
        if self.sets.is_empty() {
            return;
        }
        let &CacheSlot { key, terms, changes } = place;
        let (at, mut set) = (self.now(), self.set(key));
        if set.changes == changes {
            set.keep(CachedDenial { key, terms, at, what });
        }
    }

    /// A request has taken units of these keys.
    pub(crate) fn outdate(&self, places: &[CacheSlot]) {
        for place in places {
            let mut set = self.set(place.key);
            for seen in set.seen.iter_mut().filter(|seen| seen.key == place.key) {
                if let CachedAnswer::State { is_old, .. } = &mut seen.what {
                    *is_old = true;
                }
            }
        }
    }

    /// Forgets what is known of a key, since it has changed or may have.
    pub(crate) fn forget(&self, key: &[u8]) {
        if self.sets.is_empty() {
            return;
        }
        let key = self.hash(key);
        let mut set = self.set(key);
        set.changes += 1;
        set.seen.retain(|seen| seen.key != key);
    }

    /// Forgets everything: what a fleet shares, or the policy, has changed.
    pub(crate) fn forget_all(&self) {
        for set in &self.sets {
            let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
            set.changes += 1;
            set.seen.clear();
        }
    }

    /// Drops what is known of these keys, which are about to be asked for: what comes back is as old
    /// as the answer.
    pub(crate) fn ask_anew(&self, places: &[CacheSlot]) {
        for place in places {
            self.set(place.key).seen.retain(|seen| seen.key != place.key);
        }
    }

    /// Forgets it when this is dropped: when the change has been answered, has failed, or nobody
    /// waits for it any more.
    pub(crate) fn forget_at_last<'a>(&'a self, key: &'a [u8]) -> impl Drop + 'a {
        InvalidateOnDrop { denials: self, key }
    }

    fn hash(&self, bytes: &[u8]) -> u128 {
        let mut hasher = SipHasher13::new_with_keys(self.seed[0], self.seed[1]);
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }

    fn set(&self, key: u128) -> MutexGuard<'_, DenySet> {
        let count = u128::try_from(self.sets.len()).unwrap_or(1);
        let index = usize::try_from(key % count).unwrap_or(0);
        self.sets[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DenySet {
    fn find(&self, place: &CacheSlot) -> Option<&CachedDenial> {
        self.seen.iter().find(|seen| seen.key == place.key && seen.terms == place.terms)
    }

    /// Keeps one more, instead of the oldest where there is no room.
    fn keep(&mut self, seen: CachedDenial) {
        let same = self.seen.iter().position(|other| other.key == seen.key);
        let oldest = || {
            let oldest = self.seen.iter().enumerate().min_by_key(|(_, other)| other.at);
            oldest.map(|(index, _)| index).filter(|_| self.seen.len() >= DENIALS_PER_SET)
        };
        match same.or_else(oldest) {
            Some(index) => self.seen[index] = seen,
            None => self.seen.push(seen),
        }
    }
}

struct InvalidateOnDrop<'a> {
    denials: &'a DenyCache,
    key: &'a [u8],
}

impl Drop for InvalidateOnDrop<'_> {
    fn drop(&mut self) {
        self.denials.forget(self.key);
    }
}

#[cfg(test)]
mod tests;
