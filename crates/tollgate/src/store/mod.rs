//! Stores: what keeps the state, and owns the time.

pub(crate) mod memory;
