//! Limits that clients bring with their requests: made once, kept, and bounded in number.

mod kind;

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};
use tollgate::port::{deciding, share};
use tollgate::{Algorithm, Clock, Decision, Limit, Limiter, MemoryStore, Timestamp, check_all};
use tollgate_redis::{RedisLimiter, StoreError};

use crate::backend::Backend;
use crate::bounds::{FORGET_PAUSE, MAX_CLIENT_LIMITS, MAX_CLIENT_PERIOD};
use crate::metrics::{TRANSPORTS, Transport, add};
pub(crate) use kind::{Database, Kind};

/// What operators are told is the rule of limits that clients bring. No rule of a policy is called so.
pub(crate) const CLIENT_LIMITS: &str = "(client limits)";

/// A limiter over a store of either kind.
#[derive(Clone, Debug)]
pub(crate) enum ClientLimiter {
    Memory(Limiter),
    /// With what this node goes on with while the store is away: its part of the limit.
    Redis(RedisLimiter, Limiter),
}

/// The limits that clients have brought so far.
pub(crate) struct ClientLimits {
    backend: Backend,
    /// What is counted while a store elsewhere is away.
    alone: OnceLock<MemoryStore>,
    /// By transport, so that clients of one cannot use up what those of another need.
    known: [RwLock<HashMap<(Kind, Limit), ClientLimiter>>; TRANSPORTS.len()],
    /// When it was last tried to forget some, by transport. Taken with no other lock held.
    forgot: [Mutex<Option<Timestamp>>; TRANSPORTS.len()],
    /// How often there were too many, by transport.
    too_many: [AtomicU64; TRANSPORTS.len()],
}

/// What became of a request with limits of its own: of each its text and what it says by itself.
pub(crate) struct Listed {
    pub(crate) allowed: bool,
    /// Whether it was decided without the store.
    pub(crate) degraded: bool,
    pub(crate) each: Vec<(Limit, Decision)>,
}

/// Finds the keys of a name: limits of one name share them. The longest that a client may bring: in
/// Redis a state is brought under this limit before it is reset, and must not be fresh by then.
const ANY_LIMIT: Limit = Limit::token_bucket(1, MAX_CLIENT_PERIOD);

impl ClientLimits {
    pub(crate) fn new(backend: Backend) -> ClientLimits {
        ClientLimits {
            backend,
            alone: OnceLock::new(),
            known: Default::default(),
            forgot: Default::default(),
            too_many: Default::default(),
        }
    }

    /// The limiter of this kind with these numbers, or what is wrong with them.
    pub(crate) fn get(&self, kind: Kind, limit: Limit) -> Result<ClientLimiter, String> {
        let (asked, of_transport) = ((kind, limit), &self.known[kind.transport() as usize]);
        let is_full = {
            let known = of_transport.read();
            if let Some(limiter) = known.get(&asked) {
                return Ok(limiter.clone());
            }
            known.len() >= MAX_CLIENT_LIMITS
        };
        // What is refused anyway keeps nobody waiting who reads.
        let (kind, limit) = &asked;
        kind.check_period(limit)?;
        limit.validate().map_err(|error| error.to_string())?;
        kind.check_refill(limit)?;
        if limit.algorithm() == Algorithm::SlidingLog {
            let message = "sliding_log remembers every request, which only a policy may ask for: \
                           use sliding_counter";
            return Err(message.to_owned());
        }
        if is_full && !self.make_room(kind.transport()) {
            return Err(self.one_too_many(*kind));
        }
        let mut known = of_transport.write();
        if let Some(limiter) = known.get(&asked) {
            return Ok(limiter.clone());
        }
        if known.len() >= MAX_CLIENT_LIMITS {
            return Err(self.one_too_many(*kind));
        }
        let limiter = self.make(*kind, limit.clone())?;
        known.insert(asked, limiter.clone());
        Ok(limiter)
    }

