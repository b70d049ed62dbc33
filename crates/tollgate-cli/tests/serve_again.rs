//! Files that are read again at a signal, a log that is all JSON, and a probe.
#![cfg(unix)]

#[path = "support/logged.rs"]
mod logged;
mod support;

use logged::Logged;
use serde_json::Value;
use support::Folder;

const TOKEN: &str = "0123456789abcdef0123";

fn rules(limit: u32) -> String {
    format!("[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"{limit}/h\"\n")
}

fn limit(served: &Logged) -> Value {
    let (_, body) = served.ask("POST /v1/peek", &[], r#"{"attributes": {"user": "42"}}"#);
    serde_json::from_str::<Value>(&body).expect("JSON")["limit"].clone()
}

#[test]
fn a_hangup_reads_the_policy_again_and_ends_nothing() {
    let folder = Folder::with(&[
        ("p.toml", &rules(5)),
        ("tokens", &format!("ana write {TOKEN}\n")),
        ("t.toml", "[server]\npolicy = \"p.toml\"\nheaders = \"off\"\n"),
    ]);
    let served = Logged::start(&folder, &[], &["--config", "t.toml", "--admin-tokens", "tokens"]);
    assert_eq!(limit(&served), 5);
    // So that the watcher, which would see the file change, has nothing to do with it.
    let bearer = format!("authorization: Bearer {TOKEN}");
    let other = served.ask("PUT /admin/v1/policy", &[&bearer], &rules(9));
    assert!(other.0.contains("200 OK"), "{other:?}");
    assert_eq!(limit(&served), 9);
    served.signal("HUP");
    served.until("the policy was read again");
    assert_eq!(limit(&served), 5);
    // It is said in the log before it is written to the audit.
    let ask = || served.ask("GET /admin/v1/audit", &[&bearer], "").1;
    let mut audits = (0..1000).map(|_| serde_json::from_str::<Value>(&ask()).expect("JSON"));
    let audit =
        audits.find(|audit| audit["changes"][0]["who"] == "SIGHUP").expect("an entry of it");
    assert_eq!(audit["changes"][0]["target"]["changes"]["rules"]["changed"][0], "r", "{audit}");

    folder.write("t.toml", "[server]\npolicy = \"p.toml\"\nheaders = \"x-delta\"\n");
    served.signal("HUP");
    served.until("settings in [server] have changed, they need a restart");
    // In one step: a file that is empty while somebody writes it would be a policy without rules.
    folder.write("p.new", "[[rule]]\nname = \"r\"\nlimit = \"5/fortnite\"\n");
    std::fs::rename(folder.path().join("p.new"), folder.path().join("p.toml")).unwrap();
    served.signal("HUP");
    let said = served.until("the policy was read again and stays as it was");
    assert!(said.iter().any(|line| line["message"].as_str().unwrap().starts_with("p.toml:3: ")));
    assert_eq!(limit(&served), 5);
    assert_eq!(served.stop().0, Some(0));
}

#[test]
fn a_hangup_reads_a_folder_of_envoys_again() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("limits")).unwrap();
    let domain = |count: u32| {
        format!(
            "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {{ unit: hour, requests_per_unit: {count} }}\n"
        )
    };
    folder.write("limits/edge.yaml", domain(5));
    let served = Logged::start(&folder, &[], &["--envoy-config", "limits"]);
    served.signal("HUP");
    let said = served.until("the policy was read again");
    assert_eq!(said.last().unwrap()["rules"], 1);
}

