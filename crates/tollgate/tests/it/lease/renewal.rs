//! When a node borrows, and how much.

use super::*;

/// A key that was asked for `times` in the last second, in even steps up to [`NODE`].
fn asked(terms: &LeaseTerms, times: u64) -> Borrower {
    let mut lessee = Borrower::default();
    for number in 0..times {
        let back = 1_000_000_000 / times * (times - number);
        let at = Timestamp::from_nanos(NODE.as_nanos() - back);
        assert!(lessee.spend(terms, 1, at).is_none(), "nothing is in hand");
    }
    lessee
}

/// The same, after the store has told what it has left.
fn seen(terms: &LeaseTerms, times: u64, left: u64) -> Borrower {
    let mut lessee = asked(terms, times);
    let most = terms.limit().capacity();
    let decision = terms.limit().decide(&ScriptState::New, STORE, most - left);
    assert_eq!(decision.remaining(), left);
    lessee.met(&decision);
    lessee
}

#[test]
fn a_cold_key_borrows_nothing() {
    let terms = terms(&Limit::per_second(1000), SECOND);
    for times in 1..4 {
        assert_eq!(seen(&terms, times, 900).borrow(&terms, 1, NODE), None);
    }
    let mut dear = Borrower::default();
    assert!(dear.spend(&terms, 500, NODE).is_none());
    dear.met(&terms.limit().decide(&ScriptState::New, STORE, 500));
    assert_eq!(dear.borrow(&terms, 1, NODE), None, "one dear request is no traffic");
    assert!(seen(&terms, 100, 900).borrow(&terms, 1, NODE).is_some());
}

#[test]
fn a_key_is_cold_again_when_nobody_has_asked_for_two_times_the_lease() {
    let terms = terms(&Limit::per_second(1000), SECOND);
    let mut lessee = seen(&terms, 100, 900);
    assert_eq!(lessee.borrow(&terms, 1, NODE.saturating_add(2 * SECOND)), None);
    assert!(lessee.is_idle(&terms, NODE.saturating_add(2 * SECOND)));
    assert!(!lessee.is_idle(&terms, NODE));
}

#[test]
fn a_node_borrows_what_it_needs_in_a_quarter_of_the_lease() {
    let terms = terms(&Limit::per_second(1000), SECOND);
    assert_eq!(seen(&terms, 200, 900).borrow(&terms, 1, NODE), Some(50));
}

#[test]
fn a_node_borrows_at_most_half_of_its_share_of_what_is_left() {
    let terms = terms(&Limit::per_second(1000), SECOND);
    for (left, nodes, borrowed) in [
        (80, 1, Some(40)),
        (80, 4, Some(10)),
        (80, 0, Some(40)),
        (16, 4, Some(2)),
        (15, 4, None),
        (0, 1, None),
        (900, u64::MAX, None),
    ] {
        let mut lessee = seen(&terms, 400, left);
        assert_eq!(lessee.borrow(&terms, nodes, NODE), borrowed, "{left} left, {nodes} nodes");
    }
}

#[test]
fn a_node_borrows_at_most_the_share_that_it_may() {
    let ported = ScriptPlan::new(&Limit::per_second(1000)).unwrap();
    let terms = LeaseTerms::new(&ported, SECOND, 2).unwrap();
    assert_eq!(terms.most(), 20);
    assert_eq!(seen(&terms, 400, 900).borrow(&terms, 1, NODE), Some(20));
}

#[test]
fn one_borrow_is_on_its_way_at_a_time() {
    let terms = terms(&Limit::per_second(1000), SECOND);
    let mut lessee = seen(&terms, 200, 900);
    assert!(lessee.borrow(&terms, 1, NODE).is_some());
    assert_eq!(lessee.borrow(&terms, 1, NODE), None);
    lessee.lease_denied(&terms.limit().decide(&ScriptState::New, STORE, 100));
    assert!(lessee.borrow(&terms, 1, NODE).is_some());
    lessee.lease_failed();
    assert_eq!(lessee.borrow(&terms, 1, NODE), None, "until the store has answered somebody");
    lessee.met(&terms.limit().decide(&ScriptState::New, STORE, 100));
    assert!(lessee.borrow(&terms, 1, NODE).is_some());
}

#[test]
fn the_next_lease_is_borrowed_when_half_of_this_one_is_spent() {
    let terms = terms(&Limit::per_second(1000), SECOND);
    let mut lessee = seen(&terms, 200, 900);
    let units = lessee.borrow(&terms, 1, NODE).unwrap();
    assert!(lessee.lease_granted(&terms, grant(units), NODE).is_empty());
    for spent in 1..=units {
        assert_eq!(lessee.borrow(&terms, 1, NODE).is_some(), 2 * (spent - 1) == units, "{spent}");
        if 2 * (spent - 1) == units {
            lessee.lease_granted(&terms, grant(units), NODE);
        }
        assert!(lessee.spend(&terms, 1, NODE).is_some());
    }
    assert_eq!(lessee.purse().left(NODE), units, "and nobody had to wait for it");
}

#[test]
fn a_reset_voids_what_is_in_hand_and_what_is_on_its_way() {
    let terms = terms(&Limit::per_second(1000), SECOND);
    let mut lessee = seen(&terms, 200, 900);
    assert!(lessee.borrow(&terms, 1, NODE).is_some());
    lessee.forget();
    // It may have been charged before the reset, so that nothing stands behind it.
    assert!(lessee.lease_granted(&terms, grant(50), NODE).is_empty());
    assert!(lessee.spend(&terms, 1, NODE).is_none());

    assert!(lessee.borrow(&terms, 1, NODE).is_some());
    lessee.lease_granted(&terms, grant(50), NODE);
    assert!(lessee.spend(&terms, 1, NODE).is_some());
    lessee.forget();
    assert!(lessee.spend(&terms, 1, NODE).is_none());
    assert!(lessee.empty(&terms, NODE).is_empty(), "and nothing of it is given back");
}
