//! `tollgate serve` as people start and stop it.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::support::{
    Folder, TestServer, Transcript, assert_golden, assert_transcript, event, events, log_text,
    read_answer,
};
use serde_json::json;
use tollgate_testkit::{DEADLINE, Fault, FaultProxy, RedisServer, eventually};

const USER: &str = r#"{"attributes": {"user": "42"}}"#;

/// A limit that gives nothing back while a test runs, however long that takes.
const DAILY: &str = "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"20/day\"\n";

#[test]
fn with_nothing_at_all_it_starts_and_says_what_it_does() {
    let server = TestServer::start(&Folder::new(), &[]);
    assert_golden("serve/banner", &server.without_addresses(&server.banner()));
    let answer = server.post("/v1/check", USER);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["rule"], "per-user", "{answer}");
    assert_eq!((&answer["limit"], &answer["remaining"]), (&json!(20), &json!(19)), "{answer}");
}

#[test]
fn banner_shows_the_policy_the_state_and_the_listeners_there_are() {
    let envoy =
        [("limits/edge.yaml", &*envoy("edge", "5")), ("limits/mail.yml", &envoy("mail", "6"))];
    let folder = Folder::with(&[envoy[0], envoy[1], ("own.toml", &rule("5/h"))]);
    for (name, arguments) in [
        ("policy", &["--policy", "own.toml"][..]),
        ("envoy", &["--envoy-config", "limits"]),
        ("snapshot", &["--snapshot", "state"]),
        ("http_off", &["--http", "off"]),
        ("http_alone", &["--grpc", "off", "--resp", "off", "--insecure-admin"]),
    ] {
        let server = TestServer::start(&folder, arguments);
        let banner = server.without_addresses(&server.banner());
        assert_golden(&format!("serve/banner_{name}"), &banner);
    }
}

#[test]
fn both_ports_answer_from_one_state_and_either_can_be_off() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let server = TestServer::start(&folder, &["--policy", "daily.toml"]);
    let mut resp = TcpStream::connect(server.address("resp")).unwrap();
    resp.set_read_timeout(Some(DEADLINE)).unwrap();
    resp.write_all(b"TG.CHECK COST 19 user 42\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    resp.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("$9\r\nremaining\r\n:1\r\n"), "{answer}");
    let answer = server.post("/v1/check", USER).json();
    assert_eq!(answer["rule"], "per-user", "{answer}");
    assert_eq!((&answer["limit"], &answer["remaining"]), (&json!(20), &json!(0)), "{answer}");
    let off = TestServer::with_json_log(&Folder::new(), &["--http", "off"]);
    let listening = off.events_until(event("INFO", "listening")).pop().unwrap();
    assert!(listening["resp"].is_string() && listening["http"].is_null(), "{listening}");
}

#[test]
fn the_readme_shows_what_it_prints() {
    let readme = include_str!("../../../../README.md");
    let server = TestServer::start(&Folder::new(), &[]);
    let banner = server
        .without_addresses(&server.banner())
        .replace("{http}", "127.0.0.1:8080")
        .replace("{grpc}", "127.0.0.1:8081")
        .replace("{resp}", "127.0.0.1:6380")
        .replace("{resp port}", "6380");
    assert!(readme.contains(&banner), "README.md should show:\n{banner}");
}

#[test]
fn both_signals_stop_it_in_order() {
    for signal in ["INT", "TERM"] {
        let server = TestServer::with_json_log(&Folder::new(), &[]);
        let idle = server.connect();
        server.signal(signal);
        let log = server.events_until(event("INFO", "stopped"));
        assert_golden("serve/log_stop", &server.log_text(&log));
        assert_eq!(server.ended().code, Some(0), "{signal}");
        drop(idle);
    }
}

