//! Every descriptor gets the limit and the counter that a walk through the tree gives it.

use std::collections::HashMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::{applying, import};

/// A descriptor as the service has it: what a walk needs, and no more.
#[derive(Clone, Debug)]
struct Tree {
    key: &'static str,
    value: &'static str,
    /// The limit's count, by which it is told from all others; 0 is none.
    limit: u32,
    has_name: bool,
    shadow: bool,
    shared: bool,
    children: Vec<Tree>,
}

/// The limit a walk finds, whether it only reports, and what is counted together.
type Found = (u32, bool, Vec<String>);

/// The walk: one level for each entry, the exact value first, then the first wildcard, then the
/// key alone; the limit counts only where the entries end.
fn walk(level: &[Tree], entries: &[(&str, &str)]) -> Option<Found> {
    let (&(key, value), rest) = entries.split_first()?;
    let of_key = || level.iter().filter(|tree| tree.key == key);
    let exact = of_key().find(|tree| tree.value == value && !value.is_empty());
    let wildcard = || {
        of_key()
            .find(|tree| tree.value.contains('*') && fits(tree.value.as_bytes(), value.as_bytes()))
    };
    let alone = || of_key().find(|tree| tree.value.is_empty());
    let tree = exact.or_else(wildcard).or_else(alone)?;
    let counted = if tree.shared { tree.value } else { value };
    let (limit, shadow, mut counter) = match rest {
        [] if tree.limit == 0 => return None,
        [] => (tree.limit, tree.shadow, Vec::new()),
        _ => walk(&tree.children, rest)?,
    };
    counter.insert(0, format!("{key}={counted}"));
    Some((limit, shadow, counter))
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        Some((wanted, rest)) => text.first() == Some(wanted) && fits(rest, &text[1..]),
    }
}

fn yaml(level: &[Tree], indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    for tree in level {
        writeln!(text, "{pad}- key: '{}'", tree.key).unwrap();
        if !tree.value.is_empty() {
            writeln!(text, "{pad}  value: '{}'", tree.value).unwrap();
        }
        if tree.limit > 0 {
            let name =
                if tree.has_name { format!("name: r{}, ", tree.limit) } else { String::new() };
            let limit = tree.limit;
            writeln!(text, "{pad}  rate_limit: {{ {name}unit: hour, requests_per_unit: {limit} }}")
                .unwrap();
        }
        writeln!(text, "{pad}  shadow_mode: {}", tree.shadow).unwrap();
        writeln!(text, "{pad}  share_threshold: {}", tree.shared).unwrap();
        if !tree.children.is_empty() {
            writeln!(text, "{pad}  descriptors:").unwrap();
            yaml(&tree.children, indent + 2, text);
        }
    }
}

const KEYS: &[&str] = &["a", "b", "a,b", "a\\", "domain", "a#2"];
const PATTERNS: &[&str] = &["", "", "x", "xy", "z|=%", "x*", "*", "*y", "x*y", "?*", "z\"\\*"];
const VALUES: &[&str] = &["", "x", "xy", "xzy", "z", "y", "?", "z|=%", "z\"\\"];

fn node() -> impl Strategy<Value = Tree> {
    let key = prop_oneof![4 => Just("a"), 1 => prop::sample::select(KEYS)];
    let leaf = (
        key,
        prop::sample::select(PATTERNS),
        prop::bool::weighted(0.7),
        any::<bool>(),
        prop::bool::weighted(0.2),
        any::<bool>(),
    );
    leaf.prop_map(|(key, value, has_limit, has_name, shadow, shared)| Tree {
        key,
        value,
        limit: u32::from(has_limit),
        has_name,
        shadow,
        shared: shared && value.contains('*'),
        children: Vec::new(),
    })
}

fn trees() -> impl Strategy<Value = Vec<Tree>> {
    let level = prop::collection::vec(node(), 0..6);
    let deeper = level.prop_recursive(3, 60, 6, |inner| {
        prop::collection::vec((node(), inner), 0..6).prop_map(|nodes| {
            let with = |(tree, children)| Tree { children, ..tree };
            nodes.into_iter().map(with).collect()
        })
    });
    deeper.prop_map(|mut trees| {
        tidy(&mut trees, &mut 0);
        trees
    })
}

/// No two alike beside each other, and a number for each limit.
fn tidy(level: &mut Vec<Tree>, limits: &mut u32) {
    let mut seen = std::collections::HashSet::new();
    level.retain(|tree| seen.insert((tree.key, tree.value)));
    for tree in level {
        if tree.limit > 0 {
            *limits += 1;
            tree.limit = *limits;
        }
        tidy(&mut tree.children, limits);
    }
}

fn descriptors() -> impl Strategy<Value = Vec<Vec<(&'static str, &'static str)>>> {
    let key = prop_oneof![4 => Just("a"), 1 => prop::sample::select(KEYS)];
    let entry = (key, prop::sample::select(VALUES));
    prop::collection::vec(prop::collection::vec(entry, 1..4), 1..60)
}

proptest! {
    #[test]
    fn a_descriptor_gets_the_limit_and_the_counter_that_a_walk_finds(
        trees in trees(),
        descriptors in descriptors(),
    ) {
        let mut text = "domain: edge\ndescriptors:\n".to_owned();
        yaml(&trees, 2, &mut text);
        let policy = import(&text);
        let (mut counters, mut keys) = (HashMap::new(), HashMap::new());
        for entries in &descriptors {
            let found = walk(&trees, entries);
            let applying = applying(&policy, "edge", entries);
            let expected = found.as_ref().map(|(limit, shadow, _)| (u64::from(*limit), *shadow));
            let limits = applying.iter().map(|a| (a.numbers.limits()[0].count(), a.shadow));
            prop_assert_eq!(limits.collect::<Vec<_>>(), Vec::from_iter(expected), "{:?}\n{}", entries, text);

            // The same counter if and only if the rule's key is the same.
            if let (Some((limit, _, counter)), Some(applies)) = (found, applying.into_iter().next()) {
                let key = (applies.rule.to_owned(), applies.key);
                let counter = (limit, counter);
                let known = counters.entry(key.clone()).or_insert_with(|| counter.clone());
                prop_assert_eq!(&*known, &counter, "{:?}\n{}", entries, text);
                let known = keys.entry(counter).or_insert_with(|| key.clone());
                prop_assert_eq!(&*known, &key, "{:?}\n{}", entries, text);
            }
        }
        prop_assert!(descriptors.iter().all(|entries| applying(&policy, "other", entries).is_empty()));
    }
}
