//! Overrides: a client's own tier or numbers, of the policy or set while running.

use tollgate::{
    Client, Gate, MemoryStore, Override, OverrideRemoval, OverrideSource, Policy, Rule, RuleLimits,
    Timestamp,
};

use super::{HOUR, MINUTE, SECOND, gate, hourly, left, passed, per_user, user};

fn own(name: &str, count: u64) -> Override {
    Override::new("user", name).limits("per-user", hourly(count))
}

fn client(name: &str) -> Client {
    Client::from([("user".to_owned(), name.to_owned())])
}

#[test]
fn an_override_gives_a_client_its_tier_whatever_the_request_says() {
    let rule = per_user(1).tier("pro", hourly(3)).tier("free", hourly(2));
    let change = Override::new("user", "ana").tier("pro");
    let (gate, _) = gate(Policy::new().rule(rule).override_client(change));
    assert_eq!(passed(&gate, &user("ana").with("tier", "free"), 9), 3);
    assert_eq!(passed(&gate, &user("ben").with("tier", "free"), 9), 2);
}

#[test]
fn numbers_of_an_override_come_before_any_tier() {
    let rule = per_user(1).tier("pro", hourly(3));
    let (gate, _) = gate(Policy::new().rule(rule).override_client(own("ana", 5).tier("pro")));
    assert_eq!(passed(&gate, &user("ana").with("tier", "pro"), 9), 5);
}

#[test]
fn an_override_may_unlimit_a_client() {
    let change = Override::new("user", "ana").limits("per-user", RuleLimits::Unlimited);
    let (gate, _) = gate(Policy::new().rule(per_user(1)).override_client(change));
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
    assert_eq!(gate.remove_override(&client("ben")), OverrideRemoval::Removed);
    assert_eq!(gate.remove_override(&client("ben")), OverrideRemoval::NotFound, "it is gone");
    gate.reset("per-user", &["ben"]);
    assert_eq!(passed(&gate, &user("ben"), 9), 2);
}

#[test]
fn an_override_ends_at_its_moment_and_not_before() {
    let (gate, clock) = gate(Policy::new().rule(per_user(1)));
    gate.set_override(own("ana", 3).until(clock.now().saturating_add(MINUTE))).unwrap();
    clock.advance(MINUTE - SECOND);
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
    clock.advance(SECOND);
    assert_eq!(left(&gate, "per-user", &user("ana")), 1);
    assert_eq!(gate.overrides().len(), 1, "ended ones are listed");
}

#[test]
fn an_override_that_ended_gives_way_to_one_of_fewer_attributes() {
    let both = Client::from([("user", "ana"), ("route", "/a")].map(|(n, v)| (n.into(), v.into())));
    let both = Override::of(both).limits("per-user", hourly(7));
    let (gate, clock) = gate(Policy::new().rule(per_user(1)).override_client(own("ana", 3)));
    gate.set_override(both.until(clock.now().saturating_add(MINUTE))).unwrap();
    let request = user("ana").with("route", "/a");
    assert_eq!(left(&gate, "per-user", &request), 7, "more attributes come first");
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
    clock.advance(MINUTE);
    assert_eq!(left(&gate, "per-user", &request), 3);
}

#[test]
fn of_overrides_that_name_as_many_attributes_the_alphabet_decides() {
    let (gate, _) = gate(Policy::new().rule(per_user(1)));
    let tenant = Override::new("tenant", "acme").limits("per-user", hourly(2));
    let request = user("ana").with("tenant", "acme");
    gate.set_override(own("ana", 3)).unwrap();
    gate.set_override(tenant.clone()).unwrap();
    assert_eq!(left(&gate, "per-user", &request), 2);
    gate.set_override(own("ana", 4)).unwrap();
    assert_eq!(left(&gate, "per-user", &request), 2, "whichever was set last");
    gate.replace(Policy::new().rule(per_user(1))).unwrap();
    assert_eq!(left(&gate, "per-user", &request), 2, "whichever the policy had first");
}

/// A policy whose override gives ana so many.
fn with_entry(count: u64) -> Policy {
    Policy::new().rule(per_user(1)).override_client(own("ana", count))
}

/// The limit of ana, and the source of each override.
fn limit_and_sources(gate: &Gate) -> (u64, Vec<OverrideSource>) {
    let sources = gate.overrides().iter().map(|of| of.source).collect();
    (left(gate, "per-user", &user("ana")), sources)
}

#[test]
fn removing_an_override_of_the_policy_is_rejected_and_changes_nothing() {
    let (gate, _) = gate(with_entry(2));
    assert_eq!(gate.remove_override(&client("ana")), OverrideRemoval::InPolicy);
    assert_eq!(limit_and_sources(&gate), (2, vec![OverrideSource::Policy]));
    gate.replace(with_entry(4)).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 4, "later changes of the policy count");
}

