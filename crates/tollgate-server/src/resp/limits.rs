//! Limits that clients bring with each command: made once, kept, and bounded in number.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use parking_lot::RwLock;
use tollgate::{Limit, Limiter, MemoryStore};

use crate::resp::bounds::MAX_CLIENT_LIMITS;

/// Which command brought a limit: each counts keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// redis-cell's `CL.THROTTLE`.
    Cell,
    /// throttlecrab's `THROTTLE`.
    Crab,
}

/// A limit as a client says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbers {
    pub(super) kind: Kind,
    pub(super) max_burst: u64,
    pub(super) count: u64,
    pub(super) period_secs: u64,
}

impl Kind {
    /// Under which name the store keeps its keys. Names of rules hold no control characters, so
    /// that no rule meets these.
    fn name(self) -> &'static str {
        match self {
            Kind::Cell => "\u{1f}cl.throttle",
            Kind::Crab => "\u{1f}throttle",
        }
    }
}

impl Numbers {
    fn limit(self) -> Limit {
        let burst = match self.kind {
            Kind::Cell => self.max_burst.saturating_add(1),
            Kind::Crab => self.max_burst,
        };
        Limit::token_bucket(self.count, Duration::from_secs(self.period_secs)).burst(burst)
    }
}

/// The limits that clients have brought so far.
pub(super) struct Limits {
    store: MemoryStore,
    known: RwLock<HashMap<Numbers, Limiter>>,
}

impl Limits {
    pub(super) fn new(store: MemoryStore) -> Limits {
        Limits { store, known: RwLock::default() }
    }

    /// The limiter with these numbers, or what is wrong with them.
    pub(super) fn get(&self, numbers: Numbers) -> Result<Limiter, String> {
        if let Some(limiter) = self.known.read().get(&numbers) {
            return Ok(limiter.clone());
        }
        let mut known = self.known.write();
        if let Some(limiter) = known.get(&numbers) {
            return Ok(limiter.clone());
        }
        let limit = numbers.limit();
        // A store never forgets a limit, so that one with impossible numbers must not count.
        limit.validate().map_err(|error| error.to_string())?;
        if known.len() >= MAX_CLIENT_LIMITS {
            return Err(format!(
                "clients have brought {MAX_CLIENT_LIMITS} different limits, which is the most: \
                 use the numbers of one of them"
            ));
        }
        let limiter = self.store.limiter(numbers.kind.name(), limit);
        let limiter = limiter.map_err(|error| error.to_string())?;
        known.insert(numbers, limiter.clone());
        Ok(limiter)
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("known", &self.known.read().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_different_limits_are_kept_and_known_ones_go_on() {
        let limits = Limits::new(MemoryStore::builder().build().unwrap());
        let numbers = |count| Numbers { kind: Kind::Cell, max_burst: 1, count, period_secs: 60 };
        for count in 1..=4096 {
            assert!(limits.get(numbers(count)).is_ok());
        }
        assert!(limits.get(numbers(4097)).unwrap_err().contains("4096 different limits"));
        assert!(limits.get(numbers(1)).is_ok());
        assert!(limits.get(numbers(0)).unwrap_err().contains("count is 0"));
    }
}