#[test]
fn every_line_is_json_and_one_says_where_it_listens() {
    let folder = Folder::with(&[("p.toml", "[[rule]]\nname = \"all\"\nlimit = \"5/h\"\n")]);
    let served = Logged::start(&folder, &[], &["--policy", "p.toml", "--grpc", "off"]);
    let warned = |line: &Value| {
        line["level"] == "WARN" && line["message"].as_str().unwrap().contains("p.toml:")
    };
    assert!(served.before.iter().any(warned), "{:?}", served.before);
    let said = &served.listening;
    assert_eq!((&said["policy"], &said["rules"]), (&"p.toml".into(), &1.into()), "{said}");
    assert_eq!((&said["grpc"], &said["tls"]), (&Value::Null, &false.into()), "{said}");
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"));
    assert!(served.address("resp").starts_with("127.0.0.1:"));
    assert!(served.ask("GET /readyz", &[], "").0.contains("200 OK"));
    assert_eq!(served.stop(), (Some(0), String::new()), "stdout has no line that is not JSON");
}

#[test]
fn a_warning_of_the_policy_is_told_once() {
    let folder = Folder::with(&[("t.toml", "[[rule]]\nname = \"all\"\nlimit = \"5/h\"\n")]);
    let served = Logged::start(&folder, &[], &["--config", "t.toml"]);
    let warned = served.before.iter().filter(|line| line["level"] == "WARN");
    assert_eq!(warned.count(), 1, "{:?}", served.before);
}

#[test]
fn why_it_cannot_start_is_json_too() {
    let folder = Folder::with(&[("p.toml", "[[rule]]\nlimt = 5\n")]);
    let said = folder.tollgate(&["serve", "--log-format", "json", "--policy", "p.toml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    let lines: Vec<Value> =
        said.err.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().any(|of| of["message"].as_str().unwrap().starts_with("p.toml:")));
    let quiet = ["serve", "--log-format", "json", "--log-level", "off", "--policy", "p.toml"];
    assert!(folder.tollgate(&quiet).err.starts_with("p.toml:"), "it is told all the same");
}

#[test]
fn a_proxy_that_is_not_trusted_is_warned_of_once() {
    let arguments = ["--trusted-proxy", "192.0.2.0/24"];
    let served = Logged::start(&Folder::new(), &[], &arguments);
    for _ in 0..3 {
        served.ask("GET /v1/authorize", &["x-forwarded-for: 198.51.100.1"], "");
    }
    served.signal("TERM");
    let said = served.until("stopped");
    let warned: Vec<_> = said.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warned.len(), 1, "{said:?}");
    let message = warned[0]["message"].as_str().unwrap();
    assert!(message.contains("--trusted-proxy") && message.contains("share one ip"), "{message}");
}

#[test]
fn health_asks_the_server_of_the_settings_or_the_one_that_is_named() {
    let folder = Folder::new();
    let served = Logged::start(&folder, &[], &[]);
    let address = served.address("http");
    let said = folder.tollgate(&["health", &format!("http://{address}")]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "ready\n"), "{}", said.err);
    let port = address.rsplit(':').next().unwrap();
    let everywhere = format!("0.0.0.0:{port}");
    let said = folder.tollgate_with(&[("TOLLGATE_HTTP", &everywhere)], &["health"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "ready\n"), "{}", said.err);
    folder.write("t.toml", format!("[server]\nhttp = \"{address}\"\n"));
    assert_eq!(folder.tollgate(&["health", "--config", "t.toml"]).code, Some(0));
    let resp = format!("http://{}", served.address("resp"));
    let said = folder.tollgate(&["health", &resp, "--timeout", "500ms"]);
    assert_eq!(said.code, Some(1), "it is no HTTP: {}", said.out);
    drop(served);
    let said = folder.tollgate(&["health", &format!("http://{address}")]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains(&format!("cannot connect to {address}")), "{}", said.err);
    for (wrong, right) in [
        (vec!["health", "localhost"], "http://127.0.0.1:8080"),
        (vec!["health", "http://h/path"], "nothing behind it"),
        (vec!["health", "http://h", "--ca", "x"], "https://"),
    ] {
        let said = folder.tollgate(&wrong);
        assert_eq!(said.code, Some(2), "{wrong:?}: {}", said.err);
        assert!(said.err.contains(right), "{wrong:?}: {}", said.err);
    }
    let said = folder.tollgate_with(&[("TOLLGATE_HTTP", "off")], &["health"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("http is off"), "{}", said.err);
}
