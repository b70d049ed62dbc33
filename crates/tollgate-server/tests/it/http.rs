//! What programs ask, over real sockets.

use std::time::Duration;

use serde_json::json;
use tollgate_server::ServerBuilder;
use tollgate_testkit::eventually;

use crate::support::{POLICY, TestServer, Texts, assert_line, metric_in, policy};

const ANA: &str = r#"{"attributes": {"user": "ana"}}"#;

#[test]
fn a_check_takes_and_says_what_is_left() {
    let server = TestServer::start();
    let answer = server.post("/v1/check", r#"{"attributes": {"user": "ana"}, "cost": 4}"#);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("ratelimit"), Some("\"per-user\";r=6;t=6"));
    assert_eq!(answer.header("ratelimit-policy"), Some("\"per-user\";q=10;w=60"));
    let decision = answer.json();
    assert_eq!(decision["allowed"], true);
    assert_eq!(decision["rule"], "per-user");
    assert_eq!(decision["reason"], "limits");
    assert_eq!(decision["limit"], 10);
    assert_eq!(decision["remaining"], 6);
    assert_eq!(decision["retry_after_ms"], 0);
    assert_eq!(decision["reset_after_ms"], 24_000);
    assert_eq!(decision["rules"][0]["rule"], "per-user");
}

#[test]
fn a_denied_check_is_told_with_200_or_is_429_when_asked() {
    let server = TestServer::start();
    let all = r#"{"attributes": {"user": "ana"}, "cost": 10}"#;
    assert_eq!(server.post("/v1/check?enforce=true", all).json()["allowed"], true);
    let told = server.post("/v1/check", ANA);
    assert_eq!((told.status, &told.json()["allowed"]), (200, &false.into()));
    assert_eq!(told.json()["retry_after_ms"], 6_000);
    let enforced = server.post("/v1/check?enforce=true", ANA);
    let problem = enforced.problem(429);
    let exceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    assert_eq!(problem["type"], exceeded);
    assert_eq!(problem["violated-policies"][0], "per-user");
    assert_eq!(enforced.header("retry-after"), Some("6"));
    server.clock.advance(Duration::from_secs(6));
    assert_eq!(server.post("/v1/check?enforce=true", ANA).status, 200);
}

#[test]
fn who_is_on_a_deny_list_gets_403_and_what_can_never_fit_400() {
    let server = TestServer::start();
    let listed = server.post("/v1/check?enforce=true", r#"{"attributes": {"user": "mallory"}}"#);
    listed.problem(403);
    let huge = r#"{"attributes": {"user": "ana"}, "cost": 11}"#;
    let told = server.post("/v1/check", huge).json();
    assert_eq!((&told["allowed"], &told["retry_after_ms"]), (&false.into(), &().into()));
    assert_eq!(told["reason"], "error");
    server.post("/v1/check?enforce=true", huge).problem(400);
}

#[test]
fn a_request_that_no_rule_is_about_has_no_limit() {
    let server = TestServer::start();
    let decision = server.post("/v1/check", "{}").json();
    assert_eq!(decision["allowed"], true);
    assert_eq!(decision["reason"], "no_rule");
    assert!(decision["limit"].is_null() && decision["remaining"].is_null(), "{decision}");
}

#[test]
fn a_peek_takes_nothing_and_a_refund_gives_back() {
    let server = TestServer::start();
    let four = r#"{"attributes": {"user": "ana"}, "cost": 4}"#;
    assert_eq!(server.post("/v1/peek", four).json()["allowed"], true);
    assert_eq!(server.post("/v1/peek", ANA).json()["remaining"], 10);
    server.post("/v1/check", four);
    let refunded = server.post("/v1/refund", four).json();
    let rules = refunded["rules"].as_array().unwrap();
    let (rule, remaining) = (&rules[0]["rule"], &rules[0]["remaining"]);
    assert_eq!((rules.len(), rule, remaining), (1, &"per-user".into(), &10.into()), "{refunded}");
    assert_eq!(server.post("/v1/peek", ANA).json()["remaining"], 10);
}

#[test]
fn a_batch_is_decided_in_its_order() {
    let server = TestServer::start();
    let one = r#"{"attributes": {"ip": "192.0.2.1"}}"#;
    let body = format!(r#"{{"requests": [{one}, {one}, {one}, {ANA}]}}"#);
    let decisions = server.post("/v1/check/batch", &body).json();
    let allowed: Vec<_> = decisions["decisions"].as_array().unwrap().iter().collect();
    let allowed: Vec<_> = allowed.iter().map(|of| of["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [true, true, false, true]);
}

#[test]
fn a_reservation_is_settled_once() {
    let server = TestServer::start();
    let five = r#"{"attributes": {"user": "ana"}, "cost": 5}"#;
    let reserve = || server.post("/v1/reserve", five).json();
    let left = || server.post("/v1/peek", ANA).json()["remaining"].as_u64().unwrap();
    let end = |id: &serde_json::Value, how: &str, body: &str| {
        server.post(&format!("/v1/reserve/{}/{how}", id.as_str().unwrap()), body)
    };
    let held = reserve();
    assert_eq!((&held["allowed"], &held["timeout_ms"]), (&true.into(), &60_000.into()));
    assert_eq!(left(), 5);
    let settled = end(&held["id"], "settle", r#"{"actual": 2}"#).json();
    assert_eq!((&settled["reserved"], &settled["charged"]), (&5.into(), &2.into()));
    assert_eq!(left(), 8);
    end(&held["id"], "settle", r#"{"actual": 2}"#).problem(404);
    let held = reserve();
    assert_eq!(end(&held["id"], "cancel", "").json()["charged"], 0);
    assert_eq!(left(), 8);
    let held = reserve();
    assert_eq!(end(&held["id"], "commit", "").json()["charged"], 5);
    assert_eq!(left(), 3);
    let denied = server.post("/v1/reserve", five);
    assert_eq!(denied.json()["allowed"], false);
    assert!(denied.json().get("id").is_none());
    server.post("/v1/reserve?enforce=true", five).problem(429);
}

#[test]
fn a_reservation_that_nobody_settles_is_given_back_and_forgotten() {
    let server = TestServer::start();
    let body = r#"{"attributes": {"user": "ana"}, "cost": 10, "timeout_ms": 500}"#;
    let held = server.post("/v1/reserve", body).json();
    assert_eq!(server.metric("tollgate_holds"), Some(1));
    server.clock.advance(Duration::from_millis(500));
    assert_eq!(server.metric("tollgate_holds"), Some(0));
    assert_eq!(server.post("/v1/peek", ANA).json()["remaining"], 10);
    let path = format!("/v1/reserve/{}/commit", held["id"].as_str().unwrap());
    server.post(&path, "").problem(404);
    assert_eq!(server.metric("tollgate_holds"), Some(0));
    assert_eq!(server.post("/v1/peek", ANA).json()["remaining"], 10);
}

#[test]
fn a_settlement_that_is_wrong_leaves_the_reservation_open() {
    let server = TestServer::start();
    let held = server.post("/v1/reserve", ANA).json();
    let path = format!("/v1/reserve/{}/settle", held["id"].as_str().unwrap());
    server.post(&path, r#"{"actual": -1}"#).problem(400);
    assert_eq!(server.post(&path, r#"{"actual": 0}"#).status, 200);
}

#[test]
fn metrics_count_decisions_by_rule_and_outcome() {
    let server = TestServer::start();
    server.post("/v1/check", r#"{"attributes": {"user": "ana", "watched": "yes"}, "cost": 1}"#);
    server.post("/v1/check", r#"{"attributes": {"user": "ana", "watched": "yes"}, "cost": 1}"#);
    server.post("/v1/check", r#"{"attributes": {"user": "ana"}, "cost": 10}"#);
    server.post("/v1/check", r#"{"attributes": {"user": "ana"}, "cost": 11}"#);
    server.post("/v1/check", "nonsense");
    let answer = server.ask("GET /metrics", &[]);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "tollgate_decisions_total{rule=\"per-user\",tier=\"\",outcome=\"allowed\",transport=\"http\"} 2",
        "tollgate_decisions_total{rule=\"per-user\",tier=\"\",outcome=\"denied\",transport=\"http\"} 1",
        "tollgate_decisions_total{rule=\"per-user\",tier=\"\",outcome=\"error\",transport=\"http\"} 1",
        "tollgate_decisions_total{rule=\"quiet\",tier=\"\",outcome=\"shadow_denied\",transport=\"http\"} 1",
        "tollgate_live_keys 2",
        "tollgate_evictions_total 0",
        "tollgate_bad_requests_total 1",
    ] {
        assert_line(&answer.body, line);
    }
}

#[test]
fn metrics_count_every_transport_and_how_long_it_took() {
    let server = TestServer::start();
    server.post("/v1/check", r#"{"key": "a", "limits": ["1/h"]}"#);
    server.resp("TG.CHECK user ana\r\nTHROTTLE a 1 1 3600\r\nTHROTTLE a 1 1 3600\r\nNO\r\n");
    let metrics = server.metrics();
    for line in [
        "tollgate_decisions_total{rule=\"per-user\",tier=\"\",outcome=\"allowed\",transport=\"resp\"} 1",
        "tollgate_decisions_total{rule=\"(client limits)\",tier=\"\",outcome=\"allowed\",transport=\"http\"} 1",
        "tollgate_decisions_total{rule=\"(client limits)\",tier=\"\",outcome=\"allowed\",transport=\"resp\"} 1",
        "tollgate_decisions_total{rule=\"(client limits)\",tier=\"\",outcome=\"denied\",transport=\"resp\"} 1",
        "tollgate_request_duration_seconds_count{transport=\"http\"} 1",
        "tollgate_connections_accepted_total{transport=\"resp\"} 1",
        "tollgate_resp_errors_total 1",
        "tollgate_store_up 1",
        "tollgate_policy_version 1",
        "tollgate_policy_rules 3",
    ] {
        assert_line(&metrics, line);
    }
    let count = metric_in(&metrics, "tollgate_request_duration_seconds_count{transport=\"resp\"}");
    assert!(count > Some(0), "{metrics}");
}

#[test]
fn a_connection_that_has_ended_is_counted_no_more() {
    let server = TestServer::start();
    let others = [server.connect(), server.connect()];
    let mut asking = server.connect();
    // The server learns of both ends of a connection only when the system reports them.
    let mut sees = |connections: u64| {
        eventually(&format!("{connections} connections"), || {
            asking.write("GET /metrics HTTP/1.1\r\nhost: t\r\n\r\n");
            let metrics = asking.read().unwrap().body;
            metric_in(&metrics, "tollgate_connections{transport=\"http\"}") == Some(connections)
        });
    };
    sees(3);
    drop(others);
    sees(1);
}

#[test]
fn probes_say_that_it_lives_and_is_ready() {
    let server = TestServer::start();
    assert_eq!(server.ask("GET /healthz", &[]).status, 200);
    assert_eq!(server.ask("GET /readyz", &[]).body, "ready\n");
}

#[test]
fn a_policy_that_is_replaced_is_obeyed_at_once() {
    let server = TestServer::start();
    server.post("/v1/check", ANA);
    server.gate().replace(policy(&POLICY.replace("10/min", "100/min"))).unwrap();
    assert_eq!(server.post("/v1/peek", ANA).json()["limit"], 100);
}

#[test]
fn metrics_tell_a_tier_only_where_the_policy_has_it() {
    let server = TestServer::start();
    let limit = "limit = \"10/min\"";
    let text = POLICY.replace(limit, &format!("{limit}\ntiers = {{ pro = \"20/min\" }}"));
    server.gate().replace(policy(&text)).unwrap();
    for tier in ["pro", "pro", "made up"] {
        let body = format!(r#"{{"attributes": {{"user": "ana", "tier": "{tier}"}}}}"#);
        assert_eq!(server.post("/v1/check", &body).json()["allowed"], true);
    }
    let metrics = server.metrics();
    for (tier, times) in [("pro", 2), ("", 1)] {
        let labels = format!("rule=\"per-user\",tier=\"{tier}\",outcome=\"allowed\"");
        let line = format!("tollgate_decisions_total{{{labels},transport=\"http\"}} {times}");
        assert_line(&metrics, &line);
    }
    assert!(!metrics.contains("made up"), "{metrics}");
}

#[test]
fn metrics_are_not_sniffed_nor_embedded_by_other_sites() {
    let answer = TestServer::start().ask("GET /metrics", &[]);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
    assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{answer:?}");
}

#[test]
fn metrics_name_lists_unless_they_are_told_not_to() {
    let text = r#"
[[allow]]
name = "partners"
match = { user = "ana" }

[[deny]]
name = "banned"
match = { user = "mallory" }

[[deny]]
name = "bots"
match = { user = "robot" }

[[rule]]
name = "per-user"
key = ["user"]
limit = "10/min"
"#;
    let ask = |server: &TestServer| {
        for user in ["ana", "mallory", "robot", "robot", "ben"] {
            let body = format!("{{\"attributes\": {{\"user\": \"{user}\"}}}}");
            assert_eq!(server.post("/v1/check", &body).status, 200);
        }
    };
    let server = TestServer::with_policy(policy(text), |server| server);
    ask(&server);
    for (rule, outcome, count) in
        [("partners", "allowed", 1), ("banned", "denied", 1), ("bots", "denied", 2)]
    {
        assert_eq!(server.decisions(rule, outcome, "http"), count, "{rule}");
    }
    let server = TestServer::with_policy(policy(text), ServerBuilder::without_list_names);
    ask(&server);
    // Another policy without the lists does not reveal what they were called.
    server.gate().replace(policy(POLICY)).unwrap();
    let metrics = server.metrics();
    for name in ["partners", "banned", "bots"] {
        assert!(!metrics.contains(name), "{name} in\n{metrics}");
    }
    for (rule, outcome, count) in
        [("(lists)", "allowed", 1), ("(lists)", "denied", 3), ("per-user", "allowed", 1)]
    {
        assert_eq!(server.decisions(rule, outcome, "http"), count, "{rule}");
    }
}

#[test]
fn metrics_tell_what_was_reclaimed_and_whether_few_have_all_the_denials() {
    let server = TestServer::start();
    for (user, times) in [("ana", 13), ("ben", 11), ("cleo", 1)] {
        let body = format!(r#"{{"attributes": {{"user": "{user}"}}}}"#);
        (0..times).for_each(|_| assert_eq!(server.post("/v1/check", &body).status, 200));
    }
    let metrics = server.metrics();
    for line in [
        "tollgate_top_denials{rank=\"1\"} 3",
        "tollgate_top_denials{rank=\"2\"} 1",
        "tollgate_top_denials{rank=\"3\"} 0",
        "tollgate_reclaimed_total 0",
    ] {
        assert_line(&metrics, line);
    }
    assert!(!metrics.contains("ana"), "a key is no label:\n{metrics}");
    server.clock.advance(Duration::from_secs(3600));
    server.gate().store().reclaim();
    assert_eq!(server.metric("tollgate_reclaimed_total"), Some(3));
    assert_eq!(server.metric("tollgate_top_denials{rank=\"1\"}"), Some(0));
}

#[test]
fn a_page_of_another_site_takes_nothing() {
    let server = TestServer::start();
    let body = r#"{"attributes": {"user": "ana"}}"#;
    let ask = |path: &str, site: &str| {
        let length = body.len();
        server.send(format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\nsec-fetch-site: {site}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    };
    for site in ["cross-site", "same-site"] {
        for path in ["check", "check/batch", "peek", "refund", "reserve", "reserve/0/commit"] {
            ask(&format!("/v1/{path}"), site).problem(403);
        }
        ask("/json", site).problem(403);
        assert_ne!(ask("/v1/authorize", site).status, 403, "a proxy hands on what its client says");
    }
    let own = ask("/v1/check", "same-origin");
    assert_eq!((own.status, own.json()["remaining"].as_u64()), (200, Some(9)), "nothing was taken");
}

#[test]
fn what_a_clients_limit_can_never_allow_is_counted_as_an_error() {
    let server = TestServer::start();
    let check = r#"{"key": "a", "limits": ["2/s"], "cost": 5}"#;
    assert_eq!(server.post("/v1/check", check).json()["allowed"], false);
    server.resp("CL.THROTTLE a 1 1 60 100\r\n");
    for transport in ["http", "resp"] {
        let count = |outcome| server.decisions("(client limits)", outcome, transport);
        assert_eq!((count("error"), count("denied")), (1, 0), "{transport}");
    }
}

#[test]
fn a_refund_tells_how_things_stand_and_nothing_that_was_not_done() {
    let server = TestServer::start();
    let of = |cost: u64| format!(r#"{{"attributes": {{"user": "ana"}}, "cost": {cost}}}"#);
    server.post("/v1/check", &of(3));
    let full = server.post("/v1/refund", &of(200)).json();
    assert!(full.get("refunded").is_none(), "it cannot be told: {full}");
    assert_eq!(
        (&full["rules"][0]["limit"], &full["rules"][0]["remaining"]),
        (&10.into(), &10.into())
    );
    let no_rule = server.post("/v1/refund", r#"{"attributes": {"other": "x"}, "cost": 2}"#).json();
    assert_eq!((&no_rule["reason"], &no_rule["rules"]), (&"no_rule".into(), &json!([])));
    let listed = server.post("/v1/refund", r#"{"attributes": {"user": "mallory"}}"#).json();
    assert_eq!((&listed["reason"], &listed["rules"]), (&"deny_list".into(), &json!([])));
    assert_eq!(server.post("/v1/refund", &of(0)).status, 200, "a refund of 0 gives nothing back");
}

#[test]
fn a_query_that_means_nothing_is_refused_wherever_decisions_are_asked_for() {
    let server = TestServer::start();
    let batch = format!(r#"{{"requests": [{ANA}]}}"#);
    for (path, body) in [("/v1/check/batch", batch.as_str()), ("/v1/refund", ANA)] {
        for query in ["enforce=true", "enfroce=true", "x"] {
            server.post(&format!("{path}?{query}"), body).problem(400);
        }
        assert_eq!(server.post(&format!("{path}?"), body).status, 200);
    }
    let held = server.post("/v1/reserve", ANA).json();
    let path = format!("/v1/reserve/{}/commit", held["id"].as_str().unwrap());
    server.post(&format!("{path}?x"), "").problem(400);
    assert_eq!(server.post(&path, "").status, 200, "it is still open");
}

#[test]
fn refusals_match_the_golden_file() {
    let server = TestServer::start();
    let mut texts = Texts::default();
    let huge = r#"{"attributes": {"user": "ana"}, "cost": 11}"#;
    let told = server.post("/v1/check", huge).json();
    texts.add(&format!("POST /v1/check {huge}"), told["error"].as_str().unwrap());
    let mut refused = |path: &str, body: &str, status: u16| {
        texts.add(&format!("POST {path} {body}"), &server.post(path, body).detail(status));
    };
    refused("/v1/check?enforce=true", huge, 400);
    refused("/v1/check?enforce=true", r#"{"attributes": {"user": "mallory"}}"#, 403);
    let batch = format!(r#"{{"requests": [{ANA}]}}"#);
    for query in ["enforce=true", "enfroce=true", "x"] {
        refused(&format!("/v1/check/batch?{query}"), &batch, 400);
        refused(&format!("/v1/refund?{query}"), ANA, 400);
    }
    refused("/v1/reserve/0/commit?x", "", 400);
    let held = server.post("/v1/reserve", r#"{"timeout_ms": 500}"#).json();
    server.clock.advance(Duration::from_millis(500));
    let id = held["id"].as_str().unwrap();
    let late = server.post(&format!("/v1/reserve/{id}/commit"), "").detail(404).replace(id, "{id}");
    texts.add("POST /v1/reserve/{id}/commit after its timeout", &late);
    for site in ["cross-site", "same-site"] {
        let header = format!("sec-fetch-site: {site}");
        let other = server.ask("POST /v1/check", &[&header]);
        texts.add(&format!("POST /v1/check, {header}"), &other.detail(403));
    }
    texts.assert_golden("http", "refusals");
}

#[test]
fn cost_zero_is_allowed_on_every_path_and_takes_nothing() {
    let server = TestServer::start();
    let zero = r#"{"attributes": {"user": "ana"}, "cost": 0}"#;
    let all = r#"{"attributes": {"user": "ana"}, "cost": 10}"#;
    for remaining in [10, 0] {
        for path in ["/v1/check", "/v1/check?enforce=true", "/v1/peek"] {
            let decision = server.post(path, zero).json();
            assert_eq!(decision["allowed"], true, "{path}: {decision}");
            assert_eq!(decision["remaining"], remaining, "{path}: {decision}");
        }
        let batch = server.post("/v1/check/batch", &format!(r#"{{"requests": [{zero}]}}"#)).json();
        assert_eq!(batch["decisions"][0]["allowed"], true, "{batch}");
        assert_eq!(server.post("/v1/refund", zero).status, 200);
        server.post("/v1/check", all);
    }
    let denied = r#"{"attributes": {"user": "mallory"}, "cost": 0}"#;
    let denied = server.post("/v1/check", denied).json();
    assert_eq!(denied["reason"], "deny_list", "{denied}");
}

#[test]
fn reservation_of_cost_zero_settles_to_what_was_used() {
    let server = TestServer::start();
    let zero = r#"{"attributes": {"user": "ana"}, "cost": 0}"#;
    let held = server.post("/v1/reserve", zero).json();
    let id = held["id"].as_str().expect("a cost of 0 is allowed");
    let settled = server.post(&format!("/v1/reserve/{id}/settle"), r#"{"actual": 4}"#);
    assert_eq!(settled.status, 200);
    assert_eq!(server.post("/v1/peek", zero).json()["remaining"], 6);
}
