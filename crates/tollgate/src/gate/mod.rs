//! `Gate`: a policy over a store.

mod attributes;
mod canonical;
mod compiled;
mod counted;
mod decide;
mod explain;
mod figures;
mod glob_set;
mod hold;
mod index;
mod inspect;
mod operate;
mod overrides;
mod overrides_file;
mod plan;
mod prefixes;
mod resolve;
mod ruling;
mod run_time;
mod stand_in;
mod texts;
mod told;
mod tries;
mod visit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use compiled::CompiledPolicy;
pub use counted::CountedRule;
pub use explain::{Explanation, LimitSource, RuleExplanation, RuleMatch, TierSource};
pub use figures::RuleDecision;
pub use hold::GateReservation;
use overrides::{ClientOverride, OverrideOrigin, Overrides};
pub use plan::{PlannedRule, RequestPlan, RuleReplies};
pub use ruling::{Reason, RequestError, Ruling};
pub use tries::PartialCharge;
pub use visit::{VisitedRequest, VisitedRule};

use crate::bounds::DEFAULT_RESERVATION;
use crate::engine::EvaluationMode;
use crate::limit::LimitError;
use crate::policy::{
    Client, EntryFingerprint, Override, Policy, PolicyError, PolicyLocation, PolicyProblem,
    Request, RunTimeOverride, RunTimeOverrides, check,
};
use crate::store::memory::MemoryStore;

/// A policy over a store: decides requests by every rule that applies, all or nothing. Clones
/// share the state, and so do threads.
///
/// ```
/// use tollgate::{Gate, Limit, Policy, Request, Rule};
///
/// let gate = Gate::new(
///     Policy::new()
///         .rule(Rule::new("per-user").key(["user"]).limit(Limit::per_minute(100)))
///         .rule(Rule::new("everybody").limit(Limit::per_second(1))),
/// )?;
/// assert!(gate.check(&Request::new().with("user", "ana")).is_allowed());
/// let ruling = gate.check(&Request::new().with("user", "ben"));
/// assert!(!ruling.is_allowed());
/// assert_eq!(ruling.decided_by_name(), Some("everybody"));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone)]
pub struct Gate(Arc<GateInner>);

struct GateInner {
    store: MemoryStore,
    in_force: ArcSwap<ActivePolicy>,
    /// Held while what is in force is changed, so that one change does not undo another.
    changes: Mutex<RuntimeChanges>,
}

/// What became of a policy that was to replace one that somebody has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ReplaceOutcome {
    /// It is in force.
    Replaced,
    /// Another was in force by then, and stays.
    Conflict,
}

#[derive(Default)]
struct RuntimeChanges {
    /// Overrides set at run time. The store keeps the same. Those that replace another entry than
    /// the policy has do not apply.
    overrides: RunTimeOverrides,
    /// What was in force and may still be looked at: freed by who makes the next change, so that
    /// no check has to.
    retired: Vec<Arc<ActivePolicy>>,
}

/// What decides: replaced as a whole, so that no request sees half of a change.
struct ActivePolicy {
    store: MemoryStore,
    compiled: Arc<CompiledPolicy>,
    overrides: Overrides,
}

impl Gate {
    /// A gate with a store of its own, of a million keys at most.
    ///
    /// # Errors
    /// Everything that is wrong with the policy.
    pub fn new(policy: Policy) -> Result<Gate, PolicyError> {
        let store = MemoryStore::builder().build().map_err(refused)?;
        Gate::with_store(store, policy)
    }

    /// A gate over `store`. State is kept by the names of the rules, so that a gate built later
    /// over the same store, or over its snapshot, goes on where this one was. The overrides that were
    /// set at run time are kept with the store, too: the later gate starts with those that have not
    /// ended. It drops those of clients for which the policy has another override, or none any more,
    /// or has one now.
    ///
    /// # Errors
    /// Everything that is wrong with the policy.
    pub fn with_store(store: MemoryStore, policy: Policy) -> Result<Gate, PolicyError> {
        let overrides = store.0.overrides.list(store.0.now());
        let mut changes = RuntimeChanges { overrides, ..RuntimeChanges::default() };
        let in_force = ActivePolicy::new(&store, policy, &changes.overrides)?;
        in_force.drop_outdated(&mut changes.overrides);
        store.0.overrides.replace(changes.overrides.clone());
        let in_force = ArcSwap::from_pointee(in_force);
        Ok(Gate(Arc::new(GateInner { store, in_force, changes: Mutex::new(changes) })))
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.0.in_force.load().compiled.policy.clone()
    }

