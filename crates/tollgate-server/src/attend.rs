//! Looks after a store elsewhere while nobody asks: whether it is there is to be known before
//! somebody needs it.

use std::future::pending;

use tokio::time::sleep;
use tollgate_redis::Histogram;

use crate::backend::Backend;
use crate::bounds::STORE_PROBE;

/// Asks the store at the start, and whenever nothing was asked of it for a while. Never ends.
pub(crate) async fn attend(backend: &Backend) {
    let mut before = None;
    loop {
        let Some(calls) = backend.store_latency().map(calls) else { return pending().await };
        if before.is_none_or(|before| before == calls) {
            backend.probe().await;
        }
        before = Some(calls);
        sleep(STORE_PROBE).await;
    }
}

/// How many calls there were.
fn calls(latency: &Histogram) -> u64 {
    latency.counts().iter().sum()
}