    /// Forgets the limits of a transport that nobody uses and whose keys are all as good as new, not
    /// all the time; whether it was tried just now.
    fn make_room(&self, transport: Transport) -> bool {
        let (place, now) = (transport as usize, self.backend.clock().now());
        // Who comes while another is at it is refused as ever.
        let Some(mut last) = self.forgot[place].try_lock() else { return false };
        if last.is_some_and(|last| now.saturating_since(last) < FORGET_PAUSE) {
            return false;
        }
        *last = Some(now);
        // Nobody waits while the store is looked through: who asks for one of them makes it again.
        let known = std::mem::take(&mut *self.known[place].write());
        let (names, limiters): (Vec<_>, Vec<_>) = known.into_iter().unzip();
        let left = self.forget_idle(limiters);
        let left = names.into_iter().zip(left);
        let left = left.filter_map(|(name, limiter)| Some((name, limiter?)));
        let mut known = self.known[place].write();
        for (name, limiter) in left {
            known.entry(name).or_insert(limiter);
        }
        true
    }

    fn forget_idle(&self, limiters: Vec<ClientLimiter>) -> Vec<Option<ClientLimiter>> {
        let (mut shared, mut alone) = (Vec::new(), Vec::new());
        for limiter in limiters {
            match limiter {
                ClientLimiter::Memory(limiter) => alone.push(limiter),
                // What is in Redis ends there by itself.
                ClientLimiter::Redis(limiter, part) => {
                    shared.push(limiter);
                    alone.push(part);
                }
            }
        }
        match &self.backend {
            Backend::Memory(gate) => {
                let left = gate.store().retire_idle(alone).into_iter();
                left.map(|limiter| limiter.map(ClientLimiter::Memory)).collect()
            }
            Backend::Redis(_) => {
                let store = self.alone.get_or_init(|| memory(self.backend.clock()));
                let left = store.retire_idle(alone).into_iter().zip(shared);
                left.map(|(part, shared)| Some(ClientLimiter::Redis(shared, part?))).collect()
            }
        }
    }

    fn one_too_many(&self, kind: Kind) -> String {
        add(self.too_many(kind.transport()));
        format!(
            "clients have brought {MAX_CLIENT_LIMITS} different limits that are in use, which is the \
             most: use the numbers of one of them"
        )
    }

    /// How often a limit of a transport's clients was one too many.
    pub(crate) fn too_many(&self, transport: Transport) -> &AtomicU64 {
        &self.too_many[transport as usize]
    }

    fn make(&self, kind: Kind, limit: Limit) -> Result<ClientLimiter, String> {
        let name = kind.name();
        match &self.backend {
            Backend::Memory(gate) => {
                let limiter = gate.store().limiter(&name, limit);
                limiter.map(ClientLimiter::Memory).map_err(|error| error.to_string())
            }
            Backend::Redis(gate) => {
                let part = share(&limit, gate.nodes());
                let shared = gate.store().limiter(&name, limit).map_err(|error| match error {
                    StoreError::Limit(error) => error.to_string(),
                    other => other.to_string(),
                })?;
                let store = self.alone.get_or_init(|| memory(self.backend.clock()));
                let alone = store.limiter(&name, part).map_err(|error| error.to_string())?;
                Ok(ClientLimiter::Redis(shared, alone))
            }
        }
    }

    /// Makes a key fresh in all limits of a database, as far as they are in memory; whether it was
    /// not fresh in one of them.
    pub(crate) fn reset_in_memory(&self, database: Database, key: &[u8]) -> bool {
        let store = match &self.backend {
            Backend::Memory(gate) => Some(gate.store()),
            Backend::Redis(_) => self.alone.get(),
        };
        let reset = |store: &MemoryStore, kind: Kind| {
            let limiter = store.limiter(&kind.name(), ANY_LIMIT);
            limiter.is_ok_and(|limiter| limiter.reset(key))
        };
        let kinds = [Kind::Cell(database), Kind::Crab(database)];
        store.is_some_and(|store| kinds.into_iter().filter(|kind| reset(store, *kind)).count() > 0)
    }

    /// Makes a key fresh in all limits of a database; whether it was not fresh in one of them.
    ///
    /// # Errors
    /// If a store in Redis has no answer.
    pub(crate) async fn reset(&self, database: Database, key: &[u8]) -> Result<bool, StoreError> {
        let mut known = self.reset_in_memory(database, key);
        if let Backend::Redis(gate) = &self.backend {
            for kind in [Kind::Cell(database), Kind::Crab(database)] {
                known |= gate.store().limiter(&kind.name(), ANY_LIMIT)?.reset(key).await?;
            }
        }
        Ok(known)
    }

