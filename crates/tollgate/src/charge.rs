//! Several limits on one request: `check_all` takes every charge or none.

use std::borrow::Borrow;
use std::{array, fmt, ptr};

use smallvec::SmallVec;

use crate::decision::{Decision, Outcome};
use crate::key::{ChargeKey, Key, KeyId, WriteKey};
use crate::limiter::Limiter;
use crate::store::memory::{
    ChargeMode, ChargeOutcome, ChargeRecord, INLINE, KeyEntry, KnownKey, LINES_IN_FEW,
    PendingCharge, RegisteredLimit, Transaction, charge_few,
};

/// A limit, a key and a cost: what [`check_all`] decides on.
#[derive(Clone)]
#[must_use = "a charge is taken by check_all"]
pub struct Charge<'l, 'k> {
    limiter: &'l Limiter,
    fingerprint: KeyId,
    key: ChargeKey<'k>,
    cost: u64,
}

impl<'l, 'k> Charge<'l, 'k> {
    #[inline]
    pub(crate) fn new(limiter: &'l Limiter, key: impl Key + 'k) -> Charge<'l, 'k> {
        let fingerprint = limiter.fingerprint(&key);
        Charge { limiter, fingerprint, key: key.into_charge_key(), cost: 1 }
    }

    /// Sets the number of units to take. Default: 1.
    #[inline]
    pub fn cost(mut self, units: u64) -> Charge<'l, 'k> {
        self.cost = units;
        self
    }

    fn pending(&self) -> PendingCharge<'_> {
        let (memory, named) = (self.limiter.memory(), &**self.limiter.named());
        let entry = KeyEntry { named, fingerprint: self.fingerprint, key: &self.key };
        PendingCharge::new(memory, entry, self.cost)
    }
}

/// Decides a few charges on the fast path, or returns `None` with nothing changed. Prefetches every slot
/// before it prepares the first charge.
#[inline(always)]
fn charge_known<'l, const N: usize>(
    charges: &[Charge<'l, '_>],
    records: &mut SmallVec<[ChargeRecord<'l>; INLINE]>,
) -> Option<ChargeOutcome> {
    let charges: &[Charge<'l, '_>; N] = charges.try_into().ok()?;
    let slots = charges
        .each_ref()
        .map(|charge| charge.limiter.memory().prefetch::<LINES_IN_FEW>(charge.fingerprint));
    let key = |number: usize| {
        let Charge { limiter, cost, .. } = charges[number];
        KnownKey::new(limiter.memory(), slots[number], limiter.named(), cost)
    };
    charge_few(array::from_fn::<_, N, _>(key), records)
}

impl fmt::Debug for Charge<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("limiter", &self.limiter.name())
            .field("key", &self.key.name())
            .field("cost", &self.cost)
            .finish()
    }
}

/// Takes every charge if each is allowed by its own limit, and none otherwise: no other request
/// can see a moment in which some were taken. Charges of one limiter and key are added up; where
/// its numbers have changed and both are charged, the stricter decide.
///
/// ```
/// use tollgate::{Limit, Limiter, check_all};
///
/// let per_user = Limiter::new(Limit::per_minute(100))?;
/// let everybody = Limiter::new(Limit::per_second(1))?;
///
/// assert!(check_all(&[per_user.charge("ana"), everybody.charge(())]).is_allowed());
/// assert!(!check_all(&[per_user.charge("ben"), everybody.charge(())]).is_allowed());
/// assert!(per_user.status("ben").is_fresh(), "the denied request charged ben nothing");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[inline]
pub fn check_all<'l>(charges: &[Charge<'l, '_>]) -> Decisions<'l> {
    let (records, outcome) = (SmallVec::new(), ChargeOutcome::NotTaken);
    let mut decisions = Decisions { records, outcome, overflows: None };
    decisions.decide(charges);
    decisions
}