    /// Puts another policy in force: at once, as a whole, and keeping what was consumed. Overrides
    /// set at run time stay, but for those of clients whose override in the policy changes: the
    /// policy's replaces them.
    ///
    /// # Errors
    /// Everything that is wrong with it; the policy in force stays.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyError> {
        self.replace_in(&mut self.0.changes.lock(), policy)
    }

    /// [`replace`](Self::replace), unless another policy than `seen` is in force by now: so that
    /// who decides by what it saw undoes nobody else's change.
    ///
    /// ```
    /// use tollgate::{Gate, Limit, Policy, ReplaceOutcome, Rule};
    ///
    /// let gate = Gate::new(Policy::new())?;
    /// let seen = gate.policy();
    /// let wanted = Policy::new().rule(Rule::new("everybody").limit(Limit::per_second(1)));
    /// assert_eq!(gate.compare_and_replace(&seen, wanted.clone())?, ReplaceOutcome::Replaced);
    /// assert_eq!(gate.compare_and_replace(&seen, Policy::new())?, ReplaceOutcome::Conflict);
    /// assert_eq!(*gate.policy(), wanted);
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with it; the policy in force stays.
    pub fn compare_and_replace(
        &self,
        seen: &Arc<Policy>,
        policy: Policy,
    ) -> Result<ReplaceOutcome, PolicyError> {
        // Held over both, so that nobody comes between.
        let mut changes = self.0.changes.lock();
        if !Arc::ptr_eq(&self.policy(), seen) {
            return Ok(ReplaceOutcome::Conflict);
        }
        self.replace_in(&mut changes, policy)?;
        Ok(ReplaceOutcome::Replaced)
    }

    fn replace_in(&self, changes: &mut RuntimeChanges, policy: Policy) -> Result<(), PolicyError> {
        let in_force = ActivePolicy::new(&self.0.store, policy, &changes.overrides)?;
        let before = self.0.in_force.load();
        changes.overrides.retain(|client, set| {
            let is_replaced = before.allows(client, set) && !in_force.allows(client, set);
            if is_replaced {
                self.0.store.0.overrides.remove(client);
            }
            !is_replaced
        });
        drop(before);
        self.put_in_force(in_force, changes);
        Ok(())
    }

    /// The store behind it.
    pub fn store(&self) -> &MemoryStore {
        &self.0.store
    }

    /// Takes what the request costs of every rule that applies, if all allow it.
    #[inline]
    pub fn check(&self, request: &Request<'_>) -> Ruling {
        self.decide(request, EvaluationMode::Charge)
    }

    /// What [`check`](Self::check) would say, taking nothing.
    pub fn peek(&self, request: &Request<'_>) -> Ruling {
        self.decide(request, EvaluationMode::Peek)
    }

    /// How the request's keys stand in every rule that applies: a peek of one unit.
    pub fn status(&self, request: &Request<'_>) -> Ruling {
        self.peek(&request.clone().cost(1))
    }

    /// Takes what the request costs, to be settled when the real cost is known. If the hold is
    /// neither committed nor settled within a minute, everything is given back.
    ///
    /// # Errors
    /// The ruling, where it is not allowed.
    #[allow(clippy::result_large_err, reason = "both ways hold a ruling, and none is boxed")]
    pub fn reserve(&self, request: &Request<'_>) -> Result<GateReservation, Ruling> {
        self.reserve_for(request, DEFAULT_RESERVATION)
    }

    /// [`reserve`](Self::reserve) with a time-out of its own.
    ///
    /// # Errors
    /// The ruling, where it is not allowed.
    #[allow(clippy::result_large_err, reason = "both ways hold a ruling, and none is boxed")]
    pub fn reserve_for(
        &self,
        request: &Request<'_>,
        timeout: Duration,
    ) -> Result<GateReservation, Ruling> {
        let mut ruling = Ruling::open(self.0.in_force.load());
        let until = self.0.store.0.now().saturating_add(timeout);
        let claims = ruling.decide(request, EvaluationMode::Charge, Some(until));
        if ruling.is_allowed() {
            Ok(GateReservation { ruling, cost: request.units(), claims })
        } else {
            Err(ruling)
        }
    }

    /// Inlined, so that it is decided where the caller keeps it: a ruling is large, and one that is
    /// returned is copied, which waits for all that was just written.
    #[inline(always)]
    fn decide(&self, request: &Request<'_>, mode: EvaluationMode) -> Ruling {
        let mut ruling = Ruling::open(self.0.in_force.load());
        ruling.decide(request, mode, None);
        ruling
    }

    fn change_overrides<T>(
        &self,
        changes: &mut RuntimeChanges,
        change: impl FnOnce(&mut Overrides) -> T,
    ) -> T {
        let old = self.0.in_force.load();
        let mut overrides = old.overrides.clone();
        let result = change(&mut overrides);
        let (store, compiled) = (old.store.clone(), old.compiled.clone());
        drop(old);
        self.put_in_force(ActivePolicy { store, compiled, overrides }, changes);
        result
    }

    fn put_in_force(&self, in_force: ActivePolicy, changes: &mut RuntimeChanges) {
        let old = self.0.in_force.swap(Arc::new(in_force));
        // Nobody can begin to look at what is no longer in force.
        changes.retired.retain(|retired| Arc::strong_count(retired) > 1);
        changes.retired.push(old);
    }
}

