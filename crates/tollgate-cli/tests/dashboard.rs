//! The dashboard in deploy/ asks only for what a server tells.
#![cfg(unix)]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;
use support::Folder;

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
fn told(store: &str) -> BTreeSet<String> {
    let folder = Folder::new();
    let listen =
        ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--store", store];
    let mut child = support::command(folder.path(), &listen)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built for this test");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let address = lines.map(|line| line.expect("text")).find_map(|line| {
        line.trim_start().strip_prefix("http ").map(|rest| rest.trim().replace("http://", ""))
    });
    let asked = address.ok_or("no address".to_owned()).and_then(|address| {
        let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        let request = b"GET /metrics HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";
        stream.write_all(request).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        Ok(answer)
    });
    let _ = child.kill();
    let _ = child.wait();
    let answer = asked.expect("an answer");
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
        serde_json::from_str(include_str!("../../../deploy/grafana/tollgate.json")).unwrap();
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    let asked = names(&asked.join("\n"));
    // One that is away has the same metrics.
    let told = &told("memory") | &told("redis://127.0.0.1:1");
    assert!(asked.len() >= 15, "{asked:?}");
    let strange: Vec<_> = asked.difference(&told).collect();
    assert!(strange.is_empty(), "{strange:?} are not among {told:?}");
}