#[test]
fn limit_of_open_files_is_raised_to_what_the_bounds_of_connections_need() {
    let bounds = ["--max-connections", "300", "--max-resp-connections", "100"];
    let debug = ["--log-format", "json", "--log-level", "tollgate=debug"];
    let arguments = [&bounds[..], &debug].concat();
    let server = TestServer::with_file_limits(&Folder::new(), (250, 2000), &arguments);
    let log = server.events_until(event("INFO", "listening"));
    let about = |event: &&serde_json::Value| {
        event["message"].as_str().is_some_and(|message| message.contains("limit of open files"))
    };
    let said: Vec<_> = log.iter().filter(about).cloned().collect();
    assert_golden("serve/log_open_files_raised", &log_text(&said));
    let server = TestServer::with_file_limits(&Folder::new(), (250, 500), &arguments);
    let log = server.events_until(event("INFO", "listening"));
    let said: Vec<_> = log.iter().filter(about).cloned().collect();
    assert_golden("serve/log_open_files_too_few", &log_text(&said));
    let enough = TestServer::with_file_limits(&Folder::new(), (2000, 2000), &arguments);
    assert_eq!(enough.events_until(event("INFO", "listening")).iter().filter(about).count(), 0);
}

/// Sends a request whose body of `length` bytes is still to come.
fn begin_request(server: &TestServer, length: usize) -> TcpStream {
    let mut stream = server.connect();
    let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: ";
    stream.write_all(format!("{head}{length}\r\n\r\n").as_bytes()).expect("the server reads");
    let mut proceed = [0; 25];
    stream.read_exact(&mut proceed).expect("the server asks for the body");
    assert_eq!(proceed, *b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

fn wait_until_refused(server: &TestServer) {
    eventually("no more connections", || TcpStream::connect(server.address("http")).is_err());
}

#[test]
fn a_request_in_flight_is_answered_first() {
    let server = TestServer::start(&Folder::new(), &["--drain", "1h", "--max-body-time", "1h"]);
    let mut stream = begin_request(&server, USER.len());
    server.signal("TERM");
    wait_until_refused(&server);
    stream.write_all(USER.as_bytes()).unwrap();
    let answer = read_answer(&mut stream).json();
    assert_eq!(answer["allowed"], true, "{answer}");
    assert_eq!(server.ended().code, Some(0));
}

#[test]
fn a_second_signal_stops_it_at_once() {
    // A server that waits for the request does not end while the test waits.
    let server = TestServer::start(&Folder::new(), &["--drain", "1h", "--max-body-time", "1h"]);
    let stream = begin_request(&server, 9);
    server.signal("INT");
    wait_until_refused(&server);
    server.signal("INT");
    assert_eq!(server.ended().code, Some(130));
    drop(stream);
}

#[test]
fn a_request_that_takes_too_long_is_cut_off_when_it_stops() {
    let bounds = ["--drain", "50ms", "--max-body-time", "1h"];
    let server = TestServer::with_json_log(&Folder::new(), &bounds);
    let stream = begin_request(&server, 9);
    server.signal("TERM");
    let said = server.ended();
    assert_eq!(said.code, Some(0));
    let last = events(&said.err).pop().unwrap();
    assert_golden("serve/log_cut_off", &log_text(&[last]));
    drop(stream);
}

fn rule(limit: &str) -> String {
    format!("[[rule]]\nname = \"own\"\nkey = [\"user\"]\nlimit = \"{limit}\"\n")
}

fn wait_for_limit(server: &TestServer, limit: u64) {
    eventually(&format!("a limit of {limit}"), || {
        let answer = server.post("/v1/peek", USER).json();
        if answer["limit"] == limit { Ok(()) } else { Err(answer) }
    });
}

#[test]
fn a_policy_file_is_obeyed_and_read_again() {
    let folder = Folder::with(&[("own.toml", &rule("5/h"))]);
    let server = TestServer::with_json_log(&folder, &["--policy", "own.toml"]);
    assert_eq!(server.post("/v1/check", USER).json()["limit"], 5);
    folder.replace("own.toml", rule("7/h"));
    wait_for_limit(&server, 7);
    folder.replace("own.toml", rule("7/hour of need"));
    let mut log = server.events_until(event("ERROR", "the policy stays as it was"));
    assert_eq!(server.post("/v1/peek", USER).json()["limit"], 7);
    assert_eq!(server.metric("tollgate_policy_version"), 2);
    assert_eq!(server.metric("tollgate_policy_reloads_total{result=\"refused\"}"), 1);
    assert_eq!(server.metric("tollgate_policy_last_reload_successful"), 0);
    folder.replace("own.toml", rule("9/h"));
    wait_for_limit(&server, 9);
    server.signal("TERM");
    log.extend(server.events_until(event("INFO", "stopped")));
    assert_golden("serve/log_policy_file", &server.log_text(&log));
    assert_eq!(server.ended().code, Some(0));
}

fn envoy(domain: &str, count: &str) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    rate_limit: {{unit: hour, requests_per_unit: {count}}}\n"
    )
}

