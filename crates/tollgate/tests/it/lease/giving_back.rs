//! What is given back is never more than what would be there, had it never been borrowed.

use proptest::prelude::*;
use tollgate::{Algorithm, WindowStart};
use tollgate_testkit::{any_limits, cases};

use super::*;

const TICK: Duration = Duration::from_micros(1);

/// A charge by somebody else, so many microseconds after what was before.
type Charge = (u64, u64);

/// A key's life around one lease. Waits and units are in thousandths of what the limit has.
#[derive(Clone, Debug)]
struct Life {
    limit: Limit,
    before: Vec<Charge>,
    /// Units borrowed, and how many of a thousand of them are spent.
    lease: (u64, u64),
    meanwhile: Vec<Charge>,
    /// When the rest is given back, and when that is looked at.
    waits: [u64; 2],
}

fn lives() -> impl Strategy<Value = Life> {
    let charges = || prop::collection::vec((0..600_u64, 0..400_u64), 0..8);
    // A queue is never leased. A window of the first request begins with the borrow, whatever is
    // given back of it: it is another one, of the same size.
    let limits = any_limits(TICK).prop_filter("never leased, or begun by a lease", |limit| {
        limit.algorithm() != Algorithm::LeakyQueue && limit.align() != WindowStart::FirstRequest
    });
    (limits, charges(), (1..600_u64, 0..=1000_u64), charges(), [0..900_u64, 0..900_u64]).prop_map(
        |(limit, before, lease, meanwhile, waits)| Life { limit, before, lease, meanwhile, waits },
    )
}

/// What became of the lease.
struct Outcome {
    ported: ScriptPlan,
    /// The key with the lease in it, before anything is given back, and had what is left of it
    /// never been charged.
    charged: ScriptState,
    never_charged: ScriptState,
    given_back: ScriptState,
    now: u64,
    later: u64,
}

/// The part of `whole` that so many thousandths are.
fn part(thousandths: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(thousandths) * u128::from(whole) / 1000).expect("a part is smaller")
}

fn live(life: &Life) -> Option<Outcome> {
    let ported = ScriptPlan::new(&life.limit).ok()?;
    let most = ported.capacity().min(1 << 40);
    // The time in which the limit gives back what it has.
    let refill = life.limit.period().as_micros() * u128::from(ported.capacity())
        / u128::from(life.limit.count());
    let span = u64::try_from(refill.max(life.limit.period().as_micros())).ok()?.min(1 << 50);
    let mut now = STORE;
    let mut state = ScriptState::New;
    for (wait, units) in &life.before {
        now += part(*wait, span);
        let units = part(*units, most).max(1);
        if ported.decide(&state, now, units).is_allowed() {
            state = ported.take(&state, now, units);
        }
    }
    let units = part(life.lease.0, most).max(1);
    if !ported.decide(&state, now, units).is_allowed() {
        return None;
    }
    let spent = part(life.lease.1, units);
    // So long a lease that only its window ends it: what is given back does not depend on that.
    let terms = match LeaseTerms::new(&ported, Duration::from_secs(1 << 30), 100) {
        Ok(terms) => terms,
        Err(_) => LeaseTerms::new(&ported, life.limit.period() / 2, 100).ok()?,
    };
    let mut purse = Wallet::default();
    let _ = purse.add(&terms, Grant { sent: NODE, at: now, met: state.clone(), units }, NODE);
    if spent > 0 {
        let _ = purse.spend(&terms, spent, NODE)?;
    }
    let mut charged = ported.take(&state, now, units);
    let mut never_charged = if spent > 0 { ported.take(&state, now, spent) } else { state };

    let began = now;
    for (wait, units) in &life.meanwhile {
        now += part(*wait, span / 4);
        let units = part(*units, most).max(1);
        if ported.decide(&charged, now, units).is_allowed() {
            assert!(ported.decide(&never_charged, now, units).is_allowed());
            charged = ported.take(&charged, now, units);
            never_charged = ported.take(&never_charged, now, units);
        }
    }
    now += part(life.waits[0], span / 2);
    let node_now = NODE.saturating_add(Duration::from_micros(now - began));
    let given_back = match purse.empty(&terms, node_now).as_slice() {
        [] => charged.clone(),
        [back] => ported.give_back(&charged, now, *back),
        many => panic!("one lease makes one return, not {many:?}"),
    };
    let later = now + part(life.waits[1], span);
    Some(Outcome { ported, charged, never_charged, given_back, now, later })
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_return_never_leaves_more_than_had_it_never_been_charged(life in lives()) {
        let Some(Outcome { ported, never_charged, given_back, charged, now, later }) = live(&life)
        else { return Ok(()) };
        for at in [now, later] {
            let remaining = |state: &ScriptState| ported.status(state, at).remaining();
            prop_assert!(remaining(&given_back) <= remaining(&never_charged), "at {}", at);
            prop_assert!(remaining(&given_back) >= remaining(&charged), "at {}", at);
            let resets = |state: &ScriptState| ported.status(state, at).reset_after();
            prop_assert!(resets(&given_back) >= resets(&never_charged), "at {}", at);
        }
    }

    #[test]
    fn a_return_to_a_window_a_counter_or_a_log_is_exact(life in lives()) {
        let is_bucket = ScriptPlan::new(&life.limit).is_ok_and(|ported| ported.price(1).micros > 0
            || ported.price(1).parts > 0);
        let Some(Outcome { ported, never_charged, given_back, now, later, .. }) = live(&life)
        else { return Ok(()) };
        if !is_bucket {
            for at in [now, later] {
                let status = |state: &ScriptState| format!("{:?}", ported.status(state, at));
                prop_assert_eq!(status(&given_back), status(&never_charged), "at {}", at);
            }
        }
    }
}