/// The record with the lifetime of its limiter, which is that of one of the charges: decisions outlive
/// the keys.
fn record_of_limiter<'l>(
    record: &ChargeRecord<'_>,
    charges: &[Charge<'l, '_>],
) -> Option<ChargeRecord<'l>> {
    let limits = charges.iter().map(|charge| &**charge.limiter.named());
    let named =
        limits.into_iter().find(|named: &&'l RegisteredLimit| ptr::eq(*named, record.named))?;
    let ChargeRecord { cost, now, observed, .. } = *record;
    Some(ChargeRecord { named, cost, now, observed })
}

/// The decision that is the request's: where a cost is wrong, that; where denied, the one with the
/// longest wait; where allowed, the one with the smallest share remaining.
pub fn deciding<N, D: Borrow<Decision>>(
    all: impl DoubleEndedIterator<Item = (N, D)> + Clone,
) -> Option<(N, D)> {
    let is_invalid = |decision: &Decision| matches!(decision.outcome(), Outcome::Invalid(_));
    let invalid = all.clone().find(|(_, decision)| is_invalid(decision.borrow()));
    let slowest = || {
        let denied = all.clone().rev().filter(|(_, decision)| !decision.borrow().is_allowed());
        // From the end, so that of equal waits the first counts, as the charges were given.
        denied.max_by_key(|(_, decision)| decision.borrow().retry_after())
    };
    let scarcest = || {
        all.clone().min_by(|(_, a), (_, b)| {
            let (a, b) = (a.borrow(), b.borrow());
            let left = u128::from(a.remaining()) * u128::from(b.limit());
            left.cmp(&(u128::from(b.remaining()) * u128::from(a.limit())))
        })
    };
    invalid.or_else(slowest).or_else(scarcest)
}

/// The answer to [`check_all`]: one for the request, and each limit's own figures.
#[derive(Clone)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct Decisions<'a> {
    records: SmallVec<[ChargeRecord<'a>; INLINE]>,
    outcome: ChargeOutcome,
    /// `true` for charges of one key whose costs add up to more than a number holds, if there are
    /// any.
    overflows: Option<Box<[bool]>>,
}

impl<'a> Decisions<'a> {
    /// In place: what is returned by value through calls is copied as often.
    fn decide(&mut self, charges: &[Charge<'a, '_>]) {
        let outcome = match charges.len() {
            1 => charge_known::<1>(charges, &mut self.records),
            2 => charge_known::<2>(charges, &mut self.records),
            3 => charge_known::<3>(charges, &mut self.records),
            _ => None,
        };
        match outcome {
            Some(outcome) => self.outcome = outcome,
            None => self.decide_any(charges),
        }
    }

    /// [`decide`](Self::decide) for charges of any kind.
    #[cold]
    fn decide_any(&mut self, charges: &[Charge<'a, '_>]) {
        let pending = charges.iter().map(Charge::pending).collect();
        let done = Transaction::run(pending, ChargeMode::Charge);
        self.outcome = done.outcome;
        self.overflows = done.overflows;
        let records = done.records.iter();
        self.records = records.filter_map(|of| record_of_limiter(of, charges)).collect();
    }

    /// Whether to go ahead: every charge was taken.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.outcome == ChargeOutcome::Taken
    }

    /// Which limiter decided, and how: where denied, the one with the longest wait; where allowed,
    /// the one with the smallest share remaining. `None` where there was no charge.
    pub fn deciding(&self) -> Option<(&'a str, Decision)> {
        deciding(self.iter())
    }

    /// Each limiter's name and what it says by itself; nothing was taken unless all allow it.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a str, Decision)> + DoubleEndedIterator + Clone {
        self.records.iter().enumerate().map(|(at, record)| {
            let decision = record.decision(self.outcome);
            let is_overflow = self.overflows.as_ref().is_some_and(|of| of[at]);
            let decision = if is_overflow { decision.never(record.cost) } else { decision };
            (&*record.named.limiter, decision)
        })
    }
}

impl fmt::Debug for Decisions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