/// The status of one descriptor in a domain, without taking from its limit.
fn peek_domain(server: &TestServer, domain: &str) -> serde_json::Value {
    let entries = json!([{"key": "user", "value": "42"}]);
    let descriptors = json!([{"entries": entries, "hitsAddend": 0}]);
    let body = json!({"domain": domain, "descriptors": descriptors}).to_string();
    server.post("/json", &body).json()["statuses"][0].clone()
}

#[test]
fn a_folder_of_envoy_files_is_obeyed_and_read_again() {
    let folder =
        Folder::with(&[("edge.yaml", &envoy("edge", "5")), ("mail.yml", &envoy("mail", "6"))]);
    let server = TestServer::with_json_log(&folder, &["--envoy-config", "."]);
    let limit = |domain: &str| {
        let status = peek_domain(&server, domain);
        status["currentLimit"]["requestsPerUnit"].as_u64()
    };
    let wait_for = |domain: &str, count: Option<u64>| {
        eventually(&format!("{count:?} of {domain}"), || limit(domain) == count);
    };
    let refused = || server.metric("tollgate_policy_reloads_total{result=\"refused\"}");
    assert_eq!((limit("edge"), limit("mail")), (Some(5), Some(6)));
    folder.replace("edge.yaml", envoy("edge", "7"));
    wait_for("edge", Some(7));
    // The last good version of a wrong file stays, and other files change meanwhile.
    folder.replace("edge.yaml", envoy("edge", "many"));
    eventually("a file is rejected", || refused() == 1);
    assert_eq!(server.metric("tollgate_policy_last_reload_successful"), 0);
    folder.replace("mail.yml", envoy("mail", "8"));
    wait_for("mail", Some(8));
    assert_eq!((limit("edge"), refused()), (Some(7), 1));
    let ready = server.get("/readyz");
    let expected =
        "ready, degraded: the Envoy file edge.yaml is rejected, its last good version applies\n";
    assert_eq!((ready.status, ready.body.as_str()), (200, expected));
    assert_eq!(server.metric("tollgate_envoy_files_rejected"), 1);
    folder.replace("edge.yaml", envoy("edge", "9"));
    wait_for("edge", Some(9));
    assert_eq!(limit("mail"), Some(8));
    assert_eq!(server.metric("tollgate_policy_last_reload_successful"), 1);
    assert_eq!(server.metric("tollgate_envoy_files_rejected"), 0);
    assert_eq!(server.get("/readyz").body, "ready\n");
    folder.replace("third.yaml", envoy("third", "1"));
    wait_for("third", Some(1));
    std::fs::remove_file(folder.path().join("third.yaml")).unwrap();
    wait_for("third", None);
    let status = peek_domain(&server, "third");
    // A default is left out.
    assert_eq!((&status["code"], &status["limitRemaining"]), (&json!("OK"), &json!(null)));
    server.signal("TERM");
    let log = server.events_until(event("INFO", "stopped"));
    assert_golden("serve/log_envoy_folder", &server.log_text(&log));
    assert_eq!(server.ended().code, Some(0));
}

