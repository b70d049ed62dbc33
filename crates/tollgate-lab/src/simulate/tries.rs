//! Who asks next: new requests and retries, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate::Timestamp;

use super::nanos;
use crate::traffic::{Arrival, Arrivals, Random, Retry, Roster, Traffic};

/// Somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Try {
    pub(super) at: u64,
    /// In which order those of one moment come: as they were asked for.
    order: u64,
    /// Which traffic it belongs to.
    pub(super) traffic: usize,
    /// Whose it is, among all clients.
    pub(super) client: u32,
    /// When the request first came.
    pub(super) first_at: u64,
    /// How often it was tried, this time counted.
    pub(super) number: u32,
}

/// All tries in order.
pub(super) struct Tries<'a> {
    traffic: &'a [Traffic],
    roster: &'a Roster,
    arrivals: Vec<(Option<Arrival>, Arrivals)>,
    retries: BinaryHeap<Reverse<Try>>,
    given: u64,
    jitter: Random,
}

/// The stream of random numbers that is for jitter; each traffic has two of its own.
const JITTER: u64 = 1 << 32;

impl<'a> Tries<'a> {
    /// `clock` is what time it is at the start.
    pub(super) fn new(
        traffic: &'a [Traffic],
        roster: &'a Roster,
        (seed, clock): (u64, Timestamp),
    ) -> Tries<'a> {
        let arrivals = traffic.iter().zip(0u64..).map(|(traffic, number)| {
            let seed = seed.wrapping_add(number.wrapping_mul(0x9e37));
            let mut arrivals = traffic.arrivals_at(seed, clock.as_nanos());
            (arrivals.next(), arrivals)
        });
        Tries {
            traffic,
            roster,
            arrivals: arrivals.collect(),
            retries: BinaryHeap::new(),
            given: 0,
            jitter: Random::new(seed, JITTER),
        }
    }

    /// When the next is due.
    pub(super) fn due(&self) -> Option<u64> {
        let retry = self.retries.peek().map(|Reverse(retry)| retry.at);
        self.earliest().map(|(at, _)| at).into_iter().chain(retry).min()
    }

    /// The next new request: when, and of which traffic.
    fn earliest(&self) -> Option<(u64, usize)> {
        let due = self.arrivals.iter().enumerate();
        due.filter_map(|(traffic, (next, _))| Some((next.as_ref()?.at_nanos, traffic))).min()
    }

    pub(super) fn next(&mut self) -> Option<Try> {
        match (self.earliest(), self.retries.peek()) {
            // Who waited longer goes first.
            (Some((at, _)), Some(Reverse(retry))) if retry.at <= at => self.pop(),
            (Some((_, traffic)), _) => self.arrival(traffic),
            (None, _) => self.pop(),
        }
    }

    fn pop(&mut self) -> Option<Try> {
        self.retries.pop().map(|Reverse(retry)| retry)
    }

    fn arrival(&mut self, traffic: usize) -> Option<Try> {
        let (next, arrivals) = &mut self.arrivals[traffic];
        let arrival = next.take()?;
        *next = arrivals.next();
        Some(Try {
            at: arrival.at_nanos,
            order: 0,
            traffic,
            client: self.roster.number(traffic, arrival.client),
            first_at: arrival.at_nanos,
            number: 1,
        })
    }

    /// Has who was refused come again, as its traffic says; not when that is over. `told` is when
    /// it heard of the refusal, `retry_after` what it heard.
    pub(super) fn refuse(&mut self, refused: Try, (told, retry_after): (u64, Option<u64>)) -> bool {
        let traffic = &self.traffic[refused.traffic];
        let wait = match traffic.retry {
            Retry::Never => None,
            Retry::After { jitter } => {
                let late = self.jitter.below(nanos(jitter).saturating_add(1));
                retry_after.map(|wait| wait.saturating_add(late))
            }
            Retry::Every(wait) => Some(nanos(wait)),
            Retry::Backoff(first) => {
                Some(nanos(first).saturating_mul(1 << (refused.number - 1).min(6)))
            }
        };
        let Some(wait) = wait.filter(|_| refused.number < traffic.tries) else { return false };
        // Never at the same moment: time must pass.
        let at = told.saturating_add(wait.max(1));
        if at >= nanos(traffic.end()) {
            return false;
        }
        self.given += 1;
        let number = refused.number + 1;
        self.retries.push(Reverse(Try { at, order: self.given, number, ..refused }));
        true
    }
}
