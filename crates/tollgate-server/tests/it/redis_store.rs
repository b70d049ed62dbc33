//! The server over a real Redis: the same answers, shared by servers, and what becomes of them
//! while it is away.

use tollgate_testkit::{Fault, FaultProxy, RedisServer, command, eventually};

use crate::support::{POLICY, TestServer, metric_in, policy, redis_gate};

/// A server over the Redis at `url`. Time is Redis' own: the limits are slow.
fn over(url: &str) -> TestServer {
    TestServer::over(redis_gate(url, "", slow_policy()), |server| server)
}

fn slow_policy() -> tollgate::Policy {
    policy(&POLICY.replace("/min", "/day"))
}

/// Two servers over the shared Redis, with a namespace of the test.
fn two(namespace: &str, policy: &tollgate::Policy) -> [TestServer; 2] {
    let url = RedisServer::shared().url();
    [(); 2].map(|()| {
        let gate = redis_gate(&url, &format!("redis_store::{namespace}"), policy.clone());
        TestServer::over(gate, |server| server)
    })
}

/// A policy with leases, of a limit that is large enough for them.
fn leased() -> tollgate::Policy {
    policy(
        "sync = \"leased\"\n[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\n\
         limit = \"10000/day fixed_window first\"\n",
    )
}

const ANA: &str = r#"{"attributes": {"user": "ana"}}"#;

#[test]
fn servers_share_what_is_in_redis_over_both_protocols() {
    let [one, other] = two("both_protocols", &slow_policy());
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
    let told = other.resp("TG.STATUS user ana\r\n");
    assert_eq!(told.matches("remaining\r\n:8\r\n").count(), 1, "{told}");
    assert_eq!(other.resp("TG.RESET per-user ana\r\n"), ":1\r\n");
    assert_eq!(one.post("/v1/peek", ANA).json()["remaining"], 10);
    assert_eq!(one.ask("GET /readyz", &[]).body, "ready\n");
}

/// A policy whose limit gives back next to nothing while a test runs.
fn daily() -> tollgate::Policy {
    policy("[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"10/day\"\n")
}

