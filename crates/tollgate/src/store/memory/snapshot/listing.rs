//! The limits of a snapshot, in the order in which it lists them.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::RegisteredLimit;

/// Limits are told apart by where they lie: each is held, so that no other comes to lie there, while
/// its number in the registry may become another's.
#[derive(Debug)]
pub(super) struct LimitListing {
    all: Vec<Arc<RegisteredLimit>>,
    numbers: HashMap<*const RegisteredLimit, usize>,
}

impl LimitListing {
    pub(super) fn new(all: Vec<Arc<RegisteredLimit>>) -> LimitListing {
        let numbers = all.iter().map(Arc::as_ptr).zip(1..).collect();
        LimitListing { all, numbers }
    }

    pub(super) fn all(&self) -> &[Arc<RegisteredLimit>] {
        &self.all
    }

    /// The place of a limit in the list, from one.
    pub(super) fn number(&self, named: &Arc<RegisteredLimit>) -> Option<usize> {
        self.numbers.get(&Arc::as_ptr(named)).copied()
    }

    /// Adds a limit at the end.
    pub(super) fn add(&mut self, named: &Arc<RegisteredLimit>) -> usize {
        self.all.push(named.clone());
        self.numbers.insert(Arc::as_ptr(named), self.all.len());
        self.all.len()
    }
}
