//! What is in hand, until when, and the figures that go with it.

use super::*;

/// How many of `cost` units each can be spent at `now`.
fn spendable(purse: &mut Wallet, terms: &LeaseTerms, cost: u64, now: Timestamp) -> u64 {
    (0..1000).take_while(|_| purse.spend(terms, cost, now).is_some()).map(|_| 1).sum()
}

#[test]
fn no_more_is_spent_than_was_borrowed() {
    let terms = terms(&Limit::per_second(100), SECOND);
    let mut purse = Wallet::default();
    assert!(purse.add(&terms, grant(7), NODE).is_empty());
    assert_eq!(purse.left(NODE), 7);
    assert_eq!(spendable(&mut purse, &terms, 2, NODE), 3);
    assert!(purse.spend(&terms, 2, NODE).is_none(), "one unit is left");
    assert!(purse.spend(&terms, 0, NODE).is_none());
    assert_eq!(spendable(&mut purse, &terms, 1, NODE), 1);
}

#[test]
fn a_lease_lasts_from_the_moment_before_it_was_asked_for() {
    let terms = terms(&Limit::per_second(100), SECOND);
    for took in [Duration::ZERO, 400 * MILLI, 999 * MILLI] {
        let mut purse = Wallet::default();
        let late = Grant { at: STORE + micros(took), ..grant(5) };
        assert!(purse.add(&terms, late, NODE.saturating_add(took)).is_empty());
        let end = NODE.saturating_add(SECOND);
        let before = Timestamp::from_nanos(end.as_nanos() - 1);
        assert!(purse.spend(&terms, 1, before).is_some());
        assert!(purse.spend(&terms, 1, end).is_none(), "an answer that took {took:?}");
    }
}

#[test]
fn a_lease_that_comes_too_late_is_given_back_unspent() {
    let terms = terms(&Limit::per_second(100), SECOND);
    let mut purse = Wallet::default();
    // Charged a moment ago: the request was slow.
    let late = Grant { at: STORE + 999_000, ..grant(50) };
    let returns = purse.add(&terms, late, NODE.saturating_add(SECOND));
    assert_eq!(returns.as_slice(), [LeaseRefund { units: 50, moment: STORE + 999_000 }]);
    assert!(purse.spend(&terms, 1, NODE.saturating_add(SECOND)).is_none());
}

#[test]
fn a_lease_of_a_window_ends_with_the_window() {
    let day = Duration::from_secs(86_400);
    for limit in [
        Limit::fixed_window(100, SECOND),
        Limit::fixed_window(100, SECOND).starting_at_first_request(),
        Limit::sliding_counter(100, SECOND),
    ] {
        let terms = terms(&limit, day);
        let mut purse = Wallet::default();
        // 300 ms into the window, with an answer that took 200 ms.
        let at = STORE + 300_000;
        let met = terms.limit().take(&ScriptState::New, STORE, 1);
        let grant = Grant { at, met, ..grant(5) };
        purse.add(&terms, grant, NODE.saturating_add(200 * MILLI));
        assert!(purse.spend(&terms, 1, NODE.saturating_add(699 * MILLI)).is_some(), "{limit}");
        assert!(purse.spend(&terms, 1, NODE.saturating_add(700 * MILLI)).is_none(), "{limit}");
    }
}

#[test]
fn the_oldest_batch_is_spent_first_and_there_are_two_at_most() {
    let terms = terms(&Limit::per_second(100), SECOND);
    let mut purse = Wallet::default();
    let at = |late: Duration| Grant {
        sent: NODE.saturating_add(late),
        at: STORE + micros(late),
        ..grant(3)
    };
    assert!(purse.add(&terms, at(Duration::ZERO), NODE).is_empty());
    assert!(purse.add(&terms, at(100 * MILLI), NODE.saturating_add(100 * MILLI)).is_empty());
    let third = purse.add(&terms, at(200 * MILLI), NODE.saturating_add(200 * MILLI));
    assert_eq!(third.iter().map(|back| back.units).sum::<u64>(), 3, "there is no room for it");

    assert!(purse.spend(&terms, 2, NODE.saturating_add(600 * MILLI)).is_some());
    let ended = purse.ended(&terms, NODE.saturating_add(SECOND));
    assert!(ended.is_empty(), "one unit was left of the first, which has paid itself back");
    assert_eq!(purse.left(NODE.saturating_add(SECOND)), 3, "the second has 100 ms more");
    assert!(
        purse.add(&terms, at(SECOND), NODE.saturating_add(SECOND)).is_empty(),
        "there is room again"
    );
}

