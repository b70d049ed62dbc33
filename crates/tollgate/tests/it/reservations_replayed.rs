//! Reservations beside a slow model that replays a key's history without what was given back.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Limit, Limiter, ManualClock, Reservation, check_all};
use tollgate_testkit::{KeyModel, cases, manual};

const SECOND: Duration = Duration::from_secs(1);

/// What was taken, and by which reservation if it is still open.
#[derive(Clone, Copy, Debug)]
struct Event {
    at: u64,
    units: u64,
    ticket: Option<usize>,
    /// Whether the key was made new since.
    forgiven: bool,
}

/// One thing done to the key; reservations are named by their place among all that were made.
#[derive(Clone, Copy, Debug)]
enum Act {
    Pass(Duration),
    Check(u64),
    CheckBoth(u64),
    /// Together with another limiter's.
    CheckBeside(u64),
    Reserve(u64),
    Lose(u64),
    Raise(usize, u64),
    Settle(usize, u64),
    Drop(usize),
    Reset,
}

/// A limiter of one key beside its history: at every moment the key must stand as the slow model
/// does after all of the history without what was given back.
struct Run {
    limiter: Limiter,
    /// Another of the same store, which allows everything.
    beside: Limiter,
    clock: ManualClock,
    history: Vec<Event>,
    made: Vec<Option<Reservation>>,
    /// Of each reservation when it times out, if it is open.
    until: Vec<Option<u64>>,
}

const TIMEOUT: Duration = Duration::from_secs(5);

impl Run {
    fn new(limit: Limit) -> Run {
        let (limiter, clock) = manual(limit);
        let generous = Limit::per_hour(10).burst(1_000_000);
        let beside = limiter.store().limiter("beside", generous).expect("the limit is possible");
        Run { limiter, beside, clock, history: Vec::new(), made: Vec::new(), until: Vec::new() }
    }

