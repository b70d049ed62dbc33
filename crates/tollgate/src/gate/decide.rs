//! Deciding a request: lists first, then blocks, then all limits at once, then those that only
//! report.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::InForce;
use super::compiled::Kind;
use super::hold::Scaled;
use super::resolve::{Applied, INLINE, Resolved};
use super::ruling::{Charges, RequestError, Ruled};
use crate::bounds::SHOWN_VALUE;
use crate::decision::Decision;
use crate::key::Name;
use crate::policy::Request;
use crate::reservation::{Claim, Held};
use crate::store::memory::{Culprit, Entry, Joint, Memory, Named, Turn, charge_all, look_all};
use crate::time::Timestamp;

/// Whether a request is charged or only looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Take,
    Look,
}

/// What a request comes to, before it is tied to the policy it was decided under.
#[allow(clippy::large_enum_variant, reason = "the large one is the common one")]
pub(super) enum Answer {
    Listed(Kind),
    Wrong(RequestError),
    Limits { charges: Charges, was_blocked: bool },
}

/// A charge to be decided.
struct Pending<'p, 'a> {
    applied: &'p Applied<'a>,
    named: &'p Arc<Named>,
    joint: Joint<'p>,
}

impl<'p> Pending<'p, '_> {
    fn joint(&self) -> &Joint<'p> {
        &self.joint
    }
}

/// Decides `request`; with a time-out, claims what it took until then.
pub(super) fn decide<'a>(
    in_force: &'a InForce,
    request: &'a Request<'_>,
    mode: Mode,
    timeout: Option<Duration>,
) -> (Answer, Vec<Scaled>) {
    let resolved = Resolved::new(in_force, request);
    if let Some(list) = resolved.list() {
        return (Answer::Listed(list), Vec::new());
    }
    match resolved.rules() {
        Ok(rules) => Deciding { in_force, mode }.limits(&rules, timeout),
        Err((attribute, value)) => {
            let attribute = in_force.compiled.attributes.name(attribute).to_owned();
            let value = value.chars().take(SHOWN_VALUE).collect();
            (Answer::Wrong(RequestError::NotANumber { attribute, value }), Vec::new())
        }
    }
}

struct Deciding<'f> {
    in_force: &'f InForce,
    mode: Mode,
}

