//! Several limits on one request: `check_all` takes every charge or none.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::{array, fmt, ptr};

use smallvec::SmallVec;

use crate::decision::{Decision, Outcome};
use crate::key::{ChargeKey, Fingerprint, Key, Name};
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::store::memory::{
    Charged, Entry, INLINE, Joint, KnownKey, LINES_IN_FEW, Named, Turn, charge_any, charge_few,
    look_all,
};

/// A limit, a key and a cost: what [`check_all`] decides on.
#[derive(Clone)]
#[must_use = "a charge is taken by check_all"]
pub struct Charge<'l, 'k> {
    limiter: &'l Limiter,
    fingerprint: Fingerprint,
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

    fn joint(&self) -> Joint<'_> {
        let (memory, named) = (self.limiter.memory(), &**self.limiter.named());
        let entry = Entry { named, fingerprint: self.fingerprint, key: &self.key };
        let mut joint = Joint::new(memory, entry);
        joint.cost = self.cost;
        joint
    }
}

/// Decides a few charges on the fast path, or returns `None` with nothing changed. Prefetches every slot
/// before it prepares the first charge.
#[inline(always)]
fn charge_known<'l, const N: usize>(
    charges: &[Charge<'l, '_>],
    turns: &mut SmallVec<[Turn<'l>; INLINE]>,
) -> Option<Charged> {
    let charges: &[Charge<'l, '_>; N] = charges.try_into().ok()?;
    let slots = charges
        .each_ref()
        .map(|charge| charge.limiter.memory().prefetch::<LINES_IN_FEW>(charge.fingerprint));
    let key = |number: usize| {
        let Charge { limiter, cost, .. } = charges[number];
        KnownKey::new(limiter.memory(), slots[number], limiter.named(), cost)
    };
    charge_few(array::from_fn::<_, N, _>(key), turns)
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
/// assert!(per_user.status("ben").is_new(), "the denied request charged ben nothing");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[inline]
pub fn check_all<'l>(charges: &[Charge<'l, '_>]) -> Decisions<'l> {
    let mut decisions =
        Decisions { turns: SmallVec::new(), charged: Charged::None, too_much: None };
    decisions.decide(charges);
    decisions
}

/// The turn with the lifetime of its limiter, which is that of one of the charges: decisions outlive
/// the keys.
fn turn_of_limiter<'l>(turn: &Turn<'_>, charges: &[Charge<'l, '_>]) -> Option<Turn<'l>> {
    let limits = charges.iter().map(|charge| &**charge.limiter.named());
    let named = limits.into_iter().find(|named: &&'l Named| ptr::eq(*named, turn.named))?;
    Some(Turn { named, cost: turn.cost, now: turn.now, met: turn.met })
}

/// The charges, those of one limiter and key added up; and of each whether that is past what a number
/// holds.
#[cold]
fn merged<'a>(charges: &[Joint<'a>]) -> (Vec<Joint<'a>>, Box<[bool]>) {
    let mut merged: Vec<Joint<'a>> = Vec::with_capacity(charges.len());
    let mut too_much = Vec::with_capacity(charges.len());
    for charge in charges {
        match merged.iter().position(|other| other.is_same_key(charge)) {
            // A cost of 0 adds nothing, and its limit has no say over the other charges.
            Some(_) if charge.cost == 0 => {}
            Some(at) if merged[at].cost == 0 => merged[at] = *charge,
            Some(at) => {
                let first = &mut merged[at];
                too_much[at] |= first.cost.checked_add(charge.cost).is_none();
                first.add_cost(charge.cost);
                // Whichever comes first, the stricter numbers decide.
                let (named, other) = (first.entry.named, charge.entry.named);
                if strictness(&other.limit, &named.limit).is_lt() {
                    first.entry.named = other;
                }
            }
            None => {
                merged.push(*charge);
                too_much.push(false);
            }
        }
    }
    (merged, too_much.into())
}

/// The order of limits from strict to generous: by what they admit at once, then by how slow they
/// are; by their text where all that is equal.
fn strictness(a: &Limit, b: &Limit) -> Ordering {
    let rate = |of: &Limit, other: &Limit| {
        u128::from(of.count()).saturating_mul(other.period().as_nanos())
    };
    a.capacity()
        .cmp(&b.capacity())
        .then_with(|| rate(a, b).cmp(&rate(b, a)))
        .then_with(|| a.to_string().cmp(&b.to_string()))
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
    turns: SmallVec<[Turn<'a>; INLINE]>,
    charged: Charged,
    /// Where charges were added up past what a number holds: of which turns.
    too_much: Option<Box<[bool]>>,
}

impl<'a> Decisions<'a> {
    /// In place: what is returned by value through calls is copied as often.
    fn decide(&mut self, charges: &[Charge<'a, '_>]) {
        let charged = match charges.len() {
            1 => charge_known::<1>(charges, &mut self.turns),
            2 => charge_known::<2>(charges, &mut self.turns),
            3 => charge_known::<3>(charges, &mut self.turns),
            _ => None,
        };
        match charged {
            Some(charged) => self.charged = charged,
            None => self.decide_any(charges),
        }
    }

    /// [`decide`](Self::decide) for charges of any kind.
    #[cold]
    fn decide_any(&mut self, charges: &[Charge<'a, '_>]) {
        let joints: SmallVec<[Joint<'_>; INLINE]> = charges.iter().map(Charge::joint).collect();
        let (mut charged, mut turns) = charge_any(&joints, |joint| joint);
        if charged == Charged::Repeated {
            let (merged, too_much) = merged(&joints);
            if too_much.contains(&true) {
                turns.clear();
                look_all(&merged, |joint| joint, &mut turns);
                (charged, self.too_much) = (Charged::None, Some(too_much));
            } else {
                (charged, turns) = charge_any(&merged, |joint| joint);
            }
        }
        self.charged = charged;
        self.turns = turns.iter().filter_map(|turn| turn_of_limiter(turn, charges)).collect();
    }

    /// Whether to go ahead: every charge was taken.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.charged == Charged::All
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
        self.turns.iter().enumerate().map(|(at, turn)| {
            let decision = turn.decision(self.charged);
            let is_too_much = self.too_much.as_ref().is_some_and(|of| of[at]);
            let decision = if is_too_much { decision.never(turn.cost) } else { decision };
            (&*turn.named.limiter, decision)
        })
    }
}

impl fmt::Debug for Decisions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
