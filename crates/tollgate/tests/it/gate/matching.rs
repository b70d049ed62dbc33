//! Which rules apply: what the index finds is what asking every condition of every rule finds.

use ipnet::IpNet;
use proptest::prelude::*;
use tollgate::{
    Condition, Glob, KeyAttribute, ListEntry, Policy, Reason, Request, Rule, RuleExplanation,
    RuleMatch,
};
use tollgate_testkit::cases;

use super::{gate, hourly};

const ATTRIBUTES: [&str; 4] = ["peer", "route", "method", "agent"];

const VALUES: [&str; 16] = [
    "",
    "GET",
    "POST",
    "/",
    "/api",
    "/api/",
    "/api/users",
    "/api/users/7",
    "/apix",
    "10.1.2.3",
    "10.200.0.1",
    "::ffff:10.1.2.3",
    "2001:db8::1",
    "2001:0DB8:0::0001",
    "10.1.2",
    "é",
];

const NETWORKS: [&str; 10] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3/8",
    "10.1.2.3/32",
    "::/0",
    "2001:db8::/32",
    "2001:db8::1/128",
    "::ffff:10.0.0.0/104",
    "192.168.0.0/16",
];

const GLOBS: [&str; 16] = [
    "*",
    "?",
    "/api*",
    "/api/*/7",
    "*users*",
    "/",
    "1?.*",
    "GET",
    "*api*",
    "*/7",
    "*0.*.1",
    "*?x",
    "*pi/u?ers*",
    "*é*",
    "?*",
    "*.0*",
];

fn attribute() -> impl Strategy<Value = String> {
    prop::sample::select(&ATTRIBUTES[..]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    prop::sample::select(&VALUES[..]).prop_map(str::to_owned)
}

fn some<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(of, 1..4)
}

fn condition() -> impl Strategy<Value = Condition> {
    let network = prop::sample::select(&NETWORKS[..])
        .prop_map(|net| net.parse::<IpNet>().expect("a network"));
    let glob = prop::sample::select(&GLOBS[..]).prop_map(Glob::new);
    let plain = prop_oneof![
        4 => value().prop_map(Condition::Equals),
        2 => some(value()).prop_map(Condition::AnyOf),
        3 => some(value()).prop_map(Condition::Prefix),
        2 => some(glob.clone()).prop_map(Condition::Glob),
        // So many that they are matched in one pass.
        1 => prop::collection::vec(glob, 9..14).prop_map(Condition::Glob),
        2 => some(network).prop_map(Condition::Cidr),
        1 => Just(Condition::Present),
        1 => Just(Condition::Absent),
    ];
    (plain, prop::bool::weighted(0.2))
        .prop_map(|(plain, negated)| if negated { !plain } else { plain })
}

fn conditions(least: usize) -> impl Strategy<Value = Vec<(String, Condition)>> {
    prop::collection::vec((attribute(), condition()), least..4)
}

