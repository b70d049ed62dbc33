//! The server over a real Redis: the same answers, shared by servers, and what becomes of them
//! while it is away.
#![allow(clippy::unwrap_used, reason = "of tests")]

mod support;

use std::time::{Duration, Instant};

use support::Running;
use tollgate::{Gate, ManualClock, Policy};
use tollgate_redis::{RedisGate, RedisStore};
use tollgate_server::Backend;
use tollgate_testkit::{Fault, FaultProxy, RedisServer, command};

/// A server over the Redis at `url`. Time is Redis' own: limits here are slow.
fn over(url: &str) -> Running {
    with_policy(url, support::POLICY)
}

fn with_policy(url: &str, text: &str) -> Running {
    let policy = || Policy::from_toml("t.toml", text).unwrap().policy;
    // A busy machine is no outage.
    let store = RedisStore::builder(url).timeout(Duration::from_secs(10)).open().unwrap();
    let gate = RedisGate::on(store, policy()).unwrap();
    let unused = (Gate::new(policy()).unwrap(), ManualClock::new());
    Running::over(Backend::Redis(gate), unused, |server| server)
}

/// The same with leases, of limits that are large enough for them.
fn leased(url: &str) -> Running {
    let text = "sync = \"leased\"\n[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"10000/h fixed_window first\"\n";
    with_policy(url, text)
}

const ANA: &str = r#"{"attributes": {"user": "ana"}}"#;

#[test]
fn servers_share_what_is_in_redis_over_both_protocols() {
    let redis = RedisServer::start();
    let (one, other) = (over(&redis.url()), over(&redis.url()));
    let first = one.post("/v1/check", ANA).json();
    assert_eq!((&first["rule"], &first["remaining"]), (&"per-user".into(), &9.into()));
    assert!(first.get("degraded").is_none(), "{first}");
    let told = other.resp("TG.CHECK COST 2 user ana\r\nTG.PEEK user ana\r\nPING\r\n");
    assert_eq!(told.matches("remaining\r\n:7\r\n").count(), 2, "{told}");
    assert!(told.ends_with("+PONG\r\n"), "answers keep their order: {told}");
    assert_eq!(one.post("/v1/peek", ANA).json()["remaining"], 7);
    assert_eq!(one.post("/v1/refund", ANA).json()["rules"][0]["remaining"], 8);
    let held = one.post("/v1/reserve", ANA).json();
    assert_eq!(held["remaining"], 7);
    let id = held["id"].as_str().unwrap();
    assert_eq!(one.post(&format!("/v1/reserve/{id}/cancel"), "").json()["charged"], 0);
    assert!(other.resp("TG.STATUS user ana\r\n").contains("remaining\r\n:8\r\n"));
    assert_eq!(other.resp("TG.RESET per-user ana\r\n"), ":1\r\n");
    assert_eq!(one.post("/v1/peek", ANA).json()["remaining"], 10);
    assert_eq!(one.ask("GET /readyz", &[]).body, "ready\n");
}

/// A server whose limit is as good as still.
fn daily(url: &str) -> Running {
    with_policy(url, "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"10/day\"\n")
}

