//! `Limiter`: one limit, many keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::algorithm;
use crate::bounds::DEFAULT_RESERVATION;
use crate::charge::Charge;
use crate::decision::{Decision, Status};
use crate::key::{Fingerprint, Fingerprints, Hashed, Key, KeyName};
use crate::limit::{Limit, LimitError};
use crate::reservation::Reservation;
use crate::store::memory::{Entry, Memory, MemoryStore, MemoryStoreBuilder, Named, WhenFull};
use crate::time::{Clock, Timestamp};
use crate::waiting::Acquire;

/// How many keys of a batch are looked for at the same time: about as many lines as a core can wait
/// for.
const AHEAD: usize = 16;

/// One limit over many keys. Clones share the state, and so do threads.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_minute(100).burst(20))?;
/// if limiter.check("user-42").is_allowed() {
///     // serve the request
/// }
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone)]
pub struct Limiter(Arc<Inner>);

struct Inner {
    store: MemoryStore,
    named: Arc<Named>,
    fingerprints: Fingerprints,
}

/// A limiter that nobody has.
pub(crate) struct Apart(Inner);

impl Apart {
    pub(crate) fn named(&self) -> &Arc<Named> {
        &self.0.named
    }

    pub(crate) fn store(&self) -> &MemoryStore {
        &self.0.store
    }

    /// The limiter again.
    pub(crate) fn together(self) -> Limiter {
        Limiter(Arc::new(self.0))
    }
}

impl Limiter {
    /// A limiter with a store of its own, of a million keys at most.
    ///
    /// # Errors
    /// Where the limit's numbers are impossible; the message says what would be right.
    pub fn new(limit: Limit) -> Result<Limiter, LimitError> {
        Limiter::builder(limit).build()
    }

    /// A limiter to be built with a clock, a bound or other choices of its own.
    pub fn builder(limit: Limit) -> LimiterBuilder {
        LimiterBuilder { limit, name: "limit".to_owned(), store: MemoryStore::builder() }
    }

    pub(crate) fn on(store: MemoryStore, name: &str, limit: &Limit) -> Result<Limiter, LimitError> {
        let named = store.0.register(name, limit)?;
        let fingerprints = Fingerprints::new(&store.0.hashes, name);
        Ok(Limiter(Arc::new(Inner { store, named, fingerprints })))
    }

    /// What it is made of, if nobody else has it: then nobody can ask it any more.
    pub(crate) fn taken_apart(self) -> Result<Apart, Limiter> {
        Arc::try_unwrap(self.0).map(Apart).map_err(Limiter)
    }

    /// Its name, which decisions over several limits carry.
    pub fn name(&self) -> &str {
        &self.0.named.limiter
    }

    /// Its limit.
    pub fn limit(&self) -> &Limit {
        &self.0.named.limit
    }

    /// The store behind it.
    pub fn store(&self) -> &MemoryStore {
        &self.0.store
    }