#[test]
fn wrong_file_of_an_envoy_folder_is_rejected_alone_at_the_start() {
    let folder = Folder::with(&[
        ("limits/edge.yaml", &envoy("edge", "5")),
        ("limits/mail.yaml", &envoy("mail", "many")),
        ("limits/shop.yaml", "domain: shop\ndescriptors: 5\n"),
    ]);
    let server = TestServer::with_json_log(&folder, &["--envoy-config", "limits"]);
    let log = server.events_until(event("INFO", "listening"));
    assert_golden("serve/log_rejected_envoy_files", &server.log_text(&log));
    assert_eq!(peek_domain(&server, "edge")["currentLimit"]["requestsPerUnit"], 5);
    let ready = server.get("/readyz");
    assert_eq!(ready.status, 200);
    assert_golden("serve/ready_without_envoy_files", &ready.body);
    let metrics = server.get("/metrics").body;
    let series = metrics.lines().filter(|line| line.starts_with("tollgate_envoy_file"));
    assert_golden("serve/metrics_rejected_envoy_files", &series.collect::<Vec<_>>().join("\n"));
    assert_eq!(server.metric("tollgate_policy_last_reload_successful"), 0);
    folder.replace("limits/mail.yaml", envoy("mail", "6"));
    let mail = || peek_domain(&server, "mail")["currentLimit"]["requestsPerUnit"].as_u64();
    eventually("the file is right", || mail() == Some(6));
    assert_eq!(server.metric("tollgate_envoy_files_rejected"), 1);
}

#[test]
fn strict_server_rejects_a_folder_with_a_wrong_file_or_none() {
    let folder =
        Folder::with(&[("edge.yaml", &envoy("edge", "5")), ("mail.yaml", &envoy("mail", "many"))]);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let arguments = ["serve", "--strict", "--envoy-config"];
    let said = [".", "empty"].map(|path| folder.tollgate(&[&arguments[..], &[path]].concat()));
    for said in &said {
        assert_eq!(said.code, Some(2), "{}", said.err);
    }
    assert_transcript("serve/strict_envoy_folder", said);

    folder.replace("mail.yaml", envoy("mail", "6"));
    let server = TestServer::start(&folder, &["--strict", "--envoy-config", "."]);
    let limit =
        |domain| peek_domain(&server, domain)["currentLimit"]["requestsPerUnit"].as_u64().unwrap();
    folder.replace("mail.yaml", envoy("mail", "many"));
    folder.replace("edge.yaml", envoy("edge", "7"));
    let refused = || server.metric("tollgate_policy_reloads_total{result=\"refused\"}");
    eventually("the folder is rejected", || refused() >= 1);
    assert_eq!((limit("edge"), limit("mail")), (5, 6));
    assert_eq!(server.get("/readyz").body, "ready\n");
}

#[test]
fn empty_envoy_folder_limits_nothing_until_it_has_files() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("limits")).unwrap();
    let server = TestServer::with_json_log(&folder, &["--envoy-config", "limits"]);
    let mut log = server.events_until(event("INFO", "listening"));
    let limit = || peek_domain(&server, "edge")["currentLimit"]["requestsPerUnit"].as_u64();
    assert_eq!(limit(), None);
    // No file names the domain, so that limits of clients have no effect there.
    let own = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "42"}], "limit": {"requestsPerUnit": 1, "unit": "HOUR"}}]}"#;
    for _ in 0..3 {
        assert_eq!(server.post("/json", own).status, 200);
    }
    folder.replace("limits/edge.yaml", envoy("edge", "5"));
    eventually("the file is loaded", || limit() == Some(5));
    std::fs::remove_file(folder.path().join("limits/edge.yaml")).unwrap();
    eventually("the file is gone", || limit().is_none());
    server.signal("TERM");
    log.extend(server.events_until(event("INFO", "stopped")));
    assert_golden("serve/log_empty_envoy_folder", &server.log_text(&log));
}

