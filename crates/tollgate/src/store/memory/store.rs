//! `MemoryStore`: what users hold of the memory store.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use super::{Memory, MemorySettings, SnapshotError, SnapshotSummary, WhenFull, shards_for};
use crate::bounds::{DEFAULT_MAX_KEYS, MAX_KEYS};
use crate::key::HashSeed;
use crate::limit::{Limit, LimitError};
use crate::limiter::{Limiter, UniqueLimiter};
use crate::policy::Client;
use crate::time::Clock;

/// The state of any number of limiters, in memory. Clones share it.
///
/// A [`Limiter`] built by itself has a store of its own; limiters of one store share its bound on
/// memory, its clock and its snapshot.
///
/// ```
/// use tollgate::{Limit, MemoryStore, check_all};
///
/// let store = MemoryStore::builder().max_keys(100_000).build()?;
/// let per_user = store.limiter("per-user", Limit::per_minute(100))?;
/// let per_ip = store.limiter("per-ip", Limit::per_second(10))?;
///
/// let address = std::net::Ipv4Addr::new(203, 0, 113, 9);
/// let decisions = check_all(&[per_user.charge("ana"), per_ip.charge(&address)]);
/// assert!(decisions.is_allowed());
/// assert_eq!(store.len(), 2);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone)]
pub struct MemoryStore(pub(crate) Arc<Memory>);

impl MemoryStore {
    /// A store to be built: its clock, its bound, its choices.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// The limiter `name` over this store.
    ///
    /// State is kept by name: a limiter of the same name and other numbers finds the same keys,
    /// and what they have consumed keeps its proportion. Keys of other names are other keys.
    ///
    /// # Errors
    /// Where the limit's numbers are impossible, or the name is longer than 65,535 bytes.
    pub fn limiter(&self, name: &str, limit: Limit) -> Result<Limiter, LimitError> {
        Limiter::on(self.clone(), name, &limit)
    }

    /// Forgets the limits of those limiters that nobody else has, if all their keys are as good as
    /// new: for limits that come and go, of which a store otherwise remembers every one. Gives the
    /// others back, in their places, and changes no decision.
    ///
    /// Looks through the whole store once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, ManualClock, MemoryStore};
    ///
    /// let clock = ManualClock::new();
    /// let store = MemoryStore::builder().clock(clock.clone()).build()?;
    /// let brought = || store.limiter("brought", Limit::per_second(5));
    /// assert!(brought()?.check("ana").is_allowed());
    /// assert!(store.retire_idle(vec![brought()?])[0].is_some(), "ana has taken one");
    /// clock.advance(Duration::from_secs(1));
    /// assert!(store.retire_idle(vec![brought()?])[0].is_none());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use = "those that are not forgotten are given back"]
    pub fn retire_idle(&self, limiters: Vec<Limiter>) -> Vec<Option<Limiter>> {
        let apart: Vec<_> = limiters.into_iter().map(Limiter::taken_apart).collect();
        let ours = |of: &&UniqueLimiter| Arc::ptr_eq(&of.store().0, &self.0);
        let held: Vec<_> = apart.iter().flatten().filter(ours).map(UniqueLimiter::named).collect();
        let gone = self.0.forget(&held);
        let is_gone =
            |of: &UniqueLimiter| ours(&of) && gone.binary_search(&of.named().number).is_ok();
        let left = apart.into_iter().map(|of| match of {
            Ok(apart) if is_gone(&apart) => None,
            Ok(apart) => Some(apart.together()),
            Err(limiter) => Some(limiter),
        });
        left.collect()
    }

    /// What it reads the time from.
    pub fn clock(&self) -> &Clock {
        &self.0.settings.clock
    }

    /// How many keys it holds. Some may be as good as new and not reclaimed yet.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes its keys occupy: their tables, states and names.
    ///
    /// Not in it are the limits that were registered (a few hundred bytes each, kept as long as the
    /// store), reservations while they are held, waiters and blocks.
    pub fn memory_usage(&self) -> usize {
        self.0.memory_usage()
    }

    /// Returns the clients with an override that was set at run time and has not ended.
    #[doc(hidden)]
    pub fn run_time_clients(&self) -> BTreeSet<Client> {
        self.0.overrides.list(self.0.now()).into_keys().collect()
    }

    /// How many live states had to make room for others: if it rises, `max_keys` is too small.
    pub fn evictions(&self) -> u64 {
        self.0.evicted()
    }

    /// How many states were dropped since they were as good as new, which changes no decision.
    pub fn reclaimed(&self) -> u64 {
        self.0.reclaimed()
    }

    /// How many times a new key was denied or let through uncounted because the store was full, or a
    /// debt of one forgotten.
    pub fn rejected_new_keys(&self) -> u64 {
        self.0.turned_away()
    }

    /// The number of automatic blocks that were dropped to make room for others before they ended, or
    /// before they were no longer counted for the length of the next block. Manual blocks are never
    /// dropped.
    pub fn dropped_blocks(&self) -> u64 {
        self.0.blocks.dropped()
    }

