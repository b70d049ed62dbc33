//! The calls of leases: borrowing, giving back, and the task that sees to what nobody asks for.
//!
//! None is on a request's path, and none is repeated where its answer was lost: what was borrowed so
//! is lost until it comes back by itself, and so is what was to be given back. Twice would be too much.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tollgate::Decision;
use tollgate::port::Grant;

use super::super::{RedisGate, RedisGateInner};
use super::table::{LeasedKey, Leases, PendingReturn};
use crate::bounds::{LEASE_TRIES, LONGEST_PAUSE, RETURNS_AT_ONCE, SHORTEST_PAUSE};
use crate::error::StoreError;
use crate::limiter::agree;
use crate::request::{CallOptions, ScriptCharge, ScriptMode};
use crate::store::RedisStore;

/// What the store says to a borrow.
enum BorrowReply {
    Granted(Grant),
    Refused(Decision),
}

/// A borrow on its way; dropped without an answer, it has failed.
struct BorrowGuard<'g> {
    leases: &'g Leases,
    lent: &'g LeasedKey,
    is_answered: bool,
}

impl Drop for BorrowGuard<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.leases.failed(self.lent);
        }
    }
}

/// Says that nobody keeps the leases any more, should the runtime end the task.
struct TaskGuard(Arc<AtomicBool>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl RedisGate {
    /// Borrows in the background; [`Leases`] has said how much, and that nobody else does.
    pub(super) fn spawn_borrow(&self, lent: LeasedKey, units: u64) {
        let gate = self.clone();
        match (Handle::try_current(), self.0.leases.get()) {
            (Ok(runtime), _) => drop(runtime.spawn(async move { gate.borrow(lent, units).await })),
            (Err(_), Some(leases)) => leases.failed(&lent),
            (Err(_), None) => {}
        }
    }

    /// Gives back in the background; lost where there is no runtime.
    pub(super) fn spawn_give_back(&self, back: Vec<PendingReturn>) {
        if let Some(runtime) = Handle::try_current().ok().filter(|_| !back.is_empty()) {
            let gate = self.clone();
            runtime.spawn(async move { gate.give_back(back).await });
        }
    }

    /// Borrows units of a key; less than was asked for where there is less.
    async fn borrow(&self, lent: LeasedKey, mut units: u64) {
        let Some(leases) = self.0.leases.get() else { return };
        let mut asking = BorrowGuard { leases, lent: &lent, is_answered: false };
        for _ in 0..LEASE_TRIES {
            match leases.try_to_borrow(&self.0.store, &lent, units).await {
                Ok(BorrowReply::Granted(grant)) => {
                    let back = leases.granted(&lent, grant);
                    asking.is_answered = true;
                    self.keep_leases(leases);
                    return self.give_back(back).await;
                }
                Ok(BorrowReply::Refused(decision)) => {
                    match leases.refused(&lent, &decision, self.sharing()) {
                        Some(less) => units = less,
                        None => {
                            asking.is_answered = true;
                            return;
                        }
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Gives units back, each once, whatever becomes of it.
    pub(super) async fn give_back(&self, back: Vec<PendingReturn>) {
        if let Some(leases) = self.0.leases.get() {
            leases.give_all_back(&self.0.store, &back).await;
        }
    }

    /// Sees that somebody gives back what has ended or lies idle, for as long as there is the gate.
    fn keep_leases(&self, leases: &Leases) {
        // Relaxed: who comes too early does it once more.
        let keeping = &leases.keeping;
        if !keeping.load(Ordering::Relaxed) && !keeping.swap(true, Ordering::Acquire) {
            tokio::spawn(keep(Arc::downgrade(&self.0), TaskGuard(keeping.clone())));
        }
    }

    /// One step of that.
    #[doc(hidden)]
    pub async fn keep_leases_once(&self) {
        if let Some(leases) = self.0.leases.get() {
            self.give_back(leases.ended()).await;
        }
    }

    /// How long until the next step: a part of the shortest lease.
    fn pause(&self) -> Duration {
        let shortest = self.names(&self.policy()).shortest_lease().unwrap_or(LONGEST_PAUSE);
        (shortest / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }
}

async fn keep(gate: Weak<RedisGateInner>, _keeping: TaskGuard) {
    loop {
        let Some(pause) = gate.upgrade().map(|gate| RedisGate(gate).pause()) else { return };
        tokio::time::sleep(pause).await;
        let Some(gate) = gate.upgrade().map(RedisGate) else { return };
        gate.keep_leases_once().await;
    }
}

impl Leases {
    /// Asks the store for units, as any request does.
    async fn try_to_borrow(
        &self,
        store: &RedisStore,
        lent: &LeasedKey,
        units: u64,
    ) -> Result<BorrowReply, StoreError> {
        // Before anything is sent: the store's time of it is later, and with it the moment from
        // which on the units may be spent no more.
        let sent = self.clock.now();
        self.borrows.fetch_add(1, Ordering::Relaxed);
        let limiter = &lent.of.limiter.inner;
        let asked = [ScriptCharge { limiter, key: lent.name.clone(), cost: units }];
        let how = CallOptions { leaves_numbers: true, ..ScriptMode::Take.into() };
        let mut met = store.ask(&asked, how).await?;
        let Some(state) = met.states.pop() else {
            // Of other numbers: the next request that asks the store itself scales it.
            return Err(StoreError::Script("its answer lacks a state".to_owned()));
        };
        let decision = limiter.terms.ported.decide(&state, met.now, units);
        agree(met.fits, &decision)?;
        if !met.fits {
            return Ok(BorrowReply::Refused(decision));
        }
        self.borrowed.fetch_add(units, Ordering::Relaxed);
        Ok(BorrowReply::Granted(Grant { sent, at: met.now, met: state, units }))
    }

    async fn give_all_back(&self, store: &RedisStore, back: &[PendingReturn]) {
        for some in back.chunks(RETURNS_AT_ONCE) {
            join_all(some.iter().map(|one| self.give_back(store, one))).await;
        }
    }

    async fn give_back(&self, store: &RedisStore, back: &PendingReturn) {
        self.returns.fetch_add(1, Ordering::Relaxed);
        self.returned.fetch_add(back.what.units, Ordering::Relaxed);
        // Nobody waits for it, and nobody could do anything.
        let _ = store.give_back_lent(&back.of.limiter.inner, &back.name, back.what).await;
    }
}

impl Drop for RedisGateInner {
    /// Gives back what is left in hand, if there is a runtime to do it in.
    fn drop(&mut self) {
        let Some(leases) = self.leases.take() else { return };
        let (back, store) = (leases.empty(), self.store.clone());
        if let Some(runtime) = Handle::try_current().ok().filter(|_| !back.is_empty()) {
            runtime.spawn(async move { leases.give_all_back(&store, &back).await });
        }
    }
}
