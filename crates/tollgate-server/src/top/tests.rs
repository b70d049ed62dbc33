use tollgate::{Limit, Policy, Rule};

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_000_000);

const PER_USER: &str = "per-user";

/// The names of a policy with the rules of these tests.
fn names() -> ActiveNames {
    let rule = |name: &str| Rule::new(name).key(["user"]).limit(Limit::per_second(1));
    let many = (0..2 * TOP_RULES).map(|number| rule(&format!("rule-{number}")));
    let known = [rule(PER_USER), rule("per-tenant"), rule("trial").shadow()];
    ActiveNames::of(&known.into_iter().chain(many).fold(Policy::new(), Policy::rule))
}

fn counts(weight: u64, allowed: bool) -> KeyCounts {
    KeyCounts { seen: weight, denied: if allowed { 0 } else { weight }, over: 0 }
}

fn see(top: &Top, user: &str, allowed: bool, now: Timestamp) {
    match top.due(allowed) {
        0 => {}
        weight => {
            let sample = KeySample { rule: PER_USER, is_shadow: false, key: &[("user", user)] };
            top.count(sample, counts(weight, allowed), now);
        }
    }
}

fn list(top: &Top, by: By, most: usize, now: Timestamp) -> (Vec<Ranked>, Duration) {
    top.list(TopQuery { by, rule: None, most, names: &names() }, now)
}

fn users(top: &Top, by: By, now: Timestamp) -> Vec<(String, u64)> {
    let listed = list(top, by, 10, now).0;
    listed.iter().map(|ranked| (ranked.key[0].1.to_string(), ranked.counts.of(by))).collect()
}

#[test]
fn few_decisions_are_counted_one_by_one() {
    let top = Top::default();
    (0..5).for_each(|_| see(&top, "ana", true, NOW));
    (0..3).for_each(|_| see(&top, "ben", false, NOW));
    see(&top, "cleo", true, NOW);
    let expected =
        [("ana", 5), ("ben", 3), ("cleo", 1)].map(|(user, seen)| (user.to_owned(), seen));
    assert_eq!(users(&top, By::Traffic, NOW), expected);
    assert_eq!(users(&top, By::Denials, NOW), [("ben".to_owned(), 3)]);
}

#[test]
fn who_has_the_most_is_found_among_more_keys_than_are_kept() {
    let top = Top::default();
    for number in 0..200_000 {
        see(&top, &format!("once-{number}"), true, NOW);
        if number % 10 == 0 {
            see(&top, "often", true, NOW);
        }
        if number % 20 == 0 {
            see(&top, "less often", true, NOW);
        }
    }
    let listed = users(&top, By::Traffic, NOW);
    let names: Vec<_> = listed.iter().map(|(user, _)| user.as_str()).collect();
    assert_eq!(names[..2], ["often", "less often"], "{listed:?}");
    // Within what chance and the places of others may add.
    assert!((18_000..24_000).contains(&listed[0].1), "{listed:?}");
    let windows = top.windows.lock();
    let sketch = &windows.now.of_rules[PER_USER].traffic;
    assert_eq!(sketch.entries.len(), TOP_KEYS_OF_RULE);
    assert_eq!(sketch.places.len(), TOP_KEYS_OF_RULE);
}

#[test]
fn what_was_minutes_ago_is_forgotten() {
    let top = Top::default();
    see(&top, "ana", true, NOW);
    let later = NOW.saturating_add(TOP_WINDOW);
    see(&top, "ben", true, later);
    assert_eq!(users(&top, By::Traffic, later).len(), 2);
    assert_eq!(list(&top, By::Traffic, 1, later).1, TOP_WINDOW);
    assert_eq!(users(&top, By::Traffic, later.saturating_add(TOP_WINDOW)), [("ben".to_owned(), 1)]);
    assert!(users(&top, By::Traffic, later.saturating_add(3 * TOP_WINDOW)).is_empty());
}

#[test]
fn a_long_key_is_cut_and_is_still_another_than_its_like() {
    let top = Top::default();
    let long = "ü".repeat(3000);
    see(&top, &long, true, NOW);
    see(&top, &format!("{long}x"), true, NOW);
    let listed = list(&top, By::Traffic, 10, NOW).0;
    assert_eq!(listed.len(), 2);
    assert!(listed[0].key[0].1.len() <= MAX_SHOWN_KEY + 3 && listed[0].key[0].1.ends_with('…'));
    assert!(!listed[0].whole);
}

