//! Any traffic on any limit, beside the model of the specification.

use std::time::Duration;

use tollgate::{Decision, Limit, Limiter, ManualClock, Outcome, Timestamp, WindowStart};
use tollgate_testkit::{Answer, FuzzInput, KeyModel};

/// Models are slow: what goes wrong at all goes wrong soon.
const MOST_STEPS: usize = 24;

/// A limiter and, for each of its keys, a model; every answer of the one is the other's.
struct Pair {
    limit: Limit,
    limiter: Limiter,
    clock: ManualClock,
    models: Vec<KeyModel>,
    /// What may happen besides checks.
    mode: Mode,
}

/// A state that is as good as new may be forgotten, and with it how late it was: where the clock
/// goes back, nothing is given back or reclaimed.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Rewinds,
    Returns,
}

/// Reads a limit and steps from the bytes.
pub(crate) fn traffic(data: &[u8]) {
    let mut input = FuzzInput::new(data);
    let mode = if input.u8().is_multiple_of(2) { Mode::Rewinds } else { Mode::Returns };
    let Some(limit) = input.limit() else {
        return;
    };
    let clock = ManualClock::at(input.moment());
    if matches!(limit.align(), WindowStart::Calendar(_)) {
        // The model's calendar ends where time does; the first days are before 1970 in the west.
        clock.set(Timestamp::from_secs(946_684_800));
    }
    let limiter = Limiter::builder(limit.clone()).clock(clock.clone()).max_keys(16).build();
    let limiter = limiter.expect("a valid limit builds");
    let keys = if mode == Mode::Rewinds { 1 } else { 3 };
    let models = (0..keys).map(|_| KeyModel::new(&limit)).collect();
    let mut pair = Pair { limit, limiter, clock, models, mode };
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            return;
        }
        pair.step(&mut input);
    }
}

impl Pair {
    fn step(&mut self, input: &mut FuzzInput<'_>) {
        let choice = input.u8();
        let key = usize::from(choice / 16) % self.models.len();
        match choice % 16 {
            0..=3 => self.check(key, input.number()),
            4 => self.check(key, 1),
            5 | 6 => self.advance(input.duration()),
            7 => self.advance_to_the_end_of_the_wait(key, input.u8()),
            8 | 9 if self.mode == Mode::Rewinds => self.rewind(input.duration()),
            8 | 9 => self.refund(key, input.number()),
            10 => self.take_up_to(key, input.number()),
            11 => self.reserve(key, [input.number(), input.number()], input.duration()),
            12 => self.reset(key),
            13 if self.mode == Mode::Returns => self.limiter.store().reclaim(),
            13 | 14 => self.many(key, input.number()),
            _ => self.status(key),
        }
    }

    fn check(&mut self, key: usize, cost: u64) {
        let peeked = self.limiter.peek_n(key, cost);
        assert_eq!(
            Answer::from(peeked),
            self.models[key].peek_n(self.clock.now().as_nanos(), cost),
            "{:?}",
            self.limiter
        );
        let decision = self.limiter.check_n(key, cost);
        assert_eq!(decision.is_allowed(), peeked.is_allowed(), "peek agrees with check");
        self.agrees(key, cost, decision);
    }

    fn agrees(&mut self, key: usize, cost: u64, decision: Decision) {
        let expected = self.models[key].check_n(self.clock.now().as_nanos(), cost);
        assert_eq!(Answer::from(decision), expected, "{:?}", self.limiter);
        self.is_true(key, cost, &decision);
    }

    /// What a decision promises is kept, without asking the model.
    fn is_true(&self, key: usize, cost: u64, decision: &Decision) {
        let left = decision.remaining();
        assert!(left == 0 || self.limiter.peek_n(key, left).is_allowed(), "{decision:?}");
        assert!(!self.limiter.peek_n(key, left.saturating_add(1)).is_allowed() || left == u64::MAX);
        let now = self.clock.now();
        let wait = decision.retry_after().unwrap_or_default();
        let until = now.saturating_add(wait);
        if decision.outcome() == Outcome::Denied && until.saturating_since(now) == wait {
            self.clock.set(Timestamp::from_nanos(until.as_nanos() - 1));
            assert!(!self.limiter.peek_n(key, cost).is_allowed(), "a tick before {decision:?}");
            self.clock.set(until);
            assert!(self.limiter.peek_n(key, cost).is_allowed(), "at the end of {decision:?}");
            self.clock.set(now);
        }
    }

