//! The same over a real Redis, where other servers see it.

use std::collections::BTreeSet;

use serde_json::json;
use tollgate_testkit::{RedisServer, command};

use super::page::{next, watch};
use super::*;

/// A server over the Redis at `url`. Time is Redis' own: the limits are slow.
fn over(url: &str) -> TestServer {
    let policy = support::policy(&support::POLICY.replace("/min", "/day"));
    TestServer::over(support::redis_gate(url, "", policy), with_tokens)
}

#[test]
fn operators_see_and_change_what_is_in_redis() {
    let redis = RedisServer::start();
    let (server, other) = (over(&redis.url()), over(&redis.url()));
    for number in 0..30 {
        check(&other, &format!("user-{number:02}"), 1);
    }
    check(&other, "ana", 10);
    let (mut all, mut path) = (Vec::new(), "keys?limit=7".to_owned());
    loop {
        let page = get(&server, &path);
        let keys = page["keys"].as_array().unwrap();
        assert!(keys.len() <= 7);
        all.extend(keys.iter().map(|of| of["key"]["user"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("keys?limit=7&cursor={next}");
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 31, "{all:?}");
    assert_eq!(get(&server, "keys?limited=true")["keys"][0]["key"]["user"], "ana");

    let ana = r#"{"rule": "per-user", "key": {"user": "ana"}}"#;
    let status = post(&server, "keys/status", ana);
    assert_eq!(
        (&status["limits"][0]["remaining"], &status["blocked_ms"]),
        (&json!(0), &json!(null))
    );
    assert_eq!(post(&server, "keys/reset", ana)["result"]["keys"], 1);
    assert_eq!(check(&other, "ana", 1)["remaining"], 9);

    let block = r#"{"rule": "per-user", "key": {"user": "ana"}, "for_seconds": 600}"#;
    assert_eq!(post(&server, "blocks", block)["result"]["keys"], 1);
    assert_eq!(check(&server, "ana", 1)["reason"], "block");
    assert!(post(&server, "keys/status", ana)["blocked_ms"].as_u64().unwrap() > 500_000);
    assert_eq!(get(&server, "blocks")["blocks"][0]["key"]["user"], "ana");
    assert_eq!(get(&server, "denials?contains=ana")["denials"][0]["reason"], "block");
    assert_eq!(post(&server, "blocks/lift", ana)["result"]["keys"], 1);

    let over = r#"{"client": {"user": "ana"}, "limits": {"per-user": "500/min"}}"#;
    put(&server, "overrides", over);
    assert_eq!(check(&server, "ana", 1)["limit"], 500);
    let explained = post(&server, "keys/status", r#"{"attributes": {"user": "ana"}}"#);
    assert_eq!(explained["rules"][0]["numbers_from"], "override");
    assert_eq!(get(&server, "overrides")["overrides"][0]["client"]["user"], "ana");
    post(&server, "overrides/remove", r#"{"client": {"user": "ana"}}"#);
    assert_eq!(check(&server, "ana", 1)["limit"], 10);

    let prefix = r#"{"rule": "per-user", "prefix": "user-0"}"#;
    assert_eq!(post(&server, "keys/reset", prefix)["result"]["keys"], 10);
    post(&server, "keys/reset", r#"{"rule": "per-user", "every_key": true}"#);
    assert_eq!(get(&server, "keys")["keys"], json!([]));
    put(&server, "policy", "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"7/min\"\n");
    assert_eq!(check(&server, "ben", 1)["limit"], 7);
    post(&server, "keys/reset", r#"{"everything": true}"#);
    assert_eq!(check(&server, "ben", 1)["remaining"], 6);
}

#[test]
fn active_keys_in_redis_are_found_by_an_attribute() {
    let redis = RedisServer::start();
    let (server, other) = (over(&redis.url()), over(&redis.url()));
    check(&other, "ana", 10);
    check(&other, "anabel", 1);
    let block = r#"{"rule": "per-user", "key": {"user": "ana"}, "for_seconds": 600}"#;
    post(&server, "blocks", block);
    let found = get(&server, "keys?attributes=%7B%22user%22:%22ana%22%7D");
    let keys = found["keys"].as_array().unwrap();
    assert_eq!((keys.len(), &keys[0]["key"]), (1, &json!({"user": "ana"})), "{found}");
    assert!(keys[0]["blocked_ms"].as_u64().unwrap() > 500_000, "{found}");
}

#[test]
fn a_client_of_the_redis_protocol_resets_what_is_in_redis_and_lifts_no_block_by_hand() {
    let redis = RedisServer::start();
    let (server, other) = (over(&redis.url()), over(&redis.url()));
    check(&other, "ana", 4);
    let block = r#"{"rule": "per-user", "key": {"user": "ana"}, "for_seconds": 600}"#;
    post(&other, "blocks", block);
    assert_eq!(server.resp("TG.RESET per-user ana\r\nTG.RESET per-user ana\r\n"), ":1\r\n:0\r\n");
    assert_eq!(check(&other, "ana", 1)["reason"], "block");
    let changes = get(&server, "audit")["changes"].clone();
    assert_eq!(changes.as_array().unwrap().len(), 1, "{changes}");
    assert_eq!(
        (&changes[0]["actor"], &changes[0]["action"]),
        (&json!("(redis protocol)"), &json!("reset"))
    );
    post(&server, "blocks/lift", r#"{"rule": "per-user", "key": {"user": "ana"}}"#);
    assert_eq!(check(&server, "ana", 1)["remaining"], 9, "what it had taken is given back");
    // What may have been done in part is written down, too.
    drop(redis);
    assert!(server.resp("TG.RESET per-user ana\r\n").starts_with("-ERR "));
    let last = get(&server, "audit")["changes"][0].clone();
    assert!(last["result"]["failed"].is_string() && last["actor"] == "(redis protocol)", "{last}");
}

#[test]
fn while_redis_is_away_operators_are_told_so() {
    let redis = RedisServer::start();
    let server = over(&redis.url());
    check(&server, "ana", 1);
    drop(redis);
    let ana = r#"{"rule": "per-user", "key": {"user": "ana"}}"#;
    let mut texts = Texts::default();
    let details = ["keys/reset", "keys/status", "blocks/lift"].map(|path| {
        let detail = ask(&server, WRITE, &format!("POST /admin/v1/{path}"), ana).detail(503);
        // The error depends on how far a call came.
        let advice = detail.rsplit(", ").next().unwrap();
        texts.add(&format!("POST /admin/v1/{path} {ana}"), &format!("{{what is wrong}}, {advice}"));
        detail
    });
    texts.assert_golden("admin", "store away");
    let fallback = next(&mut watch(&server)).unwrap()["store"]["fallback"].clone();
    assert_eq!(fallback, json!({"nodes": 1, "local": 3, "allow": 0, "deny": 0}));
    ask(&server, READ, "GET /admin/v1/keys", "").problem(503);
    assert_eq!(get(&server, "policy")["rules"], 3, "what needs no store is answered");
    // Who changes something may have done so before the store was away: it is written down.
    let told = get(&server, "audit");
    let changes = told["changes"].as_array().unwrap();
    let actions: Vec<_> = changes.iter().map(|of| of["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["unblock", "reset"], "{told}");
    for (change, detail) in changes.iter().zip([&details[2], &details[0]]) {
        assert_eq!(change["target"], json!({"rule": "per-user", "key": {"user": "ana"}}));
        assert_eq!(change["result"]["failed"], **detail, "{told}");
    }
}

#[test]
fn block_or_override_beyond_the_bound_of_a_fleet_is_answered_with_409() {
    let redis = RedisServer::start();
    let server = over(&redis.url());
    let block = r#"{"rule": "per-user", "key": {"user": "ana"}, "for_seconds": 600}"#;
    assert_eq!(post(&server, "blocks", block)["result"]["keys"], 1);
    let fill = "local hash = redis.call('KEYS','*shared*')[1] \
                for field = 1, 100000 do redis.call('HSET', hash, 'unknown' .. field, '1') end \
                return redis.call('HLEN', hash)";
    let length = command(redis.port(), &format!("EVAL \"{fill}\" 0"));
    assert!(length.contains("10000"), "{length}");
    let detail = "the fleet shares 100000 overrides and blocks, remove some first";
    let block = r#"{"rule": "per-user", "key": {"user": "eve"}, "for_seconds": 600}"#;
    let answer = ask(&server, WRITE, "POST /admin/v1/blocks", block);
    assert_eq!((answer.status, &answer.json()["detail"]), (409, &json!(detail)));
    let change = r#"{"client": {"user": "eve"}, "limits": {"per-user": "500/min"}}"#;
    let answer = ask(&server, WRITE, "PUT /admin/v1/overrides", change);
    assert_eq!((answer.status, &answer.json()["detail"]), (409, &json!(detail)));
    let attributes = r#"{"attributes": {"user": "eve"}, "for_seconds": 600}"#;
    assert_eq!(ask(&server, WRITE, "POST /admin/v1/blocks", attributes).status, 409);
}
