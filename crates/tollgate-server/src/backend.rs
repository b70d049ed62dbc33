//! What decides. The only file that knows which stores there are: another is a variant here.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tollgate::{
    Clock, Gate, GateReservation, Policy, PolicyError, ReplaceOutcome, Request, Ruling,
};
use tollgate_redis::{
    DetachedReservation, EvictionReport, FallbackCounts, Health, Histogram, LeaseStats, RedisGate,
    RedisGateReservation, StoreError,
};

/// A policy over the state that all transports share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// State in this process. Its decisions never wait.
    Memory(Gate),
    /// State in Redis or Valkey, shared with other servers. While it is away, each rule does what
    /// its `on_store_error` says.
    Redis(RedisGate),
}

impl From<Gate> for Backend {
    fn from(gate: Gate) -> Backend {
        Backend::Memory(gate)
    }
}

impl From<RedisGate> for Backend {
    fn from(gate: RedisGate) -> Backend {
        Backend::Redis(gate)
    }
}

impl Backend {
    /// Takes what the request costs of every rule that applies, if all allow it.
    pub async fn check(&self, request: &Request<'_>) -> Ruling {
        match self {
            Backend::Memory(gate) => gate.check(request),
            Backend::Redis(gate) => gate.check(request).await,
        }
    }

    /// [`check`](Self::check) where nothing has to be waited for; `None`, and nothing is taken, where
    /// something has.
    pub fn check_now(&self, request: &Request<'_>) -> Option<Ruling> {
        match self {
            Backend::Memory(gate) => Some(gate.check(request)),
            Backend::Redis(_) => None,
        }
    }

    /// What [`check`](Self::check) would say, taking nothing.
    pub async fn peek(&self, request: &Request<'_>) -> Ruling {
        match self {
            Backend::Memory(gate) => gate.peek(request),
            Backend::Redis(gate) => gate.peek(request).await,
        }
    }

    /// How the request's keys stand in every rule that applies: a peek of one unit.
    pub async fn status(&self, request: &Request<'_>) -> Ruling {
        match self {
            Backend::Memory(gate) => gate.status(request),
            Backend::Redis(gate) => gate.status(request).await,
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
            Backend::Redis(gate) => gate.reserve_for(request, timeout).await.map(Held::Redis),
        }
    }

    /// Hands what is held to the store, for whichever server is asked to end it; gives it back where
    /// it stays here.
    pub(crate) async fn keep(
        &self,
        id: u128,
        held: Held,
        timeout: Duration,
    ) -> Result<Option<Held>, StoreError> {
        match (self, held) {
            (Backend::Redis(gate), Held::Redis(hold)) => {
                Ok(gate.detach(id, hold, timeout).await?.map(Held::Redis))
            }
            (_, held) => Ok(Some(held)),
        }
    }

    /// What a server handed to the store under `id`, if nobody has come for it.
    pub(crate) async fn take_kept(
        &self,
        id: u128,
    ) -> Result<Option<DetachedReservation>, StoreError> {
        match self {
            Backend::Memory(_) => Ok(None),
            Backend::Redis(gate) => gate.attach(id).await,
        }
    }

    /// Gives back what a check of the same request took.
    ///
    /// # Errors
    /// Where the store has no answer, which is never so in memory.
    pub async fn refund(&self, request: &Request<'_>) -> Result<(), StoreError> {
        match self {
            Backend::Memory(gate) => {
                gate.refund(request);
                Ok(())
            }
            Backend::Redis(gate) => gate.refund(request).await,
        }
    }

    /// Makes a key of `rule` new; whether anything was known of it.
    ///
    /// # Errors
    /// Where the store has no answer, which is never so in memory.
    pub async fn reset(&self, rule: &str, key: &[&str]) -> Result<bool, StoreError> {
        match self {
            Backend::Memory(gate) => Ok(gate.reset(rule, key)),
            Backend::Redis(gate) => gate.reset(rule, key).await,
        }
    }

    /// Makes new what a key of `rule` has come to by its own requests, and leaves a block that was set
    /// by hand; whether there was any of that.
    ///
    /// # Errors
    /// Where the store has no answer, which is never so in memory.
    pub async fn reset_earned(&self, rule: &str, key: &[&str]) -> Result<bool, StoreError> {
        match self {
            Backend::Memory(gate) => Ok(gate.reset_keeping_manual_block(rule, key)),
            Backend::Redis(gate) => gate.reset_earned(rule, key).await,
        }
    }

    /// Whether a rule applies to `request`, also one without a limit for it.
    pub(crate) fn has_rule_for(&self, request: &Request<'_>) -> bool {
        match self {
            Backend::Memory(gate) => !gate.plan(request).rules().is_empty(),
            Backend::Redis(gate) => gate.has_rule_for(request),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        match self {
            Backend::Memory(gate) => gate.policy(),
            Backend::Redis(gate) => gate.policy(),
        }
    }

    /// Puts another policy in force, keeping what was consumed.
    ///
    /// # Errors
    /// Everything that is wrong with it; the policy in force stays.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyError> {
        match self {
            Backend::Memory(gate) => gate.replace(policy),
            Backend::Redis(gate) => gate.replace(policy),
        }
    }

