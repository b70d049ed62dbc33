//! The dashboard in deploy/ asks only for what a server tells.
#![cfg(unix)]

use std::collections::BTreeSet;

use crate::support::{Folder, TestServer};
use serde_json::Value;
use tollgate_testkit::eventually;

/// The names in a text that look like our metrics.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tollgate_")).map(str::to_owned).collect()
}

/// The queries of a dashboard: of its panels, and of its variables.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_str() {
                    Some(text) if key == "expr" || key == "query" => found.push(text.to_owned()),
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

/// The names of the families that a server has, with what Prometheus makes of a histogram.
fn told(arguments: &[&str]) -> BTreeSet<String> {
    let folder = Folder::new();
    let arguments = [&["--grpc", "off", "--resp", "off"], arguments].concat();
    let server = TestServer::start(&folder, &arguments);
    if arguments.contains(&"--snapshot") {
        eventually("a snapshot", || server.get("/metrics").body.contains("tollgate_snapshot_keys"));
    }
    let answer = server.get("/metrics").body;
    let families = answer.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let all = families.filter_map(|line| line.split_once(' ')).flat_map(|(name, kind)| {
        let of_histogram = ["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}"));
        if kind == "histogram" { of_histogram.to_vec() } else { vec![name.to_owned()] }
    });
    all.collect()
}

#[test]
fn every_metric_of_the_dashboard_is_told_by_a_server() {
    let dashboard: Value =
        serde_json::from_str(include_str!("../../../../deploy/grafana/tollgate.json")).unwrap();
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    let asked = names(&asked.join("\n"));
    // One that is away has the same metrics.
    let told = &told(&["--snapshot", "state", "--snapshot-interval", "100ms"])
        | &told(&["--store", "redis://127.0.0.1:1"]);
    assert!(asked.len() >= 15, "{asked:?}");
    let strange: Vec<_> = asked.difference(&told).collect();
    assert!(strange.is_empty(), "{strange:?} are not among {told:?}");
}
