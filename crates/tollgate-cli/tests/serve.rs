//! `tollgate serve` as people start and stop it.
#![cfg(unix)]

#[path = "support/serving.rs"]
mod serving;
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serving::{PATIENCE, Served, wait};
use support::Folder;
use tollgate_testkit::{Fault, FaultProxy, RedisServer};

const USER: &str = r#"{"attributes": {"user": "42"}}"#;

#[test]
fn with_nothing_at_all_it_starts_and_says_what_it_does() {
    let served = Served::start(&Folder::new(), &[]);
    for text in [
        "tollgate is listening\n",
        "per-user: 100/min burst 20 for each user\n",
        "per-ip: 300/min burst 60 for each ip\n",
        &format!("  page      http://{}/, of use with --admin-tokens FILE\n", served.address),
        &format!("curl -i http://{}/v1/check -d '{USER}'", served.address),
    ] {
        assert!(served.said.contains(text), "{text} in\n{}", served.said);
    }
    let answer = served.post("/v1/check", USER);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains(r#""rule":"per-user","limit":20,"remaining":19"#), "{answer}");
}

#[test]
fn both_ports_answer_from_one_state_and_either_can_be_off() {
    let served = Served::start(&Folder::new(), &[]);
    let mut resp = TcpStream::connect(&served.resp).unwrap();
    resp.set_read_timeout(Some(PATIENCE)).unwrap();
    resp.write_all(b"TG.CHECK COST 19 user 42\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    resp.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("$9\r\nremaining\r\n:1\r\n"), "{answer}");
    let answer = served.post("/v1/check", USER);
    assert!(answer.contains(r#""rule":"per-user","limit":20,"remaining":0"#), "{answer}");
    let off = Served::start(&Folder::new(), &["--http", "off"]);
    assert!(off.said.contains("redis://") && !off.said.contains("http://"), "{}", off.said);
}

#[test]
fn the_readme_shows_what_it_prints() {
    let readme = include_str!("../../../README.md");
    let served = Served::start(&Folder::new(), &[]);
    let port = |address: &str| format!("-p {} ", address.rsplit(':').next().expect("a port"));
    let said = served
        .said
        .replace(&served.address, "127.0.0.1:8080")
        .replace(&served.grpc, "127.0.0.1:8081")
        .replace(&served.resp, "127.0.0.1:6380")
        .replace(&port(&served.resp), "-p 6380 ");
    assert!(readme.contains(&said), "README.md should show:\n{said}");
}

#[test]
fn both_signals_stop_it_in_order() {
    for signal in ["INT", "TERM"] {
        let served = Served::start(&Folder::new(), &[]);
        let idle = served.connect();
        served.signal(signal);
        let (code, log) = served.ended();
        assert_eq!(code, Some(0), "{signal}: {log}");
        assert!(log.contains("stopped"), "{log}");
        drop(idle);
    }
}

#[test]
fn a_request_in_flight_is_answered_first() {
    let served = Served::start(&Folder::new(), &[]);
    let mut stream = served.connect();
    let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: ";
    stream.write_all(format!("{head}{}\r\n\r\n", USER.len()).as_bytes()).unwrap();
    let mut going_on = [0; 25];
    stream.read_exact(&mut going_on).unwrap();
    served.signal("TERM");
    wait("no more connections", || TcpStream::connect(&served.address).is_err());
    stream.write_all(USER.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    assert_eq!(served.ended().0, Some(0));
}

#[test]
fn a_second_signal_stops_it_at_once() {
    let served = Served::start(&Folder::new(), &[]);
    let mut stream = served.connect();
    let head =
        "POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 9\r\n";
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut going_on = [0; 25];
    stream.read_exact(&mut going_on).unwrap();
    served.signal("INT");
    wait("no more connections", || TcpStream::connect(&served.address).is_err());
    let before = Instant::now();
    served.signal("INT");
    assert_eq!(served.ended().0, Some(130));
    assert!(before.elapsed() < Duration::from_secs(5), "it waited for the request");
}

#[test]
fn a_request_that_takes_too_long_is_cut_off_when_it_stops() {
    let served = Served::start(&Folder::new(), &["--drain", "50ms"]);
    let mut stream = served.connect();
    let head =
        "POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 9\r\n";
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut going_on = [0; 25];
    stream.read_exact(&mut going_on).unwrap();
    let before = Instant::now();
    served.signal("TERM");
    let (code, log) = served.ended();
    assert!(before.elapsed() < Duration::from_secs(5), "it waited for the request");
    assert_eq!(code, Some(0));
    assert!(log.contains("cut off requests that took too long"), "{log}");
}

#[test]
fn a_policy_file_is_obeyed_and_read_again() {
    let rule =
        |limit: &str| format!("[[rule]]\nname = \"own\"\nkey = [\"user\"]\nlimit = \"{limit}\"\n");
    let folder = Folder::with(&[("own.toml", &rule("5/h"))]);
    let served = Served::start(&folder, &["--policy", "own.toml"]);
    assert!(served.said.contains("own.toml") && served.said.contains("own: 5/h for each user"));
    assert!(served.post("/v1/check", USER).contains("\"limit\":5,"));
    let sees = |limit: &str| wait(limit, || served.post("/v1/peek", USER).contains(limit));
    folder.write("own.toml", rule("7/h"));
    sees("\"limit\":7,");
    folder.write("own.toml", rule("7/hour of need"));
    served.wait_for_log("the policy stays as it was");
    assert!(served.post("/v1/peek", USER).contains("\"limit\":7,"));
    let metrics = served.get("/metrics");
    assert!(metrics.contains("\ntollgate_policy_version 2\n"), "{metrics}");
    assert!(metrics.contains("tollgate_policy_reloads_total{result=\"refused\"} 1\n"), "{metrics}");
    assert!(metrics.contains("\ntollgate_policy_last_reload_successful 0\n"), "{metrics}");
    folder.write("own.toml", rule("9/h"));
    sees("\"limit\":9,");
    served.signal("TERM");
    let (code, log) = served.ended();
    assert_eq!(code, Some(0));
    assert!(log.contains("own.toml:4") && log.contains("the policy was changed"), "{log}");
}

fn envoy(domain: &str, count: &str) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    rate_limit: {{unit: hour, requests_per_unit: {count}}}\n"
    )
}

#[test]
fn a_folder_of_envoy_files_is_obeyed_and_read_again() {
    let folder =
        Folder::with(&[("edge.yaml", &envoy("edge", "5")), ("mail.yml", &envoy("mail", "6"))]);
    let served = Served::start(&folder, &["--envoy-config", "."]);
    assert!(served.said.contains("edge|user: 5/h") && served.said.contains("mail|user: 6/h"));
    let ask = |domain: &str| {
        let entries = r#"[{"key": "user", "value": "42"}]"#;
        let descriptor = format!(r#"{{"entries": {entries}, "hitsAddend": 0}}"#);
        served.post("/json", &format!(r#"{{"domain": "{domain}", "descriptors": [{descriptor}]}}"#))
    };
    assert!(ask("edge").contains(r#""requestsPerUnit":5,"#), "{}", ask("edge"));
    assert!(ask("mail").contains(r#""requestsPerUnit":6,"#));
    let sees = |domain: &str, text: &str| wait(text, || ask(domain).contains(text));
    folder.write("edge.yaml", envoy("edge", "7"));
    sees("edge", r#""requestsPerUnit":7,"#);
    // Wrong in one file and changed in another: both stay as they were.
    folder.write("edge.yaml", envoy("edge", "many"));
    folder.write("mail.yml", envoy("mail", "8"));
    served.wait_for_log("the policy stays as it was");
    assert!(
        ask("edge").contains(r#""requestsPerUnit":7,"#)
            && ask("mail").contains(r#""requestsPerUnit":6,"#)
    );
    folder.write("edge.yaml", envoy("edge", "9"));
    folder.write("third.yaml", envoy("third", "1"));
    sees("third", r#""requestsPerUnit":1,"#);
    assert!(
        ask("edge").contains(r#""requestsPerUnit":9,"#)
            && ask("mail").contains(r#""requestsPerUnit":8,"#)
    );
    std::fs::remove_file(folder.path().join("third.yaml")).unwrap();
    sees("third", r#""code":"OK","limitRemaining":4294967295"#);
    served.signal("TERM");
    let (code, log) = served.ended();
    assert_eq!(code, Some(0));
    assert!(log.contains("edge.yaml:4") && log.contains("the policy was changed"), "{log}");
}

#[test]
fn a_snapshot_keeps_what_was_taken_over_a_restart() {
    let folder = Folder::new();
    let before = Served::start(&folder, &["--snapshot", "state"]);
    assert!(before.said.contains("kept in a snapshot"), "{}", before.said);
    before.post("/v1/check", r#"{"attributes": {"user": "42"}, "cost": 20}"#);
    before.signal("TERM");
    let (code, log) = before.ended();
    assert_eq!(code, Some(0), "{log}");
    let after = Served::start(&folder, &["--snapshot", "state"]);
    let answer = after.post("/v1/peek", r#"{"attributes": {"user": "42"}, "cost": 20}"#);
    assert!(answer.contains("\"allowed\":false"), "{answer}");
    after.signal("TERM");
    assert_eq!(after.ended().0, Some(0));
    folder.write("state", "no snapshot");
    let broken = Served::start(&folder, &["--snapshot", "state"]);
    broken.wait_for_log("state.broken");
    assert!(broken.post("/v1/peek", USER).contains("\"remaining\":20"));
    assert_eq!(folder.read("state.broken"), "no snapshot");
}

#[test]
fn what_becomes_of_new_keys_past_the_bound_can_be_chosen() {
    let policy = "[[rule]]\nname = \"a\"\nkey = [\"user\"]\nlimit = \"5/h\"\n";
    let folder = Folder::with(&[("p.toml", policy)]);
    let cases = [("evict", true, 3), ("deny_new", false, 0), ("allow_new", true, 4)];
    for (choice, allowed, left) in cases {
        let served = Served::start(
            &folder,
            &["--policy", "p.toml", "--max-keys", "1", "--when-full", choice],
        );
        served.post("/v1/check", r#"{"attributes": {"user": "first"}}"#);
        let second = r#"{"attributes": {"user": "second"}}"#;
        served.post("/v1/check", second);
        let answer = served.post("/v1/check", second);
        let told = format!("\"allowed\":{allowed},");
        assert!(answer.contains(&told), "{choice}: {answer}");
        let left = format!("\"remaining\":{left},");
        assert!(answer.contains(&left), "{choice}: {answer}");
    }
}

#[test]
fn how_long_a_decision_waits_for_the_store_can_be_chosen() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::to(redis.port());
    let (folder, url) = (Folder::new(), proxy.url());
    let patient = Served::start(&folder, &["--store", &url, "--store-timeout", "10s"]);
    let hasty = Served::start(&folder, &["--store", &url, "--store-timeout", "20ms"]);
    for served in [&patient, &hasty] {
        wait("the store", || served.get("/readyz").ends_with("ready\n"));
    }
    proxy.set(Fault::Delay(Duration::from_millis(200)));
    let [waited, gave_up] = [&patient, &hasty].map(|served| served.post("/v1/check", USER));
    assert!(waited.contains("200 OK") && !waited.contains("degraded"), "{waited}");
    assert!(gave_up.contains("\"degraded\":true"), "{gave_up}");
}

#[test]
fn a_snapshot_that_cannot_be_written_is_told() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("there")).expect("a folder can be made");
    for (path, why) in
        [("nowhere/state", "there is no folder nowhere, make it first"), ("there", "is a folder")]
    {
        let said = folder.tollgate(&["serve", "--snapshot", path]);
        assert_eq!(said.code, Some(1), "at once, not when it is to be written: {}", said.err);
        let told = format!("cannot write the snapshot {path}: ");
        assert!(said.err.contains(&told) && said.err.contains(why), "{}", said.err);
    }
    let served = Served::start(&folder, &["--snapshot", "there/state"]);
    std::fs::remove_dir_all(folder.path().join("there")).expect("it can be removed");
    served.signal("TERM");
    let (code, log) = served.ended();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("cannot write the snapshot there/state"), "{log}");
}

#[test]
fn what_it_cannot_start_with_is_told() {
    let weak = "ana write hunter2\n";
    let folder = Folder::with(&[("wrong.toml", "[[rule]]\nnaem = \"x\"\n"), ("weak", weak)]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, code, says) in [
        (vec!["--policy", "wrong.toml"], 2, "wrong.toml:2"),
        (vec!["--policy", "none.toml"], 2, "none.toml"),
        (vec!["--http", "8080"], 2, "such as 127.0.0.1:8080"),
        (vec!["--resp", "6380"], 2, "or off"),
        (vec!["--grpc", "8081"], 2, "or off"),
        (vec!["--envoy-config", "."], 2, "must have one for each domain"),
        (vec!["--envoy-config", "none"], 2, "cannot be read as a folder"),
        (vec!["--envoy-config", ".", "--policy", "wrong.toml"], 2, "--envoy-config"),
        (vec!["--http", "off", "--grpc", "off", "--resp", "off"], 2, "nothing to listen on"),
        (
            vec!["--http", &taken],
            1,
            "another program does; stop it, choose another port with --http",
        ),
        (vec!["--http", "127.0.0.1:0", "--resp", &taken], 1, "choose another port with --resp"),
        (vec!["--http", "127.0.0.1:0", "--admin", &taken], 1, "choose another port with --admin"),
        (vec!["--http", "192.0.2.1:0"], 1, "this machine has no such address"),
        (vec!["--max-keys", "0"], 2, "--max-keys is \"0\""),
        (vec!["--headers", "draft-99"], 2, "draft-11"),
        (vec!["--store", "localhost"], 2, "redis://127.0.0.1:6379"),
        (vec!["--store", "redis://127.0.0.1:1", "--snapshot", "x"], 2, "--snapshot"),
        (vec!["--tls-cert", "cert.pem"], 2, "--tls-key"),
        (vec!["--tls-cert", "wrong.toml", "--tls-key", "none.pem"], 1, "none.pem cannot be read"),
        (vec!["--tls-cert", "wrong.toml", "--tls-key", "wrong.toml"], 1, "holds no certificate"),
        (vec!["--trusted-proxy", "everyone"], 2, "everyone"),
        (vec!["--attribute", "user"], 2, "user=x-user-id"),
        (vec!["--admin", "everywhere"], 2, "127.0.0.1:8082"),
        (vec!["--admin-tokens", "none"], 2, "none: cannot be read"),
        (vec!["--admin-tokens", "weak"], 2, "weak:1"),
        (vec!["--audit", "no/such/folder"], 1, "no/such/folder"),
    ] {
        let arguments: Vec<_> = std::iter::once("serve").chain(arguments).collect();
        let said = folder.tollgate(&arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(says), "{arguments:?}: {}", said.err);
        assert!(!said.err.contains("hunter2"), "{}", said.err);
    }
}
