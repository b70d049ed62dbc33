//! `Limiter`: one limit, many keys.

mod batch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::algorithm;
use crate::bounds::DEFAULT_RESERVATION;
use crate::charge::Charge;
use crate::decision::{Decision, KeyStatus};
use crate::key::{Key, KeyId, KeyName, LimitKeyHasher, WriteKey};
use crate::limit::{Limit, LimitError};
use crate::reservation::{Reservation, ReserveError};
use crate::store::memory::{
    BucketOutcome, KeyEntry, KnownKey, LINES, Memory, MemoryStore, MemoryStoreBuilder,
    RegisteredLimit, WhenFull, charge_one,
};
use crate::time::{Clock, Timestamp};
use crate::waiting::Acquire;

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
pub struct Limiter(Arc<LimiterInner>);

struct LimiterInner {
    store: MemoryStore,
    named: Arc<RegisteredLimit>,
    fingerprints: LimitKeyHasher,
}

/// A limiter that nobody has.
pub(crate) struct UniqueLimiter(LimiterInner);

impl UniqueLimiter {
    pub(crate) fn named(&self) -> &Arc<RegisteredLimit> {
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
        let fingerprints = LimitKeyHasher::new(&store.0.hashes, name);
        Ok(Limiter(Arc::new(LimiterInner { store, named, fingerprints })))
    }

    /// What it is made of, if nobody else has it: then nobody can ask it any more.
    pub(crate) fn taken_apart(self) -> Result<UniqueLimiter, Limiter> {
        Arc::try_unwrap(self.0).map(UniqueLimiter).map_err(Limiter)
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
        match self.charge_known(&key, cost) {
            Ok(outcome) => outcome.decision(),
            Err((fingerprint, now)) => self.charge_any(&key, fingerprint, now, cost),
        }
    }

    /// [`check_n`](Self::check_n) that tells nothing of what goes ahead at once, for edges that
    /// have nothing to do then but to go ahead: whether it does. Where there is more to it, since it
    /// is denied or its turn comes later, `decision` becomes the decision: in the caller's place,
    /// since one that is returned is copied even where there is none.
    #[doc(hidden)]
    #[inline]
    pub fn pass_n(&self, key: impl Key, cost: u64, decision: &mut Option<Decision>) -> bool {
        let told = match self.charge_known(&key, cost) {
            Ok(outcome) if outcome.is_immediate() => return true,
            Ok(outcome) => outcome.decision(),
            Err((fingerprint, now)) => self.charge_any(&key, fingerprint, now, cost),
        };
        let passes = told.is_allowed() && told.delay().is_zero();
        *decision = (!passes).then_some(told);
        passes
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

    /// Takes as many units as there are for `key`, `most` at most, and says how many.
    pub fn check_up_to(&self, key: impl Key, most: u64) -> PartialGrant {
        let (units, decision) =
            self.with(&key, |memory, entry, now| memory.take_up_to(entry, now, most));
        PartialGrant { units, decision }
    }

    /// Gives back `units` that earlier decisions took, the latest first, never above full.
    pub fn refund(&self, key: impl Key, units: u64) {
        let fingerprint = self.0.fingerprints.of(&key);
        self.memory().give_back(&self.0.named, fingerprint, algorithm::TakenAt::Whenever, units);
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
    pub fn status(&self, key: impl Key) -> KeyStatus {
        self.with(&key, Memory::status)
    }

    /// The keys that are not as good as new, each with its status, in no particular order.
    ///
    /// Walks the store a shard at a time; checks go on meanwhile. Without names, every name is
    /// empty.
    pub fn keys(&self) -> impl Iterator<Item = (KeyName, KeyStatus)> + '_ {
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
    /// If the limit does not allow it. The error carries the decision.
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation, ReserveError> {
        self.reserve_for(key, cost, DEFAULT_RESERVATION)
    }

    /// [`reserve`](Self::reserve) with another time-out.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn reserve_for(
        &self,
        key: impl Key,
        cost: u64,
        timeout: Duration,
    ) -> Result<Reservation, ReserveError> {
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
    ///
    /// Text and bytes behind a reference are borrowed. Other keys are copied, to the heap if they
    /// take more than 40 bytes.
    #[inline]
    pub fn charge<'l, 'k>(&'l self, key: impl Key + 'k) -> Charge<'l, 'k> {
        Charge::new(self, key)
    }

    /// Charges a key on the fast path. If that cannot take the charge, nothing has changed, and the error
    /// has what [`charge_any`](Self::charge_any) needs.
    #[inline(always)]
    fn charge_known(
        &self,
        key: &impl Key,
        cost: u64,
    ) -> Result<BucketOutcome<'_>, (KeyId, Timestamp)> {
        let (fingerprint, memory) = (self.0.fingerprints.of(key), self.memory());
        // The clock is read while the slot is on its way.
        let slot = memory.prefetch::<LINES>(fingerprint);
        let now = memory.now();
        let key = KnownKey::new(memory, slot, &self.0.named, cost);
        key.and_then(|key| charge_one(key, now)).ok_or((fingerprint, now))
    }

    /// Charges a key on the general path.
    #[inline(never)]
    fn charge_any(
        &self,
        key: &dyn WriteKey,
        fingerprint: KeyId,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        self.memory().charge(&KeyEntry { named: &self.0.named, fingerprint, key }, now, cost)
    }

    #[inline]
    fn with<T>(
        &self,
        key: &impl Key,
        act: impl FnOnce(&Memory, &KeyEntry<'_>, Timestamp) -> T,
    ) -> T {
        let fingerprint = self.0.fingerprints.of(key);
        let entry = KeyEntry { named: &self.0.named, fingerprint, key };
        let memory = self.memory();
        // The clock is read while the slot is on its way.
        memory.prefetch_used(fingerprint);
        act(memory, &entry, memory.now())
    }

    #[inline]
    pub(crate) fn fingerprint(&self, key: &impl Key) -> KeyId {
        self.0.fingerprints.of(key)
    }

    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        &self.0.store.0
    }

    #[inline]
    pub(crate) fn named(&self) -> &Arc<RegisteredLimit> {
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

/// What [`Limiter::check_up_to`] took.
#[derive(Clone, Copy, Debug)]
#[must_use = "it says how many units were taken"]
pub struct PartialGrant {
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
    pub fn discard_key_names(mut self) -> LimiterBuilder {
        self.store = self.store.discard_key_names();
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
