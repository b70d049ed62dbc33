//! `RedisGate`: a policy over a Redis store.

mod builder;
mod decide;
mod each;
mod fallback;
mod fleet;
mod fleet_overrides;
mod heartbeat;
mod hold;
mod inspect;
mod kept;
mod lease;
mod names;
mod operate;
mod portable;
mod refused;
mod shared;
mod walk;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tollgate::port::{PartialCharge, RequestPlan};
use tollgate::{Explanation, Gate, Policy, PolicyError, ReplaceOutcome, Request, Ruling};

pub use builder::{GateError, RedisGateBuilder};
use decide::GateMode;
pub use fallback::FallbackCounts;
use fallback::FallbackLog;
use heartbeat::Heartbeats;
pub use hold::RedisGateReservation;
use hold::{GateReservationKind, ScaledRedisReservation};
pub use kept::DetachedReservation;
pub use lease::LeaseStats;
use lease::Leases;
use names::PolicyKeys;
use shared::FleetState;
pub use walk::RuleKeyScan;

use crate::bounds::DEFAULT_RESERVATION;
use crate::error::StoreError;
use crate::store::RedisStore;

/// A policy whose state a [`RedisStore`] keeps for a whole fleet: decides requests by every rule
/// that applies, all or nothing, in one round trip; in more where the rules lie in several slots of a
/// Cluster. Clones are the same gate.
///
/// While the store has no answer, each rule does what its `on_store_error` says, and
/// [`Ruling::is_degraded`] is true.
///
/// ```no_run
/// use tollgate::{Limit, Policy, Request, Rule};
/// use tollgate_redis::{RedisGate, RedisStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = Policy::new()
///     .rule(Rule::new("per-user").key(["user"]).limit(Limit::per_minute(100)))
///     .rule(Rule::new("everybody").limit(Limit::per_second(1000)));
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
/// let gate = RedisGate::builder(store).nodes(4).build(policy)?;
///
/// let ruling = gate.check(&Request::new().with("user", "ana")).await;
/// if !ruling.is_allowed() {
///     println!("{:?} says no, retry after {:?}", ruling.decided_by_name(), ruling.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisGate(Arc<RedisGateInner>);

struct RedisGateInner {
    store: RedisStore,
    namespace: String,
    /// Knows which rules apply, and keeps no state.
    resolver: Gate,
    /// Decides while the store is away.
    local: Gate,
    heartbeats: Heartbeats,
    /// Held while the policy or the number of nodes is replaced, so that both gates are of one.
    replacing: Mutex<()>,
    /// Held only to copy or to replace it.
    names: RwLock<Arc<PolicyKeys>>,
    shared: FleetState,
    fallbacks: FallbackLog,
    /// What this node has borrowed, once a policy says that rules are leased.
    leases: OnceLock<Leases>,
}

impl RedisGate {
    /// A gate over `store`. State is kept by the names of the rules, for every gate that has them.
    ///
    /// # Errors
    /// Everything that is wrong with the policy, also limits that Redis cannot keep exact.
    pub fn with_store(store: RedisStore, policy: Policy) -> Result<RedisGate, PolicyError> {
        RedisGate::builder(store).build(policy)
    }

    /// A gate over the server at `url`, with the overrides and blocks that the fleet shares.
    ///
    /// # Errors
    /// Where the policy is wrong, or there is no connection: see [`RedisStore::connect`].
    pub async fn connect(url: &str, policy: Policy) -> Result<RedisGate, GateError> {
        let gate = RedisGate::with_store(RedisStore::connect(url).await?, policy)?;
        gate.refresh().await?;
        Ok(gate)
    }

    /// To build a gate with a namespace, or for a number of nodes.
    pub fn builder(store: RedisStore) -> RedisGateBuilder {
        RedisGateBuilder::new(store)
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.0.resolver.policy()
    }

    /// The store behind it.
    pub fn store(&self) -> &RedisStore {
        &self.0.store
    }

