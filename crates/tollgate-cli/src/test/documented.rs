//! docs/testing-limits.md has every key of a test file, and no other.

use std::collections::BTreeSet;

use super::{expect, step, suite};

const PAGE: &str = include_str!("../../../../docs/testing-limits.md");

/// The first column of the first table after `heading`.
fn documented(after: &str) -> BTreeSet<&'static str> {
    let (_, rest) = PAGE.split_once(after).expect("the page has this line");
    let rows = rest.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}

fn set(keys: &[&'static str]) -> BTreeSet<&'static str> {
    keys.iter().copied().collect()
}

#[test]
fn the_page_has_every_key() {
    assert_eq!(documented("\n## The test file\n"), set(&suite::KEYS));
    assert_eq!(documented("\nA `[[test]]` has these keys."), set(&suite::TEST_KEYS));
    assert_eq!(documented("\n## Steps\n"), set(&step::KEYS));
    assert_eq!(documented("\n## What a step does\n"), set(&step::WORDS));
    assert_eq!(documented("\n## What must come of it\n"), set(&expect::KEYS));
    assert_eq!(documented("\nFor a rule in `rules`:\n"), set(&expect::RULE_KEYS));
}
