//! The limits a store has states of, by number: a state says which limit it was made under, so
//! that it can be read, and kept in proportion, when the limiter's numbers have changed since.
//!
//! A limit is forgotten in three steps. *Put out*: nobody but who wants it forgotten holds it, and
//! nobody can find its name. Then its states are taken out, of which nobody can make more. *Struck
//! out*: its number may be another limit's. Who asks for it by name meanwhile brings it back.

use std::collections::HashMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use crate::algorithm::Bucket;
use crate::limit::{Limit, LimitError, Plan};
use crate::sync::{AtomicU64, Ordering, RwLock, fence, read, write};

/// A limiter's name and its limit.
#[derive(Debug)]
pub(crate) struct RegisteredLimit {
    pub(crate) limiter: Arc<str>,
    pub(crate) limit: Limit,
    pub(crate) plan: Plan,
    /// Whether states fit a slot: the plan's answer, kept since every check asks.
    pub(crate) packs: bool,
    /// What slots say; never 0.
    pub(crate) number: u32,
    /// The bucket that the fast path charges; `None` if only the general path can.
    pub(super) fast_bucket: Option<FastBucket>,
}

/// A bucket whose states fit a slot, under a limit whose number fits a byte of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastBucket {
    pub(super) bucket: Bucket,
    /// The limit's number.
    pub(super) tag: NonZeroU8,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    known: RwLock<RegistryInner>,
    /// How many states of these limits were re-dated.
    redated: AtomicU64,
}

#[derive(Debug, Default)]
struct RegistryInner {
    by_number: Vec<Option<Arc<RegisteredLimit>>>,
    by_name: HashMap<LimitIdentity, Arc<RegisteredLimit>>,
    /// Those that were put out and not yet struck out.
    leaving: HashMap<LimitIdentity, Arc<RegisteredLimit>>,
    /// Numbers of limits that were struck out.
    free: Vec<u32>,
}

/// What a limit is found by: the name of its limiter, and the limit.
type LimitIdentity = (Arc<str>, Limit);

fn name(named: &RegisteredLimit) -> LimitIdentity {
    (named.limiter.clone(), named.limit.clone())
}

/// How often the registry itself holds a limit: by its number, and by its name or as leaving.
const OURS: usize = 2;

impl Registry {
    /// The limit of a limiter; registers it if it is new.
    pub(super) fn register(
        &self,
        limiter: &str,
        limit: &Limit,
    ) -> Result<Arc<RegisteredLimit>, LimitError> {
        let plan = Plan::new(limit)?;
        let mut known = write(&self.known);
        let name: LimitIdentity = (Arc::from(limiter), limit.clone());
        if let Some(named) = known.by_name.get(&name) {
            return Ok(named.clone());
        }
        if let Some(named) = known.leaving.remove(&name) {
            known.by_name.insert(name, named.clone());
            return Ok(named);
        }
        let number = known.next_number()?;
        let (limiter, limit) = name.clone();
        let packs = plan.packs();
        let tag = u8::try_from(number).ok().and_then(NonZeroU8::new).filter(|_| packs);
        let fast_bucket = match (&plan, tag) {
            (Plan::Bucket(bucket), Some(tag)) => Some(FastBucket { bucket: *bucket, tag }),
            _ => None,
        };
        let named = Arc::new(RegisteredLimit { limiter, limit, plan, packs, number, fast_bucket });
        known.by_number[number as usize - 1] = Some(named.clone());
        known.by_name.insert(name, named.clone());
        Ok(named)
    }

    /// Puts those out that nobody holds but the registry and `held`, which the caller has alone, and
    /// says which.
    pub(super) fn put_out(&self, held: &[&Arc<RegisteredLimit>]) -> Vec<Arc<RegisteredLimit>> {
        let mut times: HashMap<u32, usize> = HashMap::new();
        held.iter().for_each(|named| *times.entry(named.number).or_default() += 1);
        let mut known = write(&self.known);
        let mut leaving = Vec::new();
        for named in held {
            // Of one that is held several times, once.
            let Some(times) = times.remove(&named.number) else { continue };
            // While the registry is locked nobody can come to hold it who does not yet.
            if Arc::strong_count(named) != OURS + times {
                continue;
            }
            let name = name(named);
            if let Some(found) = known.by_name.remove(&name) {
                known.leaving.insert(name, found.clone());
                leaving.push(found);
            }
        }
        // Pairs with the release of the last who gave one up: what it put into a shard is there for
        // who locks it from now on.
        fence(Ordering::Acquire);
        leaving
    }

