//! Counting what happens.

use std::collections::HashMap;

use super::busiest::{on_the_clock, sliding};
use super::door::Answer;
use super::nanos;
use super::result::{Busiest, ClientFigures, RuleRefusals, Slot, Waits};
use super::tries::Try;
use crate::traffic::Roster;

/// How many parts the time is cut into at most.
const SLOTS: u64 = 120;

/// How many clients are told by name.
const TOLD: usize = 10;

/// What has happened so far.
pub(super) struct Tally {
    pub(super) offered: u64,
    pub(super) tries: u64,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    pub(super) delayed: u64,
    pub(super) degraded: u64,
    pub(super) unlimited: u64,
    pub(super) slots: Vec<Slot>,
    slot_length: u64,
    clients: Vec<Counts>,
    refused_by: HashMap<String, u64>,
    /// Who went ahead, when, and of how many units.
    ahead: Vec<(u32, u64, u64)>,
    waits: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    offered: u64,
    admitted: u64,
    refused: u64,
}

/// How long a slot is: a round part of the whole that makes at most [`SLOTS`] of it.
pub(super) fn slot_length(length: u64) -> u64 {
    let least = length.div_ceil(SLOTS).max(1);
    let steps = (0..19u32).flat_map(|power| [1, 2, 5].map(|times| times * 10u64.pow(power)));
    let minutes =
        [1u64, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map(|m| m * 60_000_000_000);
    // Time is counted in tens below a minute, and in sixties above.
    let round: Vec<u64> =
        steps.filter(|step| *step < minutes[0] || *step > minutes[11]).chain(minutes).collect();
    round.into_iter().filter(|step| *step >= least).min().unwrap_or(least)
}

impl Tally {
    pub(super) fn new(length: u64, clients: usize) -> Tally {
        let slot_length = slot_length(length);
        let slots = usize::try_from(length.div_ceil(slot_length)).unwrap_or(1).max(1);
        Tally {
            offered: 0,
            tries: 0,
            admitted: 0,
            refused: 0,
            delayed: 0,
            degraded: 0,
            unlimited: 0,
            slots: vec![Slot::default(); slots],
            slot_length,
            clients: vec![Counts::default(); clients],
            refused_by: HashMap::new(),
            ahead: Vec::new(),
            waits: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, asked: &Try, cost: u64, answer: &Answer) {
        let number = self.slot_of(asked.at);
        let is_first = u64::from(asked.number == 1);
        let client = &mut self.clients[asked.client as usize];
        let slot = &mut self.slots[number];
        self.tries += 1;
        self.offered += is_first;
        client.offered += is_first;
        slot.offered += is_first;
        self.unlimited += u64::from(!answer.is_limited());
        self.degraded += u64::from(answer.ruling.is_degraded());
        if !answer.is_allowed() {
            self.refused += 1;
            client.refused += 1;
            slot.refused += 1;
            self.count_rule(answer.ruling.decided_by_name().unwrap_or("the request itself"));
            return;
        }
        self.admitted += 1;
        client.admitted += 1;
        slot.admitted += 1;
        self.delayed += u64::from(!answer.ruling.delay().is_zero());
        slot.degraded += u64::from(answer.ruling.is_degraded());
        let ahead = asked.at.saturating_add(nanos(answer.wait()));
        if let Some(slot) = self.slot_at(ahead) {
            slot.went_ahead += 1;
        }
        self.ahead.push((asked.client, ahead, cost));
        self.waits.push(ahead - asked.first_at);
    }

    fn count_rule(&mut self, rule: &str) {
        match self.refused_by.get_mut(rule) {
            Some(refused) => *refused += 1,
            None => drop(self.refused_by.insert(rule.to_owned(), 1)),
        }
    }

    pub(super) fn slot_of(&self, at: u64) -> usize {
        let number = usize::try_from(at / self.slot_length).unwrap_or(usize::MAX);
        number.min(self.slots.len() - 1)
    }

    fn slot_at(&mut self, at: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(at / self.slot_length).ok()?)
    }

    /// Where a slot ends.
    pub(super) fn end_of(&self, slot: usize) -> u64 {
        self.slot_length.saturating_mul(slot as u64 + 1)
    }

    /// When the last that was admitted went ahead.
    pub(super) fn last(&self) -> Option<u64> {
        self.ahead.iter().map(|(_, at, _)| *at).max()
    }

    pub(super) fn waits(&mut self) -> Waits {
        self.waits.sort_unstable();
        let waits = &self.waits;
        let of_hundred = |share: usize| {
            let rank = (waits.len() * share).div_ceil(100).max(1);
            waits.get(rank - 1).copied().unwrap_or(0)
        };
        let nobody = of_hundred(100) == 0;
        Waits {
            median_nanos: of_hundred(50),
            p90_nanos: of_hundred(90),
            p99_nanos: of_hundred(99),
            longest_nanos: of_hundred(100),
            by_percent_nanos: if nobody { vec![] } else { (0..=100).map(of_hundred).collect() },
        }
    }

    /// The busiest windows: of one client, of all together, and of the wall clock.
    pub(super) fn busiest(&mut self, window: u64, start: u64) -> [Busiest; 3] {
        self.ahead.sort_unstable();
        let of_clients = self.ahead.chunk_by(|a, b| a.0 == b.0).map(|events| {
            let events: Vec<(u64, u64)> = events.iter().map(|(_, at, cost)| (*at, *cost)).collect();
            sliding(&events, window)
        });
        let of_client = of_clients.fold(Busiest::default(), |most, of_client| {
            if of_client.units > most.units { of_client } else { most }
        });
        let mut all: Vec<(u64, u64)> =
            self.ahead.iter().map(|(_, at, cost)| (*at, *cost)).collect();
        all.sort_unstable();
        [of_client, sliding(&all, window), on_the_clock(&all, window, start)]
    }

    /// Tells each slot the most that went ahead in a window that ends in it.
    pub(super) fn follow_window(&mut self, window: u64, watched: Option<u32>) {
        let whose = |client: u32| watched.is_none_or(|watched| watched == client);
        let events = self.ahead.iter().filter(|(client, ..)| whose(*client));
        let mut events: Vec<(u64, u64)> = events.map(|(_, at, cost)| (*at, *cost)).collect();
        events.sort_unstable();
        let (mut units, mut first, mut next) = (0u64, 0, 0);
        for number in 0..self.slots.len() {
            let (begin, end) = (self.slot_length * number as u64, self.end_of(number));
            let mut drop_until = |at: u64, units: &mut u64| {
                while first < events.len() && events[first].0.saturating_add(window) <= at {
                    *units = units.saturating_sub(events[first].1);
                    first += 1;
                }
            };
            drop_until(begin, &mut units);
            let mut most = units;
            while let Some((at, cost)) = events.get(next).filter(|(at, _)| *at < end) {
                units = units.saturating_add(*cost);
                next += 1;
                drop_until(*at, &mut units);
                most = most.max(units);
            }
            self.slots[number].in_window = most;
        }
    }

    pub(super) fn hit_hardest(&self, roster: &Roster) -> Vec<ClientFigures> {
        let mut order: Vec<(u32, Counts)> = (0u32..).zip(self.clients.iter().copied()).collect();
        order.retain(|(_, counts)| counts.offered > 0);
        order.sort_by_key(|(number, counts)| {
            (std::cmp::Reverse((counts.refused, counts.offered)), *number)
        });
        let told = order.into_iter().take(TOLD);
        told.map(|(number, counts)| ClientFigures {
            name: roster.name(number),
            offered: counts.offered,
            admitted: counts.admitted,
            refused: counts.refused,
        })
        .collect()
    }

    /// Jain's index over those who asked.
    #[allow(clippy::float_arithmetic, reason = "it is told, and decides nothing")]
    pub(super) fn fairness(&self) -> f64 {
        let admitted = || {
            let asked = self.clients.iter().filter(|counts| counts.offered > 0);
            asked.map(|counts| counts.admitted as f64)
        };
        let (sum, squares) = (admitted().sum::<f64>(), admitted().map(|x| x * x).sum::<f64>());
        if squares == 0.0 { 1.0 } else { sum * sum / (admitted().count() as f64 * squares) }
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.iter().filter(|counts| counts.offered > 0).count()
    }

    pub(super) fn refused_by(&self) -> Vec<RuleRefusals> {
        let rules = self.refused_by.iter();
        let mut rules: Vec<RuleRefusals> = rules
            .map(|(rule, refused)| RuleRefusals { rule: rule.clone(), refused: *refused })
            .collect();
        rules.sort_by(|a, b| b.refused.cmp(&a.refused).then_with(|| a.rule.cmp(&b.rule)));
        rules
    }
}