impl Deciding<'_> {
    fn memory(&self) -> &Memory {
        &self.in_force.store.0
    }

    fn limits(&self, rules: &[Applied<'_>], timeout: Option<Duration>) -> (Answer, Vec<Scaled>) {
        let mut pending: SmallVec<[Pending<'_, '_>; INLINE]> = SmallVec::new();
        let mut charges = Charges::new();
        let mut was_blocked = false;
        // What only reports comes last, so that what decides is one slice.
        for shadow in [false, true] {
            for applied in rules.iter().filter(|applied| applied.rule.shadow == shadow) {
                let blocked = self.blocked(applied);
                was_blocked |= !shadow && !blocked.is_zero();
                self.pend(applied, blocked, &mut pending, &mut charges);
            }
        }
        let enforced = pending.iter().take_while(|charge| !charge.applied.rule.shadow).count();
        let unlimited = charges.len() - pending.len();
        let (enforcing, reporting) = pending.split_at(enforced);
        let (bars, of_limits) = charges.split_at_mut(unlimited);
        let (decided, reported) = of_limits.split_at_mut(enforced);
        debug_assert!(bars.iter().all(|bar| bar.limit == 0));
        let take = self.mode == Mode::Take && !was_blocked;
        let mut times = self.decide(enforcing, decided, take);
        let allowed = take && decided.iter().all(Ruled::is_allowed);
        for (group, reported) in groups(reporting, reported) {
            let blocked = reported.iter().any(|charge| !charge.blocked.is_zero());
            times.extend(self.decide(group, reported, allowed && !blocked));
        }
        if take {
            self.punish(&pending, of_limits);
        }
        let claims = match timeout {
            Some(timeout) if allowed => self.claim(&pending, of_limits, &times, timeout),
            _ => Vec::new(),
        };
        (Answer::Limits { charges, was_blocked }, claims)
    }

    /// Adds the charges of a rule, and where it has no limit only a block.
    fn pend<'p, 'a>(
        &'p self,
        applied: &'p Applied<'a>,
        blocked: Duration,
        pending: &mut SmallVec<[Pending<'p, 'a>; INLINE]>,
        charges: &mut Charges,
    ) {
        let ruled = |limit| Ruled {
            rule: applied.number,
            limit,
            shadow: applied.rule.shadow,
            blocked,
            decision: Decision::UNLIMITED,
        };
        if applied.terms.is_empty() && !blocked.is_zero() {
            // In front, where no charge belongs to it.
            charges.insert(0, ruled(0));
        }
        for (position, named) in applied.terms.iter().enumerate() {
            let fingerprint = applied.fingerprint(position);
            let entry = Entry { named, fingerprint, key: &applied.key };
            let mut joint = Joint::new(self.memory(), entry);
            joint.cost = applied.price.cost;
            pending.push(Pending { applied, named, joint });
            charges.push(ruled(named.number));
        }
    }

    /// For how long the key of a rule is blocked.
    fn blocked(&self, applied: &Applied<'_>) -> Duration {
        let blocks = &self.memory().blocks;
        if !blocks.may_hold(applied.rule.block.is_some()) {
            return Duration::ZERO;
        }
        let remaining = blocks.remaining(applied.fingerprint(0), self.memory().now());
        remaining.unwrap_or_default()
    }

    /// Decides charges together, and takes all or none of them if `take`; when each was taken.
    fn decide(&self, pending: &[Pending<'_, '_>], charges: &mut [Ruled], take: bool) -> Times {
        if !take {
            let looked = look_all(pending, Pending::joint);
            charges.iter_mut().zip(looked).for_each(|(charge, looked)| charge.decision = looked);
            return pending.iter().map(|_| None).collect();
        }
        let mut turns: SmallVec<[Turn; INLINE]> = SmallVec::from_elem(Turn::OPEN, pending.len());
        charge_all(pending, Pending::joint, &mut turns);
        for (charge, turn) in charges.iter_mut().zip(&turns) {
            charge.decision = turn.decision;
        }
        let all = charges.iter().all(Ruled::is_allowed);
        turns.iter().map(|turn| all.then(|| turn.now())).collect()
    }

    /// Blocks the keys of rules that have just denied and say so.
    fn punish(&self, pending: &[Pending<'_, '_>], charges: &mut [Ruled]) {
        for (group, charges) in groups(pending, charges) {
            let Some(Pending { applied, .. }) = group.first() else { continue };
            let Some(block) = &applied.rule.block else { continue };
            if charges.iter().any(|charge| charge.blocked.is_zero() && charge.is_denied()) {
                let (memory, key) = (self.memory(), &applied.key);
                let fingerprint = applied.fingerprint(0);
                let culprit = Culprit { fingerprint, rule: &applied.rule.name, key };
                let blocked = memory.blocks.punish(&culprit, block, memory.now());
                charges.iter_mut().for_each(|charge| charge.blocked = blocked);
            }
        }
    }

    /// Claims on everything that was taken.
    fn claim(
        &self,
        pending: &[Pending<'_, '_>],
        charges: &[Ruled],
        times: &Times,
        timeout: Duration,
    ) -> Vec<Scaled> {
        let until = self.memory().now().after(timeout);
        let taken = pending.iter().zip(charges).zip(times);
        let claims = taken.filter_map(|((pending, charge), time)| {
            let Pending { applied, named, joint } = pending;
            let held = Held {
                named: Arc::clone(named),
                fingerprint: joint.entry.fingerprint,
                cost: applied.price.cost,
                taken_at: (*time)?,
            };
            debug_assert!(charge.is_allowed());
            let claim = Claim::new(&self.in_force.store, applied.key.name(), held, until);
            Some(Scaled { claim, per_unit: applied.price.per_unit })
        });
        claims.collect()
    }
}

/// When each charge was taken, if it was.
type Times = SmallVec<[Option<Timestamp>; INLINE]>;

/// The charges of each rule, with what became of them.
fn groups<'p, 'a, 'b, 'c>(
    pending: &'p [Pending<'a, 'b>],
    mut charges: &'c mut [Ruled],
) -> impl Iterator<Item = (&'p [Pending<'a, 'b>], &'c mut [Ruled])> {
    let of_rules = pending.chunk_by(|a, b| std::ptr::eq(a.applied, b.applied));
    of_rules.map(move |group| {
        let (of_rule, rest) = std::mem::take(&mut charges).split_at_mut(group.len());
        charges = rest;
        (group, of_rule)
    })
}