    /// Strikes those of `leaving` out that nobody has brought back and that `has_states` does not
    /// know, and says which.
    pub(super) fn strike_out(
        &self,
        leaving: &[Arc<RegisteredLimit>],
        has_states: impl Fn(&RegisteredLimit) -> bool,
    ) -> Vec<u32> {
        let mut known = write(&self.known);
        let mut gone = Vec::new();
        for named in leaving {
            let name = name(named);
            let Some(named) = known.leaving.remove(&name) else { continue };
            if has_states(&named) {
                known.by_name.insert(name, named);
            } else {
                known.by_number[named.number as usize - 1] = None;
                known.free.push(named.number);
                gone.push(named.number);
            }
        }
        gone.sort_unstable();
        gone
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<RegisteredLimit>> {
        self.with(|limits| limits.get(number).cloned())
    }

    /// Counts a state that was re-dated, since the clock had moved back by more than its horizon.
    pub(super) fn count_redated(&self) {
        self.redated.fetch_add(1, Ordering::Relaxed);
    }

    /// How many states were re-dated.
    pub(super) fn redated(&self) -> u64 {
        self.redated.load(Ordering::Relaxed)
    }

    /// All of them, in the order of their numbers, of which some may be missing.
    pub(super) fn all(&self) -> Vec<Arc<RegisteredLimit>> {
        self.with(|limits| limits.0.iter().flatten().cloned().collect())
    }

    /// Looks many up under one lock, which may be taken while shards are locked, never before.
    pub(super) fn with<T>(&self, look: impl FnOnce(RegisteredLimits<'_>) -> T) -> T {
        look(RegisteredLimits(&read(&self.known).by_number))
    }
}

impl RegistryInner {
    /// A number that no limit has.
    fn next_number(&mut self) -> Result<u32, LimitError> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        let number = u32::try_from(self.by_number.len() + 1)
            .map_err(|_| LimitError::new("the store has 2^32 limits, build a new one"))?;
        self.by_number.push(None);
        Ok(number)
    }
}

/// The registered limits.
#[derive(Clone, Copy)]
pub(super) struct RegisteredLimits<'a>(&'a [Option<Arc<RegisteredLimit>>]);

impl<'a> RegisteredLimits<'a> {
    pub(super) fn get(self, number: u32) -> Option<&'a Arc<RegisteredLimit>> {
        self.0.get(number.checked_sub(1)? as usize)?.as_ref()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_else_holds_is_put_out_and_its_number_is_used_again() {
        let registry = Registry::default();
        let register = |count| registry.register("a", &Limit::per_hour(count)).unwrap();
        let (one, two) = (register(1), register(2));
        let twice = one.clone();
        let leaving = registry.put_out(&[&one, &two]);
        assert_eq!(leaving.iter().map(|named| named.number).collect::<Vec<_>>(), [two.number]);
        drop(two);
        assert!(registry.get(2).is_some(), "its states are still there");
        assert_eq!(registry.strike_out(&leaving, |_| false), [2]);
        assert!(registry.get(2).is_none());
        assert_eq!(register(3).number, 2);
        assert_eq!(registry.put_out(&[&one, &twice]).len(), 1, "both of them are told");
        assert_eq!(registry.all().len(), 2);
    }

    #[test]
    fn who_asks_for_a_limit_that_leaves_brings_it_back() {
        let registry = Registry::default();
        let register = |count| registry.register("a", &Limit::per_hour(count)).unwrap();
        let (one, two) = (register(1), register(2));
        let leaving = registry.put_out(&[&one, &two]);
        assert_eq!(leaving.len(), 2);
        assert!(Arc::ptr_eq(&register(1), &one));
        assert_eq!(registry.strike_out(&leaving, |named| named.number == 2), [0; 0]);
        assert!(Arc::ptr_eq(&register(2), &two), "it has states, and stays");
    }
}
