use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_testkit::cases;

use super::super::charge::{ChargeMode, Transaction, charge_few};
use super::super::observed::{ChargeOutcome, ChargeRecord};
use super::super::pending_charge::PendingCharge;
use super::super::{KeyEntry, MemoryStore};
use super::*;
use crate::key::LimitKeyHasher;
use crate::limit::Limit;
use crate::time::ManualClock;

const LIMITERS: [&str; 3] = ["a", "b", "c"];
const SECOND: Duration = Duration::from_secs(1);

/// A store and the limit of each limiter. Limiters keep their keys when their limits change.
struct Fixture {
    clock: ManualClock,
    store: MemoryStore,
    limits: [Arc<RegisteredLimit>; 3],
    fingerprints: [LimitKeyHasher; 3],
}

/// A charge: the number of a limiter, a key and a cost.
type TestCharge = (usize, u8, u64);

#[derive(Clone, Debug)]
enum Action {
    Charge(Vec<TestCharge>),
    ChangeLimit(usize, Limit),
    Reserve(TestCharge, Duration),
    /// Moves the clock, forwards or back.
    MoveClock(i64),
}

/// The outcome of charges: what was taken, and the decision of each.
type Outcome = (ChargeOutcome, Vec<String>);

impl Fixture {
    fn new() -> Fixture {
        let [fixture, _] = Fixture::two(10_000);
        fixture
    }

    /// Two stores with one seed, so that both reclaim the same fresh states: when the clock moves back, a
    /// state that was fresh is no longer.
    fn two(max_keys: usize) -> [Fixture; 2] {
        let mut empty = Vec::new();
        let store = MemoryStore::builder().max_keys(max_keys).build().expect("it is valid");
        store.snapshot(&mut empty).expect("a list of bytes takes all");
        [(); 2].map(|()| {
            let clock = ManualClock::at(Timestamp::from_secs(1_000_000));
            let builder = MemoryStore::builder().clock(clock.clone()).max_keys(max_keys);
            let store = builder.restore(&empty[..]).expect("it was just written");
            let limit = Limit::token_bucket(5, 10 * SECOND);
            let limits = LIMITERS.map(|name| store.0.register(name, &limit).expect("it is valid"));
            let fingerprints = LIMITERS.map(|name| LimitKeyHasher::new(&store.0.hashes, name));
            Fixture { clock, store, limits, fingerprints }
        })
    }

    fn pending(&self, charges: &[TestCharge]) -> Vec<PendingCharge<'_>> {
        let pending = |(limiter, key, cost): &TestCharge| {
            let fingerprint = self.fingerprints[*limiter].of(key);
            let entry = KeyEntry { named: &self.limits[*limiter], fingerprint, key: &"" };
            PendingCharge::new(&self.store.0, entry, *cost)
        };
        charges.iter().map(pending).collect()
    }

    /// Charges on the fast path. `None` if it cannot take the charges.
    fn charge_known(&self, charges: &[TestCharge]) -> Option<Outcome> {
        match charges {
            [a] => self.charge_exactly(&[*a]),
            [a, b] => self.charge_exactly(&[*a, *b]),
            [a, b, c] => self.charge_exactly(&[*a, *b, *c]),
            _ => None,
        }
    }

    fn charge_exactly<const N: usize>(&self, charges: &[TestCharge; N]) -> Option<Outcome> {
        let (pending, mut records) = (self.pending(charges), Vec::new());
        let keys = std::array::from_fn::<_, N, _>(|number| pending[number].known());
        let charged = charge_few(keys, &mut records)?;
        Some(outcome(charged, &records))
    }

    fn charge_generally(&self, charges: &[TestCharge]) -> Outcome {
        let pending = self.pending(charges).into_iter().collect();
        let done = Transaction::run(pending, ChargeMode::Charge);
        outcome(done.outcome, &done.records)
    }

    fn reserve(&self, charge: TestCharge, timeout: Duration) -> bool {
        let until = self.clock.now().saturating_add(timeout);
        let pending = self.pending(&[charge]).into_iter().collect();
        let done = Transaction::run(pending, ChargeMode::Reserve(until));
        done.reservations.first().is_some_and(Option::is_some)
    }

    fn change_limit(&mut self, limiter: usize, limit: &Limit) {
        let named = self.store.0.register(LIMITERS[limiter], limit);
        self.limits[limiter] = named.expect("it is valid");
    }

    fn move_clock(&self, nanos: i64) {
        let now = self.clock.now().as_nanos().saturating_add_signed(nanos);
        self.clock.set(Timestamp::from_nanos(now));
    }

    /// The states of all keys under the limit of each limiter.
    fn states(&self) -> Vec<String> {
        self.each_key(|entry| format!("{:?}", self.store.0.state(entry, self.clock.now())))
    }

    /// The figures of all keys: the same whether a fresh state was reclaimed or not.
    fn figures(&self) -> Vec<String> {
        let peek = |entry: &KeyEntry<'_>, cost| self.store.0.peek(entry, self.clock.now(), cost);
        self.each_key(|entry| format!("{:?}", [0, 1].map(|cost| peek(entry, cost))))
    }

    fn each_key(&self, read: impl Fn(&KeyEntry<'_>) -> String) -> Vec<String> {
        let mut all = Vec::new();
        for (named, fingerprints) in self.limits.iter().zip(&self.fingerprints) {
            for key in 0..4_u8 {
                all.push(read(&KeyEntry { named, fingerprint: fingerprints.of(&key), key: &"" }));
            }
        }
        all
    }
}

