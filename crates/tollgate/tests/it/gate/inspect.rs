//! What operators look at: whom a ruling was about, how a key stands, keys in parts.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate::{
    Gate, KeyAttribute, KeyName, Limit, ListEntry, Override, Policy, Request, Rule, RuleLimits,
};

use super::{HOUR, MINUTE, SECOND, everybody, gate, hourly, per_user, user};

#[test]
fn a_ruling_says_whom_the_rule_that_decided_counts() {
    let by_default = Rule::new("by-plan")
        .key([KeyAttribute::with_default("plan", "none"), "user".into()])
        .limit(hourly(1));
    let (gate, _) = gate(Policy::new().rule(per_user(5)).rule(by_default).rule(everybody(100)));
    let request = user("ana").with("path", "/x");
    assert!(gate.check(&request).is_allowed());
    let ruling = gate.check(&request);
    assert_eq!(ruling.decided_by_name(), Some("by-plan"));
    let mut key: Vec<_> = ruling.key(&request).collect();
    key.sort_unstable();
    assert_eq!(key, [("plan", "none".into()), ("user", "ana".into())]);
    let nobody = Request::new();
    assert_eq!(gate.check(&nobody).key(&nobody).next(), None, "everybody together");
}

#[test]
fn a_ruling_of_a_list_says_what_the_list_asked_for() {
    let banned = ListEntry::new("banned").matches("user", "eve");
    let (gate, _) = gate(Policy::new().deny(banned).rule(per_user(5)));
    let request = user("eve").with("path", "/x");
    let ruling = gate.check(&request);
    assert_eq!(ruling.key(&request).collect::<Vec<_>>(), [("user", "eve".into())]);
}

#[test]
fn a_ruling_tells_a_tier_only_where_the_policy_has_it() {
    let rule = per_user(1).tier("pro", hourly(3)).tier("free", hourly(2));
    let change = Override::new("user", "ana").tier("pro");
    let mut policy = Policy::new().rule(rule).override_client(change);
    policy.default_tier = Some("free".to_owned());
    let (gate, _) = gate(policy);
    for (request, tier) in [
        (user("ana").with("tier", "free"), Some("pro")),
        (user("ben").with("tier", "pro"), Some("pro")),
        (user("ben"), Some("free")),
        (user("ben").with("tier", "whatever a client sends"), None),
        (Request::new(), Some("free")),
    ] {
        assert_eq!(gate.check(&request).tier(&request), tier, "{request:?}");
    }
}

#[test]
fn a_key_stands_as_a_check_of_it_would_find_it() {
    let twice = per_user(5).limit(Limit::sliding_log(3, HOUR));
    let (gate, clock) = gate(Policy::new().rule(twice));
    assert!(gate.check(&user("ana").cost(2)).is_allowed());
    let stands = gate.key_status("per-user", &["ana"]).unwrap();
    let left: Vec<_> = stands.iter().map(|(_, status)| status.remaining()).collect();
    assert_eq!(left, [3, 1]);
    assert_eq!(stands[0].0, hourly(5));
    assert!(gate.key_status("per-user", &["ben"]).unwrap().iter().all(|(_, of)| of.is_fresh()));
    assert!(gate.key_status("per-user", &[]).is_none(), "a value is missing");
    assert!(gate.key_status("no such rule", &["ana"]).is_none());

    assert_eq!(gate.block_remaining("per-user", &["ana"]), None);
    gate.block("per-user", &["ana"], MINUTE).unwrap();
    assert_eq!(gate.block_remaining("per-user", &["ana"]), Some(MINUTE));
    clock.advance(MINUTE);
    assert_eq!(gate.block_remaining("per-user", &["ana"]), None);
}

#[test]
fn all_parts_together_are_all_keys_and_each_key_is_in_one() {
    let (gate, _) = gate(Policy::new().rule(per_user(5)));
    let names: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    names.iter().for_each(|name| assert!(gate.check(&user(name)).is_allowed()));
    let parts: Vec<_> = (0..).map_while(|part| gate.keys_page("per-user", part)).collect();
    assert!(parts.len() > 1, "a store of 10,000 keys has several");
    let listed: Vec<_> = parts.into_iter().flatten().map(|(name, _)| name.to_string()).collect();
    assert_eq!(listed.len(), 500);
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names.into_iter().collect());
    assert!(gate.keys_page("no such rule", 0).is_none());
}

#[test]
fn a_name_says_whether_it_is_the_whole_key() {
    assert!(KeyName::new("short").is_whole());
    assert!(!KeyName::new(&*"x".repeat(300)).is_whole());
}