fn key() -> impl Strategy<Value = Vec<KeyAttribute>> {
    let part = (any::<bool>(), prop::option::weighted(0.3, value()));
    prop::collection::vec(part, ATTRIBUTES.len()).prop_map(|parts| {
        let parts = parts.into_iter().zip(ATTRIBUTES).filter(|((taken, _), _)| *taken);
        let part = |((_, default), name): ((bool, _), &str)| KeyAttribute {
            attribute: name.to_owned(),
            default,
            address: None,
        };
        parts.map(part).collect()
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    let rules = prop::collection::vec((conditions(0), key(), any::<bool>()), 0..14);
    let lists = || prop::collection::vec(conditions(2), 0..2);
    (rules, lists(), lists()).prop_map(|(rules, allow, deny)| {
        let mut policy = Policy::new();
        for (number, (matches, key, shadow)) in rules.into_iter().enumerate() {
            let mut rule = Rule::new(format!("rule {number}")).key(key).limit(hourly(1 << 40));
            rule.matches = matches;
            policy = policy.rule(if shadow { rule.shadow() } else { rule });
        }
        for (number, matches) in allow.into_iter().enumerate() {
            let mut list = ListEntry::new(format!("allow {number}"));
            list.matches = matches;
            policy = policy.allow(list);
        }
        for (number, matches) in deny.into_iter().enumerate() {
            let mut list = ListEntry::new(format!("deny {number}"));
            list.matches = matches;
            policy = policy.deny(list);
        }
        policy
    })
}

fn attributes() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((attribute(), value()), 0..5)
}

fn hold(matches: &[(String, Condition)], request: &Request<'_>) -> bool {
    matches.iter().all(|(attribute, condition)| condition.matches(request.get(attribute)))
}

fn verdict_is_right(report: &RuleExplanation, rule: &Rule, request: &Request<'_>) -> bool {
    let failing = rule.matches.iter().find(|(name, of)| !of.matches(request.get(name)));
    let absent = rule
        .key
        .iter()
        .find(|part| part.default.is_none() && request.get(&part.attribute).is_none());
    match &report.verdict {
        RuleMatch::Applies => failing.is_none() && absent.is_none(),
        RuleMatch::ConditionFailed { attribute, condition, value } => {
            failing == Some(&(attribute.clone(), condition.clone()))
                && value.as_deref() == request.get(attribute)
        }
        RuleMatch::KeyMissing { attribute } => {
            failing.is_none() && absent.is_some_and(|part| part.attribute == *attribute)
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn the_rules_that_apply_are_those_whose_conditions_all_hold(
        policy in policy(), requests in prop::collection::vec(attributes(), 1..6)
    ) {
        let (gate, _) = gate(policy.clone());
        for attributes in &requests {
            let pairs = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let request: Request<'_> = pairs.collect();
            let explanation = gate.explain(&request);
            for (report, rule) in explanation.rules.iter().zip(&policy.rules) {
                prop_assert!(verdict_is_right(report, rule, &request), "{report:?} of {request:?}");
            }
            let has_key = |rule: &&Rule| {
                let known = |part: &KeyAttribute| part.default.is_some() || request.get(&part.attribute).is_some();
                rule.key.iter().all(known)
            };
            let applies = |rule: &&Rule| hold(&rule.matches, &request) && has_key(rule);
            let (enforced, shadow): (Vec<_>, Vec<_>) =
                policy.rules.iter().filter(applies).partition(|rule| !rule.shadow);
            let expected = enforced.iter().chain(&shadow).map(|rule| rule.name.as_str());
            let allowed_by = policy.allow.iter().find(|list| hold(&list.matches, &request));
            let denied_by = policy.deny.iter().find(|list| hold(&list.matches, &request));

            let ruling = gate.check(&request);
            prop_assert_eq!(ruling.is_allowed(), allowed_by.is_some() || denied_by.is_none());
            let list = allowed_by.map(|list| (&list.name, true));
            let list = list.or(denied_by.map(|list| (&list.name, false)));
            let said = explanation.list.as_ref().map(|(name, passes)| (name, *passes));
            prop_assert_eq!(said, list);
            if let Some((name, _)) = list {
                prop_assert_eq!(ruling.decided_by_name(), Some(name.as_str()));
                prop_assert_eq!(ruling.rules().count(), 0);
            } else {
                prop_assert!(ruling.rules().map(|figures| figures.rule()).eq(expected));
                let reason = if enforced.is_empty() { Reason::NoRule } else { Reason::Limits };
                prop_assert_eq!(ruling.reason(), reason);
            }
        }
    }
}

#[test]
fn an_address_mapped_into_ipv6_is_in_the_ipv4_network() {
    let networks = vec!["10.0.0.0/8".parse().unwrap()];
    let rule = Rule::new("inside").matches("ip", Condition::Cidr(networks)).limit(hourly(1));
    let (gate, _) = gate(Policy::new().rule(rule));
    assert!(gate.check(&Request::new().with("ip", "10.1.2.3")).decided_by_name().is_some());
    assert!(!gate.check(&Request::new().with("ip", "::ffff:10.9.9.9")).is_allowed());
    assert!(gate.check(&Request::new().with("ip", "11.1.2.3")).decided_by_name().is_none());
    assert!(gate.check(&Request::new().with("ip", "10.1.2.3:80")).decided_by_name().is_some());
}

#[test]
fn a_value_that_is_listed_twice_charges_once() {
    let twice = Condition::AnyOf(vec!["/a".to_owned(), "/b".to_owned(), "/a".to_owned()]);
    let (gate, _) =
        gate(Policy::new().rule(Rule::new("both").matches("route", twice).limit(hourly(2))));
    let request = Request::new().with("route", "/a");
    assert!(gate.check(&request).is_allowed());
    assert!(gate.check(&request).is_allowed());
    assert!(!gate.check(&request).is_allowed());
}

#[test]
fn the_last_value_of_an_attribute_counts() {
    let (gate, _) = gate(Policy::new().rule(per_route()));
    let request = Request::new().with("route", "/a").with("route", "/b");
    assert_eq!(gate.explain(&request).rules[0].key, [("route".to_owned(), "/b".to_owned())]);
}

fn per_route() -> Rule {
    Rule::new("per-route").key(["route"]).limit(hourly(1))
}
