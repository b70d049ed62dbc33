//! A suggested limit does what is said of it.

use tollgate::{Limit, Policy, Rule};
use tollgate_lab::replay::{Report, Settings, Suggestion};

use super::run;
use crate::shown::{elements, golden};

/// Clients of every size, and one that asks in bursts.
fn log() -> String {
    let mut text = String::new();
    let mut chance: u64 = 7;
    for at in 0..4_000_u64 {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = (chance >> 33) % 1000;
        let client = if at % 1000 < 40 { 0 } else { 1 + draw * draw / 20_000 };
        text += &format!(
            "{{\"time\":{}.{:03},\"ip\":\"{client}\"}}\n",
            1_794_824_030 + at / 10,
            at % 10 * 100
        );
    }
    text
}

fn with(limit: &str) -> Report {
    let limit: Limit = limit.parse().expect("the test's values are valid");
    let policy = Policy::new().rule(Rule::new("per-ip").key(["ip"]).limit(limit));
    run(log(), &policy, &Settings::default()).expect("the test's values are valid")
}

/// Replays the log with each suggested limit and the next smaller one. Returns how many had a smaller
/// one.
fn verify(of: &Suggestion) -> usize {
    let mut smaller = 0;
    for smallest in &of.smallest {
        let limit = smallest.limit.as_ref().expect("the largest rung is far above this log");
        let report = with(limit);
        assert_eq!(report.refused, smallest.refused, "{limit}");
        assert!(report.refused * 1000 <= report.requests * smallest.per_thousand, "{limit}");
        let at = of
            .tried
            .iter()
            .position(|tried| tried.limit == *limit)
            .expect("the test's values are valid");
        if let Some(below) = at.checked_sub(1).map(|at| &of.tried[at]) {
            smaller += 1;
            let report = with(&below.limit);
            assert_eq!(report.refused, below.refused, "{}", below.limit);
            assert!(
                report.refused * 1000 > report.requests * smallest.per_thousand,
                "{}",
                below.limit
            );
        }
    }
    smaller
}

#[test]
fn a_replay_with_a_suggested_limit_refuses_what_was_said_and_a_smaller_one_too_much() {
    let limits =
        ["10/min burst 3", "40/min fixed_window", "30/min sliding_log", "30/min sliding_counter"];
    for limit in limits {
        let report = with(limit);
        let [of] = report.suggestions.as_slice() else { panic!("one limit, one suggestion") };
        assert_eq!((&*of.rule, &*of.limit, of.one_key_in), ("per-ip", limit, 1));
        assert_eq!((of.requests, of.refused), (report.requests, report.refused));
        assert_eq!(verify(of), of.smallest.len(), "{limit}: there are smaller ones to try");
    }
}

#[test]
fn every_limit_of_a_rule_and_of_its_tiers_has_suggestions_of_its_own() {
    let rule =
        Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(10)).limit(Limit::per_hour(50));
    let policy = Policy::new().rule(rule.tier("pro", Limit::per_minute(100)));
    let log =
        "{\"time\":1794824030,\"ip\":\"1\"}\n{\"time\":1794824030,\"ip\":\"1\",\"tier\":\"pro\"}\n";
    let report = run(log, &policy, &Settings::default()).expect("the test's values are valid");
    let limits: Vec<(&str, u64)> =
        report.suggestions.iter().map(|of| (&*of.limit, of.requests)).collect();
    assert_eq!(limits, [("10/min", 1), ("50/h", 1), ("100/min", 1)]);
    let none = Settings { suggest: false, ..Settings::default() };
    assert!(run(log, &policy, &none).expect("the test's values are valid").suggestions.is_empty());
}

#[test]
fn limits_that_get_no_suggestion_are_told() {
    let tier = |rule: Rule, of: u64| rule.tier(format!("t{of:02}"), Limit::per_minute(of + 1));
    let rule = Rule::new("per-ip").key(["ip"]).limit(Limit::per_minute(1000));
    let policy = Policy::new().rule((0..80).fold(rule, tier));
    let line = |of: u64| format!("{{\"time\":1794824030,\"ip\":\"1\",\"tier\":\"t{of:02}\"}}\n");
    let log: String = (0..80).map(line).collect();
    let report = run(log, &policy, &Settings::default()).expect("the test's values are valid");
    assert_eq!((report.suggestions.len(), report.not_suggested.len()), (64, 16));
    let first = &report.not_suggested[0];
    assert_eq!((&*first.rule, &*first.limit), ("per-ip", "65/min"));
    golden("replay-not-suggested.txt", &(elements(&report.html(), "p").join("\n") + "\n"));
}

#[test]
fn the_smallest_limit_that_was_tried_is_told_as_that_or_less() {
    let or_less = |limit: &str| {
        let mut cells = elements(&with(limit).html(), "td");
        cells.retain(|cell| cell.ends_with(" or less"));
        cells
    };
    let smallest = "10000/min fixed_window or less";
    assert_eq!(or_less("1000000/min fixed_window"), [smallest; 3]);
    assert_eq!(or_less("1000/day"), [""; 0]);
}
