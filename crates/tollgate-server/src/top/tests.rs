use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_000_000);

fn see(top: &Top, user: &str, allowed: bool, now: Timestamp) {
    match top.due(allowed) {
        0 => {}
        weight => top.count(weight, allowed, now, ("per-user", &[("user", user)])),
    }
}

fn users(top: &Top, by: By, now: Timestamp) -> Vec<(String, u64)> {
    let listed = top.list(by, 10, now).0;
    listed.iter().map(|ranked| (ranked.key[0].1.to_string(), ranked.of(by))).collect()
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
    assert_eq!(windows.now.traffic.entries.len(), TOP_KEYS);
    assert_eq!(windows.now.traffic.places.len(), TOP_KEYS);
}

#[test]
fn what_was_minutes_ago_is_forgotten() {
    let top = Top::default();
    see(&top, "ana", true, NOW);
    let later = NOW.after(TOP_WINDOW);
    see(&top, "ben", true, later);
    assert_eq!(users(&top, By::Traffic, later).len(), 2);
    assert_eq!(top.list(By::Traffic, 1, later).1, TOP_WINDOW);
    assert_eq!(users(&top, By::Traffic, later.after(TOP_WINDOW)), [("ben".to_owned(), 1)]);
    assert!(users(&top, By::Traffic, later.after(3 * TOP_WINDOW)).is_empty());
}

#[test]
fn a_long_key_is_cut_and_is_still_another_than_its_like() {
    let top = Top::default();
    let long = "ü".repeat(3000);
    see(&top, &long, true, NOW);
    see(&top, &format!("{long}x"), true, NOW);
    let listed = top.list(By::Traffic, 10, NOW).0;
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
            top.count(weight, true, NOW, ("per-user", &[("user", "ana")]));
        }
    }
    assert!(asked < 40_000, "{asked}");
    let seen = top.list(By::Traffic, 1, NOW).0[0].seen;
    assert!((900_000..1_100_000).contains(&seen), "and counts it for the others: {seen}");
}
