//! `tollgate bench` against servers of the same binary.
#![cfg(unix)]

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{
    Folder, Said, TestServer, Transcript, assert_golden, line_of_rate, signal, without_times,
};
use serde_json::Value;
use tollgate_testkit::{Fault, FaultProxy, eventually};

/// The protocols as `tollgate bench` and as the server name them.
const PROTOCOLS: [(&str, &str); 3] = [("http", "http"), ("rls", "grpc"), ("resp", "resp")];

/// A limit that gives nothing back while a test runs, however long that takes.
const DAILY: &str = "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"20/day\"\n";

fn bench(arguments: &[&str]) -> Said {
    Folder::new().tollgate(&[&["bench"], arguments].concat())
}

fn spawn(folder: &Folder, arguments: &[&str]) -> Child {
    crate::support::command(folder.path(), &["bench", "--json"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test")
}

fn json_of(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

fn number(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} in {report}"))
}

/// A server with a limit that gives nothing back, and the folder of its policy.
fn with_daily_limit() -> (TestServer, Folder) {
    let folder = Folder::with(&[("daily.toml", DAILY)]);
    (TestServer::start(&folder, &["--policy", "daily.toml"]), folder)
}

/// All decisions over a transport, by the server's own count.
fn decided(server: &TestServer, transport: &str) -> u64 {
    server.decisions(transport, "allowed") + server.decisions(transport, "denied")
}

#[test]
fn what_it_counts_is_what_the_server_counts_over_every_protocol() {
    let (server, _folder) = with_daily_limit();
    for (protocol, transport) in PROTOCOLS {
        let pipeline = if protocol == "http" { "1" } else { "8" };
        let attribute = format!("user={protocol}-{{key}}");
        let load = ["--requests", "3000", "--connections", "4", "--pipeline", pipeline];
        let keys = ["--keys", "50", "--attribute", &attribute, "--json"];
        let said = bench(&[&[&*server.url(protocol)], &load[..], &keys].concat());
        let report = said.json();
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{report}");
        assert_eq!(report["protocol"], protocol);
        assert_eq!(report["errors"]["total"], 0, "{report}");
        let counts = (number(&report, "allowed"), number(&report, "refused"));
        assert_eq!(counts, (50 * 20, 3000 - 50 * 20), "each key has 20 and no more");
        let counted = ["allowed", "denied"].map(|outcome| server.decisions(transport, outcome));
        assert_eq!(counted, [counts.0, counts.1], "{protocol}");
    }
}

/// Runs a load of 200 requests with a warm-up: the requests of the warm-up by the report.
fn warm_up_requests(arguments: &[&str]) -> u64 {
    let server = TestServer::start(&Folder::new(), &[]);
    let url = server.url("resp");
    let report = bench(&[&[&*url, "--requests", "200", "--json"], arguments].concat()).json();
    let warm = number(&report, "warmup_requests");
    assert_eq!(number(&report, "decisions"), 200, "{report}");
    assert_eq!(decided(&server, "resp"), warm + 200, "{report}");
    warm
}

#[test]
fn the_warm_up_is_sent_and_not_measured() {
    assert!(warm_up_requests(&["--warmup", "3s"]) > 0, "as many as are answered");
    assert_eq!(warm_up_requests(&["--warmup", "300ms", "--rate", "1000"]), 300, "by the rate");
}

#[test]
fn a_seed_asks_for_the_same_keys_however_many_connections_there_are() {
    let (server, _folder) = with_daily_limit();
    // Each key is allowed once, the first time: the number of keys that were asked for.
    let keys = |name: &str, seed: &str, connections: &str| {
        let attribute = format!("user={name}-{{key}}");
        let load = ["--requests", "4000", "--connections", connections, "--cost", "20"];
        let keys = ["--keys", "1000", "--zipf", "1.2", "--seed", seed, "--attribute", &attribute];
        let url = server.url("resp");
        let said = bench(&[&[&*url, "--json"], &load[..], &keys].concat());
        number(&said.json(), "allowed")
    };
    let first = keys("a", "7", "1");
    assert_eq!(keys("b", "7", "8"), first);
    assert_ne!(keys("c", "8", "8"), first, "another seed, other keys");
}

/// The number of answers that took longer than `nanos`.
fn slower_than(report: &Value, nanos: u64) -> u64 {
    let buckets = report["distribution"].as_array().expect("buckets");
    let slow = buckets.iter().filter(|bucket| number(bucket, "to_nanos") > nanos);
    slow.map(|bucket| number(bucket, "count")).sum()
}

/// A proxy to a protocol's port, and its URL for `tollgate bench`.
fn proxied(server: &TestServer, protocol: &str) -> (FaultProxy, String) {
    let url = server.url(protocol);
    let (scheme, address) = url.split_once("://").expect("a URL has a scheme");
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let proxy = FaultProxy::to(port);
    let url = proxy.url().replace("redis", scheme);
    (proxy, url)
}

/// Runs a load through a proxy that stalls once, and stops it when there have been 1200 decisions.
fn stalled(protocol: &str, stall: Duration, arguments: &[&str]) -> Value {
    let server = TestServer::start(&Folder::new(), &[]);
    let (proxy, url) = proxied(&server, protocol);
    let folder = Folder::new();
    let common = [&*url, "--connections", "4", "--warmup", "0s", "--duration", "1h"];
    let bench = spawn(&folder, &[&common[..], &["--timeout", "10m"], arguments].concat());
    let (_, transport) = PROTOCOLS.into_iter().find(|(name, _)| *name == protocol).expect("one");
    eventually("load", || decided(&server, transport) > 20);
    proxy.stall(stall);
    eventually("load after the stall", || decided(&server, transport) > 1200);
    signal(&bench, "INT");
    json_of(bench)
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn an_open_loop_shows_a_stall_for_every_request_that_was_due_meanwhile() {
    for (protocol, _) in PROTOCOLS {
        let report = stalled(protocol, Duration::from_secs(1), &["--rate", "400"]);
        // Half a second's worth was due in the first half of the stall, and waited the other.
        let late = slower_than(&report, SECOND / 2);
        assert!(late >= 180, "{protocol}: {late} of 200, {report}");
        let (due, sent) = (&report["latency_nanos"], &report["latency_from_sent_nanos"]);
        assert!(number(due, "p99") >= SECOND / 2, "{protocol}: {report}");
        assert!(number(due, "max") >= SECOND / 10 * 9, "{protocol}: {report}");
        // Measured from when they were sent, all but a few look fine: that is the mistake. Where
        // the machine is slow, requests wait to be sent, and both figures grow together.
        assert!(number(sent, "p50") * 10 < number(due, "p99"), "{protocol}: {report}");
    }
}

#[test]
fn a_closed_loop_shows_a_stall_once_for_each_connection() {
    let report = stalled("resp", Duration::from_secs(4), &[]);
    let late = slower_than(&report, 2 * SECOND);
    assert!((1..=8).contains(&late), "4 connections, {late} late: {report}");
    assert!(number(&report["latency_nanos"], "p99") < 2 * SECOND, "{report}");
    assert!(number(&report["latency_nanos"], "max") >= 2 * SECOND, "{report}");
}

#[test]
fn a_rate_that_cannot_be_kept_is_told() {
    let server = TestServer::start(&Folder::new(), &[]);
    let (proxy, url) = proxied(&server, "resp");
    proxy.set(Fault::Delay(Duration::from_millis(20)));
    // One request at a time, each of 20 ms, are 50 a second at most.
    let load = [&*url, "--connections", "1", "--rate", "1000", "--duration", "1s"];
    let arguments = [&load[..], &["--warmup", "0s"]].concat();
    let said = bench(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_golden("bench/rate_not_kept", &line_of_rate(&said.out));
    let report = bench(&[&arguments[..], &["--json"]].concat()).json();
    let rate = &report["rate"];
    assert_eq!((&rate["kept"], &rate["asked"]), (&false.into(), &1000.into()), "{report}");
    assert!(number(rate, "achieved") <= 60, "{report}");
    assert!(number(rate, "never_sent") >= 900, "{report}");
    assert_eq!(number(rate, "never_sent") + number(&report, "requests"), number(rate, "due"));
}

#[test]
fn connections_that_are_lost_are_counted_and_made_again() {
    for (protocol, transport) in PROTOCOLS {
        let server = TestServer::start(&Folder::new(), &[]);
        let (proxy, url) = proxied(&server, protocol);
        // Slow enough that the load lasts for a minute, until the fault.
        proxy.set(Fault::Delay(Duration::from_millis(300)));
        let folder = Folder::new();
        let load = ["--connections", "2", "--requests", "400", "--rate", "200"];
        let bench = spawn(&folder, &[&[&*url, "--timeout", "60s"], &load[..]].concat());
        // The first is the one that looks whether there is a server.
        eventually("connections", || proxy.accepted() >= 3);
        eventually("load", || decided(&server, transport) >= 4);
        proxy.set(Fault::Refuse);
        eventually("no connections", || proxy.open_connections() == 0);
        proxy.set(Fault::None);
        let report = json_of(bench);
        assert_eq!(report["connections_lost"], 2, "{protocol}: {report}");
        assert_eq!(report["connections_given_up"], 0, "{protocol}: {report}");
        // Requests due while there was no connection are sent afterwards.
        assert_eq!(number(&report, "requests"), 400, "{protocol}: {report}");
        assert!(number(&report, "decisions") >= 390, "{protocol}: {report}");
        let errors = report["errors"]["kinds"].as_array().expect("a list");
        let lost = errors.iter().all(|kind| kind["kind"] == "connection lost");
        assert!(lost, "{protocol}: {report}");
    }
}

#[test]
fn an_interrupt_ends_it_early_and_what_was_measured_is_told() {
    let server = TestServer::start(&Folder::new(), &[]);
    let folder = Folder::new();
    let bench = spawn(&folder, &[&server.url("http"), "--duration", "1h", "--warmup", "0s"]);
    eventually("load", || decided(&server, "http") > 100);
    signal(&bench, "INT");
    let report = json_of(bench);
    assert_eq!(report["interrupted"], true);
    assert!(number(&report, "decisions") > 100, "{report}");
}

#[test]
fn the_table_has_all_that_people_look_for() {
    let server = TestServer::start(&Folder::new(), &[]);
    let mut transcript = Transcript::default();
    transcript.hide(server.address("grpc"), "{grpc}");
    transcript.hide(server.address("http"), "{http}");
    let closed = ["--requests", "500", "--connections", "2", "--streams", "4"];
    let open = ["--requests", "200", "--rate", "2000"];
    for (protocol, load) in [("rls", &closed[..]), ("http", &open)] {
        let said = bench(&[&[&*server.url(protocol)], load].concat());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
        transcript.add(&Said { out: without_times(&said.out), ..said });
    }
    transcript.assert_golden("bench/tables");
}

#[test]
fn json_has_every_field_that_the_page_names() {
    let page = include_str!("../../../../docs/bench.md");
    let server = TestServer::start(&Folder::new(), &[]);
    let url = server.url("http");
    let report = bench(&[&url, "--requests", "100", "--rate", "1000", "--json"]).json();
    for (field, _) in report.as_object().expect("an object") {
        assert!(page.contains(&format!("`{field}`")), "docs/bench.md should name {field}");
    }
    for field in ["p50", "p90", "p99", "p99.9", "max", "mean"] {
        assert!(report["latency_nanos"][field].is_u64(), "{report}");
    }
    let buckets = report["distribution"].as_array().expect("a list");
    assert_eq!(buckets.iter().map(|bucket| number(bucket, "count")).sum::<u64>(), 100);
}

#[test]
fn every_command_of_the_page_runs() {
    let page = include_str!("../../../../docs/bench.md");
    let server = TestServer::start(&Folder::new(), &[]);
    let commands: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("$ tollgate bench")).collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        // On the ports of this server, which are free ones.
        match words.first().map(String::as_str) {
            Some("http" | "rls" | "resp") => words[0] = server.url(&words[0]),
            Some(word) if word.contains("://") => {
                words[0] = words[0]
                    .replace("127.0.0.1:8080", server.address("http"))
                    .replace("127.0.0.1:8081", server.address("grpc"))
                    .replace("127.0.0.1:6380", server.address("resp"));
            }
            _ => words.insert(0, server.url("http")),
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let words = shortened(&words);
        let said = bench(&words);
        assert_eq!(said.code, Some(0), "{words:?}: {}{}", said.err, said.out);
    }
}

/// A command of a page that takes no longer than a test should.
fn shortened<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut words = words.to_vec();
    for at in 0..words.len() {
        match words[at] {
            "--duration" => words[at + 1] = "500ms",
            "--requests" => words[at + 1] = "2000",
            "--rate" => words[at + 1] = "100",
            _ => {}
        }
    }
    if words.contains(&"--requests") {
        return words;
    }
    if !words.contains(&"--duration") {
        words.extend(["--duration", "500ms"]);
    }
    words.extend(["--warmup", "100ms"]);
    words
}
