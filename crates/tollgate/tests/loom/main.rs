//! Every interleaving of a few threads, explored by loom.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p tollgate --features tokio --test loom
//! ```
//!
//! Nothing is left out: every switch between threads that can change the outcome is tried. Set
//! `LOOM_MAX_PREEMPTIONS=3` to try fewer while working on a larger model, and `LOOM_LOG=trace`,
//! `LOOM_LOCATION=1` to see the steps of one that fails.
//!
//! Without the feature `tokio` the models of waiting are left out, since only a future can be
//! polled by hand.
#![cfg(loom)]

mod checks;
mod full;
mod reservations;
mod snapshots;
#[cfg(feature = "tokio")]
mod waiting;

use std::time::Duration;

use loom::thread;
use tollgate::{Decision, Limit, Limiter, ManualClock, MemoryStore};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// Few enough keys for a single shard.
const ONE_SHARD: usize = 8;
/// As few as two shards need.
const TWO_SHARDS: usize = 128;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    loom::model(model);
}

/// A store whose clock stands still.
fn store(max_keys: usize) -> MemoryStore {
    clocked_store(&ManualClock::new(), max_keys)
}

fn clocked_store(clock: &ManualClock, max_keys: usize) -> MemoryStore {
    MemoryStore::builder().clock(clock.clone()).max_keys(max_keys).build().unwrap()
}

fn limiter(limit: Limit) -> Limiter {
    store(ONE_SHARD).limiter("limit", limit).unwrap()
}

/// `count` per hour, and nothing comes back while a model runs.
fn hourly(count: u64) -> Limit {
    Limit::fixed_window(count, HOUR)
}

/// Runs both at the same time, one of them in a thread of its own.
fn both<A: 'static, B>(there: impl FnOnce() -> A + 'static, here: impl FnOnce() -> B) -> (A, B) {
    let there = thread::spawn(there);
    let here = here();
    (there.join().unwrap(), here)
}

fn allowed(decisions: &[Decision]) -> u64 {
    decisions.iter().map(|decision| u64::from(decision.is_allowed())).sum()
}
