//! What no operator sends.

use super::*;

#[test]
fn every_wrong_body_is_told_what_is_wrong_and_what_would_be_right() {
    let server = operated();
    let deep = "[".repeat(100_000);
    let long = format!(r#"{{"rule": "per-user", "key": {{"user": "{}"}}}}"#, "x".repeat(5000));
    let cases = [
        ("keys/reset", "", "empty"),
        ("keys/reset", "nonsense", "line 1"),
        ("keys/reset", "{}", "one of these"),
        ("keys/reset", r#"{"rule": "per-user"}"#, "one of these"),
        ("keys/reset", r#"{"everything": false}"#, "one of these"),
        ("keys/reset", r#"{"everything": 1}"#, "boolean"),
        ("keys/reset", r#"{"everything": true, "rule": "per-user"}"#, "one of these"),
        ("keys/reset", r#"{"rule": "per-user", "every_key": true, "prefix": "a"}"#, "one of these"),
        ("keys/reset", r#"{"rule": "per-user", "key": "42"}"#, "an object of strings"),
        ("keys/reset", r#"{"rule": "per-user", "key": {"usr": "42"}}"#, "counts by user"),
        ("keys/reset", r#"{"rule": "per-user", "key": {}}"#, "lacks \"user\""),
        ("keys/reset", r#"{"rule": "per-user", "key": {"user": "a", "user": "b"}}"#, "twice"),
        ("keys/reset", r#"{"rul": "per-user"}"#, "unknown field `rul`"),
        ("keys/reset", &deep, "wrong"),
        ("keys/reset", &long, "longer than 4096"),
        ("keys/status", r#"{"attributes": {}, "rule": "per-user"}"#, "\"rule\" and \"key\""),
        ("keys/status", r#"{"rule": "per-user", "key": {"user": "\ud800"}}"#, "wrong"),
        ("blocks", r#"{"rule": "per-user", "key": {"user": "a"}}"#, "for_seconds"),
        ("blocks", r#"{"rule": "per-user", "key": {"user": "a"}, "for_seconds": 0}"#, "from 1 to"),
        ("blocks", r#"{"attributes": {"user": "a"}, "for_seconds": 99999999999}"#, "from 1 to"),
        ("blocks", r#"{"attributes": {"user": "a"}, "for_seconds": -1}"#, "a whole number"),
        ("blocks/lift", r#"{"attributes": {"user": "a"}, "for_seconds": 1}"#, "at once"),
        ("overrides/remove", r#"{"client": []}"#, "an object of strings"),
    ];
    for (path, body, says) in cases {
        let problem = ask(&server, WRITE, &format!("POST /admin/v1/{path}"), body).problem(400);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{path} {}: {detail}", &body[..body.len().min(80)]);
        let example = problem["example"].as_str().unwrap();
        post(&server, path, example);
    }
    for (body, says) in [
        (r#"{"client": {"user": "a"}}"#, "changes nothing"),
        (r#"{"client": {}, "tier": "pro"}"#, "no client"),
        (r#"{"client": {"user": "a"}, "limits": {"per-usr": "1/s"}}"#, "did you mean \"per-user\""),
        (r#"{"client": {"user": "a"}, "limits": {"per-user": "fast"}}"#, "the limit for"),
        (r#"{"client": {"user": "a"}, "limits": {"per-user": 5}}"#, "such as \"100/min\""),
        (r#"{"client": {"user": "a"}, "limits": {"per-user": []}}"#, "unlimited"),
        (r#"{"client": {"user": "a"}, "tier": "pro", "until": "tomorrow"}"#, "a moment after"),
        (r#"{"client": {"user": "a"}, "tier": "pro", "until": "1999-01-01T00:00:00Z"}"#, "after"),
        (r#"{"client": {"user": "a"}, "tier": "pro", "until": "x", "for_seconds": 1}"#, "both"),
        (r#"{"client": {"user": "a"}, "tier": "pro", "for_seconds": 0}"#, "from 1 to"),
    ] {
        let problem = ask(&server, WRITE, "PUT /admin/v1/overrides", body).problem(400);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {detail}");
        put(&server, "overrides", problem["example"].as_str().unwrap());
    }
}

#[test]
fn every_wrong_query_is_told_what_would_be_right() {
    let server = operated();
    for (path, says) in [
        ("keys?limit=0", "from 1 to 1000"),
        ("keys?limit=1001", "from 1 to 1000"),
        ("keys?limit=ten", "from 1 to 1000"),
        ("keys?limited=yes", "true or false"),
        ("keys?sort=asc", "must be rule, prefix"),
        ("keys?rule=a&rule=b", "twice"),
        ("keys?prefix=%zz", "escaped"),
        ("keys?prefix=%ff", "UTF-8"),
        ("keys?cursor=00", "the \"next\""),
        ("blocks?cursor=zz", "the \"next\""),
        ("overrides?cursor=6e756c6c00", "the \"next\""),
        ("top?by=name", "traffic or denials"),
        ("info?x", "there is none here"),
        ("audit?limit=-1", "from 1 to 1000"),
    ] {
        let problem = ask(&server, READ, &format!("GET /admin/v1/{path}"), "").problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(says), "{path}: {problem}");
    }
    let missing = ask(&server, READ, "GET /admin/v1/keys?rule=nope", "").problem(404);
    assert!(missing["detail"].as_str().unwrap().contains("per-user, per-ip, quiet"), "{missing}");
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
        let unknown = format!("{line} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n");
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
