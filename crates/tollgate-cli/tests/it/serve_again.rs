//! Files that are read again at a signal, a log that is all JSON, and a probe.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;

use crate::support::{
    Folder, TestServer, Transcript, assert_golden, assert_transcript, event, events, log_text,
};
use serde_json::Value;

const TOKEN: &str = "0123456789abcdef0123";
const CHANGED: &str = "settings in [server] have changed, they need a restart";

fn rules(limit: u32) -> String {
    format!("[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"{limit}/h\"\n")
}

fn limit(server: &TestServer) -> Value {
    server.post("/v1/peek", r#"{"attributes": {"user": "42"}}"#).json()["limit"].clone()
}

#[test]
fn a_hangup_reads_the_policy_again_and_ends_nothing() {
    let folder = Folder::with(&[
        ("p.toml", &rules(5)),
        ("tokens", &format!("ana write {TOKEN}\n")),
        ("t.toml", "[server]\npolicy = \"p.toml\"\nheaders = \"off\"\n"),
    ]);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("tokens"), private).unwrap();
    let arguments = ["--config", "t.toml", "--admin-tokens", "tokens"];
    let server = TestServer::with_json_log(&folder, &arguments);
    assert_eq!(limit(&server), 5);
    // So that the watcher, which would see the file change, has nothing to do with it.
    let bearer = format!("authorization: Bearer {TOKEN}");
    let other = server.request("PUT /admin/v1/policy", &[&bearer], &rules(9));
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(limit(&server), 9);
    // The server reads the settings after the policy: the warning tells that it has.
    folder.write("t.toml", "[server]\npolicy = \"p.toml\"\nheaders = \"x-delta\"\n");
    server.signal("HUP");
    let mut log = server.events_until(event("WARN", CHANGED));
    assert_eq!(limit(&server), 5);
    let audit = server.request("GET /admin/v1/audit", &[&bearer], "").json();
    let change = &audit["changes"][0];
    assert_eq!(change["actor"], "SIGHUP", "{audit}");
    assert_eq!(change["target"]["changes"]["rules"]["changed"][0], "r", "{audit}");

    folder.write("t.toml", "[server]\npolicy = \"p.toml\"\nheaders = \"off\"\n");
    server.signal("HUP");
    log.extend(server.events_until(event("WARN", CHANGED)));
    assert_golden("serve/log_hangup", &server.log_text(&log));
    // In one step: a file that is empty for a moment is a policy without rules.
    folder.replace("p.toml", "[[rule]]\nname = \"r\"\nlimit = \"5/fortnite\"\n");
    server.signal("HUP");
    let kept = event("ERROR", "the policy was read again and stays as it was");
    // The watcher may report the same finding before.
    let refused = server.events_until(kept);
    let findings = refused.iter().filter(|event| {
        event["target"] == "tollgate_server::admin::policy"
            && event["message"].as_str().is_some_and(|text| text.starts_with("p.toml:3: "))
    });
    assert_eq!(findings.count(), 1, "{refused:?}");
    assert_eq!(limit(&server), 5);
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_hangup_reads_a_folder_of_envoys_again() {
    let domain = "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: { unit: hour, requests_per_unit: 5 }\n";
    let folder = Folder::with(&[("limits/edge.yaml", domain)]);
    let server = TestServer::with_json_log(&folder, &["--envoy-config", "limits"]);
    server.signal("HUP");
    let log = server.events_until(event("INFO", "the policy was read again"));
    assert_eq!(log.last().unwrap()["rules"], 1);
}

#[test]
fn every_line_is_json_and_one_says_where_it_listens() {
    let folder = Folder::with(&[("p.toml", "[[rule]]\nname = \"all\"\nlimit = \"5/h\"\n")]);
    let server = TestServer::with_json_log(&folder, &["--policy", "p.toml", "--grpc", "off"]);
    let log = server.events_until(event("INFO", "listening"));
    assert_golden("serve/log_listening", &server.log_text(&log));
    assert_eq!(log[0]["level"], "WARN", "a warning of the policy");
    assert_eq!(log[1]["version"], env!("CARGO_PKG_VERSION"));
    assert!(server.address("resp").starts_with("127.0.0.1:"));
    assert_eq!(server.get("/readyz").status, 200);
    let said = server.stop();
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), ""),
        "stdout has no line that is not JSON"
    );
}

#[test]
fn a_warning_of_the_policy_is_told_once() {
    let folder = Folder::with(&[("t.toml", "[[rule]]\nname = \"all\"\nlimit = \"5/h\"\n")]);
    let server = TestServer::with_json_log(&folder, &["--config", "t.toml"]);
    let log = server.events_until(event("INFO", "listening"));
    assert_eq!(log.iter().filter(|event| event["level"] == "WARN").count(), 1, "{log:?}");
}

#[test]
fn why_it_cannot_start_is_json_too() {
    let folder = Folder::with(&[("p.toml", "[[rule]]\nlimt = 5\n")]);
    let said = folder.tollgate(&["serve", "--log-format", "json", "--policy", "p.toml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert_golden("serve/log_cannot_start", &log_text(&events(&said.err)));
    let quiet = ["serve", "--log-format", "json", "--log-level", "off", "--policy", "p.toml"];
    assert_transcript("serve/cannot_start_with_log_off", [folder.tollgate(&quiet)]);
}

#[test]
fn a_proxy_that_is_not_trusted_is_warned_of_once() {
    let arguments = ["--trusted-proxy", "192.0.2.0/24"];
    let server = TestServer::with_json_log(&Folder::new(), &arguments);
    for _ in 0..3 {
        server.request("GET /v1/authorize", &["x-forwarded-for: 198.51.100.1"], "");
    }
    server.signal("TERM");
    let log = server.events_until(event("INFO", "stopped"));
    let warnings: Vec<_> = log.into_iter().filter(|event| event["level"] == "WARN").collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_golden("serve/log_untrusted_proxy", &server.log_text(&warnings));
}

#[test]
fn health_asks_the_server_of_the_settings_or_the_one_that_is_named() {
    let folder = Folder::new();
    let server = TestServer::with_json_log(&folder, &[]);
    let address = server.address("http").to_owned();
    let (url, resp) = (format!("http://{address}"), format!("http://{}", server.address("resp")));
    let everywhere = format!("0.0.0.0:{}", server.port("http"));
    folder.write("t.toml", format!("[server]\nhttp = \"{address}\"\n"));
    let mut transcript = Transcript::default();
    transcript.hide(&address, "{http}");
    transcript.hide(server.address("resp"), "{resp}");
    transcript.hide(&everywhere, "0.0.0.0:{http port}");
    let mut health = |code: i32, variables: &[(&str, &str)], arguments: &[&str]| {
        let said = folder.tollgate_with(variables, &[&["health"], arguments].concat());
        assert_eq!(said.code, Some(code), "{arguments:?}: {}{}", said.out, said.err);
        transcript.add(&said);
    };
    health(0, &[], &[&url, "--timeout", "60s"]);
    health(0, &[("TOLLGATE_HTTP", &everywhere)], &["--timeout", "60s"]);
    health(0, &[], &["--config", "t.toml", "--timeout", "60s"]);
    health(1, &[], &[&resp, "--timeout", "60s"]);
    drop(server);
    health(1, &[], &[&url]);
    health(2, &[], &["localhost"]);
    health(2, &[], &["http://h/path"]);
    health(2, &[], &["http://h", "--ca", "x"]);
    health(2, &[("TOLLGATE_HTTP", "off")], &[]);
    transcript.assert_golden("health/answers");
}
