//! Files that are meant to hurt: an error soon, in bounded memory.

use std::fmt::Write as _;

use proptest::prelude::*;
use tollgate::Policy;

fn first_error(yaml: &str) -> String {
    let error = Policy::from_envoy("edge.yaml", yaml).expect_err("it is refused");
    error.diagnostics[0].to_string()
}

#[test]
fn a_file_that_is_too_large_is_not_even_parsed() {
    let yaml = "#".repeat(100 << 20);
    assert_eq!(first_error(&yaml), "edge.yaml: has 104857600 bytes, must be at most 16 MiB");
}

#[test]
fn nesting_is_bounded_in_every_notation() {
    for (start, message) in [
        ("- ", "edge.yaml:1: nested more than 64 levels deep"),
        ("[", "edge.yaml:1: not YAML: recursion limit exceeded"),
        ("{a: ", "edge.yaml:1: not YAML: recursion limit exceeded"),
    ] {
        assert_eq!(first_error(&start.repeat(1 << 20)), message, "{start}");
    }
    let mut yaml = "domain: edge\ndescriptors:\n".to_owned();
    for depth in 0..100 {
        writeln!(yaml, "{0}- key: k\n{0}  descriptors:", " ".repeat(depth * 2)).unwrap();
    }
    assert_eq!(first_error(&yaml), "edge.yaml:65: nested more than 64 levels deep");
}

#[test]
fn aliases_do_not_nest_deeper_than_text() {
    let mut yaml = "x0: &x0 [a]\n".to_owned();
    for level in 1..100_000 {
        writeln!(yaml, "x{level}: &x{level} [*x{}]", level - 1).unwrap();
    }
    assert!(first_error(&yaml).ends_with("nested more than 64 levels deep"));
}

#[test]
fn aliases_of_aliases_are_written_out_to_a_bound() {
    let mut yaml = "domain: edge\nx:\n  - &d0 [{ key: a }]\n".to_owned();
    for level in 1..20 {
        let last = level - 1;
        let items: Vec<String> = (0..10)
            .map(|item| format!("{{ key: a, value: v{item}, descriptors: *d{last} }}"))
            .collect();
        writeln!(yaml, "  - &d{level} [{}]", items.join(", ")).unwrap();
    }
    writeln!(yaml, "descriptors: *d19").unwrap();
    let error = Policy::from_envoy("edge.yaml", &yaml).expect_err("it is refused");
    let bound = "more than 100000 descriptors, split the file";
    assert!(error.diagnostics.iter().any(|finding| finding.message == bound), "{error}");
}

#[test]
fn merged_mappings_count_as_values() {
    let mut yaml = "domain: edge\nx: &x {".to_owned();
    for key in 0..10_000 {
        write!(yaml, "k{key}: 1, ").unwrap();
    }
    yaml.push_str("}\ny:\n");
    yaml.push_str(&"  - <<: *x\n".repeat(10_000));
    assert!(first_error(&yaml).ends_with("more than 1000000 values, split the file"));
}

#[test]
fn siblings_that_exclude_each_other_are_bounded() {
    let mut yaml = "domain: edge\ndescriptors:\n  - key: a\n    descriptors:\n".to_owned();
    for number in 0..20_000 {
        let limit = "rate_limit: { unit: hour, requests_per_unit: 1 }";
        writeln!(yaml, "      - {{ key: b, value: v{number}, {limit} }}").unwrap();
    }
    for number in 0..20_000 {
        writeln!(yaml, "  - {{ key: a, value: v{number} }}").unwrap();
    }
    let error = first_error(&yaml);
    assert!(
        error.ends_with("the rules up to here take more than 128 MiB, split the file or have fewer siblings of one key"),
        "{error}"
    );
}

#[test]
fn a_long_list_of_errors_is_cut() {
    let yaml = format!("domain: edge\ndescriptors:\n{}", "  - { k: 1 }\n".repeat(5_000));
    let error = Policy::from_envoy("edge.yaml", &yaml).expect_err("it is refused");
    assert_eq!(error.diagnostics.len(), 1001);
    assert_eq!(error.diagnostics[1000].message, "more errors follow, mend these first");
}

#[test]
fn long_texts_are_refused_and_cut_where_they_are_shown() {
    let long = "x".repeat(1 << 20);
    let error = first_error(&format!("domain: edge\n? {long}\n: 1"));
    assert!(error.starts_with("edge.yaml:2: unknown key `xxx") && error.len() < 300, "{error}");
    let error = first_error(&format!("domain: edge\ndescriptors: [{{ key: a, value: {long} }}]"));
    assert_eq!(error, "edge.yaml:2: `value` has 1048576 bytes, must have at most 4096");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_line(
        yaml in r#"([\[\]{}:,\-?&*!|>'"%#\n a]|key: |domain: a\n|descriptors:\n| - |rate_limit: |unit: |<<: ){0,40}"#
    ) {
        if let Err(error) = Policy::from_envoy("edge.yaml", &yaml) {
            let lines = yaml.lines().count() + 1;
            prop_assert!(!error.diagnostics.is_empty());
            prop_assert!(error.diagnostics.iter().all(|finding| (1..=lines).contains(&finding.line)), "{error}");
        }
    }
}
