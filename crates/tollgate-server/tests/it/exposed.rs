//! The OpenAPI document and the names of all metrics, compared with golden files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate::Gate;
use tollgate_server::WrittenSnapshot;
use tollgate_testkit::{RedisServer, assert_golden, eventually};

use crate::support::{POLICY, TestServer, golden, policy, redis_gate};

#[test]
fn openapi_document_matches_the_golden_file() {
    let server = TestServer::start();
    let mut document = server.ask("GET /openapi.json", &[]).json();
    let version = document["info"]["version"].take();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    document["info"]["version"] = "{version}".into();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    assert_golden(&golden("openapi.json"), &text);
}

/// The families in the text of `/metrics`, each with its type, its labels and its help.
#[derive(Default)]
struct Families(BTreeMap<String, Family>);

#[derive(Default)]
struct Family {
    of_type: String,
    labels: BTreeSet<String>,
    help: String,
}

impl Families {
    fn add(&mut self, metrics: &str) {
        let mut name = "";
        for line in metrics.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                let kind = words.next().unwrap();
                name = words.next().unwrap();
                let text = words.next().unwrap().to_owned();
                let family = self.0.entry(name.to_owned()).or_default();
                match kind {
                    "HELP" => family.help = text,
                    "TYPE" => family.of_type = text,
                    other => panic!("{other} in {line}"),
                }
                continue;
            }
            let (series, _) = line.rsplit_once(' ').unwrap();
            let (series, labels) = series.split_once('{').unwrap_or((series, ""));
            assert!(series.starts_with(name), "{series} belongs to {name}");
            let family = self.0.get_mut(name).unwrap();
            family.labels.extend(label_names(labels.trim_end_matches('}')));
        }
    }

    /// One line for each family.
    fn text(&self) -> String {
        let line = |(name, of): (&String, &Family)| {
            let labels: Vec<_> = of.labels.iter().map(String::as_str).collect();
            format!("{name} {} {{{}}} {}\n", of.of_type, labels.join(","), of.help)
        };
        self.0.iter().map(line).collect()
    }
}

/// The names in `a="x",b="y"`.
fn label_names(labels: &str) -> impl Iterator<Item = String> {
    let parts = labels.split('"').step_by(2);
    parts.map(|part| part.trim_matches([',', '=']).to_owned()).filter(|name| !name.is_empty())
}

/// A server that has written a snapshot.
fn with_snapshots() -> TestServer {
    let gate = Gate::new(policy(POLICY)).unwrap();
    let summary = gate.store().snapshot(std::io::sink()).unwrap();
    TestServer::observed(
        gate,
        |server| server,
        |server| {
            let duration = Duration::from_millis(1500);
            server.snapshot_counts().written(WrittenSnapshot { summary, bytes: 99, duration });
        },
    )
}

#[test]
fn snapshots_are_counted_only_by_servers_that_write_them() {
    assert!(!TestServer::start().metrics().contains("tollgate_snapshot"));
    let gate = Gate::new(policy(POLICY)).unwrap();
    let mut counts = None;
    let server = TestServer::observed(
        gate.clone(),
        |server| server,
        |server| {
            counts = Some(server.snapshot_counts());
        },
    );
    let counts = counts.unwrap();
    let results = || {
        ["written", "unchanged", "failed"].map(|result| {
            let series = format!("tollgate_snapshots_total{{result=\"{result}\"}}");
            server.metric(&series).unwrap()
        })
    };
    let last = "tollgate_snapshot_last_success_timestamp_seconds";
    counts.failed();
    assert_eq!((results(), server.metric(last)), ([0, 0, 1], None));

    let summary = gate.store().snapshot(std::io::sink()).unwrap();
    let taken_at = summary.taken_at().as_nanos() / 1_000_000_000;
    counts.unchanged(&summary);
    let duration = Duration::from_millis(1500);
    counts.written(WrittenSnapshot { summary, bytes: 99, duration });
    assert_eq!((results(), server.metric(last)), ([1, 1, 1], Some(taken_at)));
    assert_eq!(server.metric("tollgate_snapshot_keys"), Some(0));
    assert_eq!(server.metric("tollgate_snapshot_bytes"), Some(99));
    assert!(server.metrics().contains("\ntollgate_snapshot_duration_seconds 1.5\n"));
}

#[test]
fn metric_names_match_the_golden_file() {
    let mut families = Families::default();
    let memory = TestServer::start();
    memory.post("/v1/check", r#"{"attributes": {"user": "ana", "watched": "yes"}}"#);
    families.add(&memory.metrics());
    families.add(&with_snapshots().metrics());
    let leased = policy(&format!("sync = \"leased\"\n{}", POLICY.replace("10/min", "10000/day")));
    let gate = redis_gate(&RedisServer::shared().url(), "exposed", leased);
    let redis = TestServer::over(gate, |server| server);
    eventually("a call of the store is counted", || {
        redis.post("/v1/check", r#"{"attributes": {"user": "ana"}, "cost": 100}"#);
        redis.metric("tollgate_store_duration_seconds_count") > Some(0)
            && redis.metric("tollgate_lease_borrows_total").is_some()
            && redis.metric("tollgate_store_evicted_keys_total").is_some()
    });
    families.add(&redis.metrics());
    assert_golden(&golden("metrics.txt"), &families.text());
}
