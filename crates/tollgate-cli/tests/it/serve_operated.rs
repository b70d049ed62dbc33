//! The server under a service manager: its log, and its notifications.
#![cfg(unix)]

use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;

use crate::support::{Folder, TestServer, assert_golden, assert_transcript, event, events};
use serde_json::Value;
use tollgate_testkit::DEADLINE;

/// A limit that gives nothing back while a test runs, however long that takes.
const DAILY: &str = "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"20/day\"\n";

#[test]
fn a_log_in_json_has_an_object_in_each_line() {
    let variables = [("TOLLGATE_HTPP", "x"), ("TOLLGATE_LOG_FORMAT", "json")];
    let server = TestServer::with_variables(&Folder::new(), &variables, &[]);
    server.signal("TERM");
    let log = server.events_until(event("INFO", "stopped"));
    let levels: Vec<&Value> = log.iter().map(|event| &event["level"]).collect();
    assert_eq!(levels, ["WARN", "INFO", "INFO", "INFO"], "{log:?}");
    assert_golden("serve/log_json", &server.log_text(&log));
}

/// A log in text without the times.
fn without_times(log: &str) -> String {
    let line = |line: &str| {
        let (time, rest) = line.split_once(' ').expect("a line begins with a time");
        assert!(time.ends_with('Z') && time.contains('T'), "{line}");
        format!("{{time}} {rest}\n")
    };
    log.lines().map(line).collect()
}

#[test]
fn the_level_says_how_much_is_logged() {
    let folder = Folder::new();
    let server = TestServer::start(&folder, &[]);
    let addresses = ["http", "grpc", "resp"].map(|name| (name, server.address(name).to_owned()));
    let log = addresses.into_iter().fold(server.stop().err, |log, (name, address)| {
        log.replace(&address, &format!("{{{name}}}"))
    });
    let log = log.replace(env!("CARGO_PKG_VERSION"), "{version}");
    assert_golden("serve/log_text", &without_times(&log));
    assert_eq!(TestServer::start(&folder, &["--log-level", "warn"]).stop().err, "");
    let by_variable = [("RUST_LOG", "error")];
    assert_eq!(TestServer::with_variables(&folder, &by_variable, &[]).stop().err, "");
    let by_part = ["--log-level", "off,tollgate_cli=info"];
    let log = events(&TestServer::with_json_log(&folder, &by_part).stop().err);
    let is_of_part = |event: &Value| event["target"].as_str().unwrap().starts_with("tollgate_cli");
    assert!(log.iter().all(is_of_part), "{log:?}");
    assert!(log.last().is_some_and(event("INFO", "stopped")), "{log:?}");
}

#[test]
fn rules_in_the_configuration_file_are_read_again_and_settings_need_a_restart() {
    let file = |limit: u8, headers: &str| {
        format!(
            "[server]\nheaders = \"{headers}\"\n[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"{limit}/h\"\n"
        )
    };
    let folder = Folder::with(&[("t.toml", &file(5, "off"))]);
    let server = TestServer::with_json_log(&folder, &["--config", "t.toml"]);
    // The server reads the settings after the policy: the warning tells that it has.
    for (limit, headers) in [(6, "x-epoch"), (7, "x-epok"), (8, "off")] {
        folder.replace("t.toml", file(limit, headers));
        server
            .events_until(event("WARN", "settings in [server] have changed, they need a restart"));
    }
    // Without another setting there is no warning.
    folder.replace("t.toml", file(9, "off"));
    server.events_until(event("INFO", "the policy was changed"));
    server.signal("TERM");
    server.events_until(event("INFO", "stopped"));
    let log = server.events();
    assert_golden("serve/log_settings_changed", &server.log_text(&log));
    let said = server.ended();
    assert_eq!((said.code, events(&said.err)), (Some(0), log), "nothing is logged at the end");
}

#[test]
fn the_address_of_a_client_is_logged_only_where_that_is_wanted() {
    for (keys, is_named) in [("--log-keys=false", false), ("--log-keys", true)] {
        let server = TestServer::with_json_log(&Folder::new(), &["--log-level", "debug", keys]);
        let mut client = server.connect();
        client.write_all(b"\x16\x03\x01 no HTTP\r\n\r\n").unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
        let peer = client.local_addr().unwrap().to_string();
        let log = server.events_until(event("DEBUG", "a connection ended early"));
        let expected = is_named.then(|| Value::from(peer.as_str()));
        assert_eq!(log.last().unwrap().get("peer"), expected.as_ref(), "{keys}");
        assert_eq!(server.stop().err.contains(&peer), is_named, "{keys}");
    }
}

