//! The bound: however much nodes borrow, and whatever becomes of what they send.

use proptest::prelude::*;
use tollgate_testkit::{cases, within_lease_bound};

use super::fleet::{Act, Fate, Fleet, Mistake, Step, Trip};
use super::*;

#[derive(Clone, Debug)]
struct Story {
    limit: Limit,
    ttl: Duration,
    nodes: usize,
    steps: Vec<Step>,
}

impl Story {
    /// What happens, with a mistake in it or without.
    fn check(&self, mistake: Mistake) -> Result<(), String> {
        let terms = terms(&self.limit, self.ttl);
        let admitted = Fleet::new(&terms, self.nodes, mistake).run(&self.steps);
        within_lease_bound(&self.limit, self.ttl, &admitted.spent)?;
        // What nobody minted is what the limit allows at the moments of the charges.
        within_lease_bound(&self.limit, Duration::ZERO, &admitted.charged)
    }
}

/// Limits of every kind that is leased: small ones, so that their ends are met often.
fn limits() -> impl Strategy<Value = Limit> {
    let kinds: [fn(u64, Duration) -> Limit; 6] = [
        Limit::token_bucket,
        Limit::leaky_bucket,
        Limit::fixed_window,
        |count, window| Limit::fixed_window(count, window).starting_at_first_request(),
        Limit::sliding_log,
        Limit::sliding_counter,
    ];
    let bursts = prop_oneof![Just(None), (1..60_u64).prop_map(Some)];
    (0..kinds.len(), 1..40_u64, 4_000..2_000_000_u64, bursts).prop_map(
        move |(kind, count, period, burst)| {
            let limit = kinds[kind](count, Duration::from_micros(period));
            match burst {
                Some(units) if kind < 2 => limit.burst(units),
                _ => limit,
            }
        },
    )
}

/// Numbers by a seed: quicker by far than strategies for each step, of which there are millions.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    /// Mostly at once, at times as long as it takes the limit to be as good as new, or longer.
    fn wait(&mut self, whole: u64) -> u64 {
        match self.roll(20) {
            0..14 => 0,
            14..17 => self.roll(whole / 50),
            17..19 => self.roll(whole),
            _ => self.roll(3 * whole),
        }
    }

    fn trip(&mut self, whole: u64) -> Trip {
        let fate = match self.roll(10) {
            0 => Fate::LostThere,
            1 => Fate::LostBack,
            _ => Fate::Arrives,
        };
        Trip { there: self.wait(whole), back: self.wait(whole), fate }
    }

    fn act(&mut self, most: u64, whole: u64) -> Act {
        let some = 1 + self.roll(most);
        match self.roll(20) {
            0..4 => Act::Spend(1),
            4..6 => Act::Spend(some),
            6..8 => Act::SpendAll,
            8 => Act::Regret(some, self.wait(whole)),
            9..11 => Act::Ask(some),
            11 => Act::AskAll,
            12..14 => Act::Borrow(most),
            14..17 => Act::Borrow(some),
            17 => Act::Sweep,
            18 => Act::Stop,
            _ => Act::Crash,
        }
    }
}

fn story(limit: &Limit, (nodes, many, percent): (usize, usize, u32), seed: u64) -> Story {
    let mut dice = Dice(seed);
    let most = limit.capacity();
    let refill = micros(limit.period()) * most / limit.count();
    let whole = refill.max(micros(limit.period()));
    let step = |_| Step {
        wait: dice.wait(whole),
        node: usize::try_from(dice.roll(nodes as u64)).unwrap_or(0),
        act: dice.act(most, whole),
        trip: dice.trip(whole),
    };
    let steps = (0..many).map(step).collect();
    let ttl = (limit.period() / 200 * percent).max(Duration::from_millis(1));
    Story { limit: limit.clone(), ttl, nodes, steps }
}

proptest! {
    #![proptest_config(cases(4096))]

    #[test]
    fn a_fleet_with_leases_never_admits_more_than_the_bound(
        limit in limits(),
        size in (1..9_usize, 1..250_usize, 1..=100_u32),
        seed in any::<u64>(),
    ) {
        let checked = story(&limit, size, seed).check(Mistake::None);
        prop_assert!(checked.is_ok(), "{:?}", checked);
    }
}

/// Whether any of two thousand stories goes too far.
fn goes_too_far(limit: &Limit, mistake: Mistake) -> bool {
    (0..2000).any(|seed| story(limit, (4, 200, 20), seed).check(mistake).is_err())
}

/// One of each kind whose leases end by the clock.
fn one_of_each() -> [Limit; 5] {
    [
        Limit::per_second(10).burst(20),
        Limit::fixed_window(10, SECOND),
        Limit::fixed_window(10, SECOND).starting_at_first_request(),
        Limit::sliding_log(10, SECOND),
        Limit::sliding_counter(10, SECOND),
    ]
}

#[test]
fn the_property_would_see_a_refund_to_the_letter() {
    let bucket = Limit::per_second(10).burst(20);
    assert!(!goes_too_far(&bucket, Mistake::None));
    assert!(goes_too_far(&bucket, Mistake::RefundsToTheLetter));
}

#[test]
fn the_property_would_see_a_lease_that_is_counted_from_its_answer() {
    for limit in one_of_each() {
        assert!(goes_too_far(&limit, Mistake::CountsFromTheAnswer), "{limit}");
    }
}

#[test]
fn the_property_would_see_units_spent_after_their_end() {
    for limit in one_of_each() {
        assert!(goes_too_far(&limit, Mistake::SpendsLate), "{limit}");
    }
}

#[test]
fn the_property_would_see_a_return_that_is_sent_twice() {
    for limit in one_of_each() {
        assert!(goes_too_far(&limit, Mistake::ReturnsTwice), "{limit}");
    }
}
