//! What is refused, in the words that are shown, and what is warned of.

use tollgate::Policy;

fn errors(yaml: &str) -> String {
    Policy::from_envoy("edge.yaml", yaml).expect_err("it is refused").to_string()
}

fn warnings(yaml: &str) -> String {
    let loaded = Policy::from_envoy("edge.yaml", yaml).unwrap_or_else(|error| panic!("{error}"));
    loaded.warnings.iter().map(|warning| format!("{warning}\n")).collect()
}

#[test]
fn every_error_is_told_at_once_with_its_line_and_what_would_be_right() {
    let yaml = "\
domian: edge
descriptors:
  - key: user
    rate_limt: {}
    unit: hour
    shadow_mode: maybe
  - value: 5
  - key: user
  - key: path
    value: /a
    share_threshold: true
    rate_limit:
      unit: minutes
      requests_per_unit: -1
      colour: red
    descriptors: none
  - key: path
    value: a?*b
    rate_limit: { unit: fortnight }
  - key: foo*
    quota_mode: true
    rate_limit: { unlimited: true, unit: hour, replaces: [{ name: x }], shadow_mode: true }
  - just a text
";
    let expected = r#"edge.yaml:1: no `domain`, every file has one
edge.yaml:1: unknown key `domian`, did you mean `domain`?
edge.yaml:4: rule "|user": unknown key `rate_limt`, did you mean `rate_limit`?
edge.yaml:5: rule "|user": `unit` does not belong here, put it into `rate_limit`
edge.yaml:6: rule "|user": `shadow_mode` is maybe, must be `true` or `false`
edge.yaml:7: a descriptor without `key`, every descriptor has one
edge.yaml:8: rule "|user": a second descriptor like the one on line 3, write it once
edge.yaml:15: rule "|path=/a": unknown key `colour`, known are `unit`, `requests_per_unit`, `unlimited`, `name` and `replaces`
edge.yaml:13: rule "|path=/a": unknown unit "minutes", did you mean "minute"?
edge.yaml:14: rule "|path=/a": `requests_per_unit` is "-1", must be a whole number of at most 4294967295
edge.yaml:16: rule "|path=/a": `descriptors` is a text, must be a list
edge.yaml:9: rule "|path=/a": `share_threshold` belongs to a `value` with a `*`, whose values it counts together
edge.yaml:17: rule "|path=a?*b": a `value` with a `?` and a `*` before its end cannot be expressed: a pattern takes `?` as any character
edge.yaml:19: rule "|path=a?*b": unknown unit "fortnight", must be one of second, minute, hour, day, week, month, year
edge.yaml:19: rule "|path=a?*b": no `requests_per_unit`, write 0 to deny everything
edge.yaml:20: rule "|foo*": a `key` that ends in `*` cannot be expressed, give the `*` as its `value` to take every value
edge.yaml:21: rule "|foo*": `quota_mode` cannot be expressed: a rule that is over its limit denies, or with `shadow_mode` only reports
edge.yaml:22: rule "|foo*": `replaces` cannot be expressed: it makes the limit of one descriptor depend on the other descriptors of the request
edge.yaml:22: rule "|foo*": `shadow_mode` does not belong here, put it beside `rate_limit`
edge.yaml:22: rule "|foo*": a `unit` beside `unlimited`, leave one of them out
edge.yaml:23: a descriptor is a text, must be a mapping"#;
    assert_eq!(errors(yaml), expected);
}

#[test]
fn a_name_that_headers_cannot_carry_is_refused_with_its_line() {
    let yaml = "
domain: edge
descriptors:
  - key: a
    rate_limit: { name: größe, unit: hour, requests_per_unit: 1 }
";
    assert_eq!(
        errors(yaml),
        r#"edge.yaml:5: the name "größe" has characters that headers cannot carry, use printable ASCII without " and \"#
    );
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let yaml = "
domain: edge
descriptors:
  - key: a
    detailed_metric: true
    value_to_metric: false
    quota_mode: false
    rate_limit: { unlimited: true, requests_per_unit: 5, replaces: [] }
  - key: b
    shadow_mode: true
  - key: c
    value: '*'
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: c
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: d
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 0 }
";
    let expected = r#"edge.yaml:5: rule "edge|a": `detailed_metric` has no effect, metrics are named by rule
edge.yaml:8: rule "edge|a": `requests_per_unit` has no effect beside `unlimited`
edge.yaml:9: rule "edge|b": `shadow_mode` has no effect without a `rate_limit` beside it
edge.yaml:14: rule "edge|c": never reached, line 11 takes all its values
edge.yaml:18: rule "edge|d": `requests_per_unit` is 0 and `shadow_mode` denies nothing, so it is left out
"#;
    assert_eq!(warnings(yaml), expected);
    assert_eq!(warnings("domain: edge"), "edge.yaml:1: no `descriptors`, so nothing is limited\n");
}

#[test]
fn what_is_not_a_file_of_the_service_is_refused() {
    let cases = [
        ("", "edge.yaml:1: the file is empty, must be a mapping"),
        ("# nothing\n", "edge.yaml:1: the file is empty, must be a mapping"),
        ("[]", "edge.yaml:1: the file is a list, must be a mapping"),
        ("just text", "edge.yaml:1: the file is a text, must be a mapping"),
        ("domain: ''", "edge.yaml:1: no `domain`, every file has one"),
        ("domain: [a]", "edge.yaml:1: `domain` is a list, must be a text"),
        ("a: 1\n---\nb: 2", "edge.yaml:2: a second document, write one file for each domain"),
        ("domain: a\ndomain: b", "edge.yaml:2: `domain` is given twice"),
        ("[a]: b", "edge.yaml:1: a key is a list or mapping, must be a name"),
        (": b", "edge.yaml:1: a key is missing before `:`"),
        ("a: &x [*x]", "edge.yaml:1: an alias inside of what it stands for, it has no end"),
        ("<<: 5", "edge.yaml:1: `<<` takes a mapping or a list of mappings"),
        ("\n{a: b", "edge.yaml:2: not YAML: unclosed bracket '{'"),
    ];
    for (yaml, expected) in cases {
        let errors = errors(yaml);
        assert_eq!(errors.lines().next(), Some(expected), "{yaml:?}: {errors}");
    }
}
