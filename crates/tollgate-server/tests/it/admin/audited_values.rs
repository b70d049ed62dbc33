//! The values before and after each change, as the audit log has them.

use serde_json::json;

use super::*;

const ANA: &str = r#"{"rule": "per-user", "key": {"user": "ana"}}"#;

/// The action, the target and the values of the newest change.
fn newest(server: &TestServer) -> Value {
    let change = get(server, "audit?limit=1")["changes"][0].clone();
    assert_eq!((&change["actor"], &change["address"]), (&json!("walt"), &json!("127.0.0.1")));
    json!([change["action"], change["target"], change["before"], change["after"]])
}

#[test]
fn change_of_a_key_has_its_values_before_and_after() {
    let server = operated();
    let target = json!({"rule": "per-user", "key": {"user": "ana"}});
    let until = |time: Option<&str>| json!({"blocked_until": time});
    let first = until(Some("2000-01-01T00:15:00Z"));
    post(&server, "blocks", &ANA.replace("}}", r#"}, "for_seconds": 900}"#));
    assert_eq!(newest(&server), json!(["block", target, until(None), first]));
    let second = until(Some("2000-01-01T00:01:00Z"));
    post(&server, "blocks", &ANA.replace("}}", r#"}, "for_seconds": 60}"#));
    assert_eq!(newest(&server), json!(["block", target, first, second]));
    post(&server, "blocks/lift", ANA);
    assert_eq!(newest(&server), json!(["unblock", target, second, until(None)]));
    check(&server, "ana", 4);
    post(&server, "keys/reset", ANA);
    let usage = |remaining| json!({"remaining": [remaining], "blocked_until": null});
    assert_eq!(newest(&server), json!(["reset", target, usage(6), usage(10)]));
}

#[test]
fn change_of_an_override_has_its_values_before_and_after() {
    let server = operated();
    let target = json!({"client": {"user": "ana"}});
    let set = |limit: &str| {
        let body = json!({"client": {"user": "ana"}, "limits": {"per-user": limit}});
        put(&server, "overrides", &body.to_string());
    };
    let value = |limit: &str| json!({"limits": {"per-user": limit}, "tier": null, "until": null, "source": "run_time"});
    set("20/min");
    assert_eq!(newest(&server), json!(["set_override", target, null, value("20/min")]));
    set("30/min");
    assert_eq!(newest(&server), json!(["set_override", target, value("20/min"), value("30/min")]));
    post(&server, "overrides/remove", &target.to_string());
    assert_eq!(newest(&server), json!(["remove_override", target, value("30/min"), null]));
}

#[test]
fn change_of_the_policy_has_its_versions() {
    let server = operated();
    let version = || get(&server, "policy")["version"].clone();
    let before = json!({"version": version(), "rules": 3});
    put(&server, "policy", "[[rule]]\nname = \"only\"\nlimit = \"1/s\"\n");
    let change = newest(&server);
    assert_eq!((&change[0], &change[2]), (&json!("apply"), &before));
    assert_eq!(change[3], json!({"version": version(), "rules": 1}));
    assert_eq!(change[1]["policy"], Value::Null, "it is from no file");
}

#[test]
fn values_of_an_override_are_bounded() {
    let rule = |number| format!("[[rule]]\nname = \"r{number:03}\"\nlimit = \"1/s\"\n");
    let server = operated();
    put(&server, "policy", &(0..60).map(rule).collect::<String>());
    let limits: serde_json::Map<_, _> =
        (0..60).map(|number| (format!("r{number:03}"), json!("2/s"))).collect();
    let body = json!({"client": {"user": "u".repeat(500)}, "limits": limits});
    put(&server, "overrides", &body.to_string());
    let change = newest(&server);
    assert_eq!(change[3]["limits"].as_object().unwrap().len(), 50);
    assert_eq!(change[3]["omitted"], 10);
    assert!(change[1]["client"]["user"].as_str().unwrap().len() < 400);
}
