//! Snapshots that `tollgate serve` writes while it runs.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tollgate_testkit::{DEADLINE, eventually};

use crate::support::{Folder, TestServer, event};

/// A limit that gives nothing back while a test runs, however long that takes.
const DAILY: &str = "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"20/day\"\n";

const OFTEN: [&str; 6] =
    ["--policy", "daily.toml", "--snapshot", "state", "--snapshot-interval", "100ms"];

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn snapshots(server: &TestServer, result: &str) -> u64 {
    server.metric(&format!("tollgate_snapshots_total{{result=\"{result}\"}}"))
}

/// Waits until the file holds all that was decided before the call.
fn wait_for_snapshot(server: &TestServer) {
    let finished = || snapshots(server, "written") + snapshots(server, "unchanged");
    let before = finished();
    // The first of the two may have begun before.
    eventually("a snapshot from now on", || finished() >= before + 2);
}

fn check(server: &TestServer, user: &str, cost: u64) -> Value {
    let body = json!({"attributes": {"user": user}, "cost": cost});
    server.post("/v1/check", &body.to_string()).json()
}

fn remaining(server: &TestServer, user: &str) -> Value {
    let body = json!({"attributes": {"user": user}});
    server.post("/v1/peek", &body.to_string()).json()["remaining"].clone()
}

#[test]
fn crash_forgets_nothing_that_the_last_snapshot_holds() {
    let tokens = format!("ana write {TOKEN}\n");
    let folder = Folder::with(&[("daily.toml", DAILY), ("tokens", &tokens)]);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("tokens"), private).unwrap();
    let arguments = [&OFTEN[..], &["--admin-tokens", "tokens"]].concat();
    let server = TestServer::start(&folder, &arguments);
    let bearer = format!("authorization: Bearer {TOKEN}");
    let own = r#"{"client": {"user": "43"}, "limits": {"per-user": "500/day"}}"#;
    assert_eq!(server.request("PUT /admin/v1/overrides", &[&bearer], own).status, 200);
    let block = r#"{"rule": "per-user", "key": {"user": "44"}, "for_seconds": 3600}"#;
    let blocked = server.request("POST /admin/v1/blocks", &[&bearer], block);
    assert_eq!(blocked.status, 200, "{blocked:?}");
    for (user, cost) in [("42", 7), ("43", 1), ("42", 2)] {
        assert_eq!(check(&server, user, cost)["allowed"], true);
    }
    wait_for_snapshot(&server);
    server.signal("KILL");
    assert_eq!(server.ended().code, None);

    folder.write("state.new", "the beginning of a snapshot that was being written");
    let server = TestServer::with_json_log(&folder, &arguments);
    let log = server.events_until(event("INFO", "snapshot restored"));
    let restored = log.last().expect("it was waited for");
    let counts = ["keys", "blocks", "overrides"].map(|name| restored[name].as_u64());
    assert_eq!(counts, [Some(2), Some(1), Some(1)], "{restored}");
    assert_eq!(restored["file"], "state");
    let taken_at = restored["taken_at"].as_str().expect("a time");
    assert!(taken_at.starts_with("20") && taken_at.ends_with('Z'), "{taken_at}");
    assert!(restored["age"].as_str().is_some_and(|age| age.ends_with('s')), "{restored}");
    assert_eq!(["42", "43", "44"].map(|user| remaining(&server, user)), [11, 499, 0]);
    assert_eq!(check(&server, "44", 1)["reason"], "block");
    assert!(!folder.path().join("state.new").exists());
}