    fn advance(&self, by: Duration) {
        // Some limit of time, since a calendar's model walks through it.
        let calendar = matches!(self.limit.align(), WindowStart::Calendar(_));
        let most = if calendar { Duration::from_secs(400 * 86_400) } else { Duration::MAX };
        self.clock.advance(by.min(most));
    }

    /// To the moment, the one before it or the one after it: where mistakes are.
    fn advance_to_the_end_of_the_wait(&self, key: usize, which: u8) {
        let status = self.limiter.status(key);
        let wait = if which >= 128 { status.reset_after() } else { status.retry_after() };
        let around = Duration::from_nanos(u64::from(which % 3));
        self.advance((wait + around).saturating_sub(Duration::from_nanos(1)));
    }

    fn rewind(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.clock.set(Timestamp::from_nanos(self.clock.now().as_nanos().saturating_sub(by)));
    }

    fn refund(&mut self, key: usize, units: u64) {
        self.limiter.refund(key, units);
        self.models[key].refund(self.clock.now().as_nanos(), units);
    }

    fn take_up_to(&mut self, key: usize, most: u64) {
        let there = self.models[key].peek_n(self.clock.now().as_nanos(), 1).remaining.min(most);
        let taken = self.limiter.check_up_to(key, most);
        assert_eq!(taken.units, there, "{:?}", self.limiter);
        // A denial re-dates the state if the clock was stepped.
        if most > 0 {
            self.agrees(key, there.max(1), taken.decision);
        }
    }

    /// What is settled after some time stands as if only that had been taken, and was when it was
    /// reserved; what has timed out by then is charged anew.
    fn reserve(&mut self, key: usize, [cost, actual]: [u64; 2], held: Duration) {
        let began = self.clock.now();
        let expected = self.models[key].peek_n(began.as_nanos(), cost);
        match self.limiter.reserve_for(key, cost, Duration::from_secs(60)) {
            Err(error) => {
                assert_eq!(Answer::from(*error.decision()), expected);
                self.models[key].check_n(began.as_nanos(), cost);
            }
            Ok(reservation) => {
                let told = reservation.decision();
                assert!(expected.is_allowed(), "{:?}", self.limiter);
                let left = expected.remaining - cost;
                assert_eq!((told.remaining(), told.delay()), (left, expected.delay));
                // Where the clock goes back, nothing is given back.
                let rewinds = self.mode == Mode::Rewinds;
                self.advance(if rewinds { Duration::ZERO } else { held });
                // A debt beyond what any limit allows is cut, and not what is tried here.
                let least = if rewinds { cost } else { 0 };
                let actual = actual.min(self.limit.capacity()).max(least);
                reservation.settle(actual);
                let now = self.clock.now();
                let until = began.saturating_add(Duration::from_secs(60));
                let is_late = now >= until && until < Timestamp::MAX;
                let kept = if is_late { 0 } else { actual.min(cost) };
                for (at, units) in [(began, kept), (now, actual - kept)] {
                    if units > 0 {
                        self.models[key].charge(at.as_nanos(), units);
                    }
                }
            }
        }
    }

    fn reset(&mut self, key: usize) {
        self.limiter.reset(key);
        self.models[key] = KeyModel::new(&self.limit);
    }

    /// A batch is as many checks in its order.
    fn many(&mut self, first: usize, cost: u64) {
        let keys: Vec<_> =
            (0..self.models.len()).map(|n| (first + n) % self.models.len()).collect();
        let charges: Vec<_> = keys.iter().map(|key| (*key, cost)).collect();
        let decisions = self.limiter.check_many_n(&charges);
        for (key, decision) in keys.into_iter().zip(decisions) {
            self.agrees(key, cost, decision);
        }
    }

    fn status(&self, key: usize) {
        let status = self.limiter.status(key);
        let expected = self.models[key].peek_n(self.clock.now().as_nanos(), 1);
        let told = (status.remaining(), Some(status.retry_after()), status.reset_after());
        let due = (expected.remaining, expected.retry_after, expected.reset_after);
        assert_eq!(told, due, "{:?}", self.limiter);
        assert_eq!(status.is_fresh(), expected.reset_after.is_zero());
    }
}

#[test]
fn any_traffic_is_decided_as_the_model_decides_it() {
    tollgate_testkit::fuzz("traffic", 10_000, traffic);
}