#[test]
fn a_return_loses_nothing_while_time_pays_for_what_was_spent() {
    // 100 tokens, 10 a second: the 15 that are spent take 1.5 s to pay back.
    let limit = Limit::per_second(10).burst(100);
    let terms = terms(&limit, 2 * SECOND);
    let mut purse = Wallet::default();
    purse.add(&terms, grant(20), NODE);
    let _ = purse.spend(&terms, 15, NODE);
    let charged = terms.limit().take(&ScriptState::New, STORE, 20);
    let back = purse.empty(&terms, NODE.saturating_add(3 * SECOND / 2));
    let given_back = terms.limit().give_back(&charged, STORE + 1_500_000, back[0]);
    assert_eq!(terms.limit().status(&given_back, STORE + 1_500_000).remaining(), 100);
}

#[test]
fn what_a_lease_met_may_be_given_back_before_it_and_pays_for_nothing() {
    // Two nodes borrow half each at once. The first gives all back, and the bucket is full after 5 s.
    let limit = Limit::per_second(1).burst(10);
    let terms = terms(&limit, 10 * SECOND);
    let (ported, mut first, mut second) = (terms.limit(), Wallet::default(), Wallet::default());
    first.add(&terms, grant(5), NODE);
    let met = ported.take(&ScriptState::New, STORE, 5);
    second.add(&terms, Grant { met: met.clone(), ..grant(5) }, NODE);
    let charged = ported.take(&met, STORE, 5);
    let [back] = first.empty(&terms, NODE)[..] else { panic!("it gives back all") };
    let charged = ported.give_back(&charged, STORE, back);
    // Then somebody takes all there is, and the second gives back what nobody spent.
    let (later, node_later) = (STORE + 5_000_000, NODE.saturating_add(5 * SECOND));
    assert_eq!(ported.status(&charged, later).remaining(), 10);
    let mut emptied = ported.take(&charged, later, 10);
    for back in second.empty(&terms, node_later) {
        emptied = ported.give_back(&emptied, later, back);
    }
    assert_eq!(ported.status(&emptied, later).remaining(), 0, "10 and no more of a bucket of 10");
}

#[test]
fn a_refund_to_the_letter_would_mint_what_time_has_paid_back() {
    let limit = Limit::per_second(10).burst(100);
    let terms = terms(&limit, 2 * SECOND);
    let mut purse = Wallet::default();
    purse.add(&terms, grant(20), NODE);
    let charged = terms.limit().take(&ScriptState::New, STORE, 20);
    // After 1 s ten are paid back, and somebody takes 90, all there is.
    let emptied = terms.limit().take(&charged, STORE + 1_000_000, 90);
    let back = purse.empty(&terms, NODE.saturating_add(SECOND));
    assert_eq!(back.as_slice(), [LeaseRefund { units: 20, moment: STORE }]);
    let remaining = |back| {
        let state = terms.limit().give_back(&emptied, STORE + 1_000_000, back);
        terms.limit().status(&state, STORE + 1_000_000).remaining()
    };
    assert_eq!(remaining(back[0]), 10, "90 and 10: what a full bucket had");
    let to_the_letter = LeaseRefund { moment: u64::MAX, ..back[0] };
    assert_eq!(remaining(to_the_letter), 20, "90 and 20 within an instant, of a bucket of 100");
}

#[test]
fn a_return_that_would_come_to_nothing_is_not_sent() {
    let limit = Limit::per_second(10).burst(100);
    let terms = terms(&limit, SECOND);
    let mut purse = Wallet::default();
    purse.add(&terms, grant(9), NODE);
    assert!(
        purse.empty(&terms, NODE.saturating_add(SECOND)).is_empty(),
        "the bucket is full without it"
    );
    let window = super::terms(&Limit::fixed_window(10, SECOND), SECOND);
    purse.add(&window, grant(9), NODE);
    assert!(purse.ended(&window, NODE.saturating_add(SECOND)).is_empty(), "the window has ended");
}