impl ActivePolicy {
    fn new(
        store: &MemoryStore,
        policy: Policy,
        set: &RunTimeOverrides,
    ) -> Result<ActivePolicy, PolicyError> {
        check(&policy)?;
        let compiled = CompiledPolicy::new(Arc::new(policy), &store.0).map_err(refused)?;
        let overrides = policy_overrides(&compiled, store).map_err(refused)?;
        let (store, compiled) = (store.clone(), Arc::new(compiled));
        let mut in_force = ActivePolicy { store, compiled, overrides };
        for (client, set) in set {
            if in_force.allows(client, set) {
                in_force.set(&set.change).map_err(refused)?;
            }
        }
        Ok(in_force)
    }

    /// Returns `true` if a run-time override takes precedence over the policy's entry for its client.
    fn allows(&self, client: &Client, set: &RunTimeOverride) -> bool {
        let client = canonical::client(&self.compiled.addresses, client);
        let entry = EntryFingerprint::of(self.overrides.policy_entry(&client));
        set.takes_precedence_over(entry)
    }

    /// Applies a run-time override.
    fn set(&mut self, change: &Override) -> Result<(), LimitError> {
        let source = OverrideOrigin::RunTime(Box::new(change.clone()));
        let own = ClientOverride::new(source, &self.compiled, &self.store.0)?;
        self.overrides.set(own, &self.compiled.addresses);
        Ok(())
    }

    /// Drops the overrides that replace another entry than the policy has. The others are from now
    /// on known to replace what it has.
    fn drop_outdated(&self, overrides: &mut RunTimeOverrides) {
        overrides.retain(|client, set| {
            let applies = self.allows(client, set);
            let client = canonical::client(&self.compiled.addresses, client);
            set.replaces = Some(EntryFingerprint::of(self.overrides.policy_entry(&client)));
            applies
        });
    }
}

/// The overrides of the policy.
fn policy_overrides(
    compiled: &CompiledPolicy,
    store: &MemoryStore,
) -> Result<Overrides, LimitError> {
    let mut overrides = Overrides::default();
    for number in 0..compiled.policy.overrides.len() {
        let source = OverrideOrigin::Policy(compiled.policy.clone(), number);
        let own = ClientOverride::new(source, compiled, &store.0)?;
        overrides.set(own, &compiled.addresses);
    }
    Ok(overrides)
}

/// What the store refuses though the policy was found right.
fn refused(error: LimitError) -> PolicyError {
    PolicyError {
        problems: vec![PolicyProblem {
            place: PolicyLocation::Policy("store"),
            message: error.to_string(),
        }],
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.0.in_force.load().compiled.rules.len();
        f.debug_struct("Gate").field("rules", &rules).finish_non_exhaustive()
    }
}