    /// The limiters of a request's own limits.
    pub(crate) fn listed(&self, limits: &[Limit]) -> Result<Vec<ClientLimiter>, String> {
        let of_place = |(place, limit): (usize, &Limit)| {
            self.get(Kind::Listed(u8::try_from(place).unwrap_or(u8::MAX)), limit.clone())
                .map_err(|error| format!("limit {limit}: {error}"))
        };
        limits.iter().enumerate().map(of_place).collect()
    }

    /// Takes `cost` of every limit for `key`, if all allow it.
    pub(crate) async fn check(&self, limiters: &[ClientLimiter], key: &str, cost: u64) -> Listed {
        let mut degraded = false;
        if let Backend::Redis(gate) = &self.backend {
            let shared = limiters.iter().filter_map(ClientLimiter::shared);
            let charges: Vec<_> = shared.map(|limiter| limiter.charge(key).cost(cost)).collect();
            if let Ok(decisions) = gate.store().check_all(&charges).await {
                let each = decisions.iter().map(|(_, decision)| *decision);
                return Listed::new((decisions.is_allowed(), false), limiters, each);
            }
            degraded = true;
        }
        let alone = limiters.iter().map(ClientLimiter::alone);
        let charges: Vec<_> = alone.map(|limiter| limiter.charge(key).cost(cost)).collect();
        let decisions = check_all(&charges);
        let each = decisions.iter().map(|(_, decision)| decision);
        Listed::new((decisions.is_allowed(), degraded), limiters, each)
    }

    /// What [`check`](Self::check) would say, taking nothing.
    pub(crate) async fn peek(limiters: &[ClientLimiter], key: &str, cost: u64) -> Listed {
        let mut degraded = false;
        let mut each = Vec::with_capacity(limiters.len());
        for limiter in limiters {
            let (decision, without_store) = limiter.peek(key, cost).await;
            degraded |= without_store;
            each.push(decision);
        }
        let allowed = each.iter().all(Decision::is_allowed);
        Listed::new((allowed, degraded), limiters, each)
    }
}

fn memory(clock: &Clock) -> MemoryStore {
    // A number of keys that is within every bound.
    let builder = MemoryStore::builder().clock(clock.clone());
    builder.build().expect("the usual number of keys can be kept")
}

impl ClientLimiter {
    /// The limiter that needs nobody.
    pub(crate) fn alone(&self) -> &Limiter {
        match self {
            ClientLimiter::Memory(limiter) | ClientLimiter::Redis(_, limiter) => limiter,
        }
    }

    pub(crate) fn shared(&self) -> Option<&RedisLimiter> {
        match self {
            ClientLimiter::Redis(limiter, _) => Some(limiter),
            ClientLimiter::Memory(_) => None,
        }
    }

    pub(crate) fn limit(&self) -> &Limit {
        match self {
            ClientLimiter::Memory(limiter) => limiter.limit(),
            ClientLimiter::Redis(limiter, _) => limiter.limit(),
        }
    }

    /// Takes `cost` for `key`, and says whether that was decided without the store.
    pub(crate) async fn check(&self, key: &[u8], cost: u64) -> (Decision, bool) {
        if let Some(shared) = self.shared() {
            match shared.check_n(key, cost).await {
                Ok(decision) => return (decision, false),
                Err(_) => return (self.alone().check_n(key, cost), true),
            }
        }
        (self.alone().check_n(key, cost), false)
    }

    async fn peek(&self, key: &str, cost: u64) -> (Decision, bool) {
        if let Some(shared) = self.shared() {
            match shared.peek_n(key, cost).await {
                Ok(decision) => return (decision, false),
                Err(_) => return (self.alone().peek_n(key, cost), true),
            }
        }
        (self.alone().peek_n(key, cost), false)
    }
}

impl Listed {
    fn new(
        (allowed, degraded): (bool, bool),
        limiters: &[ClientLimiter],
        each: impl IntoIterator<Item = Decision>,
    ) -> Listed {
        let limits = limiters.iter().map(|limiter| limiter.limit().clone());
        Listed { allowed, degraded, each: limits.zip(each).collect() }
    }

    /// The limit that decides, and how.
    pub(crate) fn deciding(&self) -> Option<(&Limit, &Decision)> {
        deciding(self.each.iter().map(|(limit, decision)| (limit, decision)))
    }
}

impl fmt::Debug for ClientLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: usize = self.known.iter().map(|known| known.read().len()).sum();
        f.debug_struct("ClientLimits").field("known", &known).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
