//! What no operator sends.

use super::*;

#[test]
fn every_wrong_body_is_told_what_is_wrong_and_what_would_be_right() {
    let server = operated();
    let deep = "[".repeat(100_000);
    let long = format!(r#"{{"rule": "per-user", "key": {{"user": "{}"}}}}"#, "x".repeat(5000));
    let cases = [
        ("keys/reset", ""),
        ("keys/reset", "nonsense"),
        ("keys/reset", "{}"),
        ("keys/reset", r#"{"rule": "per-user"}"#),
        ("keys/reset", r#"{"everything": false}"#),
        ("keys/reset", r#"{"everything": 1}"#),
        ("keys/reset", r#"{"everything": true, "rule": "per-user"}"#),
        ("keys/reset", r#"{"rule": "per-user", "every_key": true, "prefix": "a"}"#),
        ("keys/reset", r#"{"rule": "per-user", "key": "42"}"#),
        ("keys/reset", r#"{"rule": "per-user", "key": {"usr": "42"}}"#),
        ("keys/reset", r#"{"rule": "per-user", "key": {}}"#),
        ("keys/reset", r#"{"rule": "per-user", "key": {"user": "a", "user": "b"}}"#),
        ("keys/reset", r#"{"rul": "per-user"}"#),
        ("keys/reset", &deep),
        ("keys/reset", &long),
        ("keys/status", r#"{"attributes": {}, "rule": "per-user"}"#),
        ("keys/status", r#"{"rule": "per-user", "key": {"user": "\ud800"}}"#),
        ("blocks", r#"{"rule": "per-user", "key": {"user": "a"}}"#),
        ("blocks", r#"{"rule": "per-user", "key": {"user": "a"}, "for_seconds": 0}"#),
        ("blocks", r#"{"attributes": {"user": "a"}, "for_seconds": 99999999999}"#),
        ("blocks", r#"{"attributes": {"user": "a"}, "for_seconds": -1}"#),
        ("blocks/lift", r#"{"attributes": {"user": "a"}, "for_seconds": 1}"#),
        ("overrides/remove", r#"{"client": []}"#),
    ];
    let mut texts = Texts::default();
    for (path, body) in cases {
        let refused = ask(&server, WRITE, &format!("POST /admin/v1/{path}"), body);
        texts.add(&format!("POST /admin/v1/{path} {body}"), &refused.detail(400));
        post(&server, path, refused.json()["example"].as_str().unwrap());
    }
    for body in [
        r#"{"client": {"user": "a"}}"#,
        r#"{"client": {}, "tier": "pro"}"#,
        r#"{"client": {"user": "a"}, "limits": {"per-usr": "1/s"}}"#,
        r#"{"client": {"user": "a"}, "limits": {"per-user": "fast"}}"#,
        r#"{"client": {"user": "a"}, "limits": {"per-user": 5}}"#,
        r#"{"client": {"user": "a"}, "limits": {"per-user": []}}"#,
        r#"{"client": {"user": "a"}, "tier": "pro", "until": "tomorrow"}"#,
        r#"{"client": {"user": "a"}, "tier": "pro", "until": "1999-01-01T00:00:00Z"}"#,
        r#"{"client": {"user": "a"}, "tier": "pro", "until": "x", "for_seconds": 1}"#,
        r#"{"client": {"user": "a"}, "tier": "pro", "for_seconds": 0}"#,
    ] {
        let refused = ask(&server, WRITE, "PUT /admin/v1/overrides", body);
        texts.add(&format!("PUT /admin/v1/overrides {body}"), &refused.detail(400));
        put(&server, "overrides", refused.json()["example"].as_str().unwrap());
    }
    texts.assert_golden("admin", "bodies");
}

#[test]
fn every_wrong_query_is_told_what_would_be_right() {
    let server = operated();
    let mut texts = Texts::default();
    for path in [
        "keys?limit=0",
        "keys?limit=1001",
        "keys?limit=ten",
        "keys?limited=yes",
        "keys?sort=asc",
        "keys?rule=a&rule=b",
        "keys?prefix=%zz",
        "keys?prefix=%ff",
        "keys?cursor=00",
        "blocks?cursor=zz",
        "overrides?cursor=6e756c6c00",
        "top?by=name",
        "info?x",
        "audit?limit=-1",
    ] {
        let refused = ask(&server, READ, &format!("GET /admin/v1/{path}"), "");
        texts.add(&format!("GET /admin/v1/{path}"), &refused.detail(400));
    }
    let missing = ask(&server, READ, "GET /admin/v1/keys?rule=nope", "");
    texts.add("GET /admin/v1/keys?rule=nope", &missing.detail(404));
    texts.assert_golden("admin", "queries");
}

#[test]
fn names_in_any_script_go_in_and_come_out_as_they_were() {
    let server = operated();
    let name = "Zoë \u{1f980} \\\"<script>\u{0}\u{202e}";
    let body = serde_json::json!({"attributes": {"user": name}, "cost": 10}).to_string();
    server.post("/v1/check", &body);
    server.post("/v1/check", &body);
    assert_eq!(get(&server, "keys?contains=%F0%9F%A6%80")["keys"][0]["key"]["user"], name);
    assert_eq!(get(&server, "denials")["denials"][0]["key"]["user"], name);
    let target = serde_json::json!({"rule": "per-user", "key": {"user": name}}).to_string();
    assert_eq!(post(&server, "keys/reset", &target)["result"]["keys"], 1);
    assert_eq!(get(&server, "audit")["changes"][0]["target"]["key"]["user"], name);
}

#[test]
fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let server = operated();
    for (line, length) in
        [("POST /admin/v1/keys/reset", (1 << 20) + 1), ("PUT /admin/v1/policy", (16 << 20) + 1)]
    {
        let head = format!("{line} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {WRITE}\r\n");
        server.send(format!("{head}content-length: {length}\r\n\r\n")).problem(413);
        let unknown =
            format!("{line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        server.send(unknown).problem(401);
    }
    ask(&server, WRITE, "PUT /admin/v1/policy", "\u{0}\u{0}").problem(422);
}

#[test]
fn what_is_kept_of_very_long_keys_is_bounded() {
    let server = operated();
    let long = "ü".repeat(2000);
    for _ in 0..2 {
        check(&server, &long, 10);
    }
    for path in ["denials", "top"] {
        let answer = ask(&server, READ, &format!("GET /admin/v1/{path}"), "");
        assert!(answer.body.len() < 2000, "{path}: {}", answer.body.len());
    }
    let listed = get(&server, "keys");
    assert_eq!(listed["keys"][0]["whole"], false, "{listed}");
}
