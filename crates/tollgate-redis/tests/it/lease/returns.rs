//! What a return does in Redis is what it does on a state at hand, to the microsecond.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate::port::{Grant, LeaseTerms, ScriptPlan, ScriptState, Wallet};
use tollgate::{Algorithm, KeyStatus, Limit, ManualClock};
use tollgate_redis::RedisLimiter;
use tollgate_testkit::any_limits;

use crate::common::{MICRO, store, unique, wait};

const KEY: &str = "the key";
const LIVES: usize = 300;

/// Waits and units are in thousandths of what the limit has.
#[derive(Clone, Debug)]
enum Step {
    /// Somebody takes so much.
    Take(u64),
    /// A node borrows so much, and spends so many thousandths of it.
    Borrow(u64, u64),
    /// One of the nodes that borrowed gives back what it has left.
    Return(usize),
    Reset,
}

type Life = (Limit, Vec<(u64, Step)>);

fn lives() -> impl Strategy<Value = Life> {
    let limits = any_limits(MICRO)
        .prop_filter("never leased", |limit| limit.algorithm() != Algorithm::LeakyQueue);
    let step = prop_oneof![
        6 => (0..500_u64).prop_map(Step::Take),
        6 => (0..500_u64, 0..=1000_u64).prop_map(|(units, spent)| Step::Borrow(units, spent)),
        8 => (0..8_usize).prop_map(Step::Return),
        1 => Just(Step::Reset),
    ];
    let wait = prop_oneof![Just(0), 0..300_u64, 0..1200_u64];
    (limits, prop::collection::vec((wait, step), 1..16))
}

/// The part of `whole` that so many thousandths are.
fn part(thousandths: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(thousandths) * u128::from(whole) / 1000).unwrap()
}

/// A status as plain numbers, in whole microseconds.
fn figures(status: &KeyStatus) -> (u64, u64, Duration, Duration) {
    (status.limit(), status.used(), status.retry_after(), status.reset_after())
}

struct Key {
    clock: ManualClock,
    redis: RedisLimiter,
    ported: ScriptPlan,
    terms: LeaseTerms,
    state: ScriptState,
    lent: Vec<Wallet>,
}

impl Key {
    fn new(limit: &Limit) -> Option<Key> {
        let clock = ManualClock::new();
        let ported = ScriptPlan::new(limit).ok()?;
        let long = LeaseTerms::new(&ported, Duration::from_secs(1 << 30), 100);
        let terms = long.or_else(|_| LeaseTerms::new(&ported, limit.period() / 2, 100)).ok()?;
        let redis = store().with_test_clock(clock.clone());
        let redis = redis.limiter(&unique("returns"), limit.clone()).ok()?;
        Some(Key { clock, redis, ported, terms, state: ScriptState::New, lent: Vec::new() })
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos() / 1000
    }

    /// Takes units in both; the state that was met, if they were there.
    async fn take(&mut self, units: u64) -> Option<ScriptState> {
        let (met, now) = (self.state.clone(), self.now());
        let decision = self.redis.check_n(KEY, units).await.unwrap();
        assert_eq!(decision.is_allowed(), self.ported.decide(&met, now, units).is_allowed());
        decision.is_allowed().then(|| self.state = self.ported.take(&met, now, units))?;
        Some(met)
    }

    async fn borrow(&mut self, units: u64, spent: u64) {
        let (sent, at) = (self.clock.now(), self.now());
        let Some(met) = self.take(units).await else { return };
        let mut purse = Wallet::default();
        let _ = purse.add(&self.terms, Grant { sent, at, met, units }, sent);
        if spent > 0 {
            let _ = purse.spend(&self.terms, spent, sent);
        }
        self.lent.push(purse);
    }

    async fn give_back(&mut self, number: usize) {
        if self.lent.is_empty() {
            return;
        }
        let mut purse = self.lent.remove(number % self.lent.len());
        for back in purse.empty(&self.terms, self.clock.now()) {
            self.redis.give_back_lent(KEY, back).await.unwrap();
            self.state = self.ported.give_back(&self.state, self.now(), back);
        }
    }
}

async fn live((limit, steps): Life) -> usize {
    let Some(mut key) = Key::new(&limit) else { return 0 };
    let most = key.ported.capacity().min(1 << 40);
    let refill = limit.period().as_micros() * u128::from(most) / u128::from(limit.count());
    let span = u64::try_from(refill.max(limit.period().as_micros())).unwrap().min(1 << 40);
    let mut returns = 0;
    for (number, (wait, step)) in steps.iter().enumerate() {
        key.clock.advance(Duration::from_micros(part(*wait, span)));
        match step {
            Step::Take(units) => drop(key.take(part(*units, most).max(1)).await),
            Step::Borrow(units, spent) => {
                let units = part(*units, most).max(1);
                key.borrow(units, part(*spent, units)).await;
            }
            Step::Return(of) => {
                returns += usize::from(!key.lent.is_empty());
                key.give_back(*of).await;
            }
            Step::Reset => {
                key.redis.reset(KEY).await.unwrap();
                key.state = ScriptState::New;
            }
        }
        let redis = figures(&key.redis.status(KEY).await.unwrap());
        let at_hand = figures(&key.ported.status(&key.state, key.now()));
        assert_eq!(redis, at_hand, "step {number} of {limit}: {steps:#?}");
    }
    returns
}

#[test]
fn a_return_does_in_redis_what_it_does_on_a_state_at_hand() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let lives: Vec<Life> =
        (0..LIVES).map(|_| lives().new_tree(&mut runner).unwrap().current()).collect();
    store();
    let returns = wait(async {
        let mut returns = 0;
        for some in lives.chunks(32) {
            let tasks: Vec<_> = some.iter().cloned().map(|life| tokio::spawn(live(life))).collect();
            for task in tasks {
                returns += task.await.unwrap();
            }
        }
        returns
    });
    assert!(returns > LIVES, "{returns} returns");
}
