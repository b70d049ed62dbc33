//! The gate under test, wherever it keeps its state.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{
    Client, Explanation, Gate, GateReservation, ManualClock, MemoryStore, Override,
    OverrideRemoval, Policy, Request, Ruling, SyncMode,
};
use tollgate_redis::{RedisGate, RedisGateReservation, RedisStore, StoreError};

/// The longest a call may take: tests wait rather than go on without the store.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where tests keep their state.
pub(super) enum Backend {
    Memory,
    Redis { store: RedisStore, runtime: Runtime },
}

/// A gate over a backend.
pub(super) enum Door<'b> {
    Memory(Gate),
    Redis {
        gate: RedisGate,
        runtime: &'b Runtime,
        /// Whether a ruling was made without the store.
        was_away: Cell<bool>,
    },
}

/// Units held of a gate.
pub(super) enum Held {
    Memory(GateReservation),
    Redis(RedisGateReservation),
}

impl Backend {
    /// The backend that a URL names; the error says what is wrong with it.
    pub(super) fn open(store: &str) -> Result<Backend, String> {
        if store == "memory" {
            return Ok(Backend::Memory);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let builder = RedisStore::builder(store).timeout(PATIENCE).connect_timeout(PATIENCE);
        // Every decision is the server's own.
        let builder = builder.deny_cache_ttl(Duration::ZERO);
        let store = runtime.block_on(builder.connect()).map_err(|error| error.to_string())?;
        Ok(Backend::Redis { store, runtime })
    }

    /// A gate that begins new. In Redis it has a namespace of its own.
    ///
    /// What a node has borrowed there depends on when answers come; a test says the same each time, so
    /// it is of the limits themselves, strictly.
    pub(super) fn door(&self, mut policy: Policy, clock: &ManualClock) -> Result<Door<'_>, String> {
        policy.sync = SyncMode::Strict;
        policy.rules.iter_mut().for_each(|rule| rule.sync = None);
        match self {
            Backend::Memory => {
                let store = MemoryStore::builder().clock(clock.clone()).build();
                let store = store.map_err(|error| error.to_string())?;
                Gate::with_store(store, policy).map(Door::Memory).map_err(|error| error.to_string())
            }
            Backend::Redis { store, runtime } => {
                let store = store.with_test_clock(clock.clone());
                let namespace = format!("test {:016x}", store.unique_number());
                let gate = RedisGate::builder(store).namespace(namespace).build(policy);
                let gate = gate.map_err(|error| error.to_string())?;
                Ok(Door::Redis { gate, runtime, was_away: Cell::new(false) })
            }
        }
    }
}

