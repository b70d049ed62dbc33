//! What files look like in the field.

use std::time::Duration;

use tollgate::{Limit, Policy, RuleLimits};

use super::{applying, import, only};

fn key(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn a_key_alone_counts_every_value_for_itself() {
    let policy = import(
        "
domain: edge
descriptors:
  - key: client
    rate_limit:
      unit: second
      requests_per_unit: 7
",
    );
    let rule = "edge|client".to_owned();
    assert_eq!(only(&policy, &[("client", "ann")]), Some((rule.clone(), key(&["ann"]))));
    assert_eq!(only(&policy, &[("client", "bob")]), Some((rule, key(&["bob"]))));
    assert_eq!(only(&policy, &[("user", "ann")]), None);
}

#[test]
fn a_descriptor_matches_at_its_own_depth_only() {
    let policy = import(
        "
domain: edge
descriptors:
  - key: kind
    value: marketing
    descriptors:
      - key: phone
        rate_limit: { name: per-phone, unit: day, requests_per_unit: 3 }
  - key: phone
    rate_limit: { unit: day, requests_per_unit: 9 }
",
    );
    let name = |entries: &[(&str, &str)]| only(&policy, entries).map(|(rule, _)| rule);
    assert_eq!(name(&[("kind", "marketing"), ("phone", "1")]).as_deref(), Some("per-phone"));
    assert_eq!(name(&[("phone", "1")]).as_deref(), Some("edge|phone"));
    assert_eq!(name(&[("kind", "marketing")]), None);
    assert_eq!(name(&[("phone", "1"), ("kind", "marketing")]), None);
    assert_eq!(name(&[("kind", "marketing"), ("phone", "1"), ("x", "y")]), None);
}

#[test]
fn one_address_is_spared_and_one_shut_out_and_the_others_are_limited() {
    let policy = import(
        "
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: remote_address
    value: 192.0.2.1
    rate_limit: { unlimited: true }
  - key: remote_address
    value: 192.0.2.2
    rate_limit: { unit: second, requests_per_unit: 0 }
  - key: remote_address
    value: 192.0.2.3
",
    );
    let of = |address| applying(&policy, "edge", &[("remote_address", address)]);
    assert_eq!(of("192.0.2.9")[0].numbers, &Limit::fixed_window(10, Duration::from_secs(1)).into());
    assert_eq!(of("192.0.2.9")[0].key, ["192.0.2.9"]);
    assert_eq!(of("192.0.2.1")[0].numbers, &RuleLimits::Unlimited);
    assert_eq!(of("192.0.2.2"), []);
    assert_eq!(of("192.0.2.3"), []);
    let [deny] = &policy.deny[..] else { panic!("{:?}", policy.deny) };
    assert_eq!(deny.name, "edge|remote_address=192.0.2.2");
    let descriptor = tollgate::EnvoyDescriptor::new("edge", [("remote_address", "192.0.2.2")]);
    assert!(super::hold(&deny.matches, &descriptor.request()));
}

#[test]
fn a_wildcard_counts_each_value_unless_they_share() {
    let policy = import(
        "
domain: edge
descriptors:
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: { unit: hour, requests_per_unit: 100 }
  - key: path
    value: /search?q=*
    rate_limit: { unit: hour, requests_per_unit: 50 }
  - key: path
    value: '*.png'
    rate_limit: { unit: hour, requests_per_unit: 20 }
",
    );
    let of = |path| only(&policy, &[("path", path)]);
    assert_eq!(of("/files/a"), Some(("edge|path=/files/*".to_owned(), key(&[]))));
    assert_eq!(of("/files/b.png"), Some(("edge|path=/files/*".to_owned(), key(&[]))));
    assert_eq!(of("/search?q=a").unwrap().1, key(&["/search?q=a"]));
    assert_eq!(of("/searchXq=a"), None);
    assert_eq!(of("/b.png"), Some(("edge|path=*.png".to_owned(), key(&["/b.png"]))));
}

#[test]
fn units_have_the_lengths_of_the_service_and_any_case() {
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    for (unit, length) in [
        ("second", Duration::from_secs(1)),
        ("MINUTE", Duration::from_secs(60)),
        ("Hour", Duration::from_secs(3600)),
        ("day", days(1)),
        ("WEEK", days(7)),
        ("MONTH", days(30)),
        ("YEAR", days(365)),
    ] {
        let policy = import(&format!(
            "{{domain: edge, descriptors: [{{key: k, rate_limit: {{unit: {unit}, requests_per_unit: 1_000}}}}]}}"
        ));
        assert_eq!(policy.rules[0].limits, Limit::fixed_window(1000, length).into());
        policy.validate().unwrap();
    }
}

#[test]
fn shadow_mode_makes_a_shadow_rule() {
    let policy = import(
        "
domain: edge
descriptors:
  - key: k
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
",
    );
    assert!(policy.rules[0].shadow);
}

#[test]
fn anchors_aliases_and_merged_mappings_are_understood() {
    let policy = import(
        "
domain: edge
descriptors:
  - key: a
    rate_limit: &slow { unit: hour, requests_per_unit: 5 }
  - &b
    key: b
    rate_limit: *slow
  - <<: *b
    key: c
    rate_limit: { <<: *slow, requests_per_unit: 6 }
",
    );
    let counts: Vec<_> =
        policy.rules.iter().map(|rule| (&*rule.name, rule.limits.limits()[0].count())).collect();
    assert_eq!(counts, [("edge|a", 5), ("edge|b", 5), ("edge|c", 6)]);
}

#[test]
fn values_are_texts_as_they_are_written() {
    let policy = import(
        "
domain: 7
descriptors:
  - { key: 1, value: 010, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: 1, value: true, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: 1, value: null, rate_limit: { unit: hour, requests_per_unit: 5 } }
",
    );
    let rule = |value| applying(&policy, "7", &[("1", value)])[0].rule.to_owned();
    assert_eq!(rule("010"), "7|1=010");
    assert_eq!(rule("true"), "7|1=true");
    assert_eq!(rule("8"), "7|1");
}

#[test]
fn names_are_printable_and_each_is_there_once() {
    let long = "x".repeat(300);
    let policy = import(&format!(
        "
domain: edge
descriptors:
  - {{ key: 'a=b', rate_limit: {{ unit: hour, requests_per_unit: 1 }} }}
  - {{ key: a, value: b, rate_limit: {{ unit: hour, requests_per_unit: 1 }} }}
  - {{ key: 'größe', value: '\"|\\', rate_limit: {{ unit: hour, requests_per_unit: 1 }} }}
  - {{ key: k, value: {long}, rate_limit: {{ unit: hour, requests_per_unit: 1 }} }}
  - {{ key: k, value: {long}1, rate_limit: {{ unit: hour, requests_per_unit: 1 }} }}
"
    ));
    policy.validate().unwrap();
    let names: Vec<&str> = policy.rules.iter().map(|rule| &*rule.name).collect();
    assert_eq!(names[..3], ["edge|a%3Db", "edge|a=b", "edge|gr%C3%B6%C3%9Fe=%22%7C%5C"]);
    assert!(names[3].len() == 128 && names[4].len() == 128 && names[3] != names[4]);
}

#[test]
fn a_name_that_is_given_twice_is_told_apart_and_warned_of() {
    let yaml = "
domain: edge
descriptors:
  - { key: a, rate_limit: { name: slow, unit: hour, requests_per_unit: 1 } }
  - { key: b, rate_limit: { name: slow, unit: hour, requests_per_unit: 2 } }
";
    let loaded = Policy::from_envoy("edge.yaml", yaml).unwrap();
    let names: Vec<&str> = loaded.policy.rules.iter().map(|rule| &*rule.name).collect();
    assert_eq!(names, ["slow|edge|a", "slow|edge|b"]);
    let public = loaded.policy.rules.iter().map(|rule| rule.public_name.as_deref());
    assert_eq!(public.collect::<Vec<_>>(), [Some("slow"); 2]);
    assert_eq!(
        loaded.warnings[1].to_string(),
        r#"edge.yaml:5: rule "slow|edge|b": 2 limits are named "slow", this one is called "slow|edge|b""#
    );
}

#[test]
fn public_name_is_the_one_that_the_file_gives_or_hidden() {
    let yaml = "
domain: edge
descriptors:
  - { key: a, rate_limit: { name: slow, unit: hour, requests_per_unit: 1 } }
  - { key: b, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: c, rate_limit: { unit: hour, requests_per_unit: 0 } }
";
    let policy = Policy::from_envoy("edge.yaml", yaml).unwrap().policy;
    let public = |name: &Option<String>| name.clone();
    let rules: Vec<_> = policy.rules.iter().map(|rule| public(&rule.public_name)).collect();
    assert_eq!(rules, [None, Some(String::new())]);
    assert_eq!(public(&policy.deny[0].public_name), Some(String::new()));
}
