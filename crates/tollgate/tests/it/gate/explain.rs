//! Why a gate decides as it does.

use tollgate::{
    Condition, Cost, KeyAttribute, LimitSource, ListEntry, Override, Policy, Request, Rule,
    RuleLimits, RuleMatch, TierSource,
};

use super::{gate, hourly, per_user, user};

fn policy() -> Policy {
    let cost = Cost::Attribute { name: "tokens".to_owned(), multiplier: 2, default: 5 };
    Policy::new()
        .rule(per_user(1).tier("pro", hourly(2)))
        .rule(Rule::new("search").matches("route", "/search").limit(hourly(3)).shadow())
        .rule(
            Rule::new("tokens")
                .key([KeyAttribute::with_default("team", "none")])
                .limit(hourly(4))
                .cost(cost),
        )
        .tier("pro", "search", RuleLimits::Unlimited)
        .allow(ListEntry::new("staff").matches("staff", Condition::Present))
        .deny(ListEntry::new("banned").matches("banned", Condition::Present))
}

#[test]
fn every_rule_says_whether_it_applies_and_why_not() {
    let (gate, _) = gate(policy());
    let request = Request::new().with("route", "/x").with("tokens", "many");
    let explanation = gate.explain(&request);
    let verdicts: Vec<&RuleMatch> = explanation.rules.iter().map(|rule| &rule.verdict).collect();
    let no_match = RuleMatch::ConditionFailed {
        attribute: "route".to_owned(),
        condition: "/search".into(),
        value: Some("/x".to_owned()),
    };
    let bad = RuleMatch::InvalidCost { attribute: "tokens".to_owned(), value: "many".to_owned() };
    let absent = RuleMatch::KeyMissing { attribute: "user".to_owned() };
    assert_eq!(verdicts, [&absent, &no_match, &bad]);
    assert!(explanation.rules.iter().all(|rule| rule.cost.is_none()));
    assert_eq!(explanation.list, None);
    assert_eq!(explanation.rules[2].key, [("team".to_owned(), "none".to_owned())]);
}

#[test]
fn a_rule_that_applies_says_its_key_its_cost_and_its_numbers() {
    let (gate, _) = gate(policy());
    let request = user("ana").with("route", "/search").with("team", "red").cost(3);
    let explanation = gate.explain(&request);
    let [first, search, tokens] = &explanation.rules[..] else { panic!("three rules") };
    assert!(explanation.rules.iter().all(|rule| rule.verdict == RuleMatch::Applies));
    assert_eq!(first.key, [("user".to_owned(), "ana".to_owned())]);
    assert_eq!((first.cost, search.cost, tokens.cost), (Some(3), Some(3), Some(6)));
    assert_eq!((first.shadow, search.shadow), (false, true));
    assert_eq!((&first.numbers, first.source), (&hourly(1).into(), LimitSource::Rule));
    assert_eq!((explanation.tier, explanation.tier_source), (None, TierSource::None));
}

#[test]
fn a_tier_says_where_it_comes_from_and_what_it_replaces() {
    let (gate, _) = gate(policy());
    let explanation = gate.explain(&user("ana").with("tier", "pro").with("route", "/search"));
    assert_eq!(explanation.tier.as_deref(), Some("pro"));
    assert_eq!(explanation.tier_source, TierSource::Attribute);
    let [first, search, tokens] = &explanation.rules[..] else { panic!("three rules") };
    assert_eq!((&first.numbers, first.source), (&hourly(2).into(), LimitSource::Tier));
    assert_eq!((&search.numbers, search.source), (&RuleLimits::Unlimited, LimitSource::Tier));
    assert_eq!(tokens.source, LimitSource::Rule);
}

#[test]
fn an_override_and_a_default_say_so() {
    let own = Override::new("user", "ana").tier("pro").limits("tokens", hourly(9));
    let mut policy = policy();
    policy.default_tier = Some("free".to_owned());
    let (gate, _) = gate(policy.override_client(own));
    let ana = gate.explain(&user("ana").with("tier", "free"));
    assert_eq!((ana.tier.as_deref(), ana.tier_source), (Some("pro"), TierSource::Override));
    assert_eq!(
        (&ana.rules[2].numbers, ana.rules[2].source),
        (&hourly(9).into(), LimitSource::Override)
    );
    let ben = gate.explain(&user("ben"));
    assert_eq!((ben.tier.as_deref(), ben.tier_source), (Some("free"), TierSource::Default));
}

#[test]
fn a_list_that_holds_the_request_is_named() {
    let (gate, _) = gate(policy());
    let list = |request: Request<'_>| gate.explain(&request).list;
    assert_eq!(list(user("ana").with("staff", "yes")), Some(("staff".to_owned(), true)));
    assert_eq!(list(user("ana").with("banned", "")), Some(("banned".to_owned(), false)));
    let both = user("ana").with("banned", "").with("staff", "");
    assert_eq!(list(both), Some(("staff".to_owned(), true)));
}

#[test]
fn explaining_takes_nothing() {
    let (gate, _) = gate(policy());
    drop(gate.explain(&user("ana")));
    assert!(gate.store().is_empty());
}
