//! Waiting for units: a queue per key, first come, first served.
//!
//! Only the head of a queue watches the clock. When it is admitted, or leaves, it wakes the one
//! behind it and nobody else: one wake-up an admission, however many wait.
//!
//! Lock order: a queue's lock before any shard's. Wakers are called with no lock held.

mod acquire;
#[cfg(feature = "tokio")]
mod alarm;
mod queue;

pub use acquire::{Acquire, AcquireError};
pub(crate) use queue::Waiting;