impl Door<'_> {
    /// Whether a ruling was made without the store, which no test means.
    pub(super) fn was_away(&self) -> bool {
        matches!(self, Door::Redis { was_away, .. } if was_away.get())
    }

    /// The shortest time that the store knows: waits are rounded up to it.
    pub(super) fn tick(&self) -> Duration {
        match self {
            Door::Memory(_) => Duration::from_nanos(1),
            Door::Redis { .. } => Duration::from_micros(1),
        }
    }

    fn seen(&self, ruling: Ruling) -> Ruling {
        if let Door::Redis { was_away, .. } = self {
            was_away.set(was_away.get() || ruling.is_degraded());
        }
        ruling
    }

    pub(super) fn policy(&self) -> Arc<Policy> {
        match self {
            Door::Memory(gate) => gate.policy(),
            Door::Redis { gate, .. } => gate.policy(),
        }
    }

    pub(super) fn explain(&self, request: &Request<'_>) -> Explanation {
        match self {
            Door::Memory(gate) => gate.explain(request),
            Door::Redis { gate, .. } => gate.explain(request),
        }
    }

    pub(super) fn check(&self, request: &Request<'_>) -> Ruling {
        self.seen(match self {
            Door::Memory(gate) => gate.check(request),
            Door::Redis { gate, runtime, .. } => runtime.block_on(gate.check(request)),
        })
    }

    pub(super) fn peek(&self, request: &Request<'_>) -> Ruling {
        self.seen(match self {
            Door::Memory(gate) => gate.peek(request),
            Door::Redis { gate, runtime, .. } => runtime.block_on(gate.peek(request)),
        })
    }

    pub(super) fn take_up_to(&self, request: &Request<'_>) -> (u64, Ruling) {
        let (units, ruling) = match self {
            Door::Memory(gate) => gate.check_up_to(request),
            Door::Redis { gate, runtime, .. } => runtime.block_on(gate.take_up_to(request)),
        };
        (units, self.seen(ruling))
    }

    /// Takes what the request costs, and says how; the hold, where it was allowed.
    pub(super) fn reserve(
        &self,
        request: &Request<'_>,
        timeout: Duration,
    ) -> (Ruling, Option<Held>) {
        let (ruling, held) = match self {
            Door::Memory(gate) => match gate.reserve_for(request, timeout) {
                Ok(hold) => (hold.ruling().clone(), Some(Held::Memory(hold))),
                Err(ruling) => (ruling, None),
            },
            Door::Redis { gate, runtime, .. } => {
                match runtime.block_on(gate.reserve_for(request, timeout)) {
                    Ok(hold) => (hold.ruling().clone(), Some(Held::Redis(hold))),
                    Err(ruling) => (ruling, None),
                }
            }
        };
        (self.seen(ruling), held)
    }

    /// Ends a hold with what was really used; as it is where that is not said.
    pub(super) fn end(&self, held: Held, actual: Option<u64>) -> Result<(), String> {
        match (held, self) {
            (Held::Memory(hold), _) => {
                match actual {
                    None => hold.commit(),
                    Some(actual) => hold.settle(actual),
                }
                Ok(())
            }
            (Held::Redis(hold), Door::Redis { runtime, .. }) => told(match actual {
                None => runtime.block_on(hold.commit()),
                Some(actual) => runtime.block_on(hold.settle(actual)),
            }),
            (Held::Redis(_), Door::Memory(_)) => Ok(()),
        }
    }

    /// Gives a whole hold back.
    pub(super) fn cancel(&self, held: Held) -> Result<(), String> {
        match (held, self) {
            (Held::Redis(hold), Door::Redis { runtime, .. }) => {
                told(runtime.block_on(hold.cancel()))
            }
            (Held::Memory(hold), _) => {
                hold.cancel();
                Ok(())
            }
            (Held::Redis(_), Door::Memory(_)) => Ok(()),
        }
    }

    pub(super) fn refund(&self, request: &Request<'_>) -> Result<(), String> {
        match self {
            Door::Memory(gate) => {
                gate.refund(request);
                Ok(())
            }
            Door::Redis { gate, runtime, .. } => told(runtime.block_on(gate.refund(request))),
        }
    }

    pub(super) fn reset(&self, rule: &str, key: &[&str]) -> Result<bool, String> {
        match self {
            Door::Memory(gate) => Ok(gate.reset(rule, key)),
            Door::Redis { gate, runtime, .. } => told(runtime.block_on(gate.reset(rule, key))),
        }
    }

    pub(super) fn reset_request(&self, request: &Request<'_>) -> Result<usize, String> {
        match self {
            Door::Memory(gate) => Ok(gate.reset_request(request)),
            Door::Redis { gate, runtime, .. } => {
                told(runtime.block_on(gate.reset_request(request)))
            }
        }
    }

    pub(super) fn reset_rule(&self, rule: &str) -> Result<(), String> {
        match self {
            Door::Memory(gate) => {
                gate.reset_rule(rule);
                Ok(())
            }
            Door::Redis { gate, runtime, .. } => {
                told(runtime.block_on(gate.reset_rule(rule, |_| ())).map(drop))
            }
        }
    }

    pub(super) fn reset_all(&self) -> Result<(), String> {
        match self {
            Door::Memory(gate) => {
                gate.reset_all();
                Ok(())
            }
            Door::Redis { gate, runtime, .. } => {
                told(runtime.block_on(gate.reset_all(|_| ())).map(drop))
            }
        }
    }

    pub(super) fn block(&self, rule: &str, key: &[&str], length: Duration) -> Result<bool, String> {
        match self {
            Door::Memory(gate) => gate.block(rule, key, length).map_err(|error| error.to_string()),
            Door::Redis { gate, runtime, .. } => {
                told(runtime.block_on(gate.block(rule, key, length)))
            }
        }
    }

    pub(super) fn block_request(
        &self,
        request: &Request<'_>,
        length: Duration,
    ) -> Result<usize, String> {
        match self {
            Door::Memory(gate) => {
                gate.block_request(request, length).map_err(|error| error.to_string())
            }
            Door::Redis { gate, runtime, .. } => {
                told(runtime.block_on(gate.block_request(request, length)))
            }
        }
    }

    pub(super) fn unblock(&self, rule: &str, key: &[&str]) -> Result<bool, String> {
        match self {
            Door::Memory(gate) => Ok(gate.unblock(rule, key)),
            Door::Redis { gate, runtime, .. } => told(runtime.block_on(gate.unblock(rule, key))),
        }
    }

    pub(super) fn unblock_request(&self, request: &Request<'_>) -> Result<usize, String> {
        match self {
            Door::Memory(gate) => Ok(gate.unblock_request(request)),
            Door::Redis { gate, runtime, .. } => {
                told(runtime.block_on(gate.unblock_request(request)))
            }
        }
    }

    pub(super) fn set_override(&self, change: Override) -> Result<(), String> {
        match self {
            Door::Memory(gate) => gate.set_override(change).map_err(|error| error.to_string()),
            Door::Redis { gate, runtime, .. } => {
                runtime.block_on(gate.set_override(change)).map_err(|error| error.to_string())
            }
        }
    }

    pub(super) fn remove_override(&self, client: &Client) -> Result<OverrideRemoval, String> {
        match self {
            Door::Memory(gate) => Ok(gate.remove_override(client)),
            Door::Redis { gate, runtime, .. } => {
                told(runtime.block_on(gate.remove_override(client)))
            }
        }
    }

    pub(super) fn replace(&self, policy: Policy) -> Result<(), String> {
        let replaced = match self {
            Door::Memory(gate) => gate.replace(policy),
            Door::Redis { gate, .. } => gate.replace(policy),
        };
        replaced.map_err(|error| error.to_string())
    }
}

impl Drop for Door<'_> {
    /// Leaves nothing behind on a server.
    fn drop(&mut self) {
        if let Door::Redis { gate, runtime, .. } = self {
            runtime.block_on(async {
                let _ = gate.reset_all(|_| ()).await;
                let _ = gate.forget_shared().await;
            });
        }
    }
}

fn told<T>(answer: Result<T, StoreError>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}