#[test]
fn the_rule_that_decided_tells_the_figures_of_the_ruling() {
    let several = Rule::new("several").key(["user"]).limit(Limit::per_minute(5));
    let (gate, clock) = gate(
        Policy::new()
            .rule(several.limit(Limit::per_hour(20)))
            .rule(Rule::new("all").limit(Limit::per_second(3)))
            .rule(Rule::new("queued").limit(Limit::leaky_queue(50, SECOND)))
            .rule(Rule::new("silent").limit(Limit::per_hour(2)).shadow()),
    );
    let mut denied = 0;
    for step in 0..60_u64 {
        clock.advance(Duration::from_millis(step * 37 % 400));
        let ruling = gate.check(&user(["ana", "ben"][usize::from(step % 3 == 0)]));
        let decided = ruling.deciding_rule().expect("rules apply");
        assert_eq!(Some(decided.rule()), ruling.decided_by_name());
        assert_eq!(decided.limit(), ruling.limit());
        assert_eq!(decided.remaining(), ruling.remaining());
        assert_eq!(decided.reset_after(), ruling.reset_after());
        if !ruling.is_allowed() {
            denied += 1;
            assert_eq!(decided.retry_after(), ruling.retry_after());
        }
        let of_list = ruling.rules().find(|of| of.rule() == decided.rule()).expect("it is there");
        assert_eq!(of_list.remaining(), decided.remaining());
        let shadows: Vec<_> = ruling.shadow_rules().map(|of| of.rule()).collect();
        assert_eq!(
            shadows,
            ruling.rules().filter(|of| of.is_shadow()).map(|of| of.rule()).collect::<Vec<_>>()
        );
    }
    assert!((10..60).contains(&denied), "{denied} denied");
}

/// The rules that a request counts for, each with its own verdict.
fn counted(gate: &Gate, request: &Request<'_>) -> Vec<(String, bool, bool)> {
    let ruling = gate.check(request);
    let rules = ruling.counted_rules();
    rules.map(|rule| (rule.name().to_owned(), rule.is_shadow(), rule.is_allowed())).collect()
}

#[test]
fn request_counts_for_every_rule_that_charges_or_denies_it() {
    let shadow = Rule::new("trial").key(["user"]).limit(hourly(1)).shadow();
    let two_limits = per_user(5).limit(hourly(2));
    let policy = Policy::new()
        .rule(two_limits)
        .rule(shadow)
        .rule(everybody(3))
        .rule(Rule::new("other").key(["absent"]).limit(hourly(1)));
    let (gate, _) = gate(policy);
    let of = |name: &str, is_shadow, is_allowed| (name.to_owned(), is_shadow, is_allowed);
    let all = |per_user, everybody, trial| {
        [
            of("per-user", false, per_user),
            of("everybody", false, everybody),
            of("trial", true, trial),
        ]
    };
    assert_eq!(counted(&gate, &user("ana")), all(true, true, true));
    assert_eq!(counted(&gate, &user("ana")), all(true, true, false));
    assert_eq!(counted(&gate, &user("ana")), all(false, true, false));
    assert_eq!(counted(&gate, &user("ben")), all(true, true, true));
    assert_eq!(counted(&gate, &user("ben")), all(true, false, false));
    assert_eq!(counted(&gate, &user("ana")), all(false, false, false));
    assert_eq!(counted(&gate, &user("cleo").cost(9)), all(false, false, false), "never");
}

#[test]
fn keys_that_a_request_counts_for_are_those_of_its_rulings() {
    let by_default = Rule::new("by-plan")
        .key([KeyAttribute::with_default("plan", "none"), "user".into()])
        .limit(hourly(9));
    let by_address = Rule::new("by-address").key(["ip"]).limit(hourly(9));
    let unlimited = per_user(5).tier("partner", RuleLimits::Unlimited);
    let banned = ListEntry::new("banned").matches("user", "eve");
    let policy = Policy::new().deny(banned).rule(unlimited).rule(by_default).rule(by_address);
    let (gate, _) = gate(policy);
    let keys = |request: &Request<'_>| {
        let mut keys = Vec::new();
        gate.check(request).counted_keys(request, |rule, key| {
            let key = key.iter().map(|(name, value)| format!("{name}={value}"));
            keys.push((rule.name().to_owned(), key.collect::<Vec<_>>().join(" ")));
        });
        keys
    };
    let request = user("ana").with("tier", "partner").with("ip", "[2001:DB8::2]:80");
    let expected = [
        ("per-user", "user=ana"),
        ("by-plan", "plan=none user=ana"),
        ("by-address", "ip=2001:db8::/64"),
    ];
    assert_eq!(keys(&request), expected.map(|(rule, key)| (rule.to_owned(), key.to_owned())));
    assert_eq!(keys(&user("eve")), [], "a list decides");
}
