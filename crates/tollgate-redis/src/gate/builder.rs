//! What a gate is built with.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use tollgate::{
    Gate, LimitError, MemoryStore, MemoryStoreBuilder, Policy, PolicyError, PolicyLocation,
    PolicyProblem, WhenFull,
};

use super::fallback::FallbackLog;
use super::heartbeat::Heartbeats;
use super::names::PolicyKeys;
use super::shared::FleetState;
use super::{RedisGate, RedisGateInner, portable};
use crate::bounds::MAX_NAMESPACE;
use crate::error::StoreError;
use crate::store::RedisStore;

/// What a [`RedisGate`] is built with.
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisGateBuilder {
    store: RedisStore,
    namespace: String,
    nodes: u64,
    /// The store in memory for the times when Redis is unavailable.
    local: MemoryStoreBuilder,
}

impl RedisGateBuilder {
    pub(super) fn new(store: RedisStore) -> RedisGateBuilder {
        let local = MemoryStore::builder();
        RedisGateBuilder { store, namespace: String::new(), nodes: 1, local }
    }

    /// Keeps its state, overrides and blocks apart from those of other namespaces on the server;
    /// none if not said. Of printable ASCII, 64 bytes at most.
    pub fn namespace(mut self, name: impl Into<String>) -> RedisGateBuilder {
        self.namespace = name.into();
        self
    }

    /// How many nodes share the limits, at least; one if not said. While the store is unavailable, each
    /// goes on with its part of them. [`RedisGate::nodes`] has the number that counts.
    pub fn nodes(mut self, nodes: u64) -> RedisGateBuilder {
        self.nodes = nodes.max(1);
        self
    }

    /// How many keys are kept in memory, at most, while the store is unavailable; a million if not said.
    pub fn max_keys(mut self, keys: usize) -> RedisGateBuilder {
        self.local = self.local.max_keys(keys);
        self
    }

    /// What to do with a new key while the store is unavailable and memory is full.
    pub fn when_full(mut self, choice: WhenFull) -> RedisGateBuilder {
        self.local = self.local.when_full(choice);
        self
    }

    /// Builds it. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// Everything that is wrong with the policy, also limits that Redis cannot keep exact.
    pub fn build(self, policy: Policy) -> Result<RedisGate, PolicyError> {
        let RedisGateBuilder { store, namespace, nodes, local } = self;
        let printable = namespace.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !printable || namespace.len() > MAX_NAMESPACE {
            let message = format!(
                "namespace is {namespace:?}, must be printable ASCII of at most {MAX_NAMESPACE} bytes"
            );
            return Err(problem(message));
        }
        policy.validate()?;
        portable::check(&policy)?;
        let local = Gate::with_store(memory(&store, local)?, policy.fallback_share(nodes))?;
        let resolver =
            Gate::with_store(memory(&store, MemoryStore::builder().max_keys(1))?, policy)?;
        let names = RwLock::new(Arc::new(PolicyKeys::new(&store, &namespace, &resolver.policy())));
        let shared = FleetState::new(&namespace);
        let node =
            getrandom::u64().map_err(|error| problem(format!("no random numbers: {error}")))?;
        let heartbeats = Heartbeats::new(nodes, node.to_be_bytes());
        let fallbacks = FallbackLog::new();
        let (replacing, leases) = (Mutex::new(()), OnceLock::new());
        Ok(RedisGate(Arc::new(RedisGateInner {
            store,
            namespace,
            resolver,
            local,
            heartbeats,
            replacing,
            names,
            shared,
            fallbacks,
            leases,
        })))
    }
}

/// A store in memory on the clock of `store`.
fn memory(store: &RedisStore, memory: MemoryStoreBuilder) -> Result<MemoryStore, PolicyError> {
    let memory = match store.clock() {
        Some(clock) => memory.clock(clock.clone()),
        None => memory,
    };
    memory.build().map_err(|error: LimitError| problem(error.to_string()))
}

fn problem(message: String) -> PolicyError {
    PolicyError {
        problems: vec![PolicyProblem { place: PolicyLocation::Policy("store"), message }],
    }
}

/// What is wrong with a policy or an override, or with the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateError {
    /// The policy or the override is wrong.
    Policy(PolicyError),
    /// The store has no answer.
    Store(StoreError),
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateError::Policy(error) => error.fmt(f),
            GateError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GateError::Policy(error) => error.source(),
            GateError::Store(error) => error.source(),
        }
    }
}

impl From<PolicyError> for GateError {
    fn from(error: PolicyError) -> GateError {
        GateError::Policy(error)
    }
}

impl From<StoreError> for GateError {
    fn from(error: StoreError) -> GateError {
        GateError::Store(error)
    }
}