#[test]
fn what_nobody_touches_for_half_its_time_is_given_back_early() {
    let terms = terms(&Limit::per_second(10).burst(1000), SECOND);
    let mut purse = Wallet::default();
    purse.add(&terms, grant(100), NODE);
    assert!(purse.spend(&terms, 1, NODE.saturating_add(400 * MILLI)).is_some());
    assert_eq!(purse.ends(&terms), Some(NODE.saturating_add(900 * MILLI)));
    assert!(purse.ended(&terms, NODE.saturating_add(899 * MILLI)).is_empty());
    assert_eq!(purse.ended(&terms, NODE.saturating_add(900 * MILLI))[0].units, 99);
    assert!(purse.is_empty());
    assert_eq!(purse.ends(&terms), None);
}

#[test]
fn what_was_put_back_can_be_spent_again_until_the_lease_ends() {
    for limit in tollgate_testkit::one_limit_of_each() {
        let ported = ScriptPlan::new(&limit).unwrap();
        let Ok(terms) = LeaseTerms::new(&ported, SECOND, 100) else { continue };
        let mut purse = Wallet::default();
        purse.add(&terms, grant(4), NODE);
        let figures = |spent: &Payment| {
            let decision = &spent.decision;
            (decision.remaining(), decision.reset_after())
        };
        let spent = purse.spend(&terms, 3, NODE).unwrap();
        purse.put_back(&terms, &spent, NODE);
        assert_eq!(purse.left(NODE), 4);
        let again = purse.spend(&terms, 3, NODE).unwrap();
        assert_eq!(figures(&again), figures(&spent), "{limit}: as if it had never been spent");

        purse.put_back(&terms, &again, NODE.saturating_add(SECOND));
        assert_eq!(purse.left(NODE), 1, "{limit}: lost, since the lease may have been given back");
    }
}

#[test]
fn the_first_decision_out_of_a_lease_says_what_the_store_would_have_said() {
    for limit in tollgate_testkit::one_limit_of_each() {
        let ported = ScriptPlan::new(&limit).unwrap();
        let Ok(terms) = LeaseTerms::new(&ported, SECOND, 100) else { continue };
        let met = ported.take(&ScriptState::New, STORE, 2);
        let mut purse = Wallet::default();
        purse.add(&terms, Grant { at: STORE + 500, met: met.clone(), ..grant(6) }, NODE);
        let leased = purse.spend(&terms, 1, NODE).unwrap().decision;
        let strict = ported.decide(&met, STORE + 500, 1);
        assert_eq!(leased.is_allowed(), strict.is_allowed());
        assert_eq!(leased.remaining(), strict.remaining(), "{limit}");
        assert_eq!(leased.limit(), strict.limit());
        // Told to the nanosecond, where the store rounds up to its tick.
        let rounded = leased.reset_after().as_nanos().div_ceil(1000);
        assert_eq!(rounded, strict.reset_after().as_micros(), "{limit}");

        let second = purse.spend(&terms, 4, NODE).unwrap().decision;
        assert_eq!(second.remaining(), strict.remaining() - 4, "{limit}");
    }
}

#[test]
fn a_figure_counts_only_the_time_since_the_answer_came() {
    let limit = Limit::fixed_window(10, 60 * SECOND);
    let terms = terms(&limit, SECOND);
    let mut purse = Wallet::default();
    // The store's clock has moved on by less than the 700 ms since the borrow was sent.
    purse.add(&terms, grant(5), NODE.saturating_add(300 * MILLI));
    let decision = purse.spend(&terms, 1, NODE.saturating_add(700 * MILLI)).unwrap().decision;
    assert_eq!(decision.reset_after(), 60 * SECOND - 400 * MILLI);
}

#[test]
fn a_queue_is_never_leased_and_a_logs_lease_is_at_most_half_its_window() {
    let refused = |text: &str, ttl, share| {
        let ported = ScriptPlan::new(&text.parse::<Limit>().unwrap()).unwrap();
        LeaseTerms::new(&ported, ttl, share).map(|_| ()).unwrap_err().to_string()
    };
    for (message, right) in [
        (refused("10/s leaky_bucket queue", SECOND, 10), "must be strict"),
        (refused("10/s sliding_log", 501 * MILLI, 10), "must be at most 500ms"),
        (refused("10/s", Duration::from_micros(999), 10), "must be at least 1ms"),
        (refused("10/s", SECOND, 0), "must be 1% to 100%"),
        (refused("10/s", SECOND, 101), "must be 1% to 100%"),
    ] {
        assert!(message.contains(right), "{message}");
    }
    terms(&Limit::sliding_log(10, SECOND), 500 * MILLI);
}
