//! Overrides: a client's own tier or numbers, of the policy or set while running.

use tollgate::{Client, Numbers, Override, Policy, Rule, Timestamp};

use super::{HOUR, MINUTE, SECOND, gate, hourly, left, passed, per_user, user};

fn own(name: &str, count: u64) -> Override {
    Override::new("user", name).numbers("per-user", hourly(count))
}

fn client(name: &str) -> Client {
    Client::from([("user".to_owned(), name.to_owned())])
}

#[test]
fn an_override_gives_a_client_its_tier_whatever_the_request_says() {
    let rule = per_user(1).tier("pro", hourly(3)).tier("free", hourly(2));
    let change = Override::new("user", "ana").tier("pro");
    let (gate, _) = gate(Policy::new().rule(rule).with_override(change));
    assert_eq!(passed(&gate, &user("ana").with("tier", "free"), 9), 3);
    assert_eq!(passed(&gate, &user("ben").with("tier", "free"), 9), 2);
}

#[test]
fn numbers_of_an_override_come_before_any_tier() {
    let rule = per_user(1).tier("pro", hourly(3));
    let (gate, _) = gate(Policy::new().rule(rule).with_override(own("ana", 5).tier("pro")));
    assert_eq!(passed(&gate, &user("ana").with("tier", "pro"), 9), 5);
}

#[test]
fn an_override_may_unlimit_a_client() {
    let change = Override::new("user", "ana").numbers("per-user", Numbers::Unlimited);
    let (gate, _) = gate(Policy::new().rule(per_user(1)).with_override(change));
    assert_eq!(passed(&gate, &user("ana"), 50), 50);
}

#[test]
fn an_override_set_while_running_counts_from_the_next_decision() {
    let (gate, _) = gate(Policy::new().rule(per_user(2)));
    assert_eq!(passed(&gate, &user("ana"), 9), 2);
    gate.set_override(own("ana", 20)).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 0, "used up stays used up");
    assert_eq!(passed(&gate, &user("ben"), 9), 2);
    gate.set_override(own("ben", 4)).unwrap();
    gate.reset("per-user", &["ben"]);
    assert_eq!(passed(&gate, &user("ben"), 9), 4);
    assert!(gate.remove_override(&client("ben")));
    assert!(!gate.remove_override(&client("ben")), "it is gone");
    gate.reset("per-user", &["ben"]);
    assert_eq!(passed(&gate, &user("ben"), 9), 2);
}

#[test]
fn an_override_ends_at_its_moment_and_not_before() {
    let (gate, clock) = gate(Policy::new().rule(per_user(1)));
    gate.set_override(own("ana", 3).until(clock.now().after(MINUTE))).unwrap();
    clock.advance(MINUTE - SECOND);
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
    clock.advance(SECOND);
    assert_eq!(left(&gate, "per-user", &user("ana")), 1);
    assert_eq!(gate.overrides().len(), 1, "ended ones are listed");
}

#[test]
fn an_override_that_ended_gives_way_to_one_of_fewer_attributes() {
    let both = Client::from([("user", "ana"), ("route", "/a")].map(|(n, v)| (n.into(), v.into())));
    let both = Override::of(both).numbers("per-user", hourly(7));
    let (gate, clock) = gate(Policy::new().rule(per_user(1)).with_override(own("ana", 3)));
    gate.set_override(both.until(clock.now().after(MINUTE))).unwrap();
    let request = user("ana").with("route", "/a");
    assert_eq!(left(&gate, "per-user", &request), 7, "more attributes come first");
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
    clock.advance(MINUTE);
    assert_eq!(left(&gate, "per-user", &request), 3);
}

#[test]
fn of_overrides_that_name_as_many_attributes_the_alphabet_decides() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    let tenant = Override::new("tenant", "acme").numbers("per-user", hourly(2));
    let request = user("ana").with("tenant", "acme");
    gate.set_override(own("ana", 3)).unwrap();
    gate.set_override(tenant.clone()).unwrap();
    assert_eq!(left(&gate, "per-user", &request), 2);
    gate.set_override(own("ana", 4)).unwrap();
    assert_eq!(left(&gate, "per-user", &request), 2, "whichever was set last");
    gate.replace(Policy::new().rule(per_user(1))).unwrap();
    assert_eq!(left(&gate, "per-user", &request), 2, "whichever the policy had first");
}