#[test]
fn denials_are_logged_where_that_is_wanted_and_keys_only_with_them_if_asked_for() {
    let body = r#"{"attributes": {"user": "ana"}, "cost": 15}"#;
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let denials = "--log-level=info,tollgate_server::denials=debug";
    for (arguments, denied, named) in [
        (["--log-level=info", "--log-keys"], 0, false),
        ([denials, "--log-keys=false"], 1, false),
        ([denials, "--log-keys"], 1, true),
    ] {
        let policy = ["--policy", "daily.toml"];
        let server = TestServer::with_json_log(&folder, &[&policy[..], &arguments].concat());
        let allowed = [(); 2].map(|()| server.post("/v1/check", body).json()["allowed"].clone());
        assert_eq!(allowed, [true, false]);
        let log = server.stop().err;
        let of_denials = |event: &Value| event["target"] == "tollgate_server::denials";
        let events: Vec<_> = events(&log).into_iter().filter(of_denials).collect();
        assert_eq!(events.len(), denied, "{log}");
        for event in events {
            assert_eq!((&event["level"], &event["message"]), (&"DEBUG".into(), &"denied".into()));
            assert_eq!(event["rule"], "per-user", "{event}");
            assert_eq!(event.get("key").is_some(), named, "{event}");
        }
        assert_eq!(log.contains("ana"), named, "{log}");
    }
}

/// A socket such as systemd's.
struct Manager(UnixDatagram);

impl Manager {
    fn new(socket: UnixDatagram) -> Manager {
        socket.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        Manager(socket)
    }

    /// The next notification.
    fn notification(&self) -> String {
        let mut bytes = [0; 64];
        let length = self.0.recv(&mut bytes).expect("a notification in time");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    }
}

#[test]
fn a_service_manager_hears_that_it_is_ready_lives_and_stops() {
    let folder = Folder::new();
    let name = folder.path().join("notify");
    let manager = Manager::new(UnixDatagram::bind(&name).unwrap());
    let socket = [("NOTIFY_SOCKET", name.to_str().unwrap())];
    let server = TestServer::with_variables(&folder, &socket, &[]);
    assert_eq!(manager.notification(), "READY=1");
    assert_eq!(server.stop().code, Some(0));
    assert_eq!(manager.notification(), "STOPPING=1", "and nothing before without a watchdog");

    let watched = [socket[0], ("WATCHDOG_USEC", "200000")];
    let server = TestServer::with_variables(&folder, &watched, &[]);
    assert_eq!(manager.notification(), "READY=1");
    assert_eq!(manager.notification(), "WATCHDOG=1");
    assert_eq!(manager.notification(), "WATCHDOG=1");
    server.signal("TERM");
    // Until the signal arrives, the server lives.
    let mut notifications = std::iter::repeat_with(|| manager.notification());
    let last = notifications.find(|notification| notification != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert_eq!(server.ended().code, Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn the_name_of_the_socket_may_be_an_abstract_one() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("tollgate-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager::new(UnixDatagram::bind_addr(&address).unwrap());
    let name = format!("@{name}");
    let server = TestServer::with_variables(&Folder::new(), &[("NOTIFY_SOCKET", &name)], &[]);
    assert_eq!(manager.notification(), "READY=1");
    drop(server);
}

#[test]
fn a_socket_that_is_not_there_is_told() {
    let said = Folder::new().tollgate_with(
        &[("NOTIFY_SOCKET", "/nowhere/notify")],
        &["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"],
    );
    assert_eq!(said.code, Some(1));
    assert_transcript("serve/no_notify_socket", [said]);
}

#[test]
fn change_that_is_answered_with_503_is_logged_as_failed() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    // No server listens at this address.
    let token = "a-token-of-the-test-0123456789abcdef";
    let store = ["--policy", "daily.toml", "--store", "redis://127.0.0.1:1"];
    let arguments = [&store[..], &["--admin-token-write", token]].concat();
    let server = TestServer::with_json_log(&folder, &arguments);
    let client = r#"{"rule": "per-user", "key": {"user": "ana"}}"#;
    let bearer = format!("authorization: Bearer {token}");
    let headers = ["content-type: application/json", bearer.as_str()];
    let answer = server.request("POST /admin/v1/keys/reset", &headers, client);
    assert_eq!(answer.status, 503, "{}", answer.body);
    let begins = |text: &'static str| {
        move |event: &Value| {
            event["message"].as_str().is_some_and(|message| message.starts_with(text))
        }
    };
    let log = server.events_until(begins("admin action failed: reset by "));
    assert!(!log.iter().any(begins("admin action: ")), "{log:?}");
}

#[test]
fn bound_of_keys_in_memory_holds_while_redis_is_unavailable() {
    let policy = "[[rule]]\nname = \"r\"\nkey = [\"user\"]\nlimit = \"10/h\"\n";
    let folder = Folder::with(&[("policy.toml", policy)]);
    let server = TestServer::start(
        &folder,
        &[
            ["--policy", "policy.toml"],
            ["--store", "redis://127.0.0.1:1"],
            ["--max-keys", "10"],
            ["--when-full", "deny_new"],
        ]
        .concat(),
    );
    let statuses = (0..20).map(|user| {
        let body = format!(r#"{{"attributes": {{"user": "{user}"}}}}"#);
        let answer = server.post("/v1/check", &body);
        assert!(answer.body.contains("\"degraded\":true"), "{}", answer.body);
        answer.body.contains("\"allowed\":true")
    });
    assert_eq!(statuses.filter(|allowed| *allowed).count(), 10);
    assert_eq!(server.metric("tollgate_fallback_keys"), 10);
    assert_eq!(server.metric("tollgate_fallback_turned_away_total"), 10);
    assert_eq!(server.metric("tollgate_fallback_evictions_total"), 0);
    assert_eq!(server.metric("tollgate_store_nodes"), 1);
}
