//! One policy against another.

use tollgate::{Limit, Policy, Rule};
use tollgate_lab::replay::{Report, Settings, replay};

use super::{bytes, settings};
use crate::shown::elements;

fn log() -> String {
    let line = |at: u64| {
        format!(
            "{{\"time\":{},\"ip\":\"{}\",\"user\":\"{}\"}}\n",
            1_794_824_030 + at / 4,
            at % 7,
            at % 3
        )
    };
    (0..2000).map(line).collect()
}

fn policy(per_ip: u64, per_user: Option<u64>) -> Policy {
    let policy =
        Policy::new().rule(Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(per_ip)));
    match per_user {
        Some(count) => {
            policy.rule(Rule::new("per-user").key(["user"]).limit(Limit::per_minute(count)))
        }
        None => policy,
    }
}

fn compare(new: &Policy, old: &Policy) -> Report {
    replay(&[bytes(log())], new, Some(old), &Settings::default(), &mut |_| {})
        .expect("the test's values are valid")
}

#[test]
fn a_policy_is_no_different_from_itself() {
    let report = compare(&policy(20, Some(30)), &policy(20, Some(30)));
    let against = report.against.expect("the test's values are valid");
    assert_eq!((against.newly_refused, against.newly_allowed), (0, 0));
    assert_eq!(against.refused_before, report.refused);
    assert!(report.refused > 0 && against.rules.is_empty());
}

#[test]
fn what_is_newly_refused_and_allowed_is_told_by_rule_and_key() {
    let report = compare(&policy(100, Some(40)), &policy(20, None));
    let against = report.against.as_ref().expect("the test's values are valid");
    assert!(against.newly_refused > 0 && against.newly_allowed > 0, "{against:?}");
    assert_eq!(
        against.refused_before + against.newly_refused - against.newly_allowed,
        report.refused
    );
    let rules: Vec<_> =
        against.rules.iter().map(|of| (&*of.rule, of.newly_refused, of.newly_allowed)).collect();
    assert_eq!(rules.len(), 2);
    assert!(matches!(rules[0], ("per-ip", 0, 1..)), "{rules:?}");
    assert!(matches!(rules[1], ("per-user", 1.., 0)), "{rules:?}");
    assert_eq!(against.refused_clients[0].rule, "per-user");
    assert_eq!(against.allowed_clients[0].key[0].0, "ip");
    let told: u64 = against.refused_clients.iter().map(|client| client.refused).sum();
    assert_eq!(told, against.newly_refused);
    let mut headings = elements(&report.html(), "h2");
    headings.retain(|heading| heading == "Compared with the other policy");
    assert_eq!(headings.len(), 1, "one section compares");
}

#[test]
fn what_can_never_pass_is_refused_in_a_comparison() {
    let log = "{\"time\":1794824030,\"ip\":\"1\",\"cost\":50}\n".repeat(3);
    let settings = settings(&[("cost", "cost")]);
    let compare = |new, old| {
        let report = replay(&[bytes(&log)], new, Some(old), &settings, &mut |_| {});
        report.expect("the test's values are valid").against.expect("there is another policy")
    };
    let (strict, loose) = (policy(10, None), policy(100, None));
    let against = compare(&strict, &loose);
    let figures = (against.newly_refused, against.newly_allowed, against.refused_before);
    assert_eq!(figures, (2, 0, 1));
    assert_eq!((&*against.rules[0].rule, against.rules[0].newly_refused), ("per-ip", 2));
    let back = compare(&loose, &strict);
    assert_eq!((back.newly_refused, back.newly_allowed, back.refused_before), (0, 2, 3));
    assert_eq!(back.allowed_clients[0].key, [("ip".to_owned(), "1".to_owned())]);
}
