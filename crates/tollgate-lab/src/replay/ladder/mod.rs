//! Suggested limits: what every round number around a limit would have refused, all in one pass.
//!
//! Each limit of the policy is taken alone: every request its rule applies to is offered to it,
//! whatever other rules say, and nobody is blocked.

mod keys;
mod lanes;
mod log;
mod rungs;

use std::collections::HashMap;

use tollgate::{Algorithm, Limit};

use super::bounds::{LADDER_BYTES, LADDERS};
use keys::Keys;
use lanes::{Kind, Lanes, ZERO};
use log::Logs;
use rungs::{RUNGS, rungs};

/// The ladders of all limits.
#[derive(Default)]
pub(super) struct Ladders {
    /// By the limit's number.
    by_limit: HashMap<u32, Option<usize>>,
    /// The limit that was asked for last, and its ladder: one after the other is of the same.
    last: Option<(u32, usize)>,
    ladders: Vec<Ladder>,
    left_out: Vec<LeftOut>,
    most_bytes: usize,
}

/// A limit that gets no ladder.
pub(super) struct LeftOut {
    pub(super) rule: usize,
    pub(super) limit: Limit,
    pub(super) why: &'static str,
}

/// A limit, its rungs, and what each of them has refused.
pub(super) struct Ladder {
    pub(super) rule: usize,
    pub(super) limit: Limit,
    pub(super) rungs: Vec<Limit>,
    seen: Seen,
    totals: Vec<Totals>,
    /// Keys with fewer zeros at the end of their hash are not looked at any more.
    level: u32,
    most_bytes: usize,
    /// Requests that are offered together: that of one key need not wait until another's is found
    /// in memory, which takes longer than all the rest.
    waiting: Vec<Offer>,
}

/// How many requests are offered together.
const TOGETHER: usize = 64;

/// What was offered and refused of the keys of one level.
#[derive(Clone, Copy)]
struct Totals {
    offered: u64,
    refused: Lanes,
}

/// What keys have used.
enum Seen {
    Keys(Box<Keys>),
    Logs(Box<Logs>),
    /// Too much would have to be kept.
    GivenUp,
}

const LEVELS: usize = 24;

/// The totals a key belongs to.
fn level(hash: u64) -> usize {
    (hash.trailing_zeros() as usize).min(LEVELS - 1)
}

impl Ladders {
    /// Ladders for a policy with so many limits.
    pub(super) fn new(limits: usize) -> Ladders {
        let ladders = limits.clamp(1, LADDERS);
        Ladders { most_bytes: LADDER_BYTES / ladders, ..Ladders::default() }
    }

    /// Offers a request to a limit.
    #[inline]
    pub(super) fn offer(&mut self, rule: usize, (number, limit): (u32, &Limit), offer: Offer) {
        let at = match self.last {
            Some((last, at)) if last == number => at,
            _ => match self.find(rule, number, limit) {
                Some(at) => at,
                None => return,
            },
        };
        self.last = Some((number, at));
        self.ladders[at].offer(offer);
    }

    fn find(&mut self, rule: usize, number: u32, limit: &Limit) -> Option<usize> {
        let (ladders, most_bytes) = (&mut self.ladders, self.most_bytes);
        let left_out = &mut self.left_out;
        *self.by_limit.entry(number).or_insert_with(|| {
            let why = if ladders.len() >= LADDERS {
                "too many limits come before it"
            } else if let Some(ladder) = Ladder::new(rule, limit, most_bytes) {
                ladders.push(ladder);
                return Some(ladders.len() - 1);
            } else {
                "its numbers are too large, or its period too fine"
            };
            left_out.push(LeftOut { rule, limit: limit.clone(), why });
            None
        })
    }

    /// The ladders, and the limits that have none.
    pub(super) fn into_ladders(self) -> (Vec<Ladder>, Vec<LeftOut>) {
        (self.ladders.into_iter().map(Ladder::finish).collect(), self.left_out)
    }
}

/// A request as a limit sees it.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    /// The hash of its key.
    pub(super) hash: u64,
    /// Microseconds; never less than before.
    pub(super) now: u64,
    pub(super) cost: u64,
}