    /// Takes one unit for `key` if the limit allows it.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Takes `cost` units for `key` if the limit allows them all.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        let (fingerprint, memory) = (self.0.fingerprints.of(&key), self.memory());
        // The clock is read while the slot is on its way.
        let spot = memory.fetch(fingerprint);
        let entry = Entry { named: &self.0.named, fingerprint, key: &key };
        memory.charge_at(spot, &entry, memory.now(), cost)
    }

    /// [`check_n`](Self::check_n) that tells nothing of what goes ahead at once, for edges that
    /// have nothing to do then but to go ahead: whether it does. Where there is more to it, since it
    /// is denied or its turn comes later, `decision` becomes the decision: in the caller's place,
    /// since one that is returned is copied even where there is none.
    #[doc(hidden)]
    #[inline]
    pub fn pass_n(&self, key: impl Key, cost: u64, decision: &mut Option<Decision>) -> bool {
        self.with(&key, |memory, entry, now| memory.charge_or_pass(decision, entry, now, cost));
        decision.is_none()
    }

    /// What [`check`](Self::check) would say, taking nothing.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self, key: impl Key) -> Decision {
        self.peek_n(key, 1)
    }

    /// What [`check_n`](Self::check_n) would say, taking nothing.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek_n(&self, key: impl Key, cost: u64) -> Decision {
        self.with(&key, |memory, entry, now| memory.peek(entry, now, cost))
    }

    /// Checks every key of a batch: the answers of as many checks in this order, for much less
    /// than their price, since all are looked for at the same time and the clock is read once.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_many<K: Key>(&self, keys: &[K]) -> Vec<Decision> {
        self.check_batch(keys, |key| (key, 1))
    }

    /// [`check_many`](Self::check_many) with a cost for each key.
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_many_n<K: Key>(&self, charges: &[(K, u64)]) -> Vec<Decision> {
        self.check_batch(charges, |(key, cost)| (key, *cost))
    }

    /// [`check_many_n`](Self::check_many_n) that hands over each decision in turn instead of
    /// collecting them: it allocates nothing.
    pub fn check_each<K: Key>(&self, charges: &[(K, u64)], mut each: impl FnMut(Decision)) {
        let memory = self.memory();
        self.with_each(
            charges,
            |(key, cost)| (key, *cost),
            |entry, now, cost| each(memory.charge(entry, now, cost)),
        );
    }

    fn check_batch<T, K: Key>(
        &self,
        items: &[T],
        split: impl Fn(&T) -> (&K, u64),
    ) -> Vec<Decision> {
        let memory = self.memory();
        let mut decisions = vec![Decision::UNDECIDED; items.len()];
        let mut open = decisions.iter_mut();
        self.with_each(items, split, |entry, now, cost| {
            if let Some(decision) = open.next() {
                memory.charge_into(decision, entry, now, cost);
            }
        });
        decisions
    }

    /// Acts on every key in turn, while the slots of the next ones are on their way.
    #[inline(always)]
    fn with_each<T, K: Key>(
        &self,
        items: &[T],
        split: impl Fn(&T) -> (&K, u64),
        mut act: impl FnMut(&Entry<'_>, Timestamp, u64),
    ) {
        let memory = self.memory();
        let now = memory.now();
        let ask = |item: &T| {
            let fingerprint = self.0.fingerprints.of(split(item).0);
            memory.fetch(fingerprint);
            fingerprint
        };
        let mut asked = [Fingerprint::default(); AHEAD];
        for (item, fingerprint) in items.iter().zip(&mut asked) {
            *fingerprint = ask(item);
        }
        for (index, item) in items.iter().enumerate() {
            let place = index % AHEAD;
            let fingerprint = asked[place];
            if let Some(item) = items.get(index + AHEAD) {
                asked[place] = ask(item);
            }
            let (key, cost) = split(item);
            act(&Entry { named: &self.0.named, fingerprint, key }, now, cost);
        }
    }

    /// Takes as many units as there are for `key`, `most` at most, and says how many.
    pub fn take_up_to(&self, key: impl Key, most: u64) -> Taken {
        let (units, decision) =
            self.with(&key, |memory, entry, now| memory.take_up_to(entry, now, most));
        Taken { units, decision }
    }

    /// Gives back `units` that earlier decisions took, the latest first, never above full.
    pub fn refund(&self, key: impl Key, units: u64) {
        let fingerprint = self.0.fingerprints.of(&key);
        self.memory().give_back(&self.0.named, fingerprint, algorithm::Taken::Whenever, units);
    }

    /// Makes `key` new; whether anything was known of it.
    pub fn reset(&self, key: impl Key) -> bool {
        self.memory().reset(self.0.fingerprints.of(&key))
    }

    /// Makes all keys of this limiter new.
    pub fn reset_all(&self) {
        self.memory().reset_all(self.name());
    }

    /// How `key` stands, taking nothing.
    pub fn status(&self, key: impl Key) -> Status {
        self.with(&key, Memory::status)
    }

    /// The keys that are not as good as new, each with its status, in no particular order.
    ///
    /// Walks the store a shard at a time; checks go on meanwhile. Without names, every name is
    /// empty.
    pub fn keys(&self) -> impl Iterator<Item = (KeyName, Status)> + '_ {
        (0_usize..).map_while(|shard| self.memory().shard_keys(shard, &self.0.named)).flatten()
    }

    /// How many keys are not as good as new: walks the store as [`keys`](Self::keys) does.
    pub fn len(&self) -> usize {
        self.keys().count()
    }

    /// Whether all keys are as good as new.
    pub fn is_empty(&self) -> bool {
        self.keys().next().is_none()
    }

    /// How many bytes the keys of its store occupy: see [`MemoryStore::memory_usage`].
    pub fn memory_usage(&self) -> usize {
        self.0.store.memory_usage()
    }

    /// Takes `cost` units now, to be settled when the real cost is known. If the reservation is
    /// neither committed nor settled within a minute, its units are given back.
    ///
    /// # Errors
    /// The decision, where it is not allowed.
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation, Decision> {
        self.reserve_for(key, cost, DEFAULT_RESERVATION)
    }

    /// [`reserve`](Self::reserve) with a time-out of its own.
    ///
    /// # Errors
    /// The decision, where it is not allowed.
    pub fn reserve_for(
        &self,
        key: impl Key,
        cost: u64,
        timeout: Duration,
    ) -> Result<Reservation, Decision> {
        Reservation::new(self, &key, cost, timeout)
    }

    /// Waits for a unit of `key`: in async code with `.await`, in a thread with
    /// [`wait`](Acquire::wait). Who asks first is served first.
    ///
    /// # Panics
    /// What it returns panics where it is awaited outside a tokio runtime: see [`Acquire`].
    pub fn acquire(&self, key: impl Key) -> Acquire {
        Acquire::new(self.clone(), &key)
    }

    /// A charge of one unit, for [`check_all`](crate::check_all).
    #[inline]
    pub fn charge<'a>(&'a self, key: &'a impl Key) -> Charge<'a> {
        Charge::new(self, key)
    }

    #[inline]
    fn with<T>(&self, key: &impl Key, act: impl FnOnce(&Memory, &Entry<'_>, Timestamp) -> T) -> T {
        let fingerprint = self.0.fingerprints.of(key);
        let entry = Entry { named: &self.0.named, fingerprint, key };
        let memory = self.memory();
        // The clock is read while the slot is on its way.
        memory.fetch(fingerprint);
        act(memory, &entry, memory.now())
    }

    #[inline]
    pub(crate) fn fingerprint(&self, key: &impl Key) -> Fingerprint {
        self.0.fingerprints.of(key)
    }

    #[inline]
    pub(crate) fn fingerprint_of(&self, key: Hashed) -> Fingerprint {
        self.0.fingerprints.of_hashed(key)
    }

    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        &self.0.store.0
    }

    #[inline]
    pub(crate) fn named(&self) -> &Arc<Named> {
        &self.0.named
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("name", &self.name())
            .field("limit", &format_args!("{}", self.limit()))
            .finish_non_exhaustive()
    }
}