/// Reserves four units of ten on a server; its path.
fn reserve(server: &TestServer, timeout_ms: u64) -> String {
    let body =
        format!(r#"{{"attributes": {{"user": "ana"}}, "cost": 4, "timeout_ms": {timeout_ms}}}"#);
    let told = server.post("/v1/reserve", &body).json();
    format!("/v1/reserve/{}", told["id"].as_str().unwrap_or_else(|| panic!("{told}")))
}

#[test]
fn a_reservation_is_ended_once_on_whichever_server() {
    let [one, other] = two("ended_once", &daily());
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
    let servers = two("ended_at_the_same_time", &daily());
    for _ in 0..20 {
        servers[0].resp("TG.RESET per-user ana\r\n");
        let path = format!("{}/commit", reserve(&servers[0], 60_000));
        let mut ended = std::thread::scope(|scope| {
            let path = &path;
            let all =
                servers.each_ref().map(|server| scope.spawn(move || server.post(path, "").status));
            all.map(|status| status.join().unwrap())
        });
        ended.sort_unstable();
        assert_eq!(ended, [200, 404]);
        assert_eq!(servers[1].post("/v1/peek", ANA).json()["remaining"], 6);
    }
}

#[test]
fn a_reservation_that_nobody_ends_is_given_back_by_whoever_asks_next() {
    let [one, other] = two("nobody_ends_it", &daily());
    let held = reserve(&one, 300);
    drop(one);
    eventually("it is given back", || other.post("/v1/peek", ANA).json()["remaining"] == 10);
    other.post(&format!("{held}/commit"), "").problem(404);
    let keys =
        command(RedisServer::shared().port(), "KEYS tg:{*}:hold:redis_store::nobody_ends_it");
    assert_eq!(keys, "", "nothing is left behind");
}

#[test]
fn limits_that_clients_bring_are_shared_too() {
    // What clients bring has no namespace: the keys are those of this test alone.
    let [one, other] = two("limits_of_clients", &slow_policy());
    let pipeline = "CL.THROTTLE limits_of_clients 4 1 3600\r\n".repeat(5);
    let told = one.resp(&pipeline);
    assert_eq!(told.matches("*5\r\n:0\r\n:5\r\n").count(), 5, "{told}");
    assert!(
        other
            .resp("CL.THROTTLE limits_of_clients 4 1 3600\r\n")
            .starts_with("*5\r\n:1\r\n:5\r\n:0\r\n")
    );
    assert!(
        other
            .resp("CL.THROTTLE limits_of_clients 4 1 3600 0\r\n")
            .starts_with("*5\r\n:0\r\n:5\r\n:0\r\n")
    );
    let told = one.resp("THROTTLE limits_of_clients 4 1 x\r\n");
    assert!(told.starts_with("-ERR ") && told.lines().count() == 1, "{told}");
    let own = r#"{"key": "limits_of_clients", "limits": ["2/day", "5/day"]}"#;
    assert_eq!(one.post("/v1/check", own).json()["remaining"], 1);
    let second = other.post("/v1/check", own).json();
    assert_eq!((&second["remaining"], &second["rules"][1]["remaining"]), (&0.into(), &3.into()));
    assert_eq!(other.post("/v1/check", own).json()["allowed"], false);
}

#[test]
fn transactions_over_redis_are_answered_in_order_and_del_resets_for_all_servers() {
    let [one, other] = two("transactions", &slow_policy());
    let throttles = "CL.THROTTLE transactions 99 1 3600\r\n".repeat(101);
    let last = "SELECT 5\r\nTHROTTLE transactions 1 1 3600\r\nTG.CHECK COST 11 user ana\r\n";
    let told = one.resp(&format!("MULTI\r\nPING\r\n{throttles}{last}EXEC\r\nPING\r\n"));
    let queued = "+QUEUED\r\n".repeat(105);
    let answers = told.strip_prefix(&format!("+OK\r\n{queued}*105\r\n+PONG\r\n"));
    let answers = answers.unwrap_or_else(|| panic!("{told}"));
    let left = (0..100).rev().map(|left| format!("*5\r\n:0\r\n:100\r\n:{left}\r\n"));
    let rest = left.fold(answers, |rest, expected| {
        rest.split_once(&expected).unwrap_or_else(|| panic!("{expected} in {rest}")).1
    });
    let (_, rest) = rest.split_once("*5\r\n:1\r\n:100\r\n:0\r\n").expect("the last is limited");
    let (_, rest) = rest.split_once("+OK\r\n*5\r\n:1\r\n:1\r\n:0\r\n").expect("database 5");
    assert!(rest.contains("-ERR cost exceeds capacity") && rest.ends_with("+PONG\r\n"), "{rest}");
    let reset = other.resp("DEL transactions nobody transactions\r\nDEL transactions\r\n");
    assert_eq!(reset, ":1\r\n:0\r\n");
    let fresh = other.resp("CL.THROTTLE transactions 99 1 3600\r\n");
    assert!(fresh.starts_with("*5\r\n:0\r\n:100\r\n:99\r\n"), "{fresh}");
    let other_database =
        one.resp("SELECT 5\r\nDEL transactions\r\nSELECT 0\r\nDEL transactions\r\n");
    assert_eq!(other_database, "+OK\r\n:1\r\n+OK\r\n:1\r\n");
    let aborted =
        one.resp("MULTI\r\nTHROTTLE transactions 1 1 3600\r\nDEL\r\nEXEC\r\nDEL transactions\r\n");
    assert!(aborted.ends_with("errors.\r\n:0\r\n"), "{aborted}");
}

#[test]
fn while_redis_is_away_it_answers_by_itself_and_says_so() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.port());
    let server = over(&proxy.url());
    server.post("/v1/check", ANA);
    proxy.set(Fault::Refuse);
    eventually("the server is degraded", || {
        let told = server.post("/v1/check", ANA).json();
        let ready = server.ask("GET /readyz", &[]);
        assert_eq!(ready.status, 200, "without it nobody would answer");
        told["degraded"] == true && ready.body.starts_with(DEGRADED)
    });
    assert!(server.resp("THROTTLE ana 3 1 3600\r\n").starts_with("*5\r\n:1\r\n:3\r\n:2\r\n"));
    let degraded = server.resp("TG.CHECK user ben\r\n");
    assert!(degraded.ends_with("degraded\r\n:1\r\n$6\r\nleased\r\n:0\r\n"), "{degraded}");
    let deleted = server.resp("DEL ana\r\n");
    assert!(deleted.starts_with("-ERR ") && deleted.lines().count() == 1, "{deleted}");
    let own = r#"{"key": "ana", "limits": ["2/h"]}"#;
    let told = server.post("/v1/check", own).json();
    assert_eq!((&told["degraded"], &told["remaining"]), (&true.into(), &1.into()));
    assert_eq!(server.metric("tollgate_store_up"), Some(0));
    assert_eq!(server.metric("tollgate_store_outages_total"), Some(1));
    assert!(server.decisions("per-user", "degraded", "http") > 0);
    assert!(server.metric("tollgate_store_duration_seconds_count") > Some(0));
    server.post("/v1/refund", ANA).problem(503);
    proxy.set(Fault::None);
    eventually("the server is ready", || server.ask("GET /readyz", &[]).body == "ready\n");
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
    let nowhere = |text: &str| {
        let gate = redis_gate("redis://127.0.0.1:1/0", "", policy(text));
        TestServer::over(gate, |server| server)
    };
    let server = nowhere(text);
    let login = r#"{"attributes": {"login": "ana"}}"#;
    let refused = server.post("/v1/check?enforce=true", login);
    let problem = refused.problem(503);
    let reduced = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(
        (&problem["type"], &problem["violated-policies"][0]),
        (&reduced.into(), &"logins".into())
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    let proxied = nowhere(&text.replace("\"login\"", "\"path\""));
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

/// The start of `/readyz` while the store is unavailable.
const DEGRADED: &str = "ready, degraded: the store ";

/// Asks nothing of the store until the server says of itself what is expected.
#[track_caller]
fn says_by_itself(server: &TestServer, beginning: &str, up: u64) {
    eventually(beginning, || {
        let ready = server.ask("GET /readyz", &[]);
        assert_eq!(ready.status, 200, "without it nobody would answer");
        if ready.body.starts_with(beginning) { Ok(()) } else { Err(ready.body) }
    });
    assert_eq!(server.metric("tollgate_store_up"), Some(up));
}

#[test]
fn a_store_that_was_never_reached_is_told_before_anybody_asks_for_a_decision() {
    let server = over("redis://127.0.0.1:1/0");
    let early = server.ask("GET /readyz", &[]).body;
    assert!(early.starts_with(DEGRADED), "never just ready: {early}");
    says_by_itself(&server, &format!("{DEGRADED}127.0.0.1:1 has been away for "), 0);
    let redis = RedisServer::with_options(&["--requirepass", "right"]);
    let url = redis.url().replace("redis://", "redis://:wrong@");
    says_by_itself(&over(&url), &format!("{DEGRADED}127.0.0.1:"), 0);
    let url = redis.url().replace("redis://", "redis://:right@");
    says_by_itself(&over(&url), "ready\n", 1);
}

#[test]
fn a_store_that_goes_or_comes_while_nobody_asks_is_noticed() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.port());
    let server = over(&proxy.url());
    says_by_itself(&server, "ready\n", 1);
    proxy.set(Fault::Refuse);
    says_by_itself(&server, &format!("{DEGRADED}127.0.0.1:"), 0);
    proxy.set(Fault::None);
    says_by_itself(&server, "ready\n", 1);
    // It is there, and can keep nothing.
    command(redis.port(), "CONFIG SET maxmemory 1");
    says_by_itself(&server, &format!("{DEGRADED}127.0.0.1:"), 0);
}

