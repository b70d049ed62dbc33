//! Lists come before limits: who passes, then who never does.

use tollgate::{Condition, ListEntry, Policy, Reason};

use super::{MINUTE, everybody, gate, left, passed, per_user, user};

fn policy() -> Policy {
    let names =
        |names: &[&str]| Condition::AnyOf(names.iter().map(|name| (*name).to_owned()).collect());
    Policy::new()
        .rule(per_user(1))
        .rule(everybody(100))
        .allow(ListEntry::new("staff").matches("user", names(&["ana", "ben"])))
        .deny(ListEntry::new("banned").matches("user", names(&["ben", "eve"])))
}

#[test]
fn allow_beats_deny_beats_limits() {
    let (gate, _) = gate(policy());
    assert_eq!(passed(&gate, &user("ana"), 5), 5);
    assert_eq!(passed(&gate, &user("ben"), 5), 5, "on both lists");
    assert_eq!(passed(&gate, &user("eve"), 5), 0);
    assert_eq!(passed(&gate, &user("kim"), 5), 1);
}

#[test]
fn a_listed_request_says_which_list_and_never_when() {
    let (gate, _) = gate(policy());
    let passes = gate.check(&user("ben"));
    assert_eq!((passes.reason(), passes.decided_by_name()), (Reason::AllowList, Some("staff")));
    assert_eq!((passes.limit(), passes.remaining()), (u64::MAX, u64::MAX));
    let denied = gate.check(&user("eve"));
    assert_eq!((denied.reason(), denied.decided_by_name()), (Reason::DenyList, Some("banned")));
    assert_eq!((denied.limit(), denied.remaining(), denied.retry_after()), (0, 0, None));
    assert!(denied.error().is_none());
}

#[test]
fn a_listed_request_charges_nothing_and_gives_nothing_back() {
    let (gate, _) = gate(policy());
    assert!(gate.check(&user("kim")).is_allowed());
    for name in ["ana", "eve"] {
        drop(gate.check(&user(name).cost(50)));
        drop(gate.check_up_to(&user(name).cost(50)));
        gate.reserve(&user(name).cost(50)).map(|hold| hold.settle(70)).ok();
        assert_eq!(left(&gate, "everybody", &user("kim")), 99, "{name} took");
        gate.refund(&user(name).cost(50));
        assert_eq!(left(&gate, "everybody", &user("kim")), 99, "{name} gave back");
    }
    assert_eq!(gate.store().len(), 2, "kim and everybody");
}

#[test]
fn a_list_comes_before_a_block() {
    let (gate, _) = gate(policy());
    assert!(gate.block("per-user", &["ana"], MINUTE).unwrap());
    assert!(gate.check(&user("ana")).is_allowed());
}

#[test]
fn a_listed_request_takes_up_to_what_it_asks_for() {
    let (gate, _) = gate(policy());
    assert_eq!(gate.check_up_to(&user("ana").cost(7)).0, 7);
    let (units, ruling) = gate.check_up_to(&user("eve").cost(7));
    assert_eq!((units, ruling.reason()), (0, Reason::DenyList));
}