/// What [`Limiter::take_up_to`] took.
#[derive(Clone, Copy, Debug)]
#[must_use = "it says how many units were taken"]
pub struct Taken {
    /// How many units; zero if there were none.
    pub units: u64,
    /// The decision on those units, or on one unit where there were none.
    pub decision: Decision,
}

/// What a [`Limiter`] with a store of its own is built with.
#[derive(Clone, Debug)]
#[must_use]
pub struct LimiterBuilder {
    limit: Limit,
    name: String,
    store: MemoryStoreBuilder,
}

impl LimiterBuilder {
    /// What decisions over several limits call it; `limit` if not said.
    pub fn name(mut self, name: impl Into<String>) -> LimiterBuilder {
        self.name = name.into();
        self
    }

    /// Where the limiter reads the time: the machine's clock if not said.
    pub fn clock(mut self, clock: impl Into<Clock>) -> LimiterBuilder {
        self.store = self.store.clock(clock);
        self
    }

    /// The most keys it may hold, under any traffic; a million if not said.
    pub fn max_keys(mut self, keys: usize) -> LimiterBuilder {
        self.store = self.store.max_keys(keys);
        self
    }

    /// What happens to a new key when it is full of live state.
    pub fn when_full(mut self, choice: WhenFull) -> LimiterBuilder {
        self.store = self.store.when_full(choice);
        self
    }

    /// Keeps no names: a third less memory, and lists cannot say which key is which.
    pub fn without_names(mut self) -> LimiterBuilder {
        self.store = self.store.without_names();
        self
    }

    /// The limiter.
    ///
    /// # Errors
    /// Where the limit's numbers or the bound are impossible.
    pub fn build(self) -> Result<Limiter, LimitError> {
        self.store.build()?.limiter(&self.name, self.limit)
    }
}
