//! A gate whose store is a Redis server: every decision is waited for.
//!
//! While the store is away each rule does what its `on_store_error` says, and the ruling says so.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tollgate_redis::{RedisGate, RedisGateReservation};

use crate::bounds::REMOTE_HOLD;
use crate::door::{Asked, Decided, Held};
use crate::refuse::Refusal;
use crate::settings::{Pass, Settings};
use crate::settle::Bill;

/// Asks the gate.
pub(crate) async fn ask(
    settings: &Settings,
    gate: &RedisGate,
    asked: &Asked<'_>,
) -> Result<Pass, Box<Refusal>> {
    let request = asked.request();
    if !settings.holds() {
        return settings.conclude(Decided::Ruling(gate.check(&request).await), None);
    }
    match gate.reserve_for(&request, REMOTE_HOLD).await {
        Ok(hold) => {
            let decided = Decided::Ruling(hold.ruling().clone());
            settings.conclude(decided, Some(Held::Remote(RemoteHold::new(hold))))
        }
        Err(ruling) => settings.conclude(Decided::Ruling(ruling), None),
    }
}

/// Units that a store holds. The answer does not wait until they are settled: until then they are
/// held, so that too little may pass for a moment and never too much. Should the store not be
/// there, or the runtime be gone, they come back when the hold times out.
pub(crate) struct RemoteHold {
    /// Of the tasks that settle it, the first takes it.
    hold: Arc<Mutex<Option<RedisGateReservation>>>,
    /// What was last asked for.
    charged: u64,
}

impl RemoteHold {
    fn new(hold: RedisGateReservation) -> RemoteHold {
        let charged = hold.cost();
        RemoteHold { hold: Arc::new(Mutex::new(Some(hold))), charged }
    }

    /// Charges what an answer has come to so far, each time that it has doubled: not a call for each
    /// piece that is sent.
    pub(crate) fn raise(&mut self, units: u64) {
        if units <= self.charged || units < self.charged.saturating_mul(2) {
            return;
        }
        self.charged = units;
        let hold = Arc::clone(&self.hold);
        spawn(async move {
            if let Some(hold) = hold.lock().await.as_mut() {
                // What the store does not hear of now it hears of in the end.
                let _ = hold.raise_to(units).await;
            }
        });
    }

    pub(crate) fn settle(self, bill: Bill) {
        spawn(async move {
            let Some(hold) = self.hold.lock().await.take() else { return };
            // Without an answer the units come back when the hold times out.
            let _ = match bill {
                Bill::Estimate => hold.commit().await,
                Bill::Nothing => hold.cancel().await,
                Bill::Units(units) => hold.settle(units).await,
            };
        });
    }
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(task);
    }
}