    fn model(&self) -> KeyModel {
        let mut model = KeyModel::new(self.limiter.limit());
        for Event { at, units, .. } in self.history.iter().filter(|event| !event.forgiven) {
            model.charge(*at, *units);
        }
        model
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn take(&mut self, units: u64, ticket: Option<usize>) {
        self.history.push(Event { at: self.now(), units, ticket, forgiven: false });
    }

    /// Forgets the reservation's latest units but for `keep` of them; false if it was not open.
    fn end(&mut self, ticket: usize, keep: u64) -> bool {
        if self.until[ticket].take().is_none() {
            return false;
        }
        let own = |event: &&mut Event| event.ticket == Some(ticket);
        let mut left = keep;
        for event in self.history.iter_mut().filter(own) {
            event.units = event.units.min(left);
            left -= event.units;
        }
        self.history.retain(|event| event.units > 0);
        true
    }

    fn expire(&mut self) {
        let now = self.now();
        for ticket in 0..self.until.len() {
            if self.until[ticket].is_some_and(|until| until <= now) {
                self.end(ticket, 0);
            }
        }
    }

    fn reserve(&mut self, units: u64) {
        let made = self.limiter.reserve_for("ana", units, TIMEOUT);
        assert_eq!(made.is_ok(), self.model().peek_n(self.now(), units).is_allowed());
        if let Ok(reservation) = made {
            self.take(units, Some(self.made.len()));
            self.made.push(Some(reservation));
            self.until.push(Some(self.clock.now().saturating_add(TIMEOUT).as_nanos()));
        }
    }

    fn raise(&mut self, ticket: usize, units: u64) {
        let Some(reservation) = &mut self.made[ticket] else { return };
        let before = reservation.cost();
        reservation.raise_to(units);
        if units > before {
            let more = if self.until[ticket].is_some() { units - before } else { units };
            let minute = self.clock.now().saturating_add(Duration::from_secs(60)).as_nanos();
            self.until[ticket].get_or_insert(minute);
            self.take(more, Some(ticket));
        }
    }

    fn settle(&mut self, ticket: usize, actual: u64) {
        let Some(reservation) = self.made[ticket].take() else { return };
        let cost = reservation.cost();
        reservation.settle(actual);
        let taken = if self.end(ticket, actual) { cost.min(actual) } else { 0 };
        if actual > taken {
            self.take(actual - taken, None);
        }
    }

    fn apply(&mut self, act: Act) {
        let pick = |number: usize| number % self.made.len().max(1);
        match act {
            Act::Pass(time) => self.clock.advance(time),
            Act::Check(units) => {
                if self.limiter.check_n("ana", units).is_allowed() {
                    self.take(units, None);
                }
            }
            Act::CheckBoth(units) => {
                let charges = [self.limiter.charge("ana").cost(units), self.limiter.charge("ben")];
                if check_all(&charges).is_allowed() {
                    self.take(units, None);
                }
                self.limiter.reset("ben");
            }
            Act::CheckBeside(units) => {
                let key = "ana";
                let charges = [self.limiter.charge(key).cost(units), self.beside.charge(key)];
                if check_all(&charges).is_allowed() {
                    self.take(units, None);
                }
            }
            Act::Reserve(units) => self.reserve(units),
            Act::Lose(units) => {
                self.reserve(units);
                std::mem::forget(self.made.last_mut().and_then(Option::take));
            }
            _ if self.made.is_empty() => {}
            Act::Raise(number, units) => self.raise(pick(number), units),
            Act::Settle(number, actual) => self.settle(pick(number), actual),
            Act::Drop(number) => {
                let number = pick(number);
                if self.made[number].take().is_some() {
                    self.end(number, 0);
                }
            }
            Act::Reset => {
                self.limiter.reset("ana");
                self.history.iter_mut().for_each(|event| event.forgiven = true);
            }
        }
        self.expire();
    }

    fn agrees(&self) -> Result<(), TestCaseError> {
        let model = self.model();
        for cost in [1, 3, 10] {
            let told = model.peek_n(self.now(), cost);
            let decision = self.limiter.peek_n("ana", cost);
            prop_assert_eq!(decision.outcome(), told.outcome);
            prop_assert_eq!(decision.remaining(), told.remaining);
            prop_assert_eq!(decision.retry_after(), told.retry_after);
            prop_assert_eq!(decision.reset_after(), told.reset_after);
        }
        Ok(())
    }
}

fn act() -> impl Strategy<Value = Act> {
    let units = || 1_u64..7;
    prop_oneof![
        6 => (0_u64..900).prop_map(|millis| Act::Pass(Duration::from_millis(millis))),
        1 => (0_u64..5_000_000_000).prop_map(|nanos| Act::Pass(Duration::from_nanos(nanos))),
        5 => units().prop_map(Act::Check),
        2 => units().prop_map(Act::CheckBoth),
        4 => units().prop_map(Act::CheckBeside),
        4 => units().prop_map(Act::Reserve),
        1 => units().prop_map(Act::Lose),
        2 => (any::<usize>(), 1_u64..12).prop_map(|(number, units)| Act::Raise(number, units)),
        3 => (any::<usize>(), 0_u64..9).prop_map(|(number, units)| Act::Settle(number, units)),
        3 => any::<usize>().prop_map(Act::Drop),
        1 => Just(Act::Reset),
    ]
}

fn limit() -> impl Strategy<Value = Limit> {
    let window = Duration::from_secs(3);
    prop_oneof![
        3 => (1_u64..20, 10_u64..20).prop_map(|(rate, burst)| Limit::per_second(rate).burst(burst)),
        2 => (1_u64..20).prop_map(|rate| Limit::leaky_bucket(rate, SECOND).burst(10)),
        1 => Just(Limit::fixed_window(10, window)),
        1 => Just(Limit::sliding_log(10, window)),
        1 => Just(Limit::sliding_counter(10, window)),
    ]
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn what_is_given_back_was_never_taken(
        limit in limit(),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        let mut run = Run::new(limit);
        for act in acts {
            run.apply(act);
            run.agrees()?;
        }
    }
}
