//! What decides. The only file that knows which stores there are: another is a variant here.

use std::time::Duration;

use tollgate::{Clock, Gate, Hold, Request, Ruling};

/// A policy over the state that all transports share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// State in this process. Its decisions never wait.
    Memory(Gate),
}

impl From<Gate> for Backend {
    fn from(gate: Gate) -> Backend {
        Backend::Memory(gate)
    }
}

impl Backend {
    /// Takes what the request costs of every rule that applies, if all allow it.
    pub async fn check(&self, request: &Request<'_>) -> Ruling {
        match self {
            Backend::Memory(gate) => gate.check(request),
        }
    }

    /// What [`check`](Self::check) would say, taking nothing.
    pub async fn peek(&self, request: &Request<'_>) -> Ruling {
        match self {
            Backend::Memory(gate) => gate.peek(request),
        }
    }

    /// Takes what the request costs, to be settled within `timeout`.
    ///
    /// # Errors
    /// The ruling, where it is not allowed.
    #[allow(clippy::result_large_err, reason = "both ways hold a ruling, and none is boxed")]
    pub async fn reserve(&self, request: &Request<'_>, timeout: Duration) -> Result<Held, Ruling> {
        match self {
            Backend::Memory(gate) => gate.reserve_for(request, timeout).map(Held::Memory),
        }
    }

    /// Gives back what a check of the same request took.
    pub async fn refund(&self, request: &Request<'_>) {
        match self {
            Backend::Memory(gate) => gate.refund(request),
        }
    }

    /// The clock that decisions are made by.
    pub fn clock(&self) -> &Clock {
        match self {
            Backend::Memory(gate) => gate.store().clock(),
        }
    }

    /// Keys that the store keeps now.
    pub fn live_keys(&self) -> usize {
        match self {
            Backend::Memory(gate) => gate.store().len(),
        }
    }

    /// Keys that the store has forgotten early, since it was full.
    pub fn evictions(&self) -> u64 {
        match self {
            Backend::Memory(gate) => gate.store().evictions(),
        }
    }

    /// Requests that were refused since the store was full.
    pub fn turned_away(&self) -> u64 {
        match self {
            Backend::Memory(gate) => gate.store().turned_away(),
        }
    }
}

/// Units that are held until it is known how many were needed. Dropped, it gives them back.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "dropping it gives the units back"]
pub enum Held {
    /// Of a gate in memory.
    Memory(Hold),
}

impl Held {
    /// The ruling that took the units.
    pub fn ruling(&self) -> &Ruling {
        match self {
            Held::Memory(hold) => hold.ruling(),
        }
    }

    /// How many units are held.
    pub fn cost(&self) -> u64 {
        match self {
            Held::Memory(hold) => hold.cost(),
        }
    }

    /// Keeps what was taken.
    pub async fn commit(self) {
        match self {
            Held::Memory(hold) => hold.commit(),
        }
    }

    /// Gives everything back.
    pub async fn cancel(self) {
        match self {
            Held::Memory(hold) => hold.cancel(),
        }
    }

    /// Charges what was really used instead of what was taken.
    pub async fn settle(self, actual: u64) {
        match self {
            Held::Memory(hold) => hold.settle(actual),
        }
    }
}