#[test]
fn override_of_the_policy_applies_again_when_one_of_run_time_is_removed() {
    let (gate, _) = gate(with_entry(2));
    gate.set_override(own("ana", 3)).unwrap();
    gate.set_override(own("ana", 4)).unwrap();
    assert_eq!(limit_and_sources(&gate), (4, vec![OverrideSource::RunTime]));
    assert_eq!(gate.remove_override(&client("ana")), OverrideRemoval::Removed);
    assert_eq!(limit_and_sources(&gate), (2, vec![OverrideSource::Policy]));
    assert_eq!(gate.remove_override(&client("ana")), OverrideRemoval::InPolicy);
}

#[test]
fn override_of_the_policy_applies_again_when_one_of_run_time_ends() {
    let (gate, clock) = gate(with_entry(2));
    gate.set_override(own("ana", 3).until(clock.now().saturating_add(MINUTE))).unwrap();
    clock.advance(MINUTE - SECOND);
    assert_eq!(limit_and_sources(&gate), (3, vec![OverrideSource::RunTime]));
    clock.advance(SECOND);
    assert_eq!(limit_and_sources(&gate), (2, vec![OverrideSource::Policy]));
}

#[test]
fn run_time_override_stays_while_the_entry_of_the_policy_does() {
    let (gate, _) = gate(with_entry(2));
    gate.set_override(own("ana", 3)).unwrap();
    gate.replace(with_entry(2).override_client(own("ben", 7))).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 3);
}

#[test]
fn changed_entry_of_the_policy_replaces_a_run_time_override_for_good() {
    let without = || Policy::new().rule(per_user(1));
    for (before, after, limit) in [
        (with_entry(2), with_entry(5), 5),
        (without(), with_entry(5), 5),
        (with_entry(2), without(), 1),
    ] {
        let (gate, _) = gate(before.clone());
        gate.set_override(own("ana", 3)).unwrap();
        gate.set_override(own("ben", 6)).unwrap();
        gate.replace(after).unwrap();
        assert_eq!(left(&gate, "per-user", &user("ana")), limit);
        assert_eq!(left(&gate, "per-user", &user("ben")), 6, "another client's stays");
        gate.replace(before.clone()).unwrap();
        assert_ne!(left(&gate, "per-user", &user("ana")), 3, "it does not come back");
    }
}

#[test]
fn changed_entry_of_the_policy_replaces_a_run_time_override_of_an_earlier_process() {
    let store = MemoryStore::builder().build().unwrap();
    let on = |policy| Gate::with_store(store.clone(), policy).unwrap();
    let before = on(with_entry(2));
    before.set_override(own("ana", 3)).unwrap();
    before.set_override(own("ben", 6)).unwrap();
    assert_eq!(left(&on(with_entry(2)), "per-user", &user("ana")), 3);
    let after = on(with_entry(5));
    assert_eq!(left(&after, "per-user", &user("ana")), 5);
    assert_eq!(left(&after, "per-user", &user("ben")), 6);
    assert_eq!(left(&on(with_entry(2)), "per-user", &user("ana")), 2, "it does not come back");
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
        Override::new("user", "ana").limits("per-usr", hourly(2)),
        Override::new("user", "ana").limits("per-user", hourly(0)),
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
    let change = Override::new("user", "ana").limits("per-user", vec![hourly(9), hourly(4)]);
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
    gate.set_override(own("ana", 100).until(clock.now().saturating_add(MINUTE))).unwrap();
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
        assert_eq!(gate.remove_override(&nobody), OverrideRemoval::NotFound);
    }
    gate.set_override(own("ana", 2).until(Timestamp::from_nanos(0))).unwrap();
    assert_eq!(left(&gate, "per-user", &user("ana")), 1, "one that ended long ago");
}

#[test]
fn overrides_outlive_a_restart_in_a_file_that_is_whole_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("overrides");
    let policy = Policy::new().rule(per_user(5)).override_client(own("eve", 9));
    let (before, _) = gate(policy.clone());
    before.set_override(own("ana", 50).until(Timestamp::MAX)).expect("it is right");
    before.set_override(own("eve", 60)).expect("it is right");
    before.save_overrides(&file).expect("the folder can be written");

    let mut changed = policy;
    changed.overrides = vec![own("eve", 8)];
    let (after, _) = gate(changed);
    after.restore_overrides(&file).expect("it was just written");
    assert_eq!(
        (
            left(&after, "per-user", &user("ana")),
            left(&after, "per-user", &user("eve")),
            left(&after, "per-user", &user("ben"))
        ),
        (50, 8, 5),
        "the entry of eve has changed"
    );

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