impl Ladder {
    pub(super) fn new(rule: usize, limit: &Limit, most_bytes: usize) -> Option<Ladder> {
        let mut rungs = rungs(limit);
        let seen = if limit.algorithm() == Algorithm::SlidingLog {
            Seen::Logs(Box::new(Logs::new(&rungs)?))
        } else {
            rungs.retain(Kind::fits);
            let harmless = rungs.iter().map(Limit::capacity).min()?;
            Seen::Keys(Box::new(Keys::new(Kind::new(&rungs)?, harmless)))
        };
        if !rungs.contains(limit) {
            return None;
        }
        let totals = vec![Totals { offered: 0, refused: ZERO }; LEVELS];
        let limit = limit.clone();
        let waiting = Vec::with_capacity(TOGETHER);
        Some(Ladder { rule, limit, rungs, seen, totals, level: 0, most_bytes, waiting })
    }

    #[inline]
    pub(super) fn offer(&mut self, offer: Offer) {
        self.waiting.push(offer);
        if self.waiting.len() == TOGETHER {
            self.offer_waiting();
        }
    }

    fn offer_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if let Seen::Keys(keys) = &self.seen {
            keys.bring_near(waiting.iter().map(|offer| offer.hash));
        }
        waiting.drain(..).for_each(|offer| self.offer_one(&offer));
        self.waiting = waiting;
    }

    #[inline]
    fn offer_one(&mut self, offer: &Offer) {
        if offer.hash.trailing_zeros() < self.level {
            return;
        }
        let totals = &mut self.totals[level(offer.hash)];
        totals.offered += 1;
        if offer.cost == 0 {
            // A cost of 0 is allowed by every limit, and starts no window.
            return;
        }
        let size = match &mut self.seen {
            Seen::Keys(keys) => {
                keys.charge(offer.hash, offer.now, offer.cost, &mut totals.refused);
                keys.size()
            }
            Seen::Logs(logs) => {
                logs.charge(offer.hash, offer.now, offer.cost, &mut totals.refused);
                logs.size()
            }
            Seen::GivenUp => 0,
        };
        if size > self.most_bytes {
            self.make_room(offer.now);
        }
    }

    /// Drops keys that are as good as new, which changes nothing; where that is not enough, looks
    /// from now on at half of the keys only.
    #[cold]
    fn make_room(&mut self, now: u64) {
        while self.forget(now) > self.most_bytes / 2 {
            self.level += 1;
            if self.level as usize >= LEVELS {
                self.seen = Seen::GivenUp;
            }
        }
    }

    /// Drops what need not be kept; how much memory the rest takes.
    fn forget(&mut self, now: u64) -> usize {
        let (least, totals) = (self.level, &mut self.totals);
        let is_seen = |hash: u64| hash.trailing_zeros() >= least;
        match &mut self.seen {
            Seen::Keys(keys) => {
                keys.forget(now, is_seen, |hash, add| add(&mut totals[level(hash)].refused));
                keys.size()
            }
            Seen::Logs(logs) => {
                logs.forget_keys(now, is_seen);
                logs.size()
            }
            Seen::GivenUp => 0,
        }
    }

    /// Counts what was put off.
    fn finish(mut self) -> Ladder {
        self.offer_waiting();
        self.forget(u64::MAX);
        self
    }

    /// Of how many keys one was looked at to the end; `None` where all were given up.
    pub(super) fn one_in(&self) -> Option<u64> {
        (!matches!(self.seen, Seen::GivenUp)).then(|| 1 << self.level)
    }

    /// How many requests were offered by the keys that were looked at to the end, and how many of
    /// them each rung refused.
    pub(super) fn refused(&self) -> (u64, Vec<u64>) {
        let (mut offered, mut refused) = (0, vec![0; self.rungs.len()]);
        for totals in self.totals.iter().skip(self.level as usize) {
            offered += totals.offered;
            refused.iter_mut().zip(&totals.refused).for_each(|(sum, of)| *sum += of);
        }
        (offered, refused)
    }

    /// The smallest rung that refuses at most `share` of a thousand requests, as all larger do.
    pub(super) fn smallest(&self, share: u64) -> Option<(&Limit, u64)> {
        let (offered, refused) = self.refused();
        let most = u128::from(offered) * u128::from(share) / 1000;
        let too_strict = refused.iter().rposition(|refused| u128::from(*refused) > most);
        let at = too_strict.map_or(0, |at| at + 1);
        Some((self.rungs.get(at)?, refused[at]))
    }
}

const _: () = assert!(RUNGS <= 64, "a log has a bit for each rung");

#[cfg(test)]
mod tests;