    /// How many states were re-dated, because the clock had moved back by more than their limit needs
    /// from used up to fresh.
    pub fn redated(&self) -> u64 {
        self.0.redated()
    }

    /// Drops all state that is as good as new. Never needed: checks do it little by little.
    pub fn reclaim(&self) {
        self.0.reclaim();
    }

    /// Writes all live state to `to`, while checks go on: a shard is locked for a few keys at a time,
    /// and never while `to` is written to.
    ///
    /// Each key is consistent in itself. The snapshot holds the seed of the store's hash: keep it
    /// as confidential as you would keep the list of keys.
    ///
    /// # Errors
    /// If writing fails.
    ///
    /// ```
    /// use tollgate::{Limit, MemoryStore};
    ///
    /// let store = MemoryStore::builder().build()?;
    /// let limiter = store.limiter("api", Limit::per_day(100))?;
    /// assert!(limiter.check("ana").is_allowed());
    /// let mut bytes = Vec::new();
    /// let written = store.snapshot(&mut bytes)?;
    /// assert_eq!(written.keys(), 1);
    ///
    /// // Write the next one only if something has changed.
    /// assert!(store.snapshot(std::io::sink())?.has_same_content(&written));
    /// assert!(limiter.check("ana").is_allowed());
    /// assert!(!store.snapshot(std::io::sink())?.has_same_content(&written));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self, mut to: impl Write) -> io::Result<SnapshotSummary> {
        let summary = self.0.snapshot(&mut to)?;
        to.flush()?;
        Ok(summary)
    }

    /// The snapshot that the store was [restored](MemoryStoreBuilder::restore) from.
    pub fn restored(&self) -> Option<&SnapshotSummary> {
        self.0.restored.as_ref()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("keys", &self.len()).finish_non_exhaustive()
    }
}

/// What a [`MemoryStore`] is built with.
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryStoreBuilder {
    clock: Option<Clock>,
    max_keys: usize,
    when_full: WhenFull,
    names: bool,
}

impl Default for MemoryStoreBuilder {
    fn default() -> MemoryStoreBuilder {
        MemoryStoreBuilder {
            clock: None,
            max_keys: DEFAULT_MAX_KEYS,
            when_full: WhenFull::Evict,
            names: true,
        }
    }
}

impl MemoryStoreBuilder {
    /// Where the store reads the time: the machine's clock if not said.
    pub fn clock(mut self, clock: impl Into<Clock>) -> MemoryStoreBuilder {
        self.clock = Some(clock.into());
        self
    }

    /// The most keys it may hold, under any traffic; a million if not said. Empty, the store takes
    /// about 3 KiB and half a byte for every thousand of them.
    pub fn max_keys(mut self, keys: usize) -> MemoryStoreBuilder {
        self.max_keys = keys;
        self
    }

    /// What happens to a new key when the store is full of live state.
    pub fn when_full(mut self, choice: WhenFull) -> MemoryStoreBuilder {
        self.when_full = choice;
        self
    }

    /// Keeps no names: a third less memory, and lists cannot say which key is which.
    pub fn discard_key_names(mut self) -> MemoryStoreBuilder {
        self.names = false;
        self
    }

    /// The store.
    ///
    /// # Errors
    /// Where `max_keys` is zero or more than a table can have.
    pub fn build(self) -> Result<MemoryStore, LimitError> {
        Ok(MemoryStore(Arc::new(Memory::new(self.settings()?))))
    }

    /// The store, with the state of a snapshot.
    ///
    /// # Errors
    /// Where `build` would fail, or the snapshot is damaged or of another version.
    pub fn restore(self, mut from: impl Read) -> Result<MemoryStore, SnapshotError> {
        let settings = self.settings().map_err(SnapshotError::Store)?;
        Ok(MemoryStore(Arc::new(Memory::restore(settings, &mut from)?)))
    }

    fn settings(self) -> Result<MemorySettings, LimitError> {
        if self.max_keys == 0 {
            return Err(LimitError::new("max_keys is 0, must be at least 1"));
        }
        if self.max_keys > MAX_KEYS {
            return Err(LimitError::new(format!(
                "max_keys is {}, must be at most {MAX_KEYS}",
                self.max_keys
            )));
        }
        Ok(MemorySettings {
            clock: self.clock.unwrap_or_else(Clock::system),
            max_keys: self.max_keys,
            when_full: self.when_full,
            names: self.names,
            seed: seed()?,
            shards: shards_for(self.max_keys),
        })
    }
}

#[cfg(not(loom))]
fn seed() -> Result<HashSeed, LimitError> {
    let mut seed = HashSeed::default();
    getrandom::fill(&mut seed).map_err(|error| {
        LimitError::new(format!("the operating system gave no random seed: {error}"))
    })?;
    Ok(seed)
}

/// Loom replays a model again and again, and every key must find the same shard each time.
#[cfg(loom)]
fn seed() -> Result<HashSeed, LimitError> {
    Ok(HashSeed::default())
}
