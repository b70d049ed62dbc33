//! `tollgate bench` against servers of the same binary.
#![cfg(unix)]

#[path = "support/served.rs"]
mod served;
mod support;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use served::{Served, wait};
use support::{Folder, Said};
use tollgate_testkit::{Fault, FaultProxy};

const PROTOCOLS: [(&str, &str); 3] = [("http", "http"), ("rls", "grpc"), ("resp", "resp")];

fn bench(arguments: &[&str]) -> Said {
    Folder::new().tollgate(&[&["bench"], arguments].concat())
}

fn spawn(folder: &Folder, arguments: &[&str]) -> Child {
    support::command(folder.path(), &["bench", "--json"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test")
}

fn json_of(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

fn number(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} in {report}"))
}

#[test]
fn what_it_counts_is_what_the_server_counts_over_every_protocol() {
    let served = Served::start(&Folder::new(), &[]);
    for (protocol, transport) in PROTOCOLS {
        let pipeline = if protocol == "http" { "1" } else { "8" };
        let said = bench(&[
            &served.url(protocol),
            "--requests",
            "3000",
            "--connections",
            "4",
            "--pipeline",
            pipeline,
            "--keys",
            "50",
            "--attribute",
            &format!("user={protocol}-{{key}}"),
            "--json",
        ]);
        let report = said.json();
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{report}");
        assert_eq!(report["protocol"], protocol);
        assert_eq!(report["errors"]["total"], 0, "{report}");
        let (allowed, refused) = (number(&report, "allowed"), number(&report, "refused"));
        assert_eq!(allowed + refused, 3000);
        assert!(allowed >= 50 * 20, "each key has a burst of 20: {allowed}");
        assert!(refused > 0, "and no more");
        let counted = ["allowed", "denied"].map(|outcome| served.decided(transport, outcome));
        assert_eq!(counted, [allowed, refused], "{protocol}");
    }
}

#[test]
fn the_warm_up_is_sent_and_not_measured() {
    let served = Served::start(&Folder::new(), &[]);
    for rate in [&[][..], &["--rate", "1000"]] {
        let url = served.url("resp");
        let before = served.decided("resp", "allowed") + served.decided("resp", "denied");
        let arguments =
            [&[url.as_str(), "--warmup", "300ms", "--requests", "200", "--json"], rate].concat();
        let report = bench(&arguments).json();
        let after = served.decided("resp", "allowed") + served.decided("resp", "denied");
        let warm = number(&report, "warmup_requests");
        assert!(warm > 0, "{report}");
        assert_eq!(number(&report, "decisions"), 200, "{report}");
        assert_eq!(after - before, warm + 200, "{report}");
        if !rate.is_empty() {
            assert_eq!(warm, 300, "by the rate");
        }
    }
}

#[test]
fn a_seed_asks_for_the_same_keys_however_many_connections_there_are() {
    let served = Served::start(&Folder::new(), &[]);
    // 400 of 1000 keys, each once or a few times: how many are known says which were asked for.
    let known = |name: &str, seed: &str, connections: &str| {
        let attribute = format!("user={name}-{{key}}");
        let said = bench(&[
            &served.url("resp"),
            "--requests",
            "4000",
            "--connections",
            connections,
            "--keys",
            "1000",
            "--zipf",
            "1.2",
            "--seed",
            seed,
            "--attribute",
            &attribute,
            "--cost",
            "20",
            "--json",
        ]);
        // Each key is allowed once, the first time.
        number(&said.json(), "allowed")
    };
    let first = known("a", "7", "1");
    assert_eq!(known("b", "7", "8"), first);
    assert_ne!(known("c", "8", "8"), first, "another seed, other keys");
}

/// How many answers took longer than `nanos`.
fn slower_than(report: &Value, nanos: u64) -> u64 {
    let buckets = report["distribution"].as_array().expect("buckets");
    let slow = buckets.iter().filter(|bucket| number(bucket, "to_nanos") > nanos);
    slow.map(|bucket| number(bucket, "count")).sum()
}

/// Runs a load through a proxy that holds everything up for a second, once.
fn stalled(protocol: &str, arguments: &[&str]) -> Value {
    let served = Served::start(&Folder::new(), &[]);
    let proxy = FaultProxy::to(served.port(protocol));
    let url = proxy.url().replace("redis", served.url(protocol).split(':').next().expect("one"));
    let folder = Folder::new();
    let common = [url.as_str(), "--connections", "4", "--warmup", "0s", "--duration", "3s"];
    let bench = spawn(&folder, &[&common, arguments].concat());
    let (_, transport) = PROTOCOLS.into_iter().find(|(name, _)| *name == protocol).expect("one");
    wait("load", || {
        served.decided(transport, "allowed") + served.decided(transport, "denied") > 20
    });
    proxy.set(Fault::Freeze);
    thread::sleep(Duration::from_secs(1));
    proxy.set(Fault::None);
    json_of(bench)
}

const HALF_A_SECOND: u64 = 500_000_000;

#[test]
fn an_open_loop_shows_a_stall_for_every_request_that_was_due_meanwhile() {
    for (protocol, _) in PROTOCOLS {
        let report = stalled(protocol, &["--rate", "400"]);
        // Half a second's worth was due in the first half of the stall, and waited the other.
        let late = slower_than(&report, HALF_A_SECOND);
        assert!(late >= 180, "{protocol}: {late} of 200, {report}");
        assert!(number(&report["latency_nanos"], "p99") >= HALF_A_SECOND, "{protocol}: {report}");
        assert!(number(&report["latency_nanos"], "max") >= 900_000_000, "{protocol}: {report}");
        // Measured from when they were sent, all but a few look fine: that is the mistake.
        assert!(
            number(&report["latency_from_sent_nanos"], "p50") < HALF_A_SECOND,
            "{protocol}: {report}"
        );
    }
}

#[test]
fn a_closed_loop_shows_a_stall_once_for_each_connection() {
    let report = stalled("resp", &[]);
    let late = slower_than(&report, HALF_A_SECOND);
    assert!((1..=8).contains(&late), "4 connections, {late} late: {report}");
    assert!(number(&report["latency_nanos"], "p99") < HALF_A_SECOND, "{report}");
    assert!(number(&report["latency_nanos"], "max") >= HALF_A_SECOND, "{report}");
}

#[test]
fn a_rate_that_cannot_be_kept_is_told() {
    let served = Served::start(&Folder::new(), &[]);
    let proxy = FaultProxy::to(served.port("resp"));
    proxy.set(Fault::Delay(Duration::from_millis(20)));
    // One request at a time, each of 20 ms, are 50 a second at most.
    let arguments = [
        &proxy.url(),
        "--connections",
        "1",
        "--rate",
        "1000",
        "--duration",
        "1s",
        "--warmup",
        "0s",
    ];
    let said = bench(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("THE RATE WAS NOT KEPT: "), "{}", said.out);
    assert!(said.out.contains("/s of 1,000/s, "), "{}", said.out);
    assert!(said.out.contains(" were due and never sent, the last was sent "), "{}", said.out);
    let report = bench(&[&arguments[..], &["--json"]].concat()).json();
    let rate = &report["rate"];
    assert_eq!((&rate["kept"], &rate["asked"]), (&false.into(), &1000.into()), "{report}");
    assert!(number(rate, "achieved") <= 60, "{report}");
    assert!(number(rate, "never_sent") >= 900, "{report}");
    assert_eq!(number(rate, "never_sent") + number(&report, "requests"), number(rate, "due"));
}

#[test]
fn connections_that_are_lost_are_counted_and_made_again() {
    for (protocol, _) in PROTOCOLS {
        let served = Served::start(&Folder::new(), &[]);
        let proxy = FaultProxy::to(served.port(protocol));
        let scheme = served.url(protocol).split(':').next().expect("one").to_owned();
        let url = proxy.url().replace("redis", &scheme);
        let folder = Folder::new();
        let common = ["--connections", "2", "--requests", "400", "--rate", "200"];
        let bench = spawn(&folder, &[&[url.as_str()], &common[..]].concat());
        wait("connections", || proxy.accepted() >= 3);
        thread::sleep(Duration::from_millis(300));
        proxy.set(Fault::Refuse);
        thread::sleep(Duration::from_millis(300));
        proxy.set(Fault::None);
        let report = json_of(bench);
        assert_eq!(report["connections_lost"], 2, "{protocol}: {report}");
        assert_eq!(report["connections_given_up"], 0, "{protocol}: {report}");
        // What was due while there was no connection is sent afterwards.
        assert_eq!(number(&report, "requests"), 400, "{protocol}: {report}");
        assert!(number(&report, "decisions") >= 390, "{protocol}: {report}");
        let errors = report["errors"]["kinds"].as_array().expect("a list");
        let lost = errors.iter().all(|kind| kind["kind"] == "connection lost");
        assert!(lost, "{protocol}: {report}");
    }
}

#[test]
fn an_interrupt_ends_it_early_and_what_was_measured_is_told() {
    let served = Served::start(&Folder::new(), &[]);
    let folder = Folder::new();
    let bench = spawn(&folder, &[&served.url("http"), "--duration", "1h", "--warmup", "0s"]);
    wait("load", || served.decided("http", "denied") + served.decided("http", "allowed") > 100);
    let id = bench.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill runs").success());
    let report = json_of(bench);
    assert_eq!(report["interrupted"], true);
    assert!(number(&report, "decisions") > 100, "{report}");
}

#[test]
fn the_table_has_all_that_people_look_for() {
    let served = Served::start(&Folder::new(), &[]);
    let said =
        bench(&[&served.url("rls"), "--requests", "500", "--connections", "2", "--streams", "4"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    for part in [
        &format!("{}, closed loop, 2 connections, 4 requests at once on each\n", served.url("rls")),
        "; 10,000 keys, seed 1\n",
        "decisions ",
        "       500  ",
        "refused ",
        "errors ",
        "p50",
        "p99.9",
        "from when sent",
        "answers by the time since they were sent\n",
        "up to ",
    ] {
        assert!(said.out.contains(part), "{part:?} in\n{}", said.out);
    }
    let open = bench(&[&served.url("http"), "--requests", "200", "--rate", "2000"]);
    assert!(open.out.contains("from when due"), "{}", open.out);
    assert!(open.out.contains("open loop"), "{}", open.out);
}

#[test]
fn json_has_every_field_that_the_page_names() {
    let page = include_str!("../../../docs/bench.md");
    let served = Served::start(&Folder::new(), &[]);
    let url = served.url("http");
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
    let page = include_str!("../../../docs/bench.md");
    let served = Served::start(&Folder::new(), &[]);
    let commands: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("$ tollgate bench")).collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        // On the ports of this server, which are free ones.
        match words.first().map(String::as_str) {
            Some("http" | "rls" | "resp") => words[0] = served.url(&words[0]),
            Some(word) if word.contains("://") => {
                words[0] = words[0]
                    .replace("127.0.0.1:8080", &served.http)
                    .replace("127.0.0.1:8081", &served.grpc)
                    .replace("127.0.0.1:6380", &served.resp);
            }
            _ => words.insert(0, served.url("http")),
        }
        // The last word wins where one is said twice: a page may say a minute.
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let short = if words.contains(&"--requests") { &[][..] } else { &["--warmup", "100ms"] };
        let words: Vec<&str> = shortened(&words);
        let said = bench(&[&words[..], short].concat());
        assert_eq!(said.code, Some(0), "{words:?}: {}{}", said.err, said.out);
    }
}

/// A command of a page, that takes no longer than a test should.
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
    if !words.contains(&"--duration") && !words.contains(&"--requests") {
        words.extend(["--duration", "500ms"]);
    }
    words
}
