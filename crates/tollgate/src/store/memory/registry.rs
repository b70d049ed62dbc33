//! The limits a store has states of, by number: a state says which limit it was made under, so
//! that it can be read, and kept in proportion, when the limiter's numbers have changed since.

use std::collections::HashMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use crate::limit::{Limit, LimitError, Plan};
use crate::sync::{RwLock, read, write};

/// A limiter's name and its limit.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) limiter: Arc<str>,
    pub(crate) limit: Limit,
    pub(crate) plan: Plan,
    /// Whether states fit a slot: the plan's answer, kept since every check asks.
    pub(crate) packs: bool,
    /// What slots say; never 0.
    pub(crate) number: u32,
    /// The number again, if it fits a slot beside a state that does.
    pub(crate) tag: Option<NonZeroU8>,
}

#[derive(Debug, Default)]
pub(super) struct Registry(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    by_number: Vec<Arc<Named>>,
    by_name: HashMap<(Arc<str>, Limit), Arc<Named>>,
}

impl Registry {
    /// The limiter's limit, registered if it is not yet.
    pub(super) fn register(&self, limiter: &str, limit: &Limit) -> Result<Arc<Named>, LimitError> {
        let plan = Plan::new(limit)?;
        let mut known = write(&self.0);
        let name = (Arc::from(limiter), limit.clone());
        if let Some(named) = known.by_name.get(&name) {
            return Ok(named.clone());
        }
        let number = u32::try_from(known.by_number.len() + 1)
            .map_err(|_| LimitError::new("the store has 2^32 limits, build a new one"))?;
        let (limiter, limit) = name.clone();
        let packs = plan.packs();
        let tag = u8::try_from(number).ok().and_then(NonZeroU8::new).filter(|_| packs);
        let named = Arc::new(Named { limiter, limit, plan, packs, number, tag });
        known.by_number.push(named.clone());
        known.by_name.insert(name, named.clone());
        Ok(named)
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<Named>> {
        self.with(|limits| limits.get(number).cloned())
    }

    /// All of them, in the order of their numbers.
    pub(super) fn all(&self) -> Vec<Arc<Named>> {
        self.with(|limits| limits.0.to_vec())
    }

    /// Looks many up under one lock, which may be taken while shards are locked, never before.
    pub(super) fn with<T>(&self, look: impl FnOnce(Limits<'_>) -> T) -> T {
        look(Limits(&read(&self.0).by_number))
    }
}

/// The registered limits.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a>(&'a [Arc<Named>]);

impl<'a> Limits<'a> {
    pub(super) fn get(self, number: u32) -> Option<&'a Arc<Named>> {
        self.0.get(number.checked_sub(1)? as usize)
    }
}
