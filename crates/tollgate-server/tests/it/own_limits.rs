//! Limits that a request brings with it, over HTTP.

use std::time::Duration;

use crate::support::{TestServer, Texts};

const OWN: &str = r#"{"key": "ana", "limits": ["2/s", {"count": 10, "per": "1h"}]}"#;

#[test]
fn all_limits_that_a_request_brings_are_taken_or_none() {
    let server = TestServer::start();
    let first = server.post("/v1/check", OWN);
    assert_eq!(first.status, 200);
    assert_eq!(first.header("ratelimit"), Some("\"2/s\";r=1;t=1"));
    let first = first.json();
    assert_eq!((&first["allowed"], &first["reason"]), (&true.into(), &"limits".into()));
    assert_eq!((&first["rule"], &first["remaining"]), (&"2/s".into(), &1.into()));
    assert_eq!(first["rules"][1]["rule"], "10/h");
    server.post("/v1/check", OWN);
    let third = server.post("/v1/check", OWN).json();
    assert_eq!((&third["allowed"], &third["retry_after_ms"]), (&false.into(), &500.into()));
    assert_eq!(third["rules"][1]["remaining"], 8, "the hour was charged for a denied request");
    let refused = server.post("/v1/check?enforce=true", OWN);
    let problem = refused.problem(429);
    assert_eq!(problem["violated-policies"], serde_json::json!(["2/s"]));
    assert_eq!(refused.header("retry-after"), Some("1"));
    server.clock.advance(Duration::from_millis(500));
    assert_eq!(server.post("/v1/check", OWN).json()["allowed"], true);
}

#[test]
fn a_peek_at_limits_of_ones_own_takes_nothing() {
    let server = TestServer::start();
    for _ in 0..3 {
        let peeked = server.post("/v1/peek", OWN).json();
        assert_eq!((&peeked["allowed"], &peeked["remaining"]), (&true.into(), &2.into()));
    }
}

#[test]
fn keys_of_limits_are_apart_from_those_of_the_policy_and_of_the_redis_protocol() {
    let server = TestServer::start();
    server.post("/v1/check", r#"{"attributes": {"user": "ana"}, "cost": 10}"#);
    assert!(server.resp("THROTTLE ana 2 2 1 2\r\n").starts_with("*5\r\n:1\r\n"));
    assert_eq!(server.post("/v1/check", OWN).json()["remaining"], 1);
}

#[test]
fn a_batch_may_bring_limits_and_is_refused_as_a_whole_where_one_is_wrong() {
    let server = TestServer::start();
    let user = r#"{"attributes": {"user": "ana"}}"#;
    let both = server.post("/v1/check/batch", &format!(r#"{{"requests": [{OWN}, {user}]}}"#));
    let both = both.json();
    assert_eq!(both["decisions"][0]["rule"], "2/s");
    assert_eq!(both["decisions"][1]["rule"], "per-user");
    let wrong = r#"{"key": "ana", "limits": ["1/h sliding_log"]}"#;
    server.post("/v1/check/batch", &format!(r#"{{"requests": [{OWN}, {wrong}]}}"#)).problem(400);
    assert_eq!(server.post("/v1/peek", OWN).json()["remaining"], 1);
}

#[test]
fn wrong_limits_are_told_what_would_be_right() {
    let server = TestServer::start();
    let nine = format!(r#"{{"key": "a", "limits": [{}]}}"#, ["\"1/s\""; 9].join(","));
    let mut texts = Texts::default();
    for body in [
        r#"{"limits": ["1/s"]}"#,
        r#"{"key": "a"}"#,
        r#"{"key": "a", "limits": []}"#,
        r#"{"key": "a", "limits": "1/s"}"#,
        r#"{"key": "a", "limits": ["often"]}"#,
        r#"{"key": "a", "limits": ["0/s"]}"#,
        r#"{"key": "a", "limits": [{"count": 1}]}"#,
        r#"{"key": "a", "limits": [[1000, "1h"]]}"#,
        r#"{"key": "a", "limits": ["5/s sliding_log"]}"#,
        r#"{"key": "a", "limits": ["1/s"], "attributes": {"user": "a"}}"#,
        &nine,
    ] {
        let answer = server.post("/v1/check", body);
        texts.add(&format!("POST /v1/check {body}"), &answer.detail(400));
        let example = answer.json()["example"].as_str().unwrap().to_owned();
        let parsed: serde_json::Value = serde_json::from_str(&example).unwrap();
        assert!(parsed["limits"].is_array(), "{body}: {example}");
        assert_eq!(server.post("/v1/peek", &example).status, 200, "the example is right");
    }
    for path in ["/v1/refund", "/v1/reserve"] {
        texts.add(&format!("POST {path} {OWN}"), &server.post(path, OWN).detail(400));
    }
    texts.assert_golden("own_limits", "wrong limits");
}

/// [`OWN`] with a cost.
fn own_with_cost(cost: u64) -> String {
    format!(r#"{}, "cost": {cost}}}"#, OWN.strip_suffix('}').unwrap())
}

#[test]
fn cost_above_the_smallest_limit_is_refused() {
    let server = TestServer::start();
    let body = own_with_cost(3);
    server.post("/v1/check?enforce=true", &body).problem(400);
    let told = server.post("/v1/check", &body).json();
    assert_eq!((&told["allowed"], &told["reason"]), (&false.into(), &"error".into()), "{told}");
    assert_eq!(server.post("/v1/peek", OWN).json()["remaining"], 2, "nothing was taken");
}

#[test]
fn cost_zero_is_allowed_with_and_without_enforcement_and_takes_nothing() {
    let server = TestServer::start();
    for remaining in [2, 0] {
        for path in ["/v1/check", "/v1/check?enforce=true", "/v1/peek"] {
            let decision = server.post(path, &own_with_cost(0)).json();
            assert_eq!(decision["allowed"], true, "{path}: {decision}");
            assert_eq!(decision["remaining"], remaining, "{path}: {decision}");
        }
        server.post("/v1/check", &own_with_cost(2));
    }
}