    /// [`replace`](Self::replace), unless another policy than `seen` is in force by now, as
    /// [`Gate::compare_and_replace`] does.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_seen(
        &self,
        seen: &Arc<Policy>,
        policy: Policy,
    ) -> Result<ReplaceOutcome, PolicyError> {
        match self {
            Backend::Memory(gate) => gate.compare_and_replace(seen, policy),
            Backend::Redis(gate) => gate.replace_seen(seen, policy),
        }
    }

    /// The clock of this process: decisions in memory are made by it, those in Redis by Redis'.
    pub fn clock(&self) -> &Clock {
        static SYSTEM: LazyLock<Clock> = LazyLock::new(Clock::system);
        match self {
            Backend::Memory(gate) => gate.store().clock(),
            Backend::Redis(_) => &SYSTEM,
        }
    }

    /// How a store that can be away fares; `None` for memory.
    pub fn health(&self) -> Option<Health> {
        match self {
            Backend::Memory(_) => None,
            Backend::Redis(gate) => Some(gate.health()),
        }
    }

    /// Whether a store elsewhere is known to answer; always so for memory.
    pub(crate) fn is_up(&self) -> bool {
        self.health().is_none_or(|health| health.ever_connected && health.outage.is_none())
    }

    /// Asks a store elsewhere whether it answers, so that [`health`](Self::health) tells.
    pub(crate) async fn probe(&self) {
        match self {
            Backend::Memory(_) => {}
            // What came of it is in the store's health, and in the log when it changes.
            Backend::Redis(gate) => drop(gate.probe().await),
        }
    }

    /// How long calls to a store elsewhere took; `None` for memory.
    pub fn store_latency(&self) -> Option<&Histogram> {
        match self {
            Backend::Memory(_) => None,
            Backend::Redis(gate) => Some(gate.store().latency()),
        }
    }

    /// What was borrowed from a store elsewhere and what became of it; `None` for memory.
    pub fn lease_counts(&self) -> Option<LeaseStats> {
        match self {
            Backend::Memory(_) => None,
            Backend::Redis(gate) => Some(gate.lease_counts()),
        }
    }

    /// Leaves the servers that share a store elsewhere, for the end: gives back what was borrowed and not
    /// spent, and no longer counts as one of them.
    pub async fn leave(&self) {
        match self {
            Backend::Memory(_) => {}
            // Without an answer, this server counts for another minute.
            Backend::Redis(gate) => drop(gate.leave().await),
        }
    }

    /// How many servers share a store elsewhere; `None` for memory.
    pub fn nodes(&self) -> Option<u64> {
        match self {
            Backend::Memory(_) => None,
            Backend::Redis(gate) => Some(gate.nodes()),
        }
    }

    /// What a store elsewhere says of its evictions; `None` for memory, and as long as it has not said.
    pub fn store_evictions(&self) -> Option<EvictionReport> {
        match self {
            Backend::Memory(_) => None,
            Backend::Redis(gate) => gate.store().evictions(),
        }
    }

    /// What is in memory for the times when a store elsewhere is unavailable; `None` for memory.
    pub fn fallback_counts(&self) -> Option<FallbackCounts> {
        match self {
            Backend::Memory(_) => None,
            Backend::Redis(gate) => Some(gate.fallback_counts()),
        }
    }

    /// Keys that the store keeps now; `None` where it cannot be told without asking for each.
    pub fn live_keys(&self) -> Option<usize> {
        match self {
            Backend::Memory(gate) => Some(gate.store().len()),
            Backend::Redis(_) => None,
        }
    }

    /// Keys that the store has forgotten early, since it was full.
    pub fn evictions(&self) -> u64 {
        match self {
            Backend::Memory(gate) => gate.store().evictions(),
            Backend::Redis(_) => 0,
        }
    }

    /// Automatic blocks that the store dropped to make room for others.
    pub fn dropped_blocks(&self) -> u64 {
        match self {
            Backend::Memory(gate) => gate.store().dropped_blocks(),
            Backend::Redis(_) => 0,
        }
    }

    /// Keys that the store has forgotten since they were as good as new; those in Redis expire.
    pub fn reclaimed(&self) -> u64 {
        match self {
            Backend::Memory(gate) => gate.store().reclaimed(),
            Backend::Redis(_) => 0,
        }
    }

    /// States that were re-dated, because the clock had moved back by more than their horizon.
    pub fn redated(&self) -> u64 {
        match self {
            Backend::Memory(gate) => gate.store().redated(),
            Backend::Redis(gate) => gate.store().redated(),
        }
    }

    /// Requests that were refused since the store was full.
    pub fn turned_away(&self) -> u64 {
        match self {
            Backend::Memory(gate) => gate.store().rejected_new_keys(),
            Backend::Redis(_) => 0,
        }
    }
}

/// Units that are held until it is known how many were needed. Dropped, it gives them back.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "dropping it gives the units back"]
pub enum Held {
    /// Of a gate in memory.
    Memory(GateReservation),
    /// Of a gate over Redis.
    Redis(RedisGateReservation),
}

impl Held {
    /// The ruling that took the units.
    pub fn ruling(&self) -> &Ruling {
        match self {
            Held::Memory(hold) => hold.ruling(),
            Held::Redis(hold) => hold.ruling(),
        }
    }

    /// How many units are held.
    pub fn cost(&self) -> u64 {
        match self {
            Held::Memory(hold) => hold.cost(),
            Held::Redis(hold) => hold.cost(),
        }
    }

    /// Keeps what was taken.
    ///
    /// # Errors
    /// Where the store has no answer: the units then come back when the hold times out. As of all
    /// these, never so in memory.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self {
            Held::Memory(hold) => {
                hold.commit();
                Ok(())
            }
            Held::Redis(hold) => hold.commit().await,
        }
    }

    /// Gives everything back.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn cancel(self) -> Result<(), StoreError> {
        match self {
            Held::Memory(hold) => {
                hold.cancel();
                Ok(())
            }
            Held::Redis(hold) => hold.cancel().await,
        }
    }

    /// Charges what was really used instead of what was taken.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn settle(self, actual: u64) -> Result<(), StoreError> {
        match self {
            Held::Memory(hold) => {
                hold.settle(actual);
                Ok(())
            }
            Held::Redis(hold) => hold.settle(actual).await,
        }
    }
}