    /// Puts another policy in force on this node: at once, as a whole, and keeping what was
    /// consumed. Overrides set at run time stay, but for those of clients whose override in the policy
    /// changes: the policy's replaces them, on all nodes.
    ///
    /// # Errors
    /// Everything that is wrong with it; the policy in force stays.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyError> {
        let _alone = self.replacing();
        self.replace_alone(policy)
    }

    /// [`replace`](Self::replace), unless another policy than `seen` is in force by now: so that
    /// who decides by what it saw undoes nobody else's change.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_seen(
        &self,
        seen: &Arc<Policy>,
        policy: Policy,
    ) -> Result<ReplaceOutcome, PolicyError> {
        // Held over both, so that nobody comes between.
        let _alone = self.replacing();
        if !Arc::ptr_eq(&self.policy(), seen) {
            return Ok(ReplaceOutcome::Conflict);
        }
        self.replace_alone(policy)?;
        Ok(ReplaceOutcome::Replaced)
    }

    fn replacing(&self) -> MutexGuard<'_, ()> {
        self.0.replacing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace_alone(&self, policy: Policy) -> Result<(), PolicyError> {
        portable::check(&policy)?;
        let local = policy.fallback_share(self.nodes());
        self.replace_policy(policy)?;
        self.0.local.replace(local)?;
        self.share_out();
        self.0.store.denials().forget_all();
        self.forget_what_is_shared();
        Ok(())
    }

    /// Takes what the request costs of every rule that applies, if all allow it.
    pub async fn check(&self, request: &Request<'_>) -> Ruling {
        match self.try_check(request).await {
            Ok(ruling) => ruling,
            Err(error) => {
                self.note_fallback(&error);
                self.0.local.check_without_store(request)
            }
        }
    }

    /// [`check`](Self::check), with the error where the store has no answer.
    ///
    /// # Errors
    /// Where the store has no answer; after a time-out it may have been taken all the same.
    #[doc(hidden)]
    pub async fn try_check(&self, request: &Request<'_>) -> Result<Ruling, StoreError> {
        let planned = self.plan(request).await?;
        self.decide_and_take(&planned).await
    }

    /// What [`check`](Self::check) would say, taking nothing.
    pub async fn peek(&self, request: &Request<'_>) -> Ruling {
        self.or_without_store(request, self.look_from_here(request).await)
    }

    async fn look_from_here(&self, request: &Request<'_>) -> Result<Ruling, StoreError> {
        let planned = self.plan(request).await?;
        self.decide_and_leave(&planned).await
    }

    fn or_without_store(
        &self,
        request: &Request<'_>,
        looked: Result<Ruling, StoreError>,
    ) -> Ruling {
        looked.unwrap_or_else(|error| {
            self.note_fallback(&error);
            self.0.local.peek_without_store(request)
        })
    }

    async fn look(&self, request: &Request<'_>) -> Result<Ruling, StoreError> {
        let planned = self.plan(request).await?;
        Ok(self.decide(&planned, GateMode::Look, None).await?.0)
    }

    /// How the request's keys stand in every rule that applies: a peek of one unit, at what the whole
    /// fleet was charged. What nodes have borrowed and not spent yet is charged.
    pub async fn status(&self, request: &Request<'_>) -> Ruling {
        let request = request.clone().cost(1);
        self.or_without_store(&request, self.look(&request).await)
    }

    /// Takes what the request costs, to be settled when the real cost is known. If the hold is
    /// neither committed nor settled within a minute, everything is given back.
    ///
    /// # Errors
    /// The ruling, where it is not allowed.
    #[allow(clippy::result_large_err, reason = "both ways hold a ruling, and none is boxed")]
    pub async fn reserve(&self, request: &Request<'_>) -> Result<RedisGateReservation, Ruling> {
        self.reserve_for(request, DEFAULT_RESERVATION).await
    }

    /// [`reserve`](Self::reserve) with a time-out of its own, a year at most.
    ///
    /// # Errors
    /// The ruling, where it is not allowed.
    #[allow(clippy::result_large_err, reason = "both ways hold a ruling, and none is boxed")]
    pub async fn reserve_for(
        &self,
        request: &Request<'_>,
        timeout: Duration,
    ) -> Result<RedisGateReservation, Ruling> {
        let cost = request.units();
        let (ruling, held) = match self.try_reserve(request, timeout).await {
            Ok((ruling, claims)) => (ruling, GateReservationKind::Store(claims)),
            Err(error) => {
                self.note_fallback(&error);
                let hold = self.0.local.reserve_without_store(request, timeout)?;
                (hold.ruling().clone(), GateReservationKind::Memory(Box::new(hold)))
            }
        };
        if ruling.is_allowed() {
            Ok(RedisGateReservation { ruling, cost, held })
        } else {
            Err(ruling)
        }
    }

    async fn try_reserve(
        &self,
        request: &Request<'_>,
        timeout: Duration,
    ) -> Result<(Ruling, Vec<ScaledRedisReservation>), StoreError> {
        let planned = self.plan(request).await?;
        self.decide(&planned, GateMode::Take, Some(timeout)).await
    }

    /// Takes as many units as every rule that applies has, the request's cost at most, and says
    /// how many.
    pub async fn take_up_to(&self, request: &Request<'_>) -> (u64, Ruling) {
        match self.try_take_up_to(request).await {
            Ok(taken) => taken,
            Err(error) => {
                self.note_fallback(&error);
                self.0.local.take_up_to_without_store(request)
            }
        }
    }

    async fn try_take_up_to(&self, request: &Request<'_>) -> Result<(u64, Ruling), StoreError> {
        let one = request.clone().cost(request.units().min(1));
        if let Some(ruling) = self.refuse(&self.plan(&one).await?)? {
            return Ok((0, ruling));
        }
        let mut tries = PartialCharge::new(request.units());
        loop {
            let stands = self.look(&request.clone().cost(1)).await?;
            let left = self.0.resolver.plan(request).units_left(&stands);
            let Some(units) = tries.next(left) else { break };
            // Who only came too late for some of the units is not blocked for it.
            let planned = self.0.resolver.plan(&request.clone().cost(units));
            let (ruling, _) = self.decide(&planned, GateMode::Try, None).await?;
            if ruling.is_allowed() || ruling.retry_after().is_none() {
                return Ok((if ruling.is_allowed() { units } else { 0 }, ruling));
            }
        }
        // There is none, or others have taken it each time: the ruling is on one unit.
        let ruling = self.try_check(&one).await?;
        Ok((if ruling.is_allowed() { one.units() } else { 0 }, ruling))
    }

    /// Which rules apply to the request and why the others do not, with the numbers in force.
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        self.0.resolver.explain(request)
    }

    /// Whether a rule applies to `request`, also one without a limit for it.
    #[doc(hidden)]
    pub fn has_rule_for(&self, request: &Request<'_>) -> bool {
        !self.0.resolver.plan(request).rules().is_empty()
    }

    /// What a request comes to, by what the fleet shares; what needs no rule needs no store.
    async fn plan(&self, request: &Request<'_>) -> Result<RequestPlan, StoreError> {
        let planned = self.0.resolver.plan(request);
        if planned.rules().is_empty() || !self.tend().await? {
            return Ok(planned);
        }
        Ok(self.0.resolver.plan(request))
    }

    /// What the rules of `policy` are called, made when it is first asked for.
    fn names(&self, policy: &Arc<Policy>) -> Arc<PolicyKeys> {
        let known = self.0.names.read().unwrap_or_else(PoisonError::into_inner).clone();
        if known.are_of(policy) {
            return known;
        }
        let names = Arc::new(PolicyKeys::new(&self.0.store, &self.0.namespace, policy));
        *self.0.names.write().unwrap_or_else(PoisonError::into_inner) = names.clone();
        names
    }
}

impl fmt::Debug for RedisGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisGate")
            .field("store", &self.0.store)
            .field("namespace", &self.0.namespace)
            .field("rules", &self.policy().rules.len())
            .finish_non_exhaustive()
    }
}