#[test]
fn a_busy_thread_asks_who_it_was_only_now_and_then() {
    let top = Top::default();
    let mut asked = 0;
    for _ in 0..1_000_000 {
        let weight = top.due(true);
        if weight > 0 {
            asked += 1;
            let sample = KeySample { rule: PER_USER, is_shadow: false, key: &[("user", "ana")] };
            top.count(sample, counts(weight, true), NOW);
        }
    }
    assert!(asked < 40_000, "{asked}");
    let seen = list(&top, By::Traffic, 1, NOW).0[0].counts.seen;
    assert!((900_000..1_100_000).contains(&seen), "and counts it for the others: {seen}");
}

/// Counts requests of a key of a rule.
fn see_of(top: &Top, rule: &str, key: &str, denied: u64) {
    let sample = KeySample { rule, is_shadow: rule == "trial", key: &[("key", key)] };
    top.count(sample, KeyCounts { seen: 1, denied, over: 0 }, NOW);
}

#[test]
fn rule_with_many_keys_does_not_push_out_the_keys_of_another() {
    let top = Top::default();
    see_of(&top, "per-tenant", "acme", 0);
    for number in 0..10_000 {
        see_of(&top, PER_USER, &format!("{number}"), 0);
        see_of(&top, PER_USER, &format!("{number}"), 0);
    }
    let names = names();
    let query = TopQuery { by: By::Traffic, rule: Some("per-tenant"), most: 10, names: &names };
    let listed = top.list(query, NOW).0;
    assert_eq!((listed.len(), listed[0].counts.seen, listed[0].counts.over), (1, 1, 0));
}

#[test]
fn rules_past_the_bound_share_one_sketch_and_memory_is_bounded() {
    let top = Top::default();
    for rule in 0..2 * TOP_RULES {
        let rule = format!("rule-{rule}");
        (0..2 * TOP_KEYS_SHARED).for_each(|key| see_of(&top, &rule, &format!("{key}"), 1));
    }
    let windows = top.windows.lock();
    let sketches: Vec<&RuleSketches> = windows.now.all().collect();
    assert_eq!(sketches.len(), TOP_RULES + 1);
    let most = TOP_RULES * TOP_KEYS_OF_RULE + TOP_KEYS_SHARED;
    let entries = |of: fn(&RuleSketches) -> &Sketch| {
        sketches.iter().map(|sketches| of(sketches).entries.len()).sum::<usize>()
    };
    assert_eq!((entries(|of| &of.traffic), entries(|of| &of.denials)), (most, most));
}

#[test]
fn denials_of_shadow_rules_are_no_denials() {
    let top = Top::default();
    see_of(&top, "trial", "acme", 1);
    see_of(&top, PER_USER, "ana", 1);
    let keys = |by, rule| {
        let names = names();
        let listed = top.list(TopQuery { by, rule, most: 10, names: &names }, NOW).0;
        listed.iter().map(|of| of.rule.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keys(By::Denials, None), [PER_USER]);
    assert_eq!(keys(By::WouldDeny, None), ["trial"]);
    assert_eq!(keys(By::Traffic, None), [PER_USER], "a shadow rule would list a client again");
    assert_eq!(keys(By::Traffic, Some("trial")), ["trial"]);
    assert_eq!(keys(By::Denials, Some("trial")), Vec::<String>::new());
}

#[test]
fn keys_of_removed_rules_and_of_rules_that_left_the_shadow_are_not_listed() {
    let top = Top::default();
    see_of(&top, "removed", "acme", 1);
    let sample = KeySample { rule: PER_USER, is_shadow: true, key: &[("user", "ana")] };
    top.count(sample, counts(1, false), NOW);
    for by in [By::Traffic, By::Denials, By::WouldDeny] {
        assert_eq!(users(&top, by, NOW), [], "{by:?}");
    }
}

#[test]
fn denied_key_is_listed_with_all_its_requests() {
    let top = Top::default();
    (0..5).for_each(|number| see_of(&top, "trial", "acme", u64::from(number > 2)));
    let names = names();
    let query = TopQuery { by: By::WouldDeny, rule: None, most: 10, names: &names };
    let expected = KeyCounts { seen: 5, denied: 2, over: 0 };
    assert_eq!(top.list(query, NOW).0[0].counts, expected);
}