#[test]
fn unchanged_state_is_not_written_again() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let server = TestServer::start(&folder, &OFTEN);
    check(&server, "42", 1);
    wait_for_snapshot(&server);
    let [written, unchanged] = ["written", "unchanged"].map(|result| snapshots(&server, result));
    eventually("nothing changes", || snapshots(&server, "unchanged") >= unchanged + 3);
    assert_eq!(snapshots(&server, "written"), written);
    assert_eq!(server.metric("tollgate_snapshot_keys"), 1);
    let bytes = std::fs::metadata(folder.path().join("state")).unwrap().len();
    assert_eq!(server.metric("tollgate_snapshot_bytes"), bytes);

    // A file that is gone is not up to date.
    std::fs::remove_file(folder.path().join("state")).unwrap();
    eventually("the file is back", || folder.path().join("state").exists());
    check(&server, "43", 1);
    eventually("the change is written", || server.metric("tollgate_snapshot_keys") == 2);
    assert_eq!(snapshots(&server, "failed"), 0);
}

/// Users with long names: a snapshot of them takes 70 kB.
fn long_users() -> Vec<String> {
    (0..256).map(|number| format!("{number:0240}")).collect()
}

#[test]
fn full_disk_keeps_the_last_snapshot_and_is_logged_once() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let log = ["--log-format", "json", "--snapshot-interval", "100ms"];
    let server = TestServer::with_file_size_limit(&folder, 32, &[&OFTEN[..4], &log].concat());
    check(&server, "42", 7);
    wait_for_snapshot(&server);
    let read = || std::fs::read(folder.path().join("state")).expect("the file is there");
    let before = read();
    let requests: Vec<_> =
        long_users().iter().map(|user| json!({"attributes": {"user": user}})).collect();
    let answer = server.post("/v1/check/batch", &json!({"requests": requests}).to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    eventually("it fails again", || snapshots(&server, "failed") >= 3);
    assert_eq!(read(), before);
    assert_eq!(check(&server, "42", 1)["remaining"], 12);
    let told = |message: &str| {
        let events = server.events();
        let is_it = |event: &&Value| event["message"] == message;
        events.iter().filter(is_it).cloned().collect::<Vec<_>>()
    };
    let errors = told("snapshot not written, the last one stays");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!((&errors[0]["level"], &errors[0]["file"]), (&json!("ERROR"), &json!("state")));

    let mut resp = TcpStream::connect(server.address("resp")).unwrap();
    resp.set_read_timeout(Some(DEADLINE)).unwrap();
    let resets = long_users().into_iter().map(|user| format!("TG.RESET per-user {user}\r\n"));
    resp.write_all((resets.collect::<String>() + "QUIT\r\n").as_bytes()).unwrap();
    resp.read_to_string(&mut String::new()).unwrap();
    eventually("it is written again", || told("snapshot written again").len() == 1);
    assert_eq!(told("snapshot not written, the last one stays").len(), 1);
    server.signal("KILL");
    server.ended();
    let server = TestServer::start(&folder, &OFTEN);
    assert_eq!(remaining(&server, "42"), 12);
}

#[test]
fn two_servers_cannot_write_one_snapshot() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let arguments = ["--policy", "daily.toml", "--snapshot", "state"];
    let first = TestServer::start(&folder, &arguments);
    // If it did start, it could not listen.
    let taken = ["--http", first.address("http"), "--grpc", "off", "--resp", "off"];
    let said = folder.tollgate(&[&["serve", "--snapshot", "state"][..], &taken].concat());
    assert_eq!(said.code, Some(1), "{}", said.err);
    let message = "cannot write the snapshot state: another server writes to it, give each a file \
                   of its own";
    assert!(said.err.contains(message), "{}", said.err);
    check(&first, "42", 7);
    assert_eq!(first.stop().code, Some(0));
    let second = TestServer::start(&folder, &arguments);
    assert_eq!(remaining(&second, "42"), 13);
}

#[test]
fn without_an_interval_only_a_clean_stop_writes_a_snapshot() {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    let arguments = [&OFTEN[..5], &["off"]].concat();
    let server = TestServer::start(&folder, &arguments);
    check(&server, "42", 7);
    server.signal("KILL");
    server.ended();
    assert!(!folder.path().join("state").exists());
    let server = TestServer::start(&folder, &arguments);
    check(&server, "42", 7);
    assert_eq!(server.stop().code, Some(0));
    let server = TestServer::start(&folder, &arguments);
    assert_eq!(remaining(&server, "42"), 13);
}