/// Reserves four units of ten on a server; its path.
fn reserve(server: &Running, timeout_ms: u64) -> String {
    let body =
        format!(r#"{{"attributes": {{"user": "ana"}}, "cost": 4, "timeout_ms": {timeout_ms}}}"#);
    let told = server.post("/v1/reserve", &body).json();
    format!("/v1/reserve/{}", told["id"].as_str().unwrap_or_else(|| panic!("{told}")))
}

#[test]
fn a_reservation_is_ended_once_on_whichever_server() {
    let redis = RedisServer::start();
    let (one, other) = (daily(&redis.url()), daily(&redis.url()));
    let left = || other.post("/v1/peek", ANA).json()["remaining"].as_u64().unwrap();
    let held = reserve(&one, 60_000);
    assert_eq!(left(), 6);
    let settled = other.post(&format!("{held}/settle"), r#"{"actual": 7}"#).json();
    assert_eq!((&settled["reserved"], &settled["charged"]), (&4.into(), &7.into()));
    assert_eq!(left(), 3);
    for server in [&one, &other] {
        server.post(&format!("{held}/cancel"), "").problem(404);
    }
    assert_eq!(left(), 3, "what has ended is not given back");
    other.resp("TG.RESET per-user ana\r\n");
    let held = reserve(&one, 60_000);
    assert_eq!(other.post(&format!("{held}/cancel"), "").json()["charged"], 0);
    assert_eq!(left(), 10);
    let held = reserve(&one, 60_000);
    assert_eq!(one.post(&format!("{held}/commit"), "").json()["charged"], 4, "on its own, too");
    assert_eq!(left(), 6);
    let held = reserve(&one, 60_000);
    drop(one);
    assert_eq!(other.post(&format!("{held}/settle"), r#"{"actual": 1}"#).json()["charged"], 1);
    assert_eq!(left(), 5, "also when the server that made it is gone");
}

#[test]
fn of_servers_that_end_a_reservation_at_the_same_time_one_does() {
    let redis = RedisServer::start();
    let servers = [daily(&redis.url()), daily(&redis.url())];
    for _ in 0..20 {
        servers[0].resp("TG.RESET per-user ana\r\n");
        let path = format!("{}/commit", reserve(&servers[0], 60_000));
        let ended = std::thread::scope(|scope| {
            let path = &path;
            let all =
                servers.each_ref().map(|server| scope.spawn(move || server.post(path, "").status));
            all.map(|status| status.join().unwrap())
        });
        assert!(ended == [200, 404] || ended == [404, 200], "{ended:?}");
        assert_eq!(servers[1].post("/v1/peek", ANA).json()["remaining"], 6);
    }
}

#[test]
fn a_reservation_that_nobody_ends_is_given_back_by_whoever_asks_next() {
    let redis = RedisServer::start();
    let (one, other) = (daily(&redis.url()), daily(&redis.url()));
    let held = reserve(&one, 300);
    drop(one);
    let until = Instant::now() + Duration::from_secs(20);
    while other.post("/v1/peek", ANA).json()["remaining"] != 10 {
        assert!(Instant::now() < until, "it is charged for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    other.post(&format!("{held}/commit"), "").problem(404);
    assert_eq!(command(redis.port(), "KEYS tg:{*}:hold:*"), "", "nothing is left behind");
}

#[test]
fn limits_that_clients_bring_are_shared_too() {
    let redis = RedisServer::start();
    let (one, other) = (over(&redis.url()), over(&redis.url()));
    let pipeline = "CL.THROTTLE ana 4 1 3600\r\n".repeat(5);
    let told = one.resp(&pipeline);
    assert_eq!(told.matches("*5\r\n:0\r\n:5\r\n").count(), 5, "{told}");
    assert!(other.resp("CL.THROTTLE ana 4 1 3600\r\n").starts_with("*5\r\n:1\r\n:5\r\n:0\r\n"));
    assert!(other.resp("CL.THROTTLE ana 4 1 3600 0\r\n").starts_with("*5\r\n:0\r\n:5\r\n:0\r\n"));
    assert!(one.resp("THROTTLE ana 4 1 x\r\n").starts_with("-ERR period is"), "still told");
    let own = r#"{"key": "ana", "limits": ["2/h", "5/day"]}"#;
    assert_eq!(one.post("/v1/check", own).json()["remaining"], 1);
    let second = other.post("/v1/check", own).json();
    assert_eq!((&second["remaining"], &second["rules"][1]["remaining"]), (&0.into(), &3.into()));
    assert_eq!(other.post("/v1/check", own).json()["allowed"], false);
}

#[test]
fn while_redis_is_away_it_answers_by_itself_and_says_so() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.port());
    let server = over(&proxy.url());
    server.post("/v1/check", ANA);
    proxy.set(Fault::Refuse);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let told = server.post("/v1/check", ANA).json();
        let ready = server.ask("GET /readyz", &[]);
        assert_eq!(ready.status, 200, "without it nobody would answer");
        if told["degraded"] == true && ready.body.starts_with("ready, degraded: the store ") {
            break;
        }
        assert!(Instant::now() < until, "{told} {}", ready.body);
    }
    assert!(server.resp("THROTTLE ana 3 1 3600\r\n").starts_with("*5\r\n:1\r\n:3\r\n:2\r\n"));
    let own = r#"{"key": "ana", "limits": ["2/h"]}"#;
    let told = server.post("/v1/check", own).json();
    assert_eq!((&told["degraded"], &told["remaining"]), (&true.into(), &1.into()));
    let metrics = server.ask("GET /metrics", &[]).body;
    assert!(metrics.contains("\ntollgate_store_up 0\n"), "{metrics}");
    assert!(metrics.contains("\ntollgate_store_outages_total 1\n"), "{metrics}");
    assert!(metrics.contains("outcome=\"degraded\",transport=\"http\"} "), "{metrics}");
    assert!(metrics.contains("\ntollgate_store_duration_seconds_count "), "{metrics}");
    let refund = server.post("/v1/refund", ANA);
    refund.problem(503);
    proxy.set(Fault::None);
    let until = Instant::now() + Duration::from_secs(20);
    while server.ask("GET /readyz", &[]).body != "ready\n" {
        assert!(Instant::now() < until, "it never came back");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(server.post("/v1/check", ANA).json().get("degraded").is_none());
}

#[test]
fn a_refusal_for_want_of_the_store_is_no_fault_of_the_client() {
    let text = r#"
[[rule]]
name = "logins"
key = ["login"]
limit = "5/min"
on_store_error = "deny"
[[rule]]
name = "reads"
key = ["read"]
limit = "5/min"
on_store_error = "allow"
"#;
    let server = with_policy("redis://127.0.0.1:1/0", text);
    let login = r#"{"attributes": {"login": "ana"}}"#;
    let refused = server.post("/v1/check?enforce=true", login);
    let problem = refused.problem(503);
    let reduced = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(
        (&problem["type"], &problem["violated-policies"][0]),
        (&reduced.into(), &"logins".into())
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    let proxied = with_policy("redis://127.0.0.1:1/0", &text.replace("\"login\"", "\"path\""));
    let refused = proxied.ask("GET /v1/authorize", &["x-forwarded-uri: /login"]).problem(429);
    assert_eq!(refused["type"], reduced, "a proxy would let pass what is answered with 503");
    let told = server.post("/v1/check", login).json();
    assert_eq!((&told["allowed"], &told["reason"]), (&false.into(), &"store_away".into()));
    for _ in 0..10 {
        let told = server.post("/v1/check", r#"{"attributes": {"read": "ana"}}"#).json();
        assert_eq!((&told["allowed"], &told["degraded"]), (&true.into(), &true.into()));
        assert_eq!((&told["rule"], &told["reason"]), (&"reads".into(), &"store_away".into()));
        assert_eq!(told["limit"], serde_json::Value::Null);
    }
    let told = server.post("/v1/check", r#"{"attributes": {"other": "ana"}}"#).json();
    assert_eq!((&told["rule"], &told["reason"]), (&serde_json::Value::Null, &"no_rule".into()));
}

/// Asks nothing of the store until the server says of itself what is expected.
#[track_caller]
fn says_by_itself(server: &Running, beginning: &str, up: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let ready = server.ask("GET /readyz", &[]);
        assert_eq!(ready.status, 200, "without it nobody would answer");
        if ready.body.starts_with(beginning) {
            break;
        }
        assert!(Instant::now() < until, "{}", ready.body);
        std::thread::sleep(Duration::from_millis(10));
    }
    let metrics = server.ask("GET /metrics", &[]).body;
    assert!(metrics.contains(&format!("\ntollgate_store_up {up}\n")), "{metrics}");
}

#[test]
fn a_store_that_was_never_reached_is_told_before_anybody_asks_for_a_decision() {
    let server = over("redis://127.0.0.1:1/0");
    let early = server.ask("GET /readyz", &[]).body;
    assert!(early.starts_with("ready, degraded: the store "), "never just ready: {early}");
    says_by_itself(&server, "ready, degraded: the store 127.0.0.1:1 has been away for ", "0");
    let redis = RedisServer::with_options(&["--requirepass", "right"]);
    let url = redis.url().replace("redis://", "redis://:wrong@");
    says_by_itself(&over(&url), "ready, degraded: the store 127.0.0.1:", "0");
    let url = redis.url().replace("redis://", "redis://:right@");
    says_by_itself(&over(&url), "ready\n", "1");
}

#[test]
fn a_store_that_goes_or_comes_while_nobody_asks_is_noticed() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.port());
    let server = over(&proxy.url());
    says_by_itself(&server, "ready\n", "1");
    proxy.set(Fault::Refuse);
    says_by_itself(&server, "ready, degraded: the store 127.0.0.1:", "0");
    proxy.set(Fault::None);
    says_by_itself(&server, "ready\n", "1");
    // It is there, and can keep nothing.
    command(redis.port(), "CONFIG SET maxmemory 1");
    says_by_itself(&server, "ready, degraded: the store 127.0.0.1:", "0");
}

#[test]
fn a_server_says_what_is_leased_and_gives_it_back_when_it_stops() {
    let redis = RedisServer::start();
    let (one, other) = (leased(&redis.url()), leased(&redis.url()));
    let patience = Instant::now();
    let mut taken = 0;
    let told = loop {
        // Large at first, so that much is borrowed.
        let cost = if taken < 400 { 100 } else { 1 };
        let body = format!(r#"{{"attributes": {{"user": "ana"}}, "cost": {cost}}}"#);
        let told = one.post("/v1/check", &body).json();
        assert_eq!(told["allowed"], true, "{told}");
        taken += cost;
        if told["leased"] == true {
            break told;
        }
        assert!(patience.elapsed() < Duration::from_secs(20), "{told}");
    };
    assert_eq!((&told["rule"], &told["rules"][0]["leased"]), (&"per-user".into(), &true.into()));
    let metrics = one.ask("GET /metrics", &[]).body;
    let count = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("tollgate_{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    };
    assert!(count("lease_borrows_total") >= 1 && count("lease_charges_total") >= 1);
    assert!(count("lease_borrowed_units_total") > count("lease_spent_units_total"));
    drop(one);
    let left = other.post("/v1/peek", ANA).json()["remaining"].as_u64().unwrap();
    assert_eq!(left, 10_000 - taken, "what was left in hand is there again");
}
