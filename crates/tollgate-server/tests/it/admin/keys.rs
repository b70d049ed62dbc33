//! Keys, blocks, overrides, and what the server has seen.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

pub(super) fn keys_of(page: &Value) -> Vec<String> {
    let keys = page["keys"].as_array().unwrap().iter();
    keys.map(|of| format!("{} {}", of["rule"].as_str().unwrap(), of["key"])).collect()
}

#[test]
fn keys_are_listed_searched_and_paged() {
    let server = operated();
    for number in 0..250 {
        check(&server, &format!("user-{number:03}"), 1);
    }
    check(&server, "ana", 10);
    server.post("/v1/check", r#"{"attributes": {"ip": "10.0.0.1"}}"#);
    let (mut all, mut path) = (Vec::new(), "keys?limit=100".to_owned());
    loop {
        let page = get(&server, &path);
        assert!(page["keys"].as_array().unwrap().len() <= 100);
        all.extend(keys_of(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("keys?limit=100&cursor={next}");
    }
    assert_eq!(all.len(), 252);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 252, "each once");
    let found = |query: &str| keys_of(&get(&server, &format!("keys?{query}")));
    assert_eq!(found("rule=per-ip"), [r#"per-ip {"ip":"10.0.0.1"}"#]);
    assert_eq!(found("prefix=user-01").len(), 10);
    assert_eq!(found("contains=-24&rule=per-user").len(), 10);
    assert_eq!(found("limited=true"), [r#"per-user {"user":"ana"}"#]);
    let ana = get(&server, "keys?prefix=ana");
    let ana = &ana["keys"][0];
    assert_eq!((&ana["remaining"], &ana["retry_after_ms"]), (&json!(0), &json!(6000)));
}

#[test]
fn a_key_is_shown_reset_and_new_again() {
    let server = operated();
    check(&server, "ana", 7);
    let target = r#"{"rule": "per-user", "key": {"user": "ana"}}"#;
    let status = post(&server, "keys/status", target);
    assert_eq!(status["limits"][0]["remaining"], 3);
    assert_eq!(status["limits"][0]["numbers"], "10/min");
    assert_eq!(status["blocked_ms"], Value::Null);
    let done = post(&server, "keys/reset", target);
    assert_eq!(done["action"], "reset");
    assert_eq!(done["target"], json!({"rule": "per-user", "key": {"user": "ana"}}));
    assert_eq!(done["result"], json!({"keys": 1}));
    assert_eq!(check(&server, "ana", 1)["remaining"], 9);
    assert_eq!(
        post(&server, "keys/reset", r#"{"attributes": {"user": "ana"}}"#)["result"]["keys"],
        1
    );
    assert_eq!(check(&server, "ana", 1)["remaining"], 9);
}

#[test]
fn a_reset_reaches_a_prefix_a_rule_or_everything_and_nothing_else() {
    let server = operated();
    let left = |user: &str| {
        let body = format!(r#"{{"attributes": {{"user": "{user}"}}}}"#);
        server.post("/v1/peek", &body).json()["remaining"].as_u64().unwrap()
    };
    let users = ["acme-1", "acme-2", "other"];
    let take = || {
        for user in users {
            check(&server, user, 5);
        }
        server.post("/v1/check", r#"{"attributes": {"ip": "::1"}}"#);
    };
    take();
    server.gate().block("per-user", &["acme-9"], Duration::from_secs(60)).unwrap();
    let done = post(&server, "keys/reset", r#"{"rule": "per-user", "prefix": "acme-"}"#);
    assert_eq!(done["result"]["keys"], 3, "two that were used and one that was blocked");
    assert_eq!(users.map(left), [10, 10, 5]);
    assert_eq!(left("acme-9"), 10);
    take();
    post(&server, "keys/reset", r#"{"rule": "per-user", "every_key": true}"#);
    assert_eq!(users.map(left), [10, 10, 10]);
    assert_eq!(server.gate().keys("per-ip").len(), 1);
    post(&server, "keys/reset", r#"{"everything": true}"#);
    assert!(server.gate().store().is_empty());
}

#[test]
fn a_block_denies_until_it_ends_or_is_lifted() {
    let server = operated();
    let block = r#"{"rule": "per-user", "key": {"user": "eve"}, "for_seconds": 60}"#;
    assert_eq!(post(&server, "blocks", block)["result"]["keys"], 1);
    let denied = check(&server, "eve", 1);
    assert_eq!((&denied["allowed"], &denied["reason"]), (&json!(false), &json!("block")));
    let listed = get(&server, "blocks");
    let eve = json!({"rule": "per-user", "key": {"user": "eve"}, "whole": true, "left_ms": 60_000});
    assert_eq!(listed["blocks"], json!([eve]));
    let lifted = post(&server, "blocks/lift", r#"{"attributes": {"user": "eve"}}"#);
    assert_eq!(lifted["result"]["keys"], 1);
    assert_eq!(check(&server, "eve", 1)["allowed"], true);
    post(&server, "blocks", block);
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(check(&server, "eve", 1)["allowed"], true);
    assert_eq!(get(&server, "blocks")["blocks"], json!([]));
}

#[test]
fn block_beyond_the_bound_is_answered_with_409() {
    let server = operated();
    for number in 0..100_000 {
        let user = number.to_string();
        server.gate().block("per-user", &[&user], Duration::from_secs(3600)).unwrap();
    }
    for target in
        [r#""rule": "per-user", "key": {"user": "eve"}"#, r#""attributes": {"user": "eve"}"#]
    {
        let body = format!(r#"{{{target}, "for_seconds": 60}}"#);
        let answer = ask(&server, WRITE, "POST /admin/v1/blocks", &body);
        assert_eq!(answer.status, 409, "{answer:?}");
        assert_eq!(
            answer.json()["detail"],
            "there are 100000 manual blocks, at most 100000 are kept; lift some"
        );
    }
    assert_eq!(check(&server, "eve", 1)["allowed"], true);
}

#[test]
fn blocks_and_overrides_are_paged() {
    let server = operated();
    for number in 0..25 {
        let user = format!("u{number:02}");
        server.gate().block("per-user", &[&user], Duration::from_secs(60)).unwrap();
        let client = tollgate::Override::new("user", &user).tier("pro");
        server.gate().set_override(client).unwrap();
    }
    for (what, name) in [("blocks", "key"), ("overrides", "client")] {
        let (mut all, mut path) = (Vec::new(), format!("{what}?limit=10"));
        loop {
            let page = get(&server, &path);
            let users = page[what].as_array().unwrap().iter();
            all.extend(users.map(|of| of[name]["user"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { break };
            path = format!("{what}?limit=10&cursor={next}");
        }
        let expected: Vec<_> = (0..25).map(|number| format!("u{number:02}")).collect();
        assert_eq!(all, expected, "{what}");
    }
}

#[test]
fn an_override_is_set_until_it_ends_and_removed() {
    let server = operated();
    let set =
        r#"{"client": {"user": "ana"}, "limits": {"per-user": "1000/min"}, "for_seconds": 60}"#;
    let done = put(&server, "overrides", set);
    assert_eq!(done["after"]["limits"], json!({"per-user": "1000/min"}));
    assert_eq!(check(&server, "ana", 1)["limit"], 1000);
    let listed = get(&server, "overrides");
    assert_eq!(listed["overrides"][0]["client"], json!({"user": "ana"}));
    assert_eq!(listed["overrides"][0]["ended"], false);
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(check(&server, "ana", 1)["limit"], 10);
    assert_eq!(get(&server, "overrides")["overrides"][0]["ended"], true);
    put(
        &server,
        "overrides",
        r#"{"client": {"user": "ana"}, "limits": {"per-user": "unlimited"}, "until": "2200-01-01T00:00:00Z"}"#,
    );
    assert_eq!(check(&server, "ana", 1)["limit"], Value::Null);
    let removed = post(&server, "overrides/remove", r#"{"client": {"user": "ana"}}"#);
    assert_eq!(removed["result"]["removed"], true);
    assert_eq!(check(&server, "ana", 1)["limit"], 10);
    let again = post(&server, "overrides/remove", r#"{"client": {"user": "ana"}}"#);
    assert_eq!(again["result"]["removed"], false);
}

#[test]
fn denials_are_told_with_their_reason_over_every_transport() {
    let server = operated();
    (0..3).for_each(|_| drop(check(&server, "ana", 10)));
    check(&server, "mallory", 1);
    check(&server, "ben", 11);
    server.clock.advance(Duration::from_secs(1));
    let authorize = ["x-forwarded-for: 203.0.113.9"];
    (0..3).for_each(|_| drop(server.ask("GET /v1/authorize", &authorize)));
    let denials = get(&server, "denials");
    let told =
        denials["denials"].as_array().unwrap().iter().map(|of| {
            json!([of["rule"], of["key"], of["reason"], of["times"], of["retry_after_ms"]])
        });
    let told: Value = told.collect();
    let expected = json!([
        ["per-ip", {"ip": "203.0.113.9"}, "limits", 1, 30_000],
        ["banned", {"user": "mallory"}, "deny_list", 1, null],
        ["per-user", {"user": "ana"}, "limits", 2, 60_000],
        ["per-user", {"user": "ben"}, "error", 1, null],
    ]);
    assert_eq!(told, expected);
    assert_eq!(
        get(&server, "denials?rule=per-user&contains=an")["denials"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn the_busiest_and_the_most_denied_are_told() {
    let server = operated();
    (0..5).for_each(|_| drop(check(&server, "ana", 1)));
    (0..3).for_each(|_| drop(check(&server, "ben", 10)));
    let users = |by: &str| -> Vec<(Value, Value)> {
        let top = get(&server, &format!("top?by={by}"));
        let keys = top["keys"].as_array().unwrap().iter();
        keys.map(|of| (of["key"]["user"].clone(), of["denied"].clone())).collect()
    };
    let (ana, ben) = ((json!("ana"), json!(0)), (json!("ben"), json!(2)));
    assert_eq!(users("traffic"), [ana, ben.clone()]);
    assert_eq!(users("denials"), [ben]);
}

#[test]
fn a_request_is_explained_rule_by_rule() {
    let server = operated();
    let gold = format!("{}\n[tiers.gold]\nper-ip = \"9/min\"\n", support::POLICY);
    put(&server, "policy", &gold);
    put(
        &server,
        "overrides",
        r#"{"client": {"user": "ana"}, "tier": "gold", "limits": {"per-user": "3/min"}}"#,
    );
    check(&server, "ana", 2);
    let told = post(&server, "keys/status", r#"{"attributes": {"user": "ana"}}"#);
    assert_eq!((&told["allowed"], &told["tier"]), (&json!(true), &json!("gold")));
    assert_eq!(told["tier_from"], "override");
    assert_eq!(told["rules"].as_array().unwrap().len(), 1);
    let rule = &told["rules"][0];
    assert_eq!(rule["numbers"], json!(["3/min"]));
    assert_eq!((&rule["numbers_from"], &rule["remaining"]), (&json!("override"), &json!(1)));
    let mut texts = Texts::default();
    for other in told["not_applied"].as_array().unwrap() {
        let (rule, because) = (other["rule"].as_str().unwrap(), other["because"].as_str().unwrap());
        texts.add(&format!("user=ana, why {rule} does not apply"), because);
    }
    texts.assert_golden("admin", "rules that do not apply");
    let listed = post(&server, "keys/status", r#"{"attributes": {"user": "mallory"}}"#);
    assert_eq!(listed["list"], json!({"name": "banned", "allows": false}));
}

#[test]
fn a_tier_that_the_policy_does_not_have_is_refused_with_those_it_has() {
    let server = operated();
    let set = r#"{"client": {"user": "ana"}, "tier": "godl"}"#;
    let mut texts = Texts::default();
    let refused = ask(&server, WRITE, "PUT /admin/v1/overrides", set);
    texts.add(&format!("{set} without tiers"), &refused.detail(400));
    let tiers = format!(
        "{}tiers = {{ silver = \"2/min\" }}\n[tiers.gold]\nper-ip = \"9/min\"\n",
        support::POLICY
    );
    put(&server, "policy", &tiers);
    let refused = ask(&server, WRITE, "PUT /admin/v1/overrides", set);
    texts.add(&format!("{set} with tiers"), &refused.detail(400));
    texts.assert_golden("admin", "tiers");
    assert_eq!(get(&server, "overrides")["overrides"], json!([]));
    for tier in ["gold", "silver"] {
        put(&server, "overrides", &set.replace("godl", tier));
    }
}

#[test]
fn a_beginning_that_every_key_has_resets_none() {
    let server = operated();
    check(&server, "ana", 3);
    let empty = r#"{"rule": "per-user", "prefix": ""}"#;
    let refused = ask(&server, WRITE, "POST /admin/v1/keys/reset", empty);
    let mut texts = Texts::default();
    texts.add(&format!("POST /admin/v1/keys/reset {empty}"), &refused.detail(400));
    texts.assert_golden("admin", "empty prefix");
    assert_eq!(check(&server, "ana", 1)["remaining"], 6);
}

#[test]
fn the_audit_log_says_who_changed_what_and_when() {
    let file = std::env::temp_dir().join(format!("tollgate-audit-e2e-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let server = TestServer::with(|server| server.admin(admin().audit_file(&file).unwrap()));
    check(&server, "ana", 1);
    post(&server, "keys/reset", r#"{"rule": "per-user", "key": {"user": "ana"}}"#);
    ask(&server, READ, "POST /admin/v1/keys/reset", r#"{"everything": true}"#).problem(403);
    ask(&server, WRITE, "POST /admin/v1/keys/reset", r#"{"everything": false}"#).problem(400);
    get(&server, "keys");
    let changes = get(&server, "audit")["changes"].clone();
    let change = &changes[0];
    assert_eq!(changes.as_array().unwrap().len(), 1, "only what was changed: {changes}");
    assert_eq!((&change["actor"], &change["action"]), (&json!("walt"), &json!("reset")));
    assert_eq!(change["address"], "127.0.0.1");
    assert_eq!(change["target"]["key"]["user"], "ana");
    assert_eq!(change["at"], "2000-01-01T00:00:00Z");
    assert_eq!(change["before"], json!({"remaining": [9], "blocked_until": null}));
    assert_eq!(change["after"], json!({"remaining": [10], "blocked_until": null}));
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(serde_json::from_str::<Value>(written.trim()).unwrap(), *change);
    assert!(!written.contains(WRITE));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn limits_that_clients_bring_are_among_the_denials_and_the_largest_keys() {
    let server = operated();
    for _ in 0..4 {
        server.post("/v1/check", r#"{"key": "ana", "limits": ["1/h", "9/h"], "cost": 1}"#);
    }
    server.resp(&"THROTTLE b\u{fc}n 1 1 3600\r\n".repeat(3));
    let limit = r#""limit": {"requestsPerUnit": 1, "unit": "HOUR"}"#;
    let one = format!(r#"{{"entries": [{{"key": "user", "value": "cleo"}}], {limit}}}"#);
    // Alone, and beside another.
    for descriptors in [one.clone(), one.clone(), format!("{one}, {one}")] {
        let body = format!(r#"{{"domain": "edge", "descriptors": [{descriptors}]}}"#);
        server.post("/json", &body);
    }
    let expected = [
        (json!({"key": "ana"}), 3, "http", 3),
        (json!({"command": "THROTTLE", "key": "b\u{fc}n"}), 2, "resp", 2),
        (json!({"domain": "edge", "user": "cleo"}), 2, "http", 2),
    ];
    let denials = get(&server, "denials?rule=%28client%20limits%29")["denials"].clone();
    let top = get(&server, "top?by=denials")["keys"].clone();
    for (key, times, transport, denied) in expected {
        let of_key = |list: &Value| {
            let mut all = list.as_array().unwrap().iter();
            all.find(|of| of["key"] == key).unwrap_or_else(|| panic!("{key} in {list}")).clone()
        };
        let denial = of_key(&denials);
        assert_eq!((&denial["times"], &denial["reason"]), (&json!(times), &json!("limits")));
        assert_eq!((&denial["transport"], &denial["limit"]), (&json!(transport), &json!(1)));
        assert_eq!(denial["retry_after_ms"], 3_600_000, "{denial}");
        let ranked = of_key(&top);
        assert_eq!(ranked["denied"], json!(denied), "{ranked}");
        assert_eq!(ranked["rule"], "(client limits)");
    }
}

#[test]
fn a_denial_beside_other_descriptors_says_what_it_would_have_cost() {
    let server = operated();
    let entry = |key: &str, value: &str| {
        format!(r#"{{"entries": [{{"key": "{key}", "value": "{value}"}}], "hitsAddend": "3"}}"#)
    };
    let both = format!("{}, {}", entry("user", "ana"), entry("ip", "::1"));
    server.post("/json", &format!(r#"{{"domain": "edge", "descriptors": [{both}]}}"#));
    let denial = get(&server, "denials")["denials"][0].clone();
    assert_eq!((&denial["rule"], &denial["cost"]), (&json!("per-ip"), &json!(3)), "{denial}");
}

#[test]
fn a_long_key_is_told_whole_where_it_is_sent_back_and_else_said_to_be_cut() {
    let server = operated();
    let long = "x".repeat(300);
    check(&server, &long, 10);
    check(&server, &long, 1);
    let status =
        post(&server, "keys/status", &format!(r#"{{"attributes": {{"user": "{long}"}}}}"#));
    let key = &status["rules"][0]["key"];
    assert_eq!(key["user"], long);
    post(
        &server,
        "blocks",
        &json!({"rule": "per-user", "key": key, "for_seconds": 60}).to_string(),
    );
    assert_eq!(check(&server, &long, 1)["reason"], "block");
    assert_eq!(get(&server, "blocks")["blocks"][0]["whole"], false, "only its beginning is known");
    let lifted = json!({"rule": "per-user", "key": key}).to_string();
    assert_eq!(post(&server, "blocks/lift", &lifted)["result"]["keys"], 1);
    let medium = "y".repeat(200);
    server.gate().block("per-user", &[&medium], Duration::from_secs(60)).unwrap();
    let listed = get(&server, "blocks");
    assert_eq!(listed["blocks"][0]["whole"], true);
    assert_eq!(listed["blocks"][0]["key"]["user"], medium);
    let client = json!({"client": {"user": long}, "limits": {"per-user": "20/min"}});
    put(&server, "overrides", &client.to_string());
    let listed = &get(&server, "overrides")["overrides"][0]["client"];
    let removed = json!({"client": listed}).to_string();
    assert_eq!(post(&server, "overrides/remove", &removed)["result"]["removed"], true);
    check(&server, "ana", 11);
    for (path, list) in [("denials", "denials"), ("top", "keys"), ("keys", "keys")] {
        let told = get(&server, path);
        let all = told[list].as_array().unwrap();
        assert!(all.iter().any(|of| of["whole"] == false), "{told}");
        for of in all {
            let cut = of["key"]["user"].as_str().unwrap().len() != 300;
            assert_eq!(of["whole"] == false, of["key"]["user"] != "ana" && cut, "{told}");
        }
    }
}