fn outcome(outcome: ChargeOutcome, records: &[ChargeRecord<'_>]) -> Outcome {
    (outcome, records.iter().map(|of| format!("{:?}", of.decision(outcome))).collect())
}

fn charge() -> impl Strategy<Value = TestCharge> {
    (0..3_usize, 0..4_u8, prop_oneof![9 => 1..4_u64, 1 => Just(0), 1 => Just(99)])
}

fn limit() -> impl Strategy<Value = Limit> {
    let counts = (1..20_u64, 0..20_u64, 1..30_u32);
    (0..4_u8, counts).prop_map(|(kind, (count, burst, seconds))| match kind {
        0 => Limit::leaky_queue(count, SECOND * seconds).burst(burst),
        1 => Limit::leaky_bucket(count, SECOND * seconds).burst(burst.max(1)),
        2 => Limit::fixed_window(count, SECOND * seconds),
        _ => Limit::token_bucket(count, SECOND * seconds).burst(burst.max(1)),
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        20 => prop::collection::vec(charge(), 1..=3).prop_map(Action::Charge),
        1 => (0..3_usize, limit()).prop_map(|(limiter, limit)| Action::ChangeLimit(limiter, limit)),
        1 => (charge(), 0..5_u32).prop_map(|(charge, time)| Action::Reserve(charge, SECOND * time)),
        6 => (0..3_000_000_000_i64).prop_map(Action::MoveClock),
        1 => (-2_000_000_000..0_i64).prop_map(Action::MoveClock),
    ]
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn fast_path_decides_and_charges_as_the_general_path_does(
        actions in prop::collection::vec(action(), 1..120),
        max_keys in prop_oneof![Just(30_usize), Just(10_000)],
    ) {
        let [mut fast, mut general] = Fixture::two(max_keys);
        for action in actions {
            match action {
                Action::Charge(charges) => {
                    let before = fast.states();
                    let known = fast.charge_known(&charges);
                    if known.is_none() {
                        prop_assert_eq!(fast.states(), before, "{:?}", charges);
                    }
                    let outcome = known.unwrap_or_else(|| fast.charge_generally(&charges));
                    prop_assert_eq!(outcome, general.charge_generally(&charges), "{:?}", charges);
                }
                Action::ChangeLimit(limiter, limit) => {
                    for fixture in [&mut fast, &mut general] {
                        fixture.change_limit(limiter, &limit);
                    }
                }
                Action::Reserve(charge, timeout) => {
                    let [a, b] = [&fast, &general].map(|of| of.reserve(charge, timeout));
                    prop_assert_eq!(a, b);
                }
                Action::MoveClock(nanos) => {
                    for fixture in [&fast, &general] {
                        fixture.move_clock(nanos);
                    }
                }
            }
            prop_assert_eq!(fast.figures(), general.figures());
        }
    }
}

/// A store in which key 1 of each limiter is known.
fn known_keys() -> Fixture {
    let fixture = Fixture::new();
    let charges = [(0, 1, 1), (1, 1, 1), (2, 1, 1)];
    assert!(fixture.charge_known(&charges).is_none(), "the keys are new");
    assert_eq!(fixture.charge_generally(&charges).0, ChargeOutcome::Taken);
    fixture
}

/// Charges that the fast path takes, which lead to a denial by the last of them in the end.
const THREE: [TestCharge; 3] = [(0, 1, 1), (1, 1, 1), (2, 1, 3)];

#[test]
fn fast_path_charges_up_to_three_known_buckets() {
    let fixture = known_keys();
    for count in 1..=3 {
        assert!(
            fixture.charge_known(&THREE[..count]).is_some_and(|of| of.0 == ChargeOutcome::Taken)
        );
    }
    let before = fixture.states();
    assert!(fixture.charge_known(&THREE).is_some_and(|of| of.0 == ChargeOutcome::NotTaken));
    assert_eq!(fixture.states(), before, "a denied request leaves all limits uncharged");
}

#[test]
fn fast_path_leaves_unusual_charges_to_the_general_path() {
    let unusual: [&[TestCharge]; 5] = [
        &[(0, 1, 1), (1, 2, 1)],
        &[(0, 1, 0)],
        &[(0, 1, 6)],
        &[(0, 1, 1), (0, 1, 1)],
        &[(0, 1, 1), (1, 1, 1), (0, 1, 1)],
    ];
    let fixture = known_keys();
    let before = fixture.states();
    for charges in unusual {
        assert!(fixture.charge_known(charges).is_none(), "{charges:?}");
        assert_eq!(fixture.states(), before);
    }
}

#[test]
fn fast_path_leaves_changed_limits_held_units_and_earlier_clocks_to_the_general_path() {
    let changes: [fn(&mut Fixture); 3] = [
        |fixture| fixture.change_limit(1, &Limit::token_bucket(9, 10 * SECOND)),
        |fixture| assert!(fixture.reserve((1, 1, 1), SECOND)),
        |fixture| fixture.move_clock(-1),
    ];
    for change in changes {
        let mut fixture = known_keys();
        change(&mut fixture);
        let before = fixture.states();
        assert!(fixture.charge_known(&THREE).is_none());
        assert_eq!(fixture.states(), before);
    }
}
