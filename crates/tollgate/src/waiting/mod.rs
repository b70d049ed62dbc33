//! Waiting for units: a queue per key, served in the order of arrival.
//!
//! Only the head of a queue sleeps until its units come. The waiter that wakes first serves all
//! waiters whose units have come by then. Each is charged for the instant at which its units came,
//! so a late timer delays waiters but loses nothing of the rate. The others wake once: those that
//! were served, to go ahead, and the new head, to sleep until its own units come.
//!
//! Lock order: a queue's lock before any shard's. Wakers are called with no lock held.

mod acquire;
#[cfg(feature = "tokio")]
mod alarm;
mod queue;

pub use acquire::{Acquire, AcquireError};
pub(crate) use queue::WaitQueues;