#[test]
fn what_is_set_while_running_comes_before_the_policy_and_survives_its_replacement() {
    let policy = || Policy::new().rule(per_user(1)).with_override(own("ana", 2));
    let (gate, _) = gate(policy());
    assert_eq!(left(&gate, "per-user", &user("ana")), 2);
    gate.set_override(own("ana", 3)).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
    gate.replace(policy()).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
    assert!(gate.remove_override(&client("ana")));
    assert_eq!(left(&gate, "per-user", &user("ana")), 1, "neither");
    gate.replace(policy()).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 1, "what was taken back stays so");
    assert!(gate.overrides().is_empty());
}

#[test]
fn an_override_of_a_rule_that_is_gone_waits_for_it() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    gate.set_override(own("ana", 3)).unwrap();
    gate.replace(Policy::new().rule(Rule::new("other").key(["user"]).limit(hourly(9)))).unwrap();
    assert_eq!(left(&gate, "other", &user("ana")), 9);
    gate.replace(Policy::new().rule(per_user(1))).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
}

#[test]
fn an_override_that_cannot_be_is_refused_and_changes_nothing() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    let wrong = [
        Override::of(Client::new()).tier("pro"),
        Override::new("user", "ana"),
        Override::new("user", "ana").numbers("per-usr", hourly(2)),
        Override::new("user", "ana").numbers("per-user", hourly(0)),
        Override::new("", "ana").tier("pro"),
    ];
    for change in wrong {
        assert!(gate.set_override(change.clone()).is_err(), "{change:?}");
    }
    assert!(gate.overrides().is_empty());
    assert_eq!(left(&gate, "per-user", &user("ana")), 1);
}

#[test]
fn a_client_may_have_more_limits_than_the_rule() {
    let change = Override::new("user", "ana").numbers("per-user", vec![hourly(9), hourly(4)]);
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    gate.set_override(change).unwrap();
    assert_eq!(passed(&gate, &user("ana"), 9), 4);
    assert!(gate.reset("per-user", &["ana"]));
    assert_eq!(passed(&gate, &user("ana"), 9), 4, "the reset reached the second limit as well");
    assert!(gate.reset_rule("per-user"));
    assert_eq!(passed(&gate, &user("ana"), 9), 4);
    gate.reset_request(&user("ana"));
    assert_eq!(passed(&gate, &user("ana"), 9), 4);
}

#[test]
fn changed_numbers_of_a_client_keep_its_share() {
    let (gate, clock) = gate(Policy::new().rule(per_user(10)));
    assert!(gate.check(&user("ana").cost(3)).is_allowed());
    gate.set_override(own("ana", 100).until(clock.now().after(MINUTE))).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 70);
    clock.advance(MINUTE);
    assert_eq!(left(&gate, "per-user", &user("ana")), 7, "and back when it ends");
    clock.advance(HOUR);
    assert_eq!(left(&gate, "per-user", &user("ana")), 10);
}

#[test]
fn taking_back_overrides_nobody_has_leaves_no_trace() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    for number in 0..100 {
        let nobody = Client::from([(format!("attribute-{number}"), "x".to_owned())]);
        assert!(!gate.remove_override(&nobody));
    }
    gate.set_override(own("ana", 2).until(Timestamp::from_nanos(0))).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 1, "one that ended long ago");
}

#[test]
fn overrides_outlive_a_restart_in_a_file_that_is_whole_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("overrides");
    let policy = Policy::new().rule(per_user(5)).with_override(own("eve", 9));
    let (before, _) = gate(policy.clone());
    before.set_override(own("ana", 50).until(Timestamp::MAX)).expect("it is right");
    assert!(before.remove_override(&client("eve")));
    before.save_overrides(&file).expect("the folder can be written");

    let (after, _) = gate(policy);
    after.restore_overrides(&file).expect("it was just written");
    assert_eq!(
        (
            left(&after, "per-user", &user("ana")),
            left(&after, "per-user", &user("eve")),
            left(&after, "per-user", &user("ben"))
        ),
        (50, 5, 5)
    );
    assert_eq!(after.overrides(), before.overrides());

    let bytes = std::fs::read(&file).expect("it is there");
    let names = std::fs::read_dir(folder.path()).expect("it is there").count();
    assert_eq!(names, 1, "nothing is left beside it");
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        std::fs::write(&file, damaged).expect("the file can be written");
        assert!(after.restore_overrides(&file).is_err(), "byte {place}");
    }
    std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("the file can be written");
    assert!(after.restore_overrides(&file).is_err());
    assert_eq!(left(&after, "per-user", &user("ana")), 50, "what is in force stays");
}