#[test]
fn a_snapshot_keeps_what_was_taken_over_a_restart() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let arguments = ["--policy", "daily.toml", "--snapshot", "state"];
    let all = r#"{"attributes": {"user": "42"}, "cost": 20}"#;
    let before = TestServer::start(&folder, &arguments);
    assert_eq!(before.post("/v1/check", all).json()["allowed"], true);
    let said = before.stop();
    assert_eq!(said.code, Some(0), "{}", said.err);
    let after = TestServer::start(&folder, &arguments);
    assert_eq!(after.post("/v1/peek", all).json()["allowed"], false);
    assert_eq!(after.stop().code, Some(0));
    folder.write("state", "no snapshot");
    let broken = TestServer::with_json_log(&folder, &arguments);
    let log = broken.events_until(event("INFO", "listening"));
    assert_golden("serve/log_broken_snapshot", &broken.log_text(&log));
    assert_eq!(broken.post("/v1/peek", USER).json()["remaining"], 20);
    assert_eq!(folder.read("state.broken"), "no snapshot");
}

#[test]
fn overrides_set_at_run_time_survive_a_clean_stop_and_start() {
    let token = "0123456789abcdef0123456789abcdef";
    let tokens = format!("ana write {token}\n");
    let folder = Folder::with(&[("daily.toml", DAILY), ("tokens", &tokens)]);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("tokens"), private).unwrap();
    let bearer = format!("authorization: Bearer {token}");
    let arguments = ["--policy", "daily.toml", "--snapshot", "state", "--admin-tokens", "tokens"];
    let before = TestServer::start(&folder, &arguments);
    for (user, rest) in [("42", ""), ("43", r#", "for_seconds": 3600"#)] {
        let change = format!(
            r#"{{"client": {{"user": "{user}"}}, "limits": {{"per-user": "500/day"}}{rest}}}"#
        );
        let answer = before.request("PUT /admin/v1/overrides", &[&bearer], &change);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let shown =
        |server: &TestServer| server.request("GET /admin/v1/overrides", &[&bearer], "").json();
    let before_stop = shown(&before);
    let said = before.stop();
    assert_eq!(said.code, Some(0), "{}", said.err);

    let after = TestServer::start(&folder, &arguments);
    assert_eq!(shown(&after), before_stop);
    for user in ["42", "43"] {
        let request = format!(r#"{{"attributes": {{"user": "{user}"}}}}"#);
        assert_eq!(after.post("/v1/check", &request).json()["limit"], 500, "{user}");
    }
}

#[test]
fn a_snapshot_that_is_too_large_for_max_keys_stays_where_it_is() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let arguments = ["--policy", "daily.toml", "--snapshot", "state"];
    assert_eq!(TestServer::start(&folder, &arguments).stop().code, Some(0));
    let before = std::fs::read(folder.path().join("state")).expect("it was written");
    let said = folder.tollgate(&["serve", "--snapshot", "state", "--max-keys", "100"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    let message = "cannot read state: max_keys is 100, must be at least 256 for this snapshot, \
                   which was taken with 1000000";
    assert!(said.err.contains(message), "{}", said.err);
    let after = std::fs::read(folder.path().join("state")).expect("it is still there");
    assert_eq!(before, after);
}

#[test]
fn what_becomes_of_new_keys_past_the_bound_can_be_chosen() {
    let folder = Folder::with(&[("p.toml", &rule("5/h"))]);
    for (choice, allowed, remaining) in
        [("evict", true, 3), ("deny_new", false, 0), ("allow_new", true, 4)]
    {
        let bound = ["--policy", "p.toml", "--max-keys", "1", "--when-full", choice];
        let server = TestServer::start(&folder, &bound);
        server.post("/v1/check", r#"{"attributes": {"user": "first"}}"#);
        let second = r#"{"attributes": {"user": "second"}}"#;
        server.post("/v1/check", second);
        let answer = server.post("/v1/check", second).json();
        assert_eq!(answer["allowed"], allowed, "{choice}: {answer}");
        assert_eq!(answer["remaining"], remaining, "{choice}: {answer}");
    }
}

#[test]
fn how_long_a_decision_waits_for_the_store_can_be_chosen() {
    let proxy = FaultProxy::to(RedisServer::shared().port());
    let (folder, url) = (Folder::new(), proxy.url());
    let start = |timeout: &str| {
        let namespace = format!("store-timeout-{}-{timeout}", std::process::id());
        let store = ["--store", &url, "--namespace", &namespace, "--store-timeout", timeout];
        TestServer::start(&folder, &store)
    };
    let (patient, hasty) = (start("10s"), start("20ms"));
    for server in [&patient, &hasty] {
        eventually("the store", || server.get("/readyz").status == 200);
    }
    proxy.set(Fault::Delay(Duration::from_millis(200)));
    let [waited, gave_up] = [&patient, &hasty].map(|server| server.post("/v1/check", USER));
    assert_eq!((waited.status, gave_up.status), (200, 200));
    assert_eq!(waited.json().get("degraded"), None, "{waited:?}");
    assert_eq!(gave_up.json()["degraded"], true, "{gave_up:?}");
}

#[test]
fn a_snapshot_that_cannot_be_written_is_told() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("there")).expect("a folder can be made");
    let mut transcript = Transcript::default();
    for path in ["nowhere/state", "there"] {
        let said = folder.tollgate(&["serve", "--snapshot", path]);
        assert_eq!(said.code, Some(1), "at once, not when it is to be written: {}", said.err);
        transcript.add(&said);
    }
    transcript.assert_golden("serve/snapshot_cannot_be_written");
    let server = TestServer::with_json_log(&folder, &["--snapshot", "there/state"]);
    std::fs::remove_dir_all(folder.path().join("there")).expect("it can be removed");
    let said = server.stop();
    assert_eq!(said.code, Some(1), "{}", said.err);
    let last = events(&said.err).pop().unwrap();
    assert_golden("serve/log_snapshot_not_written", &log_text(&[last]));
}

#[test]
fn what_it_cannot_start_with_is_told() {
    let weak = "ana write hunter2\n";
    let folder = Folder::with(&[("wrong.toml", "[[rule]]\nnaem = \"x\"\n"), ("weak", weak)]);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("weak"), private).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let mut transcript = Transcript::default();
    transcript.hide(&taken, "{taken}");
    let http_alone = ["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
    for (code, arguments) in [
        (2, &["--policy", "wrong.toml"][..]),
        (2, &["--policy", "none.toml"]),
        (2, &["--http", "8080"]),
        (2, &["--resp", "6380"]),
        (2, &["--grpc", "8081"]),
        (2, &["--strict", "--envoy-config", "."]),
        (2, &["--envoy-config", "none"]),
        (2, &["--envoy-config", ".", "--policy", "wrong.toml"]),
        (2, &["--http", "off", "--grpc", "off", "--resp", "off"]),
        (1, &["--http", &taken]),
        (1, &["--http", "127.0.0.1:0", "--grpc", "off", "--resp", &taken]),
        (1, &[&http_alone[..], &["--admin", &taken]].concat()),
        (1, &["--http", "192.0.2.1:0"]),
        (2, &["--max-keys", "0"]),
        (2, &["--headers", "draft-99"]),
        (2, &["--store", "localhost"]),
        (2, &["--store", "redis://127.0.0.1:1", "--snapshot", "x"]),
        (2, &["--tls-cert", "cert.pem"]),
        (1, &[&http_alone[..], &["--tls-cert", "wrong.toml", "--tls-key", "none.pem"]].concat()),
        (1, &[&http_alone[..], &["--tls-cert", "wrong.toml", "--tls-key", "wrong.toml"]].concat()),
        (2, &["--trusted-proxy", "everyone"]),
        (2, &["--allowed-host", "https://tollgate.example"]),
        (2, &["--attribute", "user"]),
        (2, &["--admin", "everywhere"]),
        (2, &["--admin-tokens", "none"]),
        (2, &["--admin-tokens", "weak"]),
        (1, &[&http_alone[..], &["--audit", "no/such/folder"]].concat()),
    ] {
        let said = folder.tollgate(&[&["serve"], arguments].concat());
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(!said.err.contains("hunter2"), "{}", said.err);
        transcript.add(&said);
    }
    transcript.assert_golden("serve/cannot_start");
}