#[test]
fn a_server_says_what_is_leased_and_gives_it_back_when_it_stops() {
    let [one, other] = two("leased", &leased());
    let mut taken = 0;
    let told = eventually("a decision that is leased", || {
        // Large at first, so that much is borrowed.
        let cost = if taken < 400 { 100 } else { 1 };
        let body = format!(r#"{{"attributes": {{"user": "ana"}}, "cost": {cost}}}"#);
        let told = one.post("/v1/check", &body).json();
        assert_eq!(told["allowed"], true, "{told}");
        taken += cost;
        if told["leased"] == true { Ok(told) } else { Err(told) }
    });
    assert_eq!((&told["rule"], &told["rules"][0]["leased"]), (&"per-user".into(), &true.into()));
    eventually("a leased decision over the Redis protocol", || {
        taken += 1;
        let told = one.resp("TG.CHECK user ana\r\n");
        let is_leased = told.ends_with("degraded\r\n:0\r\n$6\r\nleased\r\n:1\r\n");
        if is_leased { Ok(()) } else { Err(told) }
    });
    let metrics = one.metrics();
    let count = |name: &str| metric_in(&metrics, &format!("tollgate_{name}")).unwrap();
    assert!(count("lease_borrows_total") >= 1 && count("lease_charges_total") >= 1);
    assert!(count("lease_borrowed_units_total") > count("lease_spent_units_total"));
    drop(one);
    let left = other.post("/v1/peek", ANA).json()["remaining"].as_u64().unwrap();
    assert_eq!(left, 10_000 - taken, "what was left in hand is there again");
}

/// Lets the user `ana` of a server run everything but `revoked`.
fn revoke(server: &RedisServer, revoked: &str) {
    let rights = format!("ACL SETUSER ana reset on >secret ~tg:* +@all {revoked}");
    command(server.port(), &rights);
}

#[test]
fn redis_that_rejects_every_decision_is_shown_as_unavailable() {
    let redis = RedisServer::start();
    revoke(&redis, "-evalsha");
    let server = over(&format!("redis://ana:secret@127.0.0.1:{}", redis.port()));
    let readyz = || server.ask("GET /readyz", &[]).body;
    eventually("the probe", || readyz().contains("redis refused"));
    assert!(readyz().contains("'evalsha'"), "{}", readyz());
    assert!(!readyz().contains("secret"), "{}", readyz());
    let metrics = server.ask("GET /metrics", &[]).body;
    assert_eq!(metric_in(&metrics, "tollgate_store_up"), Some(0));
    assert_eq!(metric_in(&metrics, "tollgate_store_outages_total"), Some(1));
    assert_eq!(server.post("/v1/check", ANA).json()["degraded"], true);
    revoke(&redis, "");
    eventually("the end of the outage", || readyz() == "ready\n");
    assert!(server.post("/v1/check", ANA).json().get("degraded").is_none());
}
